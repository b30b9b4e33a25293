//! Version 1 of the protocol of workers: the fields of the requests, and the refusals.
//!
//! Both sides ignore unknown fields, so that each can be newer than the other. A refusal names the
//! field, and never repeats a value: it can be part of a body or of a token.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::inbox::ledger::WorkPlan;
use shared::sources::is_name as is_effect;
use shared::sources::policy::IdempotencySupport;

use super::http::Answer;
use super::plan;
use super::token::{LeaseToken, UNNAMED, is_name};

/// The version of the protocol, which each answer has.
pub(super) const VERSION: u32 = 1;

/// The largest body of a request.
const LARGEST: usize = 128 * 1024;

/// The lengths of a lease that a worker can ask for, in seconds.
const LEASES: std::ops::RangeInclusive<u64> = 30..=900;

/// The number of events of one answer.
const MOST: std::ops::RangeInclusive<u64> = 1..=10;

/// The longest wait that a worker can ask for: 7 days.
const LONGEST_WAIT: u64 = 7 * 24 * 3600;

/// The longest note on an effect.
const LONGEST_NOTE: usize = 120;

/// The longest error of a worker.
const LONGEST_ERROR: usize = 500;

/// The longest reason of a decision.
const LONGEST_REASON: usize = 500;

/// The most effects of one request.
const MOST_EFFECTS: usize = 20;

/// What a worker asks for.
#[derive(Debug)]
pub(super) enum Op {
    Next(Next),
    Extend(Extend),
    Begin(Begin),
    End(End),
    Finish(Finish),
}

/// Claims events.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) lease: Option<Duration>,
    pub(super) worker: String,
    pub(super) most: usize,
}

/// Extends a lease.
#[derive(Debug)]
pub(super) struct Extend {
    pub(super) token: LeaseToken,
    pub(super) lease: Option<Duration>,
}

/// Declares an effect before the worker causes it.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) token: LeaseToken,
    pub(super) effect: String,
    pub(super) keys: Keys,
    /// The worker asked the other system, and the effect did not happen.
    pub(super) did_not: bool,
    /// What the worker says it would do. Empty if it says nothing.
    pub(super) plan: WorkPlan,
}

/// How the system that the worker calls handles idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Known(IdempotencySupport),
    /// The system accepts no key. The worker can search it for the key.
    Ask,
}

/// Records what became of an effect.
#[derive(Debug)]
pub(super) struct End {
    pub(super) token: LeaseToken,
    pub(super) effect: String,
    pub(super) ended: Ended,
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) result: EffectResult,
    pub(super) note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffectResult {
    Done,
    Not,
    Unknown,
    Refused,
}

/// Ends the work on an event.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) token: LeaseToken,
    pub(super) outcome: FinishOutcome,
    pub(super) error: String,
    pub(super) after: Option<Duration>,
    pub(super) effects: BTreeMap<String, Ended>,
    pub(super) destination_failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishOutcome {
    Done,
    Retry,
    Permanent,
    Unknown,
    Release,
}

/// The decision about a held event.
#[derive(Debug)]
pub(super) struct Decide {
    pub(super) approves: bool,
    /// The key of the event, as `source:event-id`.
    pub(super) key: String,
    /// The id of the hold that the approver saw.
    pub(super) hold: String,
    /// The reason, for the audit log.
    pub(super) reason: String,
}

/// An answer that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// The lease ended, and another worker can have the event.
    pub(super) fn lease_lost() -> Self {
        let message = "the lease ended; stop the work, and do not call the other system";
        Self::new(409, "lease_lost", message)
    }

    /// Like [`Self::lease_lost`], for work that has ended.
    pub(super) fn stale() -> Self {
        let message = "the lease ended before this request; nothing was recorded";
        Self::new(409, "stale", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request", message)
    }

    pub(super) fn answer(&self) -> Answer {
        let body = json!({ "v": VERSION, "error": self.code, "message": self.message });
        Answer::new(self.status, &body)
    }
}

impl Op {
    /// Reads a request. `op` is the last part of its path.
    pub(super) fn read(op: &str, body: &[u8]) -> Result<Self, Refusal> {
        let read: fn(&Fields) -> Result<Self, Refusal> = match op {
            "next" => |fields| Next::read(fields).map(Self::Next),
            "extend" => |fields| Extend::read(fields).map(Self::Extend),
            "begin" => |fields| Begin::read(fields).map(Self::Begin),
            "end" => |fields| End::read(fields).map(Self::End),
            "finish" => |fields| Finish::read(fields).map(Self::Finish),
            _ => {
                let message = "unknown operation; use next, extend, begin, end or finish, or approve or \
                               reject";
                return Err(Refusal::new(404, "unknown_operation", message));
            }
        };
        read(&Fields::read(body)?)
    }

    /// Returns the lease of the request. Only `next` has none.
    pub(super) fn token(&self) -> Option<&LeaseToken> {
        match self {
            Self::Next(_) => None,
            Self::Extend(it) => Some(&it.token),
            Self::Begin(it) => Some(&it.token),
            Self::End(it) => Some(&it.token),
            Self::Finish(it) => Some(&it.token),
        }
    }
}

impl Decide {
    /// Reads a decision. `None` for an operation of a worker.
    pub(super) fn read(op: &str, body: &[u8]) -> Option<Result<Self, Refusal>> {
        let approves = match op {
            "approve" => true,
            "reject" => false,
            _ => return None,
        };
        Some(Fields::read(body).and_then(|fields| Self::of(&fields, approves)))
    }

    fn of(fields: &Fields, approves: bool) -> Result<Self, Refusal> {
        let text = |name| fields.text(name).map(Option::unwrap_or_default);
        let (key, hold, reason) = (text("key")?, text("hold")?, text("reason")?.trim());
        for (name, value) in [("key", key), ("hold", hold), ("reason", reason)] {
            if value.is_empty() {
                return Err(Refusal::invalid(format!("{name} is missing")));
            }
        }
        if reason.chars().count() > LONGEST_REASON {
            let message = format!("reason must have at most {LONGEST_REASON} characters");
            return Err(Refusal::invalid(message));
        }
        Ok(Self {
            approves,
            key: key.to_owned(),
            hold: hold.to_owned(),
            reason: reason.to_owned(),
        })
    }
}

impl Next {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        let worker = fields.text("worker")?.unwrap_or(UNNAMED);
        if !is_name(worker) {
            return Err(Refusal::invalid(
                "worker must have 1 to 40 letters, digits, dots, hyphens or underscores",
            ));
        }
        let most = fields.number("max", MOST)?.unwrap_or(1);
        Ok(Self {
            lease: fields.seconds("lease_s", LEASES)?,
            worker: worker.to_owned(),
            most: usize::try_from(most).unwrap_or(1),
        })
    }
}

impl Extend {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self {
            token: fields.lease()?,
            lease: fields.seconds("lease_s", LEASES)?,
        })
    }
}

impl Begin {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        let keys = match fields.text("keys")? {
            Some("honoured") => Keys::Known(IdempotencySupport::Honoured),
            Some("honoured-with-failures") => Keys::Known(IdempotencySupport::HonouredWithFailures),
            Some("ignored") => Keys::Known(IdempotencySupport::Ignored),
            Some("ask") => Keys::Ask,
            _ => {
                return Err(Refusal::invalid(
                    "keys must be honoured, honoured-with-failures, ignored or ask",
                ));
            }
        };
        let did_not = match fields.text("asked")? {
            None => false,
            Some("did_not") => true,
            Some(_) => return Err(Refusal::invalid("asked must be did_not, or absent")),
        };
        Ok(Self {
            token: fields.lease()?,
            effect: fields.effect()?,
            keys,
            did_not,
            plan: plan::read(fields.0.get("plan"))?,
        })
    }
}

impl End {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self {
            token: fields.lease()?,
            effect: fields.effect()?,
            ended: Ended::read(&fields.0)?,
        })
    }
}

impl Ended {
    fn read(fields: &Map<String, Value>) -> Result<Self, Refusal> {
        let result = match fields.get("result").and_then(Value::as_str) {
            Some("done") => EffectResult::Done,
            Some("not") => EffectResult::Not,
            Some("unknown") => EffectResult::Unknown,
            Some("refused") => EffectResult::Refused,
            _ => {
                return Err(Refusal::invalid(
                    "result must be done, not, unknown or refused",
                ));
            }
        };
        let note = match fields.get("note") {
            None | Some(Value::Null) => "",
            Some(Value::String(note)) => note,
            Some(_) => return Err(Refusal::invalid("note must be a text")),
        };
        Ok(Self {
            result,
            note: note.chars().take(LONGEST_NOTE).collect(),
        })
    }
}

impl Finish {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        let outcome = match fields.text("outcome")? {
            Some("done") => FinishOutcome::Done,
            Some("retry") => FinishOutcome::Retry,
            Some("permanent") => FinishOutcome::Permanent,
            Some("unknown") => FinishOutcome::Unknown,
            Some("release") => FinishOutcome::Release,
            _ => {
                return Err(Refusal::invalid(
                    "outcome must be done, retry, permanent, unknown or release",
                ));
            }
        };
        let error = fields.text("error")?.unwrap_or_default();
        let destination_failed = match fields.0.get("destination_failed") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(failed)) => *failed,
            Some(_) => {
                return Err(Refusal::invalid("destination_failed must be true or false"));
            }
        };
        Ok(Self {
            token: fields.lease()?,
            outcome,
            error: error.chars().take(LONGEST_ERROR).collect(),
            after: fields.seconds("after_s", 0..=LONGEST_WAIT)?,
            effects: fields.effects()?,
            destination_failed,
        })
    }
}

/// The fields of a request.
struct Fields(Map<String, Value>);

impl Fields {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() > LARGEST {
            let message = "the request is larger than 128 KiB";
            return Err(Refusal::new(413, "too_large", message));
        }
        if body.is_empty() {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            _ => Err(Refusal::invalid("the body must be a JSON object")),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::invalid(format!("{name} must be a text"))),
        }
    }

    fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let given = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(given) => given.as_u64().filter(|number| range.contains(number)),
        };
        let (least, most) = (range.start(), range.end());
        let message = || format!("{name} must be a whole number from {least} to {most}");
        given.map(Some).ok_or_else(|| Refusal::invalid(message()))
    }

    fn seconds(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<Duration>, Refusal> {
        Ok(self.number(name, range)?.map(Duration::from_secs))
    }

    fn lease(&self) -> Result<LeaseToken, Refusal> {
        let token = self.text("lease")?.and_then(LeaseToken::decode);
        token.ok_or_else(|| {
            Refusal::invalid("lease must be the lease of an event, as next returned it")
        })
    }

    fn effect(&self) -> Result<String, Refusal> {
        let name = self.text("effect")?.unwrap_or_default();
        checked_effect("effect", name).map(str::to_owned)
    }

    fn effects(&self) -> Result<BTreeMap<String, Ended>, Refusal> {
        let all = match self.0.get("effects") {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(all)) if all.len() <= MOST_EFFECTS => all,
            Some(_) => {
                return Err(Refusal::invalid(format!(
                    "effects must be an object with at most {MOST_EFFECTS} effects by name"
                )));
            }
        };
        all.iter()
            .map(|(name, ended)| {
                let name = checked_effect("the name of each effect", name)?.to_owned();
                let ended = match ended {
                    Value::Object(fields) => Ended::read(fields)?,
                    _ => return Err(Refusal::invalid("each effect must be an object")),
                };
                Ok((name, ended))
            })
            .collect()
    }
}

/// Returns the name of an effect if it can be one.
fn checked_effect<'n>(what: &str, name: &'n str) -> Result<&'n str, Refusal> {
    if is_effect(name) {
        return Ok(name);
    }
    Err(Refusal::invalid(format!(
        "{what} must have 1 to 40 lower-case letters, digits or hyphens"
    )))
}

#[cfg(test)]
mod tests;
