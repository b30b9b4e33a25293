//! Formats the results as text.

use std::fmt::Write as _;
use std::time::Duration;

use crate::case::{Case, Expect};
use crate::checker::{Finding, Label};

/// A case and its result.
pub struct Line {
    /// The position among the cases.
    pub place: usize,
    case: Case,
    finding: Finding,
    took: Duration,
}

impl Line {
    pub fn new(place: usize, case: Case, finding: Finding, took: Duration) -> Self {
        Self {
            place,
            case,
            finding,
            took,
        }
    }

    pub fn is_as_expected(&self) -> bool {
        self.case.is_as_expected(&self.finding)
    }

    fn verdict(&self) -> String {
        let found = match &self.finding.broken {
            None => {
                return if self.is_as_expected() {
                    "holds"
                } else {
                    "UNEXPECTED: holds"
                }
                .to_owned();
            }
            Some((property, _)) => property.broken(),
        };
        let word = match self.case.expect {
            _ if !self.is_as_expected() => "UNEXPECTED",
            Expect::Limit(_) => "limit",
            Expect::Breaks(_) | Expect::Holds => "breaks",
        };
        format!("{word}: {found}")
    }
}

/// Returns one line for each case.
pub fn table(lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.case.name.len()).max();
    let width = width.unwrap_or(0);
    let mut table = format!(
        "{:6}  {:width$}  {:>9}  {:>10}  {:>6}  found\n",
        "model", "case", "states", "steps", "s"
    );
    for line in lines {
        let _ = writeln!(
            table,
            "{:6}  {:width$}  {:>9}  {:>10}  {:>6.2}  {}",
            line.case.model,
            line.case.name,
            line.finding.states,
            line.finding.steps,
            line.took.as_secs_f64(),
            line.verdict(),
        );
    }
    table
}

/// Returns the counterexamples, each of which is a shortest path.
pub fn ways(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let Some((property, way)) = &line.finding.broken else {
            continue;
        };
        let _ = writeln!(text, "{}: {}", line.case.model, line.case.name);
        text.push_str(&in_words(way));
        let _ = writeln!(text, "      => {}\n", property.broken());
    }
    text
}

/// Returns one line for each step. A repeated step has one line with the number of repetitions.
fn in_words(way: &[Label]) -> String {
    let mut text = String::new();
    let same = way.chunk_by(|one, other| one == other);
    for (n, steps) in same.enumerate() {
        let step = &steps[0];
        let _ = write!(text, "  {:>2}. {}: {}", n + 1, step.who, step.what);
        if steps.len() > 1 {
            let _ = write!(text, " ({} times)", steps.len());
        }
        text.push('\n');
    }
    text
}

/// Returns the summary line.
pub fn summary(lines: &[Line], took: Duration) -> String {
    let count = |is: fn(Expect) -> bool| lines.iter().filter(|line| is(line.case.expect)).count();
    let states: usize = lines.iter().map(|line| line.finding.states).sum();
    let steps: usize = lines.iter().map(|line| line.finding.steps).sum();
    let unexpected = lines.iter().filter(|line| !line.is_as_expected()).count();
    format!(
        "{} cases, {states} states, {steps} steps in {:.1} s: {} must hold, {} are ablations, {} are limits; {unexpected} results are unexpected",
        lines.len(),
        took.as_secs_f64(),
        count(|expect| expect == Expect::Holds),
        count(|expect| matches!(expect, Expect::Breaks(_))),
        count(|expect| matches!(expect, Expect::Limit(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_told_step_by_step() {
        let label = |what| Label { who: "time", what };
        let text = in_words(&[label("passes"), label("passes"), label("stops")]);
        assert_eq!(text, "   1. time: passes (2 times)\n   2. time: stops\n");
    }
}
