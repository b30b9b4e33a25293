//! Checks a deployment. `doctor` gathers facts first. The checks then judge the facts, and make no
//! requests.

mod checks;
mod facts;
mod render;

use serde::Serialize;

use crate::output::error::anchor;
pub(crate) use checks::queue::MOST_WAITING;
pub(crate) use checks::schedule::TASKS;
pub(crate) use checks::{ALL, END_TO_END};
pub(crate) use facts::{
    AccountLimit, Alarm, Caller, Dark, Facts, Function, Functions, Known, Mapping, OpenBreaker,
    Queue, Queues, Redrive, SourceFacts, Stored, Table, Unknown, Versions, Wanted,
};
pub(crate) use render::heading;
pub(crate) use render::page;

/// One check.
#[derive(Debug)]
pub(crate) struct Check {
    /// The name, such as `queue.dlq_retention`. A released name never changes.
    pub name: &'static str,
    /// The condition that holds when the check passes.
    pub title: &'static str,
    /// Why the condition matters, in one or two sentences.
    pub why: &'static str,
    /// The fix, unless the finding has a more specific one.
    pub fix: &'static str,
    judge: fn(&Facts) -> Result<Finding, Unknown>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    /// The check could not run.
    NotChecked,
    Warn,
    Fail,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub verdict: Verdict,
    pub found: String,
    pub want: Option<String>,
    pub fix: Option<String>,
    /// One line for each problem after the first. `found` has the first problem.
    pub details: Vec<String>,
}

/// A check and its finding, as printed in JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Checked {
    pub check: &'static str,
    pub result: Verdict,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub want: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    pub docs: String,
    #[serde(skip)]
    pub title: &'static str,
}

/// Runs these checks on the facts.
pub(crate) fn judge(facts: &Facts, checks: &[&'static Check]) -> Vec<Checked> {
    checks.iter().map(|check| check.of(facts)).collect()
}

impl Check {
    /// Returns the group of the check: the first part of its name, such as `queue`.
    pub(crate) fn group(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    pub(crate) fn of(&'static self, facts: &Facts) -> Checked {
        let finding = (self.judge)(facts).unwrap_or_else(|unknown| unknown.finding(facts));
        self.with(finding)
    }

    /// Combines the check with a finding.
    pub(crate) fn with(&'static self, finding: Finding) -> Checked {
        let bad = matches!(finding.verdict, Verdict::Warn | Verdict::Fail);
        let fix = finding.fix.or_else(|| bad.then(|| self.fix.to_owned()));
        Checked {
            check: self.name,
            result: finding.verdict,
            found: finding.found,
            want: finding.want,
            fix,
            details: finding.details,
            docs: format!("infra/docs/doctor.md#{}", anchor(self.name)),
            title: self.title,
        }
    }
}

impl Finding {
    fn new(verdict: Verdict, found: impl Into<String>) -> Self {
        Self {
            verdict,
            found: found.into(),
            want: None,
            fix: None,
            details: Vec::new(),
        }
    }

    pub(crate) fn pass(found: impl Into<String>) -> Self {
        Self::new(Verdict::Pass, found)
    }

    pub(crate) fn warn(found: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, found)
    }

    pub(crate) fn fail(found: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, found)
    }

    pub(crate) fn not_checked(why: impl Into<String>) -> Self {
        Self::new(Verdict::NotChecked, why)
    }

    fn want(mut self, want: impl Into<String>) -> Self {
        self.want = Some(want.into());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Passes if there are no lines. Otherwise the verdict is `bad`, and each line is a problem.
    fn of_each(bad: Verdict, lines: Vec<String>, well: impl Into<String>) -> Self {
        let mut lines = lines.into_iter();
        match lines.next() {
            None => Self::pass(well),
            Some(first) => Self {
                details: lines.collect(),
                ..Self::new(bad, first)
            },
        }
    }
}
