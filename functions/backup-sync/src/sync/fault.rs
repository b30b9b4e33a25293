//! What can be wrong with a provider's list, by name: it is counted, and looked up, by that.

use std::fmt;

/// Each of these ends a run with an error. None of them moves the cursor past an event that was
/// not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A page cannot be read, as one of HTML.
    Unreadable,
    /// The list leads back to a page that it has shown, or shows the same events again and again.
    Repeats,
    /// The next page is said to be at another place than the list.
    Elsewhere,
    /// An id is longer than any is.
    TooLong,
    /// An event is said to happen more than a day from now.
    Future,
    /// The last run began in the future: our clock was wrong then, or is now.
    CursorAhead,
}

impl Fault {
    /// The word that stands in the metric's log line and in `infra/docs/sync`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "sync.unreadable",
            Self::Repeats => "sync.repeats",
            Self::Elsewhere => "sync.elsewhere",
            Self::TooLong => "sync.too_long",
            Self::Future => "sync.future",
            Self::CursorAhead => "sync.cursor_ahead",
        }
    }

    /// The name of what went wrong; `sync.failed` for what has none of its own.
    pub(crate) fn name_of(error: &anyhow::Error) -> &'static str {
        error
            .downcast_ref::<Self>()
            .map_or("sync.failed", |fault| fault.name())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Self::Unreadable => "a page of the list is not as the preset says",
            Self::Repeats => "the list does not go on",
            Self::Elsewhere => "the list leads to another place",
            Self::TooLong => "an event of the list cannot be kept; the others were",
            Self::Future => "the provider's clock is wrong, or ours; every event was kept",
            Self::CursorAhead => "the last run began in the future",
        };
        write!(f, "{}: {said}", self.name())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_fault_is_named_however_deep_it_lies() {
        let error = anyhow!("no JSON").context(Fault::Unreadable);
        let error = error.context("asked 6 times").context("could not sync");
        assert_eq!(Fault::name_of(&error), "sync.unreadable");
        assert_eq!(Fault::name_of(&anyhow!("no JSON")), "sync.failed");
        let text = format!("{error:#}");
        assert!(text.contains("sync.unreadable: a page"), "{text}");
    }
}
