//! The outcome of an attempt.

use std::time::Duration;

use crate::base::clock::UnixMillis;

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The action succeeded.
    Done,
    /// The action failed, or may have failed, and a retry is safe.
    Retry {
        error: String,
        /// The wait that the destination requested.
        after: Option<Duration>,
    },
    /// The destination refused the request, perhaps because of its deployment and not because of
    /// the event: the route is missing, or a secret is wrong. A retry is safe.
    Refused {
        error: String,
        /// The wait that the destination asked for.
        after: Option<Duration>,
        /// How long after the first attempt the last attempt may begin.
        within: Duration,
    },
    /// The action was not tried, for a reason outside the event: the destination is down or has
    /// reached its rate limit, or another event must be processed first. It does not count as an
    /// attempt.
    Deferred {
        why: String,
        until: UnixMillis,
        /// The destination was called, and asked for this wait with `Retry-After`.
        asked: bool,
    },
    /// A rule of the source holds the effect until an operator approves it. The action was not tried.
    Held(Box<HoldRequest>),
    /// The action failed, and a retry would fail again.
    Permanent { error: String },
    /// The processor cannot make a request that the destination would accept, and a retry would not
    /// change that. It sent nothing. The dead letter has this reason.
    Unsendable { reason: &'static str, error: String },
    /// The action may have succeeded, and a retry may repeat its effect. An operator or a check
    /// must decide whether to retry.
    Unknown { error: String },
}

/// What an operator must approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    pub effect: String,
    /// The names of the rules, separated by commas.
    pub rule: String,
    /// Whether a rule names the roles that can approve over the API.
    pub over_api: bool,
    /// The hash of what would be sent.
    pub plan: String,
    /// What would be sent, for operators.
    pub summary: String,
    /// Why the rule applies.
    pub why: String,
    /// The paths in the body that the rule read.
    pub read: Vec<String>,
    /// How long the event waits.
    pub expires: Duration,
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
            asked: false,
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

    /// Combines the outcomes of two actions of an event. The event stays open while one action can
    /// still succeed, even if the other action has failed permanently.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Deferred { until: one, .. }, Self::Deferred { until: two, .. }) => {
                let asked = self.is_asked() || other.is_asked();
                if two < one { other } else { self }.asked(asked)
            }
            (Self::Refused { within: one, .. }, Self::Refused { within: two, .. }) if two > one => {
                other
            }
            _ if other.weight() > self.weight() => other,
            _ => self,
        }
    }

    /// Whether the destination asked for the deferral.
    fn is_asked(&self) -> bool {
        matches!(self, Self::Deferred { asked: true, .. })
    }

    fn asked(mut self, by_destination: bool) -> Self {
        if let Self::Deferred { asked, .. } = &mut self {
            *asked = by_destination;
        }
        self
    }

    /// The same outcome of an action, whose error names the action.
    #[must_use]
    pub fn of_action(mut self, name: &str) -> Self {
        if let Self::Retry { error, .. }
        | Self::Refused { error, .. }
        | Self::Permanent { error }
        | Self::Unsendable { error, .. }
        | Self::Unknown { error }
        | Self::Deferred {
            why: error,
            asked: true,
            ..
        } = &mut self
            && !error
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', ':']))
        {
            *error = format!("{name}: {error}");
        }
        self
    }

    fn weight(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Permanent { .. } | Self::Unsendable { .. } => 1,
            Self::Unknown { .. } => 2,
            Self::Held(_) => 3,
            Self::Deferred { .. } => 4,
            Self::Refused { .. } => 5,
            Self::Retry { .. } => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(error: &str, hours: u64) -> Outcome {
        Outcome::Refused {
            error: error.into(),
            after: None,
            within: Duration::from_secs(hours * 3_600),
        }
    }

    fn held(effect: &str) -> Outcome {
        Outcome::Held(Box::new(HoldRequest {
            effect: effect.into(),
            rule: "large".into(),
            over_api: false,
            plan: "a1".into(),
            summary: "POST https://a.example.com".into(),
            why: "amount is above 5".into(),
            read: vec!["amount".into()],
            expires: Duration::from_secs(60),
        }))
    }

    #[test]
    fn an_event_is_open_as_long_as_a_part_of_it_may_still_be_done() {
        let later = |secs: i64| Outcome::deferred("full", UnixMillis(secs));
        let order = [
            Outcome::Done,
            Outcome::permanent("404"),
            Outcome::unknown("cut off"),
            held("orders"),
            later(9),
            later(5),
            refused("404", 3),
            refused("403", 5),
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
    #[test]
    fn a_deferral_that_one_destination_asked_for_is_remembered() {
        let asked = |secs: i64| Outcome::deferred("429", UnixMillis(secs)).asked(true);
        let other = |secs: i64| Outcome::deferred("full", UnixMillis(secs));
        assert_eq!(asked(9).and(other(5)), other(5).asked(true));
        assert_eq!(other(5).and(asked(9)), other(5).asked(true));
        assert_eq!(other(9).and(asked(5)), asked(5));
        assert_eq!(other(9).and(other(5)), other(5));
    }

    #[test]
    fn an_error_names_its_action_once() {
        let named = refused("the destination answered 404", 3).of_action("orders");
        assert_eq!(named, refused("orders: the destination answered 404", 3));
        let retry = Outcome::retry("orders needs params.url").of_action("orders");
        assert_eq!(retry, Outcome::retry("orders needs params.url"));
        assert_eq!(Outcome::Done.of_action("orders"), Outcome::Done);
    }
}
