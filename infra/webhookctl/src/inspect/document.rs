//! An event as JSON, `webhookctl/inbox.event/v1`.

use serde::Serialize;
use shared::inbox::ledger::State;

use super::answer::Answer;
use super::request::{RequestDocument, request};
use super::trial::{self, TrialDocument};
use super::view::{Account, Body, Effect, EventView, LastError, Moment, Replay, as_word};
use crate::inspect::next_action::{NextAction, next_action};
use crate::output::time::rfc3339;

/// The name of the schema without its version.
pub(crate) const SCHEMA: &str = "inbox.event";

/// Returns the JSON document of the event. Later versions only add fields.
pub(crate) fn document(view: &EventView, now_millis: i64) -> impl Serialize + '_ {
    Document {
        id: &view.id,
        provider: &view.provider,
        source: &view.source,
        event_type: &view.event_type,
        status: view.status,
        queue: view.queue.as_deref(),
        attempt_count: view.attempt_count,
        max_attempts: view.max_attempts,
        dedupe_key: &view.dedupe_key,
        claimed_until: view.claimed_until.map(rfc3339),
        lease: view
            .claimed_until
            .map(|until| lease(view, until, now_millis)),
        due: view.due.map(rfc3339),
        last_error: view.last_error.as_ref(),
        side_effects: &view.effects,
        answers: &view.answers,
        received_at: rfc3339(view.received_at),
        via: &view.via,
        also_seen: view.also.iter().map(|also| also_seen(view, also)).collect(),
        body: &view.body,
        proven: &view.proven,
        secret: view.secret.as_deref(),
        account: view.account.as_ref(),
        sources_version: view.sources_version,
        request: request(&view.request),
        replays: &view.replays,
        superseded: view.superseded,
        superseded_by: view.superseded_by.as_deref(),
        trial: view.trial.as_ref().map(trial::document),
        timeline: &view.timeline,
        next_action: next_action(view, now_millis),
    }
}

#[derive(Serialize)]
struct Document<'v> {
    id: &'v str,
    provider: &'v str,
    source: &'v str,
    #[serde(rename = "type")]
    event_type: &'v str,
    #[serde(serialize_with = "as_word")]
    status: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'v str>,
    attempt_count: u32,
    max_attempts: u32,
    dedupe_key: &'v str,
    claimed_until: Option<String>,
    lease: Option<Lease>,
    due: Option<String>,
    last_error: Option<&'v LastError>,
    side_effects: &'v [Effect],
    answers: &'v [Answer],
    received_at: String,
    via: &'v str,
    also_seen: Vec<AlsoSeen>,
    body: &'v Body,
    proven: &'v str,
    secret: Option<&'v str>,
    account: Option<&'v Account>,
    sources_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestDocument<'v>>,
    replays: &'v [Replay],
    superseded: bool,
    superseded_by: Option<&'v str>,
    trial: Option<TrialDocument<'v>>,
    timeline: &'v [Moment],
    next_action: NextAction,
}

#[derive(Serialize)]
struct Lease {
    owner: Option<String>,
    expired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expired_for_s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_s: Option<i64>,
}

/// Another delivery of the event.
#[derive(Serialize)]
struct AlsoSeen {
    via: String,
    at: String,
    /// Seconds after the receipt; negative if this arrival was earlier.
    later_s: i64,
}

fn lease(view: &EventView, until: i64, now_millis: i64) -> Lease {
    let expired = until <= now_millis;
    let seconds = now_millis.abs_diff(until).cast_signed() / 1000;
    Lease {
        owner: view.claimed_by.clone(),
        expired,
        expired_for_s: expired.then_some(seconds),
        left_s: (!expired).then_some(seconds),
    }
}

fn also_seen(view: &EventView, (via, at): &(String, i64)) -> AlsoSeen {
    AlsoSeen {
        via: via.clone(),
        at: rfc3339(*at),
        later_s: at.saturating_sub(view.received_at) / 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{NOW, example};
    use super::*;

    #[test]
    fn the_document_has_this_shape() {
        let mut view = example();
        view.timeline.truncate(1);
        let json = serde_json::to_string(&document(&view, NOW)).unwrap();
        let expected = concat!(
            r#"{"id":"evt_01M7W3MARPR8V5D1C6H9E4KTBX","provider":"example-provider","#,
            r#""source":"example-provider","type":"job.completed","status":"failed","#,
            r#""attempt_count":3,"max_attempts":10,"dedupe_key":"evt_01JX9M9M7S7","#,
            r#""claimed_until":"2026-11-20T10:14:00Z","lease":{"owner":"processor/7f3c","#,
            r#""expired":true,"expired_for_s":41},"due":"2026-11-20T10:14:40Z","#,
            r#""last_error":{"text":"GitHub API 502 during issue creation","#,
            r#""fingerprint":"c41f09","retryable":true},"side_effects":[{"#,
            r#""name":"open-issue","key":"issue:evt_01JX9M9M7S7","state":"not_committed","#,
            r#""keyed":true,"checked_at":"2026-11-20T10:13:58Z"}],"answers":[],"#,
            r#""received_at":"2026-11-20T09:12:04.118Z","via":"webhook","also_seen":[],"body":{"bytes":1284,"#,
            r#""content_type":"application/json","sha256":"7d8f6c7a7d8f6c7a7d8f6c7a7d8f6c7a"#,
            r#"7d8f6c7a7d8f6c7a7d8f6c7a7d8f6c7a"},"proven":"body","secret":"v3","account":null,"sources_version":null,"replays":[],"superseded":false,"#,
            r#""superseded_by":null,"trial":null,"timeline":[{"#,
            r#""at":"2026-11-20T09:12:04.118Z","what":"stored","detail":"202 in 4 ms"}],"#,
            r#""next_action":{"code":"retry_safe","text":"retry-safe, side effect not committed","#,
            r#""command":"webhookctl replay plan --id evt_01M7W3MARPR8V5D1C6H9E4KTBX"}}"#,
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn a_live_lease_has_seconds_left() {
        let mut view = example();
        view.claimed_until = Some(NOW + 117_000);
        let json = serde_json::to_value(document(&view, NOW)).unwrap();
        assert_eq!(json["lease"]["left_s"], 117);
        assert_eq!(json["lease"]["expired"], false);
        assert!(json["lease"].get("expired_for_s").is_none());
    }
}
