//! Events that a trial records.
//!
//! During a trial, the previous route processes the events of a source. The inbox records each
//! event as `done` with reason `tee`, and the answers of the route. No worker processes such an
//! event, and no message is sent for it.
//!
//! After the trial, the provider may send an event again that the route did not accept. The row is
//! `done`, but the event was never delivered, so it must not count as a duplicate.
//! [`Ledger::receive_stored`] adopts it: the event becomes `received`, in a new run. The rows have
//! their own version, because a release without this step must not answer such a delivery with 2xx.

use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::body::StoredBody;
use super::receive::{New, Refusal, refusal, write_id};
use super::transition::trial as transition;
use super::{Item, Ledger, Received, Row, State, Write, item};
use crate::base::clock::UnixMillis;
use crate::inbox::table::Returns;
use crate::webhook::event::{Event, EventKey, Sha};

/// The version of the row of an event that a trial recorded.
pub const TRIAL_SCHEMA: u32 = 3;

/// The maximum number of answers in a row. Later answers are only counted.
pub const MOST_ANSWERS: u64 = 10;

/// The maximum size of a verdict in a row, in bytes.
const LONGEST_VERDICT: usize = 64;

/// The number of hex digits of the hash of an answer's body.
const HASH_DIGITS: usize = 8;

/// What the route answered to one request of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    /// When the answer was known.
    pub at: UnixMillis,
    pub outcome: RouteOutcome,
    pub took: Duration,
    /// The time in which Mitt alone would have answered.
    pub own: Option<Duration>,
    /// The time that Mitt added to the previous request of the same process. The time of a request
    /// is known only after its answer is recorded.
    pub hop: Option<Duration>,
    /// The first digits of the hash of the answer's body. Empty without an answer.
    pub hash: String,
    /// What Mitt would have answered.
    pub verdict: String,
}

/// How a request to the route ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOutcome {
    Status(u16),
    /// The route did not answer in time. It may still process the event.
    Timeout,
    /// The connection was refused or reset.
    Unreachable,
}

/// The answers of the route that a row contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialAnswers {
    /// The first answers, at most [`MOST_ANSWERS`].
    pub answers: Vec<RouteAnswer>,
    /// The number of all answers.
    pub requests: u64,
    /// The number of answers with a 2xx status.
    pub accepted: u64,
    /// The time of the first answer with a 2xx status.
    pub first_accepted: Option<UnixMillis>,
    /// The time of the newest answer.
    pub last_answer: Option<UnixMillis>,
}

/// The result of recording an event of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialRecord {
    New,
    /// The event is known. It may be from before the trial.
    Known,
    /// Outside a trial, the event would be quarantined, because it conflicts with another event.
    /// Its answers are not recorded.
    Conflict,
}

/// The row of a known event has a version that this code does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerRow {
    key: EventKey,
    version: u32,
}

impl NewerRow {
    pub(super) fn of(event: &Event, version: u32) -> Self {
        let key = event.key.clone();
        Self { key, version }
    }
}

impl fmt::Display for NewerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the row of event {} has version {}, which this release does not support; deploy the \
             newer release again",
            self.key, self.version
        )
    }
}

impl std::error::Error for NewerRow {}

impl Ledger {
    /// Records an event of a trial. The event is not delivered. Recording it again is not an error.
    pub async fn record_trial(
        &self,
        event: &Event,
        placed: &StoredBody,
        now: UnixMillis,
    ) -> anyhow::Result<TrialRecord> {
        if let Some(mark) = &event.once
            && self.earlier_with(mark, event, now).await?.is_some()
        {
            return Ok(TrialRecord::Conflict);
        }
        let expires = now + self.retention(event.key.source()).rows;
        let new = New::Trial { expires };
        match self.put_event(event, &event.key, placed, new, now).await? {
            None | Some(Refusal::Own) => Ok(TrialRecord::New),
            Some(Refusal::Known(..) | Refusal::NotAccepted | Refusal::Newer(_)) => {
                Ok(TrialRecord::Known)
            }
            Some(Refusal::OtherBody) => Ok(TrialRecord::Conflict),
        }
    }

    /// Records what the route answered. Returns `false` if the event is not part of a trial, for
    /// example because it arrived before the trial or was adopted since.
    pub async fn record_route_answer(
        &self,
        key: &EventKey,
        answer: &RouteAnswer,
    ) -> anyhow::Result<bool> {
        self.record_answer_once(key, answer, &write_id()?).await
    }

    /// Like [`record_route_answer`](Self::record_route_answer). If the last recorded answer has the
    /// same id, the answer is not recorded again.
    pub(crate) async fn record_answer_once(
        &self,
        key: &EventKey,
        answer: &RouteAnswer,
        id: &str,
    ) -> anyhow::Result<bool> {
        let pk = key.pk();
        for change in [
            transition::append_answer(answer, id),
            transition::count_answer(answer, id),
        ] {
            let written = self.table.update((&pk, "M"), change, Returns::Refused);
            match written.await? {
                Write::Applied(_) => return Ok(true),
                Write::Refused(Some(old)) if item::text(&old, "tew") == Some(id) => {
                    return Ok(true);
                }
                Write::Refused(_) => {}
            }
        }
        Ok(false)
    }

    /// Starts the processing of an event that the route did not accept during the trial. If another
    /// delivery has adopted the event, or the route has accepted it since, the event is a
    /// duplicate.
    pub(super) async fn adopt(&self, event: &Event, now: UnixMillis) -> anyhow::Result<Received> {
        let key = &event.key;
        let change = transition::adopt(key, now);
        let pk = key.pk();
        // On success the catcher needs no attribute: the first run of a trial row is 0.
        let written = self.table.update((&pk, "M"), change, Returns::Refused);
        let old = match written.await? {
            Write::Applied(_) => {
                tracing::info!(event.key = %key, source = key.source(), "adopted event {key}: the route did not accept it during the trial");
                return Ok(Received::Open {
                    silent: true,
                    run: 1,
                });
            }
            Write::Refused(old) => old.unwrap_or_default(),
        };
        match refusal(&old, event, "", now) {
            Refusal::Known(known, _) => Ok(known),
            other => anyhow::bail!("event {key} could not be adopted after a trial: {other:?}"),
        }
    }
}

impl Row {
    /// Returns whether a trial recorded the event, and the event was not adopted or replayed since.
    pub fn is_trial(&self) -> bool {
        self.schema == TRIAL_SCHEMA
            && self.state == State::Done
            && self.reason.as_deref() == Some(transition::TEE)
    }

    /// Returns whether the event was part of a trial, and was never delivered nor accepted by the
    /// route. An erased event cannot be delivered.
    pub(super) fn was_not_accepted(&self) -> bool {
        self.is_trial() && self.erased_at.is_none() && self.trial.first_accepted.is_none()
    }
}

impl RouteAnswer {
    /// `body` is the answer's body, if the route answered.
    pub fn new(
        at: UnixMillis,
        outcome: RouteOutcome,
        took: Duration,
        body: Option<&[u8]>,
        verdict: &str,
    ) -> Self {
        let hash = body.map(|body| Sha::of(body).hex()[..HASH_DIGITS].to_owned());
        let mut end = LONGEST_VERDICT.min(verdict.len());
        while !verdict.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            at,
            outcome,
            took,
            own: None,
            hop: None,
            hash: hash.unwrap_or_default(),
            verdict: verdict[..end].to_owned(),
        }
    }

    #[must_use]
    pub fn with_own(self, own: Duration) -> Self {
        let own = Some(own);
        Self { own, ..self }
    }

    #[must_use]
    pub fn with_hop(self, hop: Duration) -> Self {
        let hop = Some(hop);
        Self { hop, ..self }
    }

    /// Returns whether the provider counts the event as delivered.
    pub fn is_accepted(&self) -> bool {
        self.outcome.is_accepted()
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(7, '|');
        let mut next = || parts.next();
        Some(Self {
            at: UnixMillis(next()?.parse().ok()?),
            outcome: RouteOutcome::read(next()?)?,
            took: Duration::from_millis(next()?.parse().ok()?),
            own: next()?.parse().ok().map(Duration::from_millis),
            hop: next()?.parse().ok().map(Duration::from_millis),
            hash: next()?.to_owned(),
            verdict: next()?.to_owned(),
        })
    }
}

/// The stored text, `time|status|took|own|hop|hash|verdict`, with durations in milliseconds.
impl fmt::Display for RouteAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<Duration>| time.map(|time| time.as_millis().to_string());
        let (own, hop) = (
            ms(self.own).unwrap_or_default(),
            ms(self.hop).unwrap_or_default(),
        );
        let (took, hash) = (self.took.as_millis(), &self.hash);
        let (at, outcome, verdict) = (self.at.0, self.outcome, &self.verdict);
        write!(f, "{at}|{outcome}|{took}|{own}|{hop}|{hash}|{verdict}")
    }
}

impl RouteOutcome {
    /// Returns whether the status is a 2xx status.
    pub fn is_accepted(self) -> bool {
        matches!(self, Self::Status(200..=299))
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "timeout" => Some(Self::Timeout),
            "unreachable" => Some(Self::Unreachable),
            status => status.parse().ok().map(Self::Status),
        }
    }
}

impl fmt::Display for RouteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// Reads the answers of the route from a state row. Answers that only newer code can read are left
/// out.
pub(super) fn read(row: &Item) -> TrialAnswers {
    let list = row.get("te").and_then(|list| list.as_l().ok());
    let answers = list.map(Vec::as_slice).unwrap_or_default().iter();
    let answer = |entry: &AttributeValue| RouteAnswer::read(entry.as_s().ok()?);
    TrialAnswers {
        answers: answers.filter_map(answer).collect(),
        requests: item::number(row, "ten").unwrap_or(0),
        accepted: item::number(row, "teok").unwrap_or(0),
        first_accepted: item::time(row, "tok"),
        last_answer: item::time(row, "tat"),
    }
}
