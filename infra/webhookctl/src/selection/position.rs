//! The position where a list stopped, which is its last event.

use shared::inbox::ledger::Row;

use crate::output::CliError;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) at: i64,
    id: String,
}

impl Position {
    pub(crate) fn of(row: &Row) -> Self {
        Self::new(row.received_at.0, row.id().as_str())
    }

    pub(super) fn new(at: i64, id: &str) -> Self {
        Self {
            at,
            id: id.to_owned(),
        }
    }

    /// Parses the value of `--after`.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        let bad = || CliError::usage("usage.after", format!("invalid cursor '{text}'"));
        let (at, id) = text.split_once('.').ok_or_else(bad)?;
        let at = at.parse().map_err(|_| bad())?;
        Ok(Self::new(at, id))
    }

    /// Returns the value for `--after`.
    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.at, self.id)
    }

    /// Returns whether this position comes later in a list than the other.
    pub(super) fn is_behind(&self, other: &Self, reverse: bool) -> bool {
        if reverse { self > other } else { self < other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_anything_else_is_refused() {
        let position = Position::new(1_795_167_501_000, "evt_01M7W54EPFH8XFYM19RW4Y21MY");
        assert_eq!(Position::parse(&position.text()).unwrap(), position);
        for wrong in ["", "x", "x.y", "17951675"] {
            assert_eq!(Position::parse(wrong).unwrap_err().code, "usage.after");
        }
    }
}
