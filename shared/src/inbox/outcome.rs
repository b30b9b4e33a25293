//! The outcome of an attempt.

use std::time::Duration;

use crate::base::clock::UnixMillis;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The action succeeded.
    Done,
    /// The action failed, or may have failed, and a retry is safe.
    Retry {
        error: String,
        /// The wait that the destination asked for.
        after: Option<Duration>,
    },
    /// The action was not tried, for a reason outside the event: the destination is down or has
    /// reached its rate limit, or another event must be processed first. It does not count as an
    /// attempt.
    Deferred { why: String, until: UnixMillis },
    /// The action failed, and a retry would fail again.
    Permanent { error: String },
    /// The event does not make a request that the destination would accept, and a retry would not
    /// change that. Nothing was sent. The reason is that of the dead letter.
    Unsendable { reason: &'static str, error: String },
    /// The action may have succeeded, and a retry may repeat its effect: an operator or a check
    /// must decide.
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

    /// The combined outcome of two actions of an event. The event stays open as long as one action
    /// can still be done, even if the other has failed permanently.
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
            Self::Permanent { .. } | Self::Unsendable { .. } => 1,
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
