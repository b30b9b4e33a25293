//! One event as plain data. Times are milliseconds since the epoch.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::output::CliError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventView {
    /// `evt_` and a ULID.
    pub id: String,
    pub provider: String,
    pub source: String,
    pub event_type: String,
    pub status: Status,
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub dedupe_key: String,
    pub claimed_by: Option<String>,
    pub claimed_until: Option<i64>,
    /// When the next attempt is due.
    pub due: Option<i64>,
    pub last_error: Option<LastError>,
    pub effects: Vec<Effect>,
    pub received_at: i64,
    pub via: String,
    /// The other ways in which the event arrived, and when.
    pub also: Vec<(String, i64)>,
    pub body: Body,
    /// What the signature proved: `body`, `fields`, `origin`, `token` or `nothing`.
    pub proven: String,
    /// The secret that matched, by its id.
    pub secret: Option<String>,
    /// The body must still be fetched from the provider.
    pub thin: bool,
    pub source_paused: bool,
    /// The replays by operators, oldest first.
    pub replays: Vec<Replay>,
    /// The event is done without its actions, because a newer event of its entity was processed
    /// first.
    pub superseded: bool,
    /// The newest event of that entity, if it was looked up and is known.
    pub superseded_by: Option<String>,
    pub timeline: Vec<Moment>,
}

/// A plan that ran an event again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    pub plan: String,
    pub at: i64,
    /// Who applied the plan and why, if the plan was read and still exists.
    pub by: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Received,
    Processing,
    Done,
    Failed,
    DeadLetter,
    Quarantined,
}

/// Every status, in the order in which an event can take them.
pub const STATUSES: [Status; 6] = [
    Status::Received,
    Status::Processing,
    Status::Done,
    Status::Failed,
    Status::DeadLetter,
    Status::Quarantined,
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    pub text: String,
    /// Equal for errors that differ only in their variable parts, such as ids.
    pub fingerprint: String,
    pub retryable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub name: String,
    /// The idempotency key that is sent downstream.
    pub key: String,
    pub state: EffectState,
    /// Whether the destination honours keys, so that a repeated call changes nothing.
    pub keyed: bool,
    pub at: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// Known not to have happened.
    NotCommitted,
    /// Started, but no result was recorded: it may have happened.
    Intent,
    /// The answer of the destination did not say.
    Unknown,
    /// Known to have happened.
    Committed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Body {
    pub bytes: u64,
    pub content_type: String,
    pub sha256: String,
}

/// One entry of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub at: i64,
    pub what: String,
    pub detail: String,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = CliError;

    fn from_str(text: &str) -> Result<Self, CliError> {
        let names = STATUSES.map(Self::as_str);
        STATUSES
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                CliError::usage("usage.status", format!("unknown status '{text}'"))
                    .one_of(text, &names)
            })
    }
}

impl EffectState {
    /// The text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotCommitted => "not committed",
            Self::Intent => "started, not confirmed",
            Self::Unknown => "unknown",
            Self::Committed => "committed",
        }
    }
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
            status: Status::Failed,
            attempt_count: 3,
            max_attempts: 10,
            dedupe_key: "evt_01JX9M9M7S7".into(),
            claimed_by: Some("processor/7f3c".into()),
            claimed_until: Some(NOW - 41_000),
            due: Some(NOW - 1000),
            last_error: Some(LastError {
                text: "GitHub API 502 during issue creation".into(),
                fingerprint: "c41f09".into(),
                retryable: true,
            }),
            effects: vec![Effect {
                name: "open-issue".into(),
                key: "issue:evt_01JX9M9M7S7".into(),
                state: EffectState::NotCommitted,
                keyed: true,
                at: Some(NOW - 43_000),
            }],
            received_at: NOW - 3_756_882,
            via: "webhook".into(),
            also: Vec::new(),
            body: Body {
                bytes: 1284,
                content_type: "application/json".into(),
                sha256: "7d8f6c7a".repeat(8),
            },
            proven: "body".into(),
            secret: Some("v3".into()),
            thin: false,
            source_paused: false,
            replays: Vec::new(),
            superseded: false,
            superseded_by: None,
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

    #[test]
    fn a_status_is_read_back_and_a_wrong_one_is_answered() {
        for status in STATUSES {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
        let error = "dead".parse::<Status>().unwrap_err();
        assert_eq!(error.message, "unknown status 'dead'");
        assert_eq!(error.tip.as_deref(), Some("did you mean 'dead_letter'?"));
    }
}
