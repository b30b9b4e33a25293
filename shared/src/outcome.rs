//! What an attempt came to.

use std::time::Duration;

/// The answer of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done,
    /// It did not, or may not have, and trying again is right.
    Retry {
        error: String,
        /// What the downstream asked for.
        after: Option<Duration>,
    },
    /// It did not happen, and trying again will not help.
    Permanent { error: String },
    /// It may have happened, and trying again may do it twice: for a human, or a check.
    Unknown { error: String },
}

impl Outcome {
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry {
            error: error.into(),
            after: None,
        }
    }

    pub fn permanent(error: impl Into<String>) -> Self {
        Self::Permanent {
            error: error.into(),
        }
    }

    pub fn unknown(error: impl Into<String>) -> Self {
        Self::Unknown {
            error: error.into(),
        }
    }

    /// The worse of two outcomes of one event: it is done when all of it is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }

    fn weight(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Retry { .. } => 1,
            Self::Permanent { .. } => 2,
            Self::Unknown { .. } => 3,
        }
    }
}
