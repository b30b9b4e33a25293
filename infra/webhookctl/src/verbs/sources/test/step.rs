//! The result of a test.

use serde::Serialize;

use crate::output::table::aligned;

/// The result of one step.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "JSON field names")]
pub(super) struct Step {
    pub(super) step: &'static str,
    /// `pass`, `fail` or `skip`.
    pub(super) result: &'static str,
    pub(super) detail: String,
}

#[derive(Serialize)]
pub(super) struct Tested {
    pub(super) source: String,
    pub(super) url: String,
    /// The event that the valid request created.
    pub(super) id: Option<String>,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) steps: Vec<Step>,
}

impl Step {
    pub(super) fn of(step: &'static str, good: bool, detail: String) -> Self {
        let result = if good { "pass" } else { "fail" };
        Self {
            step,
            result,
            detail,
        }
    }

    pub(super) fn pass(step: &'static str, detail: String) -> Self {
        Self::of(step, true, detail)
    }

    pub(super) fn fail(step: &'static str, detail: String) -> Self {
        Self::of(step, false, detail)
    }

    pub(super) fn skip(step: &'static str, why: &str) -> Self {
        Self {
            step,
            result: "skip",
            detail: why.to_owned(),
        }
    }
}

pub(super) fn text(tested: &Tested) -> String {
    let rows = tested.steps.iter().map(|step| {
        let sign = match step.result {
            "pass" => "✓",
            "fail" => "✗",
            _ => "–",
        };
        vec![format!("  {sign} {}", step.step), step.detail.clone()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    format!(
        "{}{} of {} passed. The test event is a normal event; the audit log marks it as a test.\n",
        aligned(&rows),
        tested.passed,
        tested.passed + tested.failed
    )
}
