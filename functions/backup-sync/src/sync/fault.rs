//! The faults of a provider's list. The metric and the documentation use the names of the faults.

use std::fmt;

/// Each fault ends a run with an error. No fault moves the cursor past an event that was not
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A page cannot be parsed, for example because it is HTML.
    Unreadable,
    /// The next page was already read, or two consecutive pages have the same events.
    Repeats,
    /// The URL of the next page has another origin than the URL of the list.
    Elsewhere,
    /// An id is longer than the limit.
    TooLong,
    /// The time of an event is more than a day in the future.
    Future,
    /// The start of the last run is in the future: the clock was wrong then, or is wrong now.
    CursorAhead,
}

impl Fault {
    /// Returns the word that stands for the fault in the log line of the metric and in
    /// `infra/docs/sync`.
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

    /// Returns the name of the fault, or `sync.failed` for an error without one.
    pub(crate) fn name_of(error: &anyhow::Error) -> &'static str {
        error
            .downcast_ref::<Self>()
            .map_or("sync.failed", |fault| fault.name())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Self::Unreadable => "a page of the list does not match the preset",
            Self::Repeats => "the list repeats a page",
            Self::Elsewhere => "the next page of the list has another origin",
            Self::TooLong => "an event of the list cannot be stored; the other events were stored",
            Self::Future => "the clock of the provider or of Mitt is wrong; every event was stored",
            Self::CursorAhead => "the start time of the last run is in the future",
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
        let error = anyhow!("not JSON").context(Fault::Unreadable);
        let error = error.context("failed 6 times").context("could not sync");
        assert_eq!(Fault::name_of(&error), "sync.unreadable");
        assert_eq!(Fault::name_of(&anyhow!("not JSON")), "sync.failed");
        let text = format!("{error:#}");
        assert!(text.contains("sync.unreadable: a page"), "{text}");
    }
}
