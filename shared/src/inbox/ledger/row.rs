//! The state row of an event. Older and newer releases also write this row, so this code accepts
//! unknown values.

mod history;

use std::collections::BTreeMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;

use super::transition::replay::REPLAYED;
use super::{Approval, Hold, Item, OtherArrival, Repetitions, TrialAnswers, item};
use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::sources::ordering::Stored;
use crate::webhook::context::Account;
use crate::webhook::event::{Batch, EventId, EventKey, Proven, Sha, Via};
pub use history::Moment;
use history::{history, raw_history};

string_enum! {
    /// The state of an event.
    State {
        Received = "received",
        /// A worker holds the lease.
        Processing = "processing",
        Done = "done",
        /// A retry is due at a known time. This state is never final.
        Failed = "failed",
        DeadLetter = "dead_letter",
        /// A second body under a known id, a known body under a second id, or other bytes under a
        /// known signature.
        Quarantined = "quarantined",
    }
}

string_enum! {
    /// The recorded state of an effect.
    EffectState {
        /// The effect may be in progress, or the worker crashed during it.
        Intent = "intent",
        Done = "done",
        /// The effect did not happen.
        Not = "not",
        /// The effect may have happened.
        Unknown = "unknown",
        /// The destination rejected the effect permanently. The effect did not happen, and is not
        /// tried again in this run.
        Refused = "refused",
    }
}

/// The state row. Each change keeps the attributes that are not listed here, because newer code may
/// need them.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: EventKey,
    pub schema: u32,
    pub state: State,
    /// The fencing token. Each claim and each replay increases it, and no change resets it.
    pub epoch: u64,
    pub run: u64,
    /// The current generation of idempotency keys.
    pub generation: u64,
    /// Attempts in this run. An attempt counts when it begins.
    pub attempts: u32,
    /// Attempts that crashed since the last deferral.
    pub crashes: u32,
    /// Attempts that crashed before the last deferral.
    pub died: u32,
    /// The number of deferrals in this run. A deferral is not an attempt.
    pub deferrals: u32,
    pub owner: Option<String>,
    pub lease_until: Option<UnixMillis>,
    pub due: Option<UnixMillis>,
    /// The queue of the workers that take the event, after its other actions are done.
    pub pull: Option<String>,
    pub received_at: UnixMillis,
    pub write_id: String,
    pub sha: Option<Sha>,
    pub body_len: u64,
    /// The batch that the event arrived in. The stored body is the request's body with only this
    /// event in it.
    pub batch: Option<Batch>,
    /// When the drain read the event from the spill queue, if it was there.
    pub drained_at: Option<UnixMillis>,
    pub content_type: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub via: Via,
    /// Later arrivals of the event with a different `via`.
    pub also: Vec<OtherArrival>,
    /// The requests of the event that arrived again.
    pub repetitions: Repetitions,
    /// When the sender signed the delivery that created the row, if the signature covers such a
    /// time.
    pub signed_at: Option<UnixMillis>,
    pub kind: String,
    pub provider: String,
    pub preset: String,
    pub delivery: Option<String>,
    pub account: Option<Account>,
    pub proven: Proven,
    pub secret: Option<String>,
    pub config: String,
    pub body_at: BodyAt,
    pub effects: BTreeMap<String, EffectRow>,
    pub history: Vec<Moment>,
    /// The run and the time of its first attempt, if a destination asked for a deferral then.
    pub(super) first_attempt: Option<(u64, UnixMillis)>,
    /// The history as it is stored, with entries that only newer code can read.
    pub(super) raw_history: Vec<AttributeValue>,
    /// What the route answered during a trial.
    pub trial: TrialAnswers,
    /// Why the event waits for an approval, if it does.
    pub hold: Option<Box<Hold>>,
    /// The approvals of this run, by effect.
    pub approvals: BTreeMap<String, Approval>,
    pub error: Option<String>,
    pub reason: Option<String>,
    /// The event with which a quarantined event conflicts.
    pub conflicts_with: Option<EventKey>,
    pub done_at: Option<UnixMillis>,
    pub done_by: Option<String>,
    pub dead_at: Option<UnixMillis>,
    /// When the content was erased.
    pub erased_at: Option<UnixMillis>,
    /// When the sweep checks the row next.
    pub next_look: Option<UnixMillis>,
    pub sent_at: Option<UnixMillis>,
    pub sends: u32,
}

/// Where the body is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyAt {
    /// In the state row itself.
    Inline,
    /// In the body row.
    Row,
    /// In the bucket, under this key.
    Bucket(String),
}

/// The record of one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRow {
    pub state: EffectState,
    /// The idempotency key that was used.
    pub key: String,
    /// Whether a repeated call with this key is safe and useful.
    pub keyed: bool,
    pub at: UnixMillis,
    /// The run in which the effect was tried.
    pub run: u64,
    pub note: String,
    /// The lease under which a worker outside of Lambda began the effect.
    pub lease: Option<EffectLease>,
}

/// A lease under which an effect began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectLease {
    /// The fencing token of the lease.
    pub epoch: u64,
    /// The end of the lease at the time of the beginning. The call ends before it.
    pub until: UnixMillis,
}

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    pub pk: String,
    pub attribute: &'static str,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "row {:?}: attribute {} is missing or invalid",
            self.pk, self.attribute
        )
    }
}

impl std::error::Error for BadRow {}

impl Row {
    /// Returns the parts that can name the entity and the version of the event.
    pub fn stored<'e>(&'e self, body: &'e Bytes) -> Stored<'e> {
        Stored {
            headers: &self.headers,
            content_type: self.content_type.as_deref(),
            body,
        }
    }

    /// Reads a state row. The attributes that decide how the event is handled are required. The
    /// other attributes have defaults.
    pub fn read(row: &Item) -> Result<Self, BadRow> {
        let pk = item::text(row, "pk").unwrap_or_default();
        Self::of(row, pk).map_err(|attribute| BadRow {
            pk: pk.chars().take(260).collect(),
            attribute,
        })
    }

    /// Like `read`. The error is the name of the attribute.
    fn of(row: &Item, pk: &str) -> Result<Self, &'static str> {
        let text = |name| item::text(row, name).map(str::to_owned);
        let key = EventKey::from_pk(pk).ok_or("pk")?;
        let schema = item::number(row, "sv").ok_or("sv")?;
        let state = state(row)?;
        Ok(Self {
            key,
            schema,
            state,
            epoch: item::number(row, "epoch").ok_or("epoch")?,
            run: item::number(row, "run").ok_or("run")?,
            generation: item::number(row, "gen").unwrap_or(0),
            attempts: item::number(row, "att").ok_or("att")?,
            crashes: item::number(row, "cr").ok_or("cr")?,
            died: item::number(row, "died").unwrap_or(0),
            deferrals: item::number(row, "off").unwrap_or(0),
            owner: text("own"),
            lease_until: item::time(row, "lu"),
            due: item::time(row, "due"),
            pull: text("pul"),
            received_at: item::time(row, "rcv").ok_or("rcv")?,
            write_id: text("wid").unwrap_or_default(),
            sha: sha(row),
            body_len: item::number(row, "len").unwrap_or(0),
            batch: item::text(row, "bat").and_then(Batch::read),
            drained_at: item::time(row, "spl"),
            content_type: text("ct"),
            headers: headers(row),
            via: via(row),
            also: super::arrivals::read(row),
            repetitions: Repetitions::read(row),
            signed_at: item::time(row, "sgt"),
            kind: text("ty").unwrap_or_default(),
            provider: text("pvd").unwrap_or_default(),
            preset: text("pre").unwrap_or_default(),
            delivery: text("dlv"),
            account: item::text(row, "acc").and_then(Account::parse),
            proven: proven(row),
            secret: text("kid"),
            config: text("cfg").unwrap_or_default(),
            body_at: BodyAt::read(row).ok_or("bref")?,
            effects: effects(row),
            history: history(row),
            first_attempt: item::text(row, "fa").and_then(first_attempt),
            raw_history: raw_history(row),
            trial: super::trial::read(row),
            hold: Hold::read(row).map(Box::new),
            approvals: super::hold::approvals(row),
            error: text("err"),
            reason: text("reason"),
            conflicts_with: item::text(row, "oth").and_then(EventKey::from_pk),
            done_at: item::time(row, "done_at"),
            done_by: text("done_by"),
            dead_at: item::time(row, "dead_at"),
            erased_at: item::time(row, "erased_at"),
            next_look: item::time(row, "gsk"),
            sent_at: item::time(row, "enq"),
            sends: item::number(row, "enq_n").unwrap_or(0),
        })
    }

    pub fn id(&self) -> EventId {
        EventId::new(self.received_at, &self.key)
    }

    /// Returns the name of the current attempt. Each claim and each replay changes it. `id` is the
    /// id of the event, which a caller often has already.
    pub fn run_id(&self, id: &EventId) -> String {
        format!("{id}.{}.{}", self.run, self.epoch)
    }

    /// Returns whether the event still needs processing.
    pub fn is_open(&self) -> bool {
        matches!(
            self.state,
            State::Received | State::Processing | State::Failed
        )
    }

    /// Returns the time when the first attempt of this run ended, if it is known.
    pub fn first_attempt(&self) -> Option<UnixMillis> {
        if let Some((run, at)) = self.first_attempt
            && run == self.run
        {
            return Some(at);
        }
        let of_run = self.history.iter().rev();
        let of_run = of_run.take_while(|moment| moment.what != REPLAYED);
        of_run
            .filter(|moment| moment.what == "failed")
            .last()
            .map(|moment| moment.at)
    }

    /// Returns the number of crashes. The current worker of a row in `processing` counts as
    /// crashed.
    pub fn crashed(&self) -> u32 {
        let now = u32::from(self.state == State::Processing);
        self.crashes.saturating_add(now)
    }

    /// Returns whether the lease ended longer ago than the clock margin.
    pub fn lease_is_over(&self, now: UnixMillis) -> bool {
        self.lease_until
            .is_none_or(|until| until < now - crate::base::timing::CLOCK_MARGIN)
    }
}

/// Returns the state of a row, or the name of a missing or invalid attribute that this state
/// requires.
fn state(row: &Item) -> Result<State, &'static str> {
    let state = item::text(row, "st").and_then(State::parse).ok_or("st")?;
    match state {
        State::Processing if item::time(row, "lu").is_none() => Err("lu"),
        State::Failed if item::time(row, "due").is_none() => Err("due"),
        _ if !row.get("fx").is_some_and(AttributeValue::is_m) => Err("fx"),
        _ => Ok(state),
    }
}

/// `run|time`. A replay by older code leaves the value of the run before it.
fn first_attempt(text: &str) -> Option<(u64, UnixMillis)> {
    let (run, at) = text.split_once('|')?;
    Some((run.parse().ok()?, UnixMillis(at.parse().ok()?)))
}

fn sha(row: &Item) -> Option<Sha> {
    Some(Sha(item::bytes(row, "sha")?.try_into().ok()?))
}

impl BodyAt {
    fn read(row: &Item) -> Option<Self> {
        match item::text(row, "bref")? {
            "i" => Some(Self::Inline),
            "d" => Some(Self::Row),
            text => Some(Self::Bucket(text.strip_prefix("s3:")?.to_owned())),
        }
    }
}

fn proven(row: &Item) -> Proven {
    let stored = item::text(row, "prv").and_then(Proven::parse);
    stored.unwrap_or(Proven::Nothing)
}

fn via(row: &Item) -> Via {
    let stored = item::text(row, "via").and_then(Via::parse);
    stored.unwrap_or(Via::Webhook)
}

fn headers(row: &Item) -> BTreeMap<String, String> {
    let Some(AttributeValue::M(map)) = row.get("hdr") else {
        return BTreeMap::new();
    };
    map.iter()
        .filter_map(|(name, value)| Some((name.clone(), value.as_s().ok()?.clone())))
        .collect()
}

fn effects(row: &Item) -> BTreeMap<String, EffectRow> {
    let Some(AttributeValue::M(map)) = row.get("fx") else {
        return BTreeMap::new();
    };
    map.iter()
        .filter_map(|(name, value)| {
            let entry = value.as_m().ok()?;
            let effect = EffectRow {
                // A state that only newer code knows counts as unknown.
                state: item::text(entry, "s")
                    .and_then(EffectState::parse)
                    .unwrap_or(EffectState::Unknown),
                key: item::text(entry, "k").unwrap_or_default().to_owned(),
                keyed: item::number::<u8>(entry, "h").unwrap_or(0) == 1,
                at: item::time(entry, "at").unwrap_or_default(),
                run: item::number(entry, "n").unwrap_or(0),
                note: item::text(entry, "r").unwrap_or_default().to_owned(),
                lease: item::text(entry, "l").and_then(EffectLease::read),
            };
            Some((name.clone(), effect))
        })
        .collect()
}

impl EffectRow {
    pub(super) fn write(&self) -> AttributeValue {
        let mut entry = Item::from([
            ("s".to_owned(), item::s(self.state.as_str())),
            ("k".to_owned(), item::s(&self.key)),
            ("h".to_owned(), item::n(u8::from(self.keyed))),
            ("at".to_owned(), item::ms(self.at)),
        ]);
        // An entry without a run number belongs to the first run.
        if self.run > 0 {
            entry.insert("n".to_owned(), item::n(self.run));
        }
        if !self.note.is_empty() {
            entry.insert("r".to_owned(), item::s(&self.note));
        }
        if let Some(lease) = self.lease {
            entry.insert("l".to_owned(), item::s(lease.written()));
        }
        AttributeValue::M(entry)
    }
}

impl EffectLease {
    pub(super) fn written(self) -> String {
        format!("{}|{}", self.epoch, self.until.0)
    }

    fn read(text: &str) -> Option<Self> {
        let (epoch, until) = text.split_once('|')?;
        Some(Self {
            epoch: epoch.parse().ok()?,
            until: UnixMillis(until.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_none_is_named_with_the_attribute() {
        let error = Row::read(&Item::from([("pk".into(), item::s("E#s#1"))])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "row \"E#s#1\": attribute sv is missing or invalid"
        );
        assert_eq!(Row::read(&Item::new()).unwrap_err().attribute, "pk");
    }
}
