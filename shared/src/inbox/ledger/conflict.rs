//! Events that are quarantined: another body under a known id, a known body under another id, or
//! other bytes under a known signature.
//!
//! Nobody works on them until a human decides. Which it was, who decided and why stand in the
//! history of the row from then on.
//!
//! A captured request can be sent again any number of times, so quarantined events are bounded. The
//! second and every later copy of one conflict adds to a counter and writes no row and no body.
//! Different contents are bounded for each thing that they conflict with and for each source and
//! day. What is beyond a bound is not acknowledged: see [`Crowded`].
//!
//! | item | pk | sk |
//! |---|---|---|
//! | copies of a quarantined event | `Q#{source}#A#{hash of the conflict}` | `C`: `ek` the row, `n` later copies, `last` the time of the newest |
//! | quarantined events of a day | `Q#{source}#{yyyymmdd}` | `A` |
//! | those of one id, or one body | same | `A#{32 hex digits}` |

use std::fmt;
use std::time::Duration;

use super::body::{BodyLocation, StoredBody};
use super::receive::{New, Refusal};
use super::{By, Ledger, Moment, NEWEST_SCHEMA, Received, Row, State, Write, item, transition};
use crate::base::clock::UnixMillis;
use crate::inbox::queue::WorkMessage;
use crate::webhook::event::{Event, EventKey, Sha, Via};

/// Different contents in a day that are quarantined for one id, or for one body. A provider that
/// uses an id twice does so a few times; a captured request has as many spellings as its scheme
/// leaves open.
pub const MOST_OF_ONE: u32 = 16;

/// Quarantined events of a source in a day.
pub const MOST_OF_DAY: u32 = 500;

/// How long the tallies of a day are kept.
const KEEP_TALLY: Duration = Duration::from_secs(2 * 24 * 3600);

/// Why an event is quarantined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Its id is that of an event with another content.
    OtherBody,
    /// What this is the hash of came before, under another id.
    KnownBody(Sha),
    /// What this is the mark of was signed once, and came before with other bytes.
    KnownSignature(Sha),
}

impl Why {
    fn reason(self) -> &'static str {
        match self {
            Self::OtherBody => "another body under a known id",
            Self::KnownBody(_) => "a known body under another id",
            Self::KnownSignature(_) => "other bytes under a known signature",
        }
    }

    /// What the event conflicts with.
    fn of(self, event: &Event) -> Sha {
        match self {
            Self::OtherBody => Sha::of(event.key.id().as_bytes()),
            Self::KnownBody(known) | Self::KnownSignature(known) => known,
        }
    }

    /// Names the conflict: the same for every copy of it, and for nothing else. Where the id is not
    /// signed, it is no part of it; where it is, the same content under two ids is two conflicts.
    fn conflict(self, event: &Event) -> Sha {
        let of = self.of(event);
        Sha::of(&[of.0.as_slice(), &event.content.0].concat())
    }
}

/// No more events are quarantined for this id, body or source today. The event is not kept, so it
/// must not be acknowledged: the sender is asked to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyConflicts {
    key: EventKey,
    most: u32,
}

impl fmt::Display for TooManyConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, most } = self;
        write!(
            f,
            "{key} conflicts with another event, and {most} such events were quarantined today"
        )
    }
}

impl std::error::Error for TooManyConflicts {}

/// What became of a decision.
#[derive(Clone, Debug)]
pub enum Decided {
    /// It holds.
    Made(Box<Row>),
    /// It is not kept apart (any more), and nothing was changed.
    NotQuarantined(State),
    /// What it carried was erased, is past its keeping, or is damaged: there is nothing to work on.
    MissingBody,
    Missing,
}

impl Decided {
    /// To be rung when it was released.
    pub fn work_message(&self) -> Option<WorkMessage> {
        match self {
            Self::Made(row) if row.state == State::Received => Some(WorkMessage {
                key: row.key.clone(),
                run: row.run,
            }),
            _ => None,
        }
    }
}

/// What a human decides.
#[derive(Clone, Copy)]
enum Decision {
    Release,
    Discard,
}

impl Ledger {
    /// Quarantines an event. It is durable when this returns, in a row of its own or, where it is a
    /// copy, in that of the first.
    pub(super) async fn quarantine(
        &self,
        event: &Event,
        placed: &StoredBody,
        why: Why,
        now: UnixMillis,
    ) -> anyhow::Result<Received> {
        let source = event.key.source();
        let copies = format!("Q#{source}#A#{}", why.conflict(event).hex());
        let expires = now + self.retention(source).rows;
        let change = transition::conflict::count_copy(now, expires);
        if let Write::Applied(Some(counted)) = self.change_item(&copies, "C", change).await?
            && let Some(key) = item::text(&counted, "ek").and_then(EventKey::from_pk)
        {
            return Ok(Received::Repeated(key));
        }
        // What was spilled has been acknowledged: there is no sender to ask for another try.
        if event.via == Via::Webhook && event.drained_at.is_none() {
            self.count_conflict(event, why, now).await?;
        }
        let (key, known) = self.put_conflict(event, placed, why, now).await?;
        let change = transition::conflict::expect_copies(&key.pk(), expires);
        if let Err(error) = self.change_item(&copies, "C", change).await {
            // The next copy is found known by the row itself.
            tracing::warn!(event.key = %key, error = format!("{error:#}"), "could not note where copies of {key} are counted");
        }
        Ok(if known {
            Received::Repeated(key)
        } else {
            Received::Conflict(key)
        })
    }

    /// The bound for what it conflicts with comes first, so that one captured request cannot take
    /// more of the source's bound than its own.
    async fn count_conflict(&self, event: &Event, why: Why, now: UnixMillis) -> anyhow::Result<()> {
        let pk = format!("Q#{}#{}", event.key.source(), &now.hour()[..8]);
        let of_one = format!("A#{}", &why.of(event).hex()[..32]);
        for (sk, most) in [(of_one.as_str(), MOST_OF_ONE), ("A", MOST_OF_DAY)] {
            let change = transition::conflict::count_conflict(most, now + KEEP_TALLY);
            if let Write::Refused(_) = self.change_item(&pk, sk, change).await? {
                let key = event.key.clone();
                return Err(TooManyConflicts { key, most }.into());
            }
        }
        Ok(())
    }

    /// The key of the row, and whether the event stood there before.
    async fn put_conflict(
        &self,
        event: &Event,
        placed: &StoredBody,
        why: Why,
        now: UnixMillis,
    ) -> anyhow::Result<(EventKey, bool)> {
        let keys = [
            event.key.conflicting(&event.content),
            event.key.conflicting_whole(&event.content),
        ];
        for key in keys {
            // In a place of its own, so that an erasure of either leaves the other.
            let own = if placed.is_in_bucket() && !event.body.is_empty() {
                Some(self.store_body(&event.under(key.clone())).await?)
            } else {
                None
            };
            let at = own.as_ref().unwrap_or(placed);
            let new = New::Conflicting(why.reason());
            let refusal = self.put_event(event, &key, at, new, now).await?;
            let known = match refusal {
                None | Some(Refusal::Own) => false,
                Some(Refusal::Known(_)) => true,
                // Another content whose hash begins with the same digits.
                Some(Refusal::OtherBody) => continue,
            };
            if let (Some(_), BodyLocation::Bucket(first)) = (&own, &placed.at) {
                self.drop_object(first).await;
            }
            return Ok((key, known));
        }
        anyhow::bail!("{} conflicts with its own hash", event.key)
    }

    /// Lets an event that was kept apart be worked on, once, as of its time of receipt. Whoever
    /// calls this rings; if nobody does, the sweep will.
    pub async fn release(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Decided> {
        self.decide(Decision::Release, key, by, now).await
    }

    /// Makes a dead letter of an event that was kept apart. It stays whole, as dead letters do.
    pub async fn discard(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Decided> {
        self.decide(Decision::Discard, key, by, now).await
    }

    async fn decide(
        &self,
        decision: Decision,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Decided> {
        let pk = key.pk();
        let mut ours: Option<Moment> = None;
        // A few times, for a row that moves on while we look at it.
        for _ in 0..4 {
            let Some(item) = self.get(&pk, "M").await? else {
                return Ok(Decided::Missing);
            };
            let row = Row::read(&item)?;
            // Our own write, applied before its answer was lost.
            if let Some(ours) = &ours
                && row.history.contains(ours)
            {
                return Ok(Decided::Made(Box::new(row)));
            }
            if row.state != State::Quarantined {
                return Ok(Decided::NotQuarantined(row.state));
            }
            anyhow::ensure!(
                row.schema <= NEWEST_SCHEMA,
                "a newer version wrote the row of {key}; decide with that version"
            );
            let [why_apart, this] = moments(decision, &row, by, now);
            let change = match decision {
                Decision::Release => {
                    if self.body(&row, &item).await?.is_err() {
                        return Ok(Decided::MissingBody);
                    }
                    transition::conflict::release(&row, [&why_apart, &this], now)
                }
                Decision::Discard => transition::conflict::discard(&row, [&why_apart, &this], now),
            };
            if let Write::Applied(item) = self.change(&pk, change).await? {
                let row = Row::read(&item.unwrap_or_default())?;
                // It may have waited for as long as bodies are kept.
                self.hold_if_old(&row, now).await;
                return Ok(Decided::Made(Box::new(row)));
            }
            ours = Some(this);
        }
        anyhow::bail!("the row of {key} changes faster than it can be decided over; try again")
    }
}

/// Why it was kept apart, which the row says no longer, and the decision.
fn moments(decision: Decision, row: &Row, by: By<'_>, now: UnixMillis) -> [Moment; 2] {
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let moment = |at, what: &str, owner: &str, note: &str| Moment {
        at,
        what: what.to_owned(),
        attempt: 0,
        lease_until: None,
        // As it is read back: an owner is not the last part of an entry.
        owner: short(owner).replace('|', "/"),
        note: short(note),
    };
    let what = match decision {
        Decision::Release => "released",
        Decision::Discard => transition::DISCARDED,
    };
    let reason = row.reason.as_deref().unwrap_or_default();
    [
        moment(row.received_at, "kept_apart", "", reason),
        moment(now, what, by.who, by.why),
    ]
}
