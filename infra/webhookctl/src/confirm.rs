//! Asks the operator to confirm a number before the CLI changes something.
//!
//! The number is a count that the command has printed, such as the number of events that run again
//! or of requests that enter the inbox. If the current count differs from the confirmed number, the
//! command changes nothing.

use crate::output::Printer;

/// How the operator confirmed a count.
pub(crate) enum Confirmation {
    Given,
    /// The operator confirmed another number. The text is `--confirm is` or `you typed`.
    Mismatch(u64, &'static str),
    /// The operator typed something that is not a number.
    Invalid,
    Missing,
}

impl Confirmation {
    /// Compares the value of `--confirm` with the count.
    pub(crate) fn of(given: Option<u64>, count: u64) -> Self {
        given.map_or(Self::Missing, |given| {
            Self::compare(given, count, "--confirm is")
        })
    }

    /// Compares the value of `--confirm` with the count. Without `--confirm`, asks the operator if
    /// there is a terminal.
    pub(crate) fn ask(
        given: Option<u64>,
        count: u64,
        question: &str,
        out: &mut Printer,
    ) -> anyhow::Result<Self> {
        if given.is_some() || !out.terminal.asks {
            return Ok(Self::of(given, count));
        }
        let typed = out.ask(&format!("{question} Type {count} to continue: "))?;
        Ok(match typed.replace(',', "").parse() {
            Ok(typed) => Self::compare(typed, count, "you typed"),
            Err(_) => Self::Invalid,
        })
    }

    fn compare(number: u64, count: u64, how: &'static str) -> Self {
        if number == count {
            Self::Given
        } else {
            Self::Mismatch(number, how)
        }
    }
}
