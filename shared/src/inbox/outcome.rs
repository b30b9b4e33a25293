//! What an attempt came to.

use std::time::Duration;

use crate::base::clock::UnixMillis;

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
    /// It was not tried, for a reason that is not the event's: its destination is down or has its
    /// fill, or another event goes first. It costs no attempt.
    Deferred { why: String, until: UnixMillis },
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

    pub fn deferred(why: impl Into<String>, until: UnixMillis) -> Self {
        Self::Deferred {
            why: why.into(),
            until,
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

    /// The outcome of an event of which two things were to be done. It ends when both have: as
    /// long as one may still be done the event stays open, also when the other never will be.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Deferred { until: one, .. }, Self::Deferred { until: two, .. }) if two < one => {
                other
            }
            _ if other.weight() > self.weight() => other,
            _ => self,
        }
    }

    fn weight(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Permanent { .. } => 1,
            Self::Unknown { .. } => 2,
            Self::Deferred { .. } => 3,
            Self::Retry { .. } => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_open_as_long_as_a_part_of_it_may_still_be_done() {
        let later = |secs: i64| Outcome::deferred("full", UnixMillis(secs));
        let order = [
            Outcome::Done,
            Outcome::permanent("404"),
            Outcome::unknown("cut off"),
            later(9),
            later(5),
            Outcome::retry("503"),
        ];
        for (place, worse) in order.iter().enumerate() {
            for better in &order[..=place] {
                assert_eq!(worse.clone().and(better.clone()), *worse);
                assert_eq!(better.clone().and(worse.clone()), *worse);
            }
        }
    }

    #[test]
    fn of_two_that_keep_it_open_alike_the_first_is_told() {
        let later = |why| Outcome::deferred(why, UnixMillis(5));
        assert_eq!(later("full").and(later("down")), later("full"));
        let retry = Outcome::retry("502").and(Outcome::retry("503"));
        assert_eq!(retry, Outcome::retry("502"));
    }
}
