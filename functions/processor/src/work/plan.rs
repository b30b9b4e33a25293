//! The plan of an effect, as a worker declares it with `begin` and gets it back after its approval.
//!
//! An approval is for each character of the plan, so Mitt refuses a plan that is too long instead of
//! shortening it.

use serde_json::{Map, Value, json};
use shared::inbox::ledger::WorkPlan;

use super::protocol::Refusal;

/// The longest summary and the longest target, in characters.
const LONGEST_TEXT: usize = 200;

/// The longest text of an amount.
const LONGEST_AMOUNT: usize = 40;

/// The longest full plan, in bytes.
const LONGEST_PLAN: usize = 8 * 1024;

/// The fields of a plan. `approved` is in a plan that Mitt handed out, and has no effect.
const FIELDS: [&str; 6] = ["summary", "target", "amount", "sha256", "full", "approved"];

/// Reads the plan of a request. It is empty if there is none.
pub(super) fn read(plan: Option<&Value>) -> Result<WorkPlan, Refusal> {
    let fields = match plan {
        None | Some(Value::Null) => return Ok(WorkPlan::default()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(Refusal::invalid("plan must be an object")),
    };
    // A rule does not see a field whose name is wrong.
    if let Some(other) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let (other, known) = (shortened(other), FIELDS.join(", "));
        let message = format!("plan has no field {other:?}: the fields are {known}");
        return Err(Refusal::invalid(message));
    }
    Ok(WorkPlan {
        summary: short(fields, "summary")?,
        target: short(fields, "target")?,
        amount: amount(fields)?,
        sha256: sha256(fields)?,
        full: full(fields)?,
    })
}

/// Returns a plan that an operator approved, in the form in which `begin` accepts it.
pub(super) fn approved(plan: &WorkPlan) -> Value {
    let mut plan = json!(plan);
    plan["approved"] = true.into();
    plan
}

fn text<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<Option<&'f str>, Refusal> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::invalid(format!("plan.{name} must be a text"))),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(40).collect()
}

fn short(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    let text = text(fields, name)?;
    if text.is_some_and(|text| text.chars().count() > LONGEST_TEXT) {
        let message = format!("plan.{name} must have at most {LONGEST_TEXT} characters");
        return Err(Refusal::invalid(message));
    }
    Ok(text.map(str::to_owned))
}

/// Reads a number, or the text of one.
fn amount(fields: &Map<String, Value>) -> Result<Option<String>, Refusal> {
    let amount = match fields.get("amount") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => String::new(),
    };
    let is_number = amount.parse().is_ok_and(f64::is_finite);
    if is_number && amount.len() <= LONGEST_AMOUNT {
        return Ok(Some(amount));
    }
    Err(Refusal::invalid("plan.amount must be a number"))
}

fn sha256(fields: &Map<String, Value>) -> Result<Option<String>, Refusal> {
    let text = text(fields, "sha256")?;
    let is_hex = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if text.is_some_and(|text| text.len() != 64 || !is_hex(text)) {
        let message = "plan.sha256 must have 64 lower-case hex digits";
        return Err(Refusal::invalid(message));
    }
    Ok(text.map(str::to_owned))
}

fn full(fields: &Map<String, Value>) -> Result<Option<String>, Refusal> {
    let text = text(fields, "full")?;
    if text.is_some_and(|text| text.len() > LONGEST_PLAN) {
        let message = "plan.full must have at most 8 KiB; use plan.sha256 for a longer request";
        return Err(Refusal::invalid(message));
    }
    Ok(text.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Value {
        json!({
            "summary": "refund the order",
            "target": "cus_1",
            "amount": 74.5,
            "sha256": "0a".repeat(32),
            "full": "{\"order\": 7}",
        })
    }

    #[test]
    fn an_approved_plan_is_read_as_the_same_plan() {
        let plan = read(Some(&whole())).unwrap();
        assert_eq!(plan.amount.as_deref(), Some("74.5"));
        let handed_out = approved(&plan);
        assert_eq!(handed_out["approved"], true);
        assert_eq!(read(Some(&handed_out)).unwrap(), plan);
        let text = read(Some(&json!({ "amount": "74.50" }))).unwrap();
        assert_eq!(text.amount.as_deref(), Some("74.50"));
        for nothing in [None, Some(Value::Null), Some(json!({}))] {
            assert!(read(nothing.as_ref()).unwrap().is_empty());
        }
        assert_eq!(approved(&WorkPlan::default()), json!({ "approved": true }));
    }

    #[test]
    fn a_plan_has_limits() {
        let with = |name: &str, value: Value| {
            let mut plan = whole();
            plan[name] = value;
            plan
        };
        for (plan, said) in [
            (json!("refund"), "plan must be an object"),
            (
                with("ammount", json!(1)),
                "plan has no field \"ammount\": the fields are summary, target, amount",
            ),
            (with("summary", json!(1)), "plan.summary must be a text"),
            (with("summary", json!("x".repeat(201))), "200 characters"),
            (with("target", json!("x".repeat(201))), "200 characters"),
            (
                with("amount", json!("a lot")),
                "plan.amount must be a number",
            ),
            (with("amount", json!("inf")), "plan.amount must be a number"),
            (with("amount", json!("")), "plan.amount must be a number"),
            (with("amount", json!([])), "plan.amount must be a number"),
            (
                with("amount", json!("1".repeat(41))),
                "plan.amount must be a number",
            ),
            (
                with("sha256", json!("0A".repeat(32))),
                "64 lower-case hex digits",
            ),
            (
                with("sha256", json!("0a".repeat(31))),
                "64 lower-case hex digits",
            ),
            (with("full", json!({})), "plan.full must be a text"),
            (with("full", json!("x".repeat(8 * 1024 + 1))), "8 KiB"),
        ] {
            let refused = read(Some(&plan)).unwrap_err();
            assert_eq!((refused.status, refused.code), (400, "invalid_request"));
            assert!(refused.message.contains(said), "{}", refused.message);
        }
        let longest = [
            ("summary", json!("ä".repeat(200))),
            ("full", json!("x".repeat(8 * 1024))),
        ];
        for (name, value) in longest {
            assert!(read(Some(&with(name, value))).is_ok(), "{name}");
        }
    }
}
