//! One change of an event, as `inbox tail` prints it.

use std::str::FromStr;

use serde::Serialize;

use shared::inbox::ledger::State;

use crate::output::CliError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The event arrived.
    Stored,
    /// An attempt began.
    Processing,
    Done,
    Failed,
    DeadLetter,
    Quarantined,
    /// The event waits for processing again, after a replay or a release.
    Again,
}

const CHANGES: [Change; 7] = [
    Change::Stored,
    Change::Processing,
    Change::Done,
    Change::Failed,
    Change::DeadLetter,
    Change::Quarantined,
    Change::Again,
];

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
            Self::Quarantined => "quarantined",
            Self::Again => "again",
        }
    }

    /// Returns the change that results in a status.
    pub fn to(status: State) -> Self {
        match status {
            State::Received => Self::Again,
            State::Processing => Self::Processing,
            State::Done => Self::Done,
            State::Failed => Self::Failed,
            State::DeadLetter => Self::DeadLetter,
            State::Quarantined => Self::Quarantined,
        }
    }
}

impl FromStr for Change {
    type Err = CliError;

    fn from_str(text: &str) -> Result<Self, CliError> {
        let names = CHANGES.map(Self::as_str);
        let found = CHANGES.into_iter().find(|change| change.as_str() == text);
        found.ok_or_else(|| {
            CliError::usage("usage.only", format!("unknown change '{text}'")).one_of(text, &names)
        })
    }
}
