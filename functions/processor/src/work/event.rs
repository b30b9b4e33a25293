//! An event as a worker gets it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::{Lease, Row, WorkPlan};
use shared::inbox::trace::SpanId;

use super::token::LeaseToken;
use super::{Member, plan};

/// The plans that an operator approved, by effect.
pub(super) type Plans = BTreeMap<String, WorkPlan>;

/// The state of an effect that was approved and has no record yet.
const PLANNED: &str = "planned";

/// The most bytes of the events of one answer. Lambda returns at most 6 MB, which contain the answer
/// as a JSON string: each quotation mark of the answer takes two bytes there.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub(super) const LARGEST_ANSWER: usize = 5_800_000;

/// An event in JSON.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) json: String,
    /// The bytes that it takes in an answer.
    pub(super) size: usize,
}

/// Returns a claimed event in JSON, or `None` if it is too large for an answer.
pub(super) fn document(
    member: &Member<'_>,
    lease: &Lease,
    (body, plans): (&Bytes, &Plans),
    now: UnixMillis,
) -> Option<Document> {
    let fields = fields(member, lease, plans, now)?;
    let in_text = std::str::from_utf8(body).ok();
    let in_text = in_text.map(|text| with_body(&fields, "body", text.into()));
    let fits = |document: &Document| document.size <= LARGEST_ANSWER;
    // A text with many escapes can be larger than its bytes in base64.
    in_text.filter(fits).or_else(|| {
        let encoded = STANDARD.encode(body);
        Some(with_body(&fields, "body_base64", encoded.into())).filter(fits)
    })
}

fn with_body(fields: &Map<String, Value>, name: &str, body: Value) -> Document {
    let mut event = fields.clone();
    event.insert(name.to_owned(), body);
    let json = Value::Object(event).to_string();
    let size = escaped(&json);
    Document { json, size }
}

/// Returns the length of a text in a JSON string.
fn escaped(text: &str) -> usize {
    let extra = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 1,
        _ => 0,
    });
    // The document has no other characters that JSON escapes: it is JSON itself.
    text.len() + extra.sum::<usize>() + 1
}

/// Returns the effects of workers: their records, and the plans that an operator approved.
fn effects(member: &Member<'_>, row: &Row, plans: &Plans) -> Map<String, Value> {
    let effects = row.effects.iter();
    let effects = effects.filter(|(name, _)| !member.has_action(name));
    let mut effects: Map<String, Value> = effects
        .map(|(name, effect)| {
            let state = effect.state.as_str();
            let effect = json!({ "state": state, "key": effect.key, "note": effect.note });
            (name.clone(), effect)
        })
        .collect();
    for (name, approved) in plans {
        let effect = effects.entry(name).or_insert_with(|| {
            let key = idempotency_key(&row.key, name, row.generation);
            json!({ "state": PLANNED, "key": key, "note": "" })
        });
        effect["plan"] = plan::approved(approved);
    }
    effects
}

fn fields(
    member: &Member<'_>,
    lease: &Lease,
    plans: &Plans,
    now: UnixMillis,
) -> Option<Map<String, Value>> {
    let row = &lease.row;
    let owner = row.owner.as_deref()?;
    let token = LeaseToken::new(row.key.clone(), row.epoch, owner)?;
    let id = row.id();
    let span = SpanId::of_attempt(&row.key, owner);
    let event = json!({
        "lease": token.encode(),
        "lease_until": lease.until().rfc3339(),
        "lease_ms": u64::try_from(lease.until().since(now).as_millis()).unwrap_or(0),
        "id": id.to_string(),
        "key": row.key.to_string(),
        "source": row.key.source(),
        "type": row.kind,
        "received_at": row.received_at.rfc3339(),
        "attempt": row.attempts,
        "run": row.run,
        "run_id": row.run_id(&id),
        "thread": format!("{id}.{}", row.run),
        "trace": lease.trace.traceparent(span),
        "idempotency_key": idempotency_key(&row.key, &member.action.name, row.generation),
        "proven": row.proven.as_str(),
        "headers": row.headers,
        "content_type": row.content_type,
        "sha256": row.sha.as_ref().map(|sha| hex::encode(sha.0)),
        "effects": effects(member, row, plans),
        "takeover": row.crashes > 0,
    });
    match event {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_document_is_that_in_the_answer() {
        let fields = Map::from_iter([("key".to_owned(), json!("s:1"))]);
        for body in ["", "{\"a\": \"b\\\\c\"}", "ä\n\u{1}\u{7f}", "🦀"] {
            let document = with_body(&fields, "body", body.into());
            let in_answer = Value::from(document.json.as_str()).to_string();
            // Without the two quotation marks, and with the comma of a list.
            assert_eq!(document.size, in_answer.len() - 2 + 1, "{body:?}");
        }
    }
}
