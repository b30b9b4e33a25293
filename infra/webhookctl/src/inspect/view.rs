//! One event as plain data. Times are milliseconds since the epoch.

use serde::{Serialize, Serializer};
use shared::inbox::ledger::{EffectState, State, Through};
use shared::webhook::context::KeptRequest;

use super::answer::Answer;
use super::repeats::Repeats;
use super::trial::TrialSeen;
use crate::output::time::as_rfc3339;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventView {
    /// The short id: `evt_` and a ULID.
    pub id: String,
    pub provider: String,
    pub source: String,
    pub event_type: String,
    pub status: State,
    /// The queue whose workers take the event, while it is open.
    pub queue: Option<String>,
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub dedupe_key: String,
    pub claimed_by: Option<String>,
    pub claimed_until: Option<i64>,
    /// The time when the next attempt is due.
    pub due: Option<i64>,
    /// Why the event waits for an approval, if it does.
    pub hold: Option<HoldSeen>,
    pub last_error: Option<LastError>,
    pub effects: Vec<Effect>,
    /// The answers of destinations to attempts that did not succeed. It is empty if they were not
    /// read.
    pub answers: Vec<Answer>,
    pub received_at: i64,
    pub via: String,
    /// The other deliveries of the event: how they arrived, and when.
    pub also: Vec<(String, i64)>,
    pub repeats: Repeats,
    pub body: Body,
    /// What the signature proved: `body`, `fields`, `origin`, `token` or `nothing`.
    pub proven: String,
    /// The secret that matched, by its id.
    pub secret: Option<String>,
    pub account: Option<Account>,
    pub request: RequestSeen,
    /// The version of the sources that received the event. It is missing if it was not looked up, or
    /// if it is unknown.
    pub sources_version: Option<u64>,
    pub source_paused: bool,
    /// The replays by operators, oldest first.
    pub replays: Vec<Replay>,
    /// The event is done without its actions, because a newer event of its entity was processed
    /// first.
    pub superseded: bool,
    /// The newest event of that entity. It is missing if it was not looked up, or if it is unknown.
    pub superseded_by: Option<String>,
    /// What a trial recorded. It is missing if the event was in no trial.
    pub trial: Option<TrialSeen>,
    pub timeline: Vec<Moment>,
}

/// What an event waits for. `webhookctl hold show` has the details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct HoldSeen {
    pub id: String,
    pub rule: String,
    /// The effect that is held. `*` stands for the event as a whole.
    pub effect: String,
    pub reason: String,
    /// What would be sent.
    pub summary: String,
    #[serde(rename = "expires_at", serialize_with = "as_rfc3339")]
    pub expires: i64,
}

/// The account that the event belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Account {
    pub value: String,
    /// Whether the signature covers the value.
    pub signed: bool,
}

/// The request of the event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RequestSeen {
    #[default]
    NotRead,
    /// It is not stored: an older version stored the event, Mitt fetched it, or its source stores
    /// no requests.
    NotKept,
    Kept(KeptRequest),
    /// It is stored, but cannot be read, for this reason.
    Unreadable(String),
}

/// A plan that ran an event again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Replay {
    pub plan: String,
    #[serde(serialize_with = "as_rfc3339")]
    pub at: i64,
    /// The operator who applied the plan. It is missing if the plan was not read, or no longer
    /// exists.
    pub by: Option<String>,
    /// What the operator used: `cli`, `console` or `mcp`.
    pub through: Option<Through>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LastError {
    pub text: String,
    /// The fingerprint. It is equal for errors that differ only in their variable parts, such as
    /// ids.
    pub fingerprint: String,
    pub retryable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Effect {
    pub name: String,
    /// The idempotency key that is sent downstream.
    pub key: String,
    #[serde(serialize_with = "effect_word")]
    pub state: EffectState,
    /// Whether the destination honours idempotency keys, so that a repeated call has no second
    /// effect.
    pub keyed: bool,
    #[serde(rename = "checked_at", serialize_with = "as_rfc3339")]
    pub at: i64,
    /// What was recorded with the state: the result that a worker reported, why the effect did not
    /// happen, or what a rule only recorded. It is missing while the call runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Body {
    pub bytes: u64,
    pub content_type: String,
    pub sha256: String,
}

/// One entry of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Moment {
    #[serde(serialize_with = "as_rfc3339")]
    pub at: i64,
    pub what: String,
    pub detail: String,
}

impl EventView {
    /// Returns the word for the status of the event, for people.
    pub(crate) fn status_word(&self) -> &'static str {
        match &self.hold {
            Some(_) => "held",
            None => self.status.as_str(),
        }
    }
}

impl Effect {
    /// Returns the description for people.
    pub(crate) fn text(&self) -> &'static str {
        match self.state {
            EffectState::Not | EffectState::Refused => "not committed",
            EffectState::Intent => "started, not confirmed",
            EffectState::Unknown => "unknown",
            EffectState::Done => "committed",
        }
    }
}

/// Serializes the status of an event as its word.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn as_word<S: Serializer>(status: &State, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(status.as_str())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn effect_word<S: Serializer>(state: &EffectState, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match state {
        EffectState::Not | EffectState::Refused => "not_committed",
        EffectState::Intent => "intent",
        EffectState::Unknown => "unknown",
        EffectState::Done => "committed",
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 2026-11-20T10:14:41Z
    pub(crate) const NOW: i64 = 1_795_169_681_000;

    /// The event of the README: three attempts, the lease expired, no effect committed.
    pub(crate) fn example() -> EventView {
        EventView {
            id: "evt_01M7W3MARPR8V5D1C6H9E4KTBX".into(),
            provider: "example-provider".into(),
            source: "example-provider".into(),
            event_type: "job.completed".into(),
            status: State::Failed,
            queue: None,
            attempt_count: 3,
            max_attempts: 10,
            dedupe_key: "evt_01JX9M9M7S7".into(),
            claimed_by: Some("processor/7f3c".into()),
            claimed_until: Some(NOW - 41_000),
            due: Some(NOW - 1000),
            hold: None,
            last_error: Some(LastError {
                text: "GitHub API 502 during issue creation".into(),
                fingerprint: "c41f09".into(),
                retryable: true,
            }),
            effects: vec![Effect {
                name: "open-issue".into(),
                key: "issue:evt_01JX9M9M7S7".into(),
                state: EffectState::Not,
                keyed: true,
                at: NOW - 43_000,
                note: None,
            }],
            answers: Vec::new(),
            received_at: NOW - 3_756_882,
            via: "webhook".into(),
            also: Vec::new(),
            repeats: Repeats::default(),
            body: Body {
                bytes: 1284,
                content_type: "application/json".into(),
                sha256: "7d8f6c7a".repeat(8),
            },
            proven: "body".into(),
            secret: Some("v3".into()),
            account: None,
            request: RequestSeen::NotRead,
            sources_version: None,
            source_paused: false,
            replays: Vec::new(),
            superseded: false,
            superseded_by: None,
            trial: None,
            timeline: vec![
                Moment {
                    at: NOW - 3_756_882,
                    what: "stored".into(),
                    detail: "202 in 4 ms".into(),
                },
                Moment {
                    at: NOW - 3_756_849,
                    what: "attempt 1".into(),
                    detail: "GitHub API 502 during issue creation".into(),
                },
            ],
        }
    }
}
