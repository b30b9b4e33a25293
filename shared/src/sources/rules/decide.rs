//! Decides what the rules of a source say about an effect.

use std::time::Duration;

use super::{Amount, EffectRate, NotIn, Place, PlanField, Rule, Verdict};
use crate::base::json_path::scalar;
use crate::sources::Facts;

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'e> {
    /// The event as a whole, before any action.
    Event,
    /// The effect of an action, or of a worker outside of Lambda.
    Effect(&'e str),
}

/// What would be done, and what an operator approved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proposed<'p> {
    /// The hash of what would be done.
    pub plan: &'p str,
    /// The hash that an operator approved in this run.
    pub approved: Option<&'p str>,
    /// What a worker outside of Lambda declared. An action declares nothing.
    pub amount: Option<&'p str>,
    pub target: Option<&'p str>,
}

/// The decision about an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'r> {
    Allow,
    DryRun(Finding<'r>),
    Hold(Finding<'r>),
    Deny(Finding<'r>),
}

/// A rule that applies, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<'r> {
    /// The first rule that decides.
    pub rule: &'r Rule,
    /// The other rules that hold the effect too. One approval answers all of them.
    pub also: Vec<&'r Rule>,
    /// Why the rule applies. The text names paths, and has no values of the body.
    pub why: String,
    /// The paths in the body that the rule read.
    pub read: Vec<String>,
}

/// Decides about the effect of an event.
///
/// All rules that match apply, and the strictest one decides: `deny`, then `hold`, then `dry-run`.
/// An approval of the same plan answers each rule that holds, and no other rule. For rules with a rate,
/// see [`limits`].
pub fn decide<'r>(
    rules: &'r [Rule],
    subject: Subject<'_>,
    facts: Facts<'_>,
    proposed: Proposed<'_>,
) -> Decision<'r> {
    let mut found: Option<Finding<'r>> = None;
    for rule in rules.iter().filter(|rule| rule.asks(subject, proposed)) {
        if rule.rate.is_some() {
            continue;
        }
        let before = found.as_ref().map_or(0, |found| found.rule.strictness());
        let joins = rule.verdict == Verdict::Hold && rule.strictness() == before;
        if rule.strictness() <= before && !joins {
            continue;
        }
        match (rule.finding(facts, proposed), &mut found) {
            (Some(finding), Some(found)) if joins => found.join(finding),
            (Some(finding), found) => *found = Some(finding),
            (None, _) => {}
        }
    }
    match found {
        None => Decision::Allow,
        Some(finding) => match finding.rule.verdict {
            Verdict::DryRun => Decision::DryRun(finding),
            Verdict::Hold => Decision::Hold(finding),
            Verdict::Deny => Decision::Deny(finding),
        },
    }
}

impl<'r> Finding<'r> {
    /// Adds a finding of another rule that holds the same effect.
    pub fn join(&mut self, other: Self) {
        self.why = format!("{}; {}", self.why, other.why);
        for path in other.read {
            if !self.read.contains(&path) {
                self.read.push(path);
            }
        }
        self.also.push(other.rule);
    }

    fn rules(&self) -> impl Iterator<Item = &'r Rule> {
        std::iter::once(self.rule).chain(self.also.iter().copied())
    }

    /// Returns the names of the rules that hold the effect, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.rules().map(|rule| rule.name.as_str()).collect();
        names.join(", ")
    }

    /// Returns how long the event waits: the shortest time of the rules.
    pub fn expires(&self) -> Duration {
        let times = self.rules().map(|rule| rule.expires);
        times.min().unwrap_or(self.rule.expires)
    }

    /// Returns whether a rule names the roles that can approve.
    pub fn names_approvers(&self) -> bool {
        self.rules().any(|rule| !rule.approvers.is_empty())
    }
}

/// Returns the rules with a rate whose other conditions are true, the strictest last. The caller asks
/// them if [`decide`] allows the effect, because each answer counts the effect. Such a rule applies if
/// its window is full.
pub fn limits<'r>(
    rules: &'r [Rule],
    subject: Subject<'_>,
    facts: Facts<'_>,
    proposed: Proposed<'_>,
) -> Vec<(EffectRate, Finding<'r>)> {
    let asked = rules.iter().filter(|rule| rule.asks(subject, proposed));
    let found = asked.filter_map(|rule| {
        let rate = rule.rate?;
        let mut finding = rule.finding(facts, proposed)?;
        let full = format!("the rate {rate} is used up");
        finding.why = if rule.has_conditions() {
            format!("{}; {full}", finding.why)
        } else {
            full
        };
        Some((rate, finding))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(_, finding)| finding.rule.strictness());
    found
}

/// Returns whether a rule is about this effect, for any event.
pub fn concern(rules: &[Rule], subject: Subject<'_>) -> bool {
    rules.iter().any(|rule| rule.is_about(subject))
}

/// What a condition of a rule found.
enum Found {
    /// The condition is false.
    No,
    Yes,
    /// There is no value that the condition can test.
    Missing,
}

impl Rule {
    /// A dry run of the event is a dry run of each of its effects.
    fn is_about(&self, subject: Subject<'_>) -> bool {
        match subject {
            Subject::Event => self.is_of_event() && self.verdict != Verdict::DryRun,
            Subject::Effect(name) => {
                self.names(name) || self.is_of_event() && self.verdict == Verdict::DryRun
            }
        }
    }

    /// Returns whether the rule is about this effect, and no approval answers it.
    fn asks(&self, subject: Subject<'_>, proposed: Proposed<'_>) -> bool {
        let is_approved = proposed.approved == Some(proposed.plan);
        self.is_about(subject) && !(self.verdict == Verdict::Hold && is_approved)
    }

    fn has_conditions(&self) -> bool {
        self.filter.is_set() || self.amount.is_some() || self.not_in.is_some()
    }

    fn strictness(&self) -> u8 {
        match self.verdict {
            Verdict::DryRun => 1,
            Verdict::Hold => 2,
            Verdict::Deny => 3,
        }
    }

    /// Returns why the rule applies, or `None` if one of its conditions is false.
    fn finding<'r>(&'r self, facts: Facts<'_>, proposed: Proposed<'_>) -> Option<Finding<'r>> {
        let mut missing = self.filter.lacks(facts)?;
        let mut why = Vec::new();
        if let Some(amount) = &self.amount {
            match amount.test(facts.body, proposed) {
                Found::No => return None,
                Found::Yes => why.push(format!("{} is above {}", amount.of, amount.above)),
                Found::Missing => {
                    missing.push(format!("{} is missing or not a number", amount.of));
                }
            }
        }
        if let Some(not_in) = &self.not_in {
            match not_in.test(facts.body, proposed) {
                Found::No => return None,
                Found::Yes => why.push(format!("{} is not in the list", not_in.of)),
                Found::Missing => missing.push(format!("{} is missing", not_in.of)),
            }
        }
        why.extend(missing);
        let why = match why.as_slice() {
            [] if self.filter.is_set() => "its conditions are true".to_owned(),
            [] => "it applies to each event".to_owned(),
            some => some.join("; "),
        };
        Some(Finding {
            rule: self,
            also: Vec::new(),
            why,
            read: self.paths(),
        })
    }

    /// Returns the paths of the rule in the body, each once.
    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.filter.paths().map(ToString::to_string).collect();
        let places = self.amount.iter().map(|amount| &amount.of);
        let places = places.chain(self.not_in.iter().map(|not_in| &not_in.of));
        paths.extend(places.filter_map(|place| match place {
            Place::Body(path) => Some(path.to_string()),
            Place::Plan(_) => None,
        }));
        let mut seen = std::collections::BTreeSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        paths
    }
}

impl Amount {
    fn test(&self, body: &[u8], proposed: Proposed<'_>) -> Found {
        let values = self.of.texts(body, proposed);
        let numbers = values.iter().map(|text| number(text.as_deref()?));
        let numbers: Vec<Option<f64>> = numbers.collect();
        let is_above = |number: &Option<f64>| number.is_some_and(|number| number > self.above);
        if numbers.iter().any(is_above) {
            Found::Yes
        } else if numbers.is_empty() || numbers.contains(&None) {
            Found::Missing
        } else {
            Found::No
        }
    }
}

impl NotIn {
    fn test(&self, body: &[u8], proposed: Proposed<'_>) -> Found {
        let values = self.of.texts(body, proposed);
        let is_other = |text: &Option<String>| {
            let text = text.as_ref();
            text.is_some_and(|text| !self.list.contains(text))
        };
        if values.iter().any(is_other) {
            Found::Yes
        } else if values.is_empty() || values.contains(&None) {
            Found::Missing
        } else {
            Found::No
        }
    }
}

impl Place {
    /// Returns the scalars at this place. `None` stands for an element that has none there.
    fn texts(&self, body: &[u8], proposed: Proposed<'_>) -> Vec<Option<String>> {
        let said = match self {
            Self::Body(path) => {
                let values = path.all(body).unwrap_or_default();
                let values = values.into_iter();
                return values.map(|raw| scalar(raw?).ok().flatten()).collect();
            }
            Self::Plan(PlanField::Amount) => proposed.amount,
            Self::Plan(PlanField::Target) => proposed.target,
        };
        vec![said.map(str::to_owned)]
    }
}

/// Reads a number. Many providers write amounts as text, such as `"74.00"`.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    // `NaN` and `inf` parse as numbers.
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests;
