//! Reads `[[source.policy]]`: the rules that decide whether Mitt may apply an effect of an event.
//!
//! A rule can hold an effect until an operator approves it, deny it, or record it without a call.
//! A rule fails closed: if the body lacks the value at a path of the rule, the condition counts as
//! true, and the reason of the decision names the path.
//!
//! An effect is a call of an action, or what a worker outside of Lambda declares before it acts. The
//! plan of such a worker can also be tested. It is what the worker says about itself, so it protects
//! from mistakes, and not from a worker that lies.

mod decide;
mod file;
mod rate;

use std::fmt;
use std::time::Duration;

use super::filter::{Filter, Glob};
use crate::base::json_path::JsonPath;
use crate::base::string_enum::string_enum;
pub use decide::{Decision, Finding, Proposed, Subject, concern, decide, limits};
pub(super) use file::{FileRule, all_rules};
pub use rate::{EffectRate, Per};

/// How long a hold waits for an approval, if the rule does not set it.
pub const DEFAULT_EXPIRES: Duration = Duration::from_secs(24 * 3600);

/// The range of `expires`.
pub const SHORTEST_EXPIRES: Duration = Duration::from_secs(60);
pub const LONGEST_EXPIRES: Duration = Duration::from_secs(7 * 24 * 3600);

string_enum! {
    /// What a rule does with an effect.
    Verdict {
        /// Mitt records the effect and makes no call.
        DryRun = "dry-run",
        /// The event waits for an approval.
        Hold = "hold",
        /// The event becomes a dead letter.
        Deny = "deny",
    }
}

/// A rule of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: String,
    /// The pattern of the effects. Without it, the rule is about the event as a whole, and applies
    /// before any action.
    effect: Option<Glob>,
    /// The types, and the conditions on the body.
    filter: Filter,
    amount: Option<Amount>,
    not_in: Option<NotIn>,
    pub verdict: Verdict,
    /// How long a hold of this rule waits.
    pub expires: Duration,
    /// The ARNs of the roles that can approve over the API. Empty if the permissions in AWS decide.
    pub approvers: Vec<String>,
    /// The number of effects to which the rule does not apply, in each time window.
    pub rate: Option<EffectRate>,
}

/// A limit for a number.
#[derive(Clone, Debug, PartialEq)]
struct Amount {
    of: Place,
    above: f64,
}

/// The allowed values at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotIn {
    of: Place,
    list: Vec<String>,
}

/// Where a condition finds its value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Body(JsonPath),
    Plan(PlanField),
}

/// A field of a worker's plan that a rule can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanField {
    Amount,
    Target,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(path) => path.fmt(f),
            Self::Plan(PlanField::Amount) => f.write_str("the amount of the plan"),
            Self::Plan(PlanField::Target) => f.write_str("the target of the plan"),
        }
    }
}

impl Rule {
    /// Returns whether the rule is about the event as a whole.
    pub fn is_of_event(&self) -> bool {
        self.effect.is_none()
    }

    /// Returns whether the rule names this effect.
    fn names(&self, effect: &str) -> bool {
        let glob = self.effect.as_ref();
        glob.is_some_and(|glob| glob.matches(effect))
    }
}
