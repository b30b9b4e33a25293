//! Quarantined events. Mitt quarantines an event that has another body under a known id, a known
//! body under another id, or other bytes under a known signature.
//!
//! The processor does not work on a quarantined event until an operator decides. The history of the
//! row then records the kind of conflict, the operator and the reason.
//!
//! An attacker can send a captured request again any number of times, so the number of quarantined
//! events is limited. The second and every later copy of one conflict only increases a counter, and
//! adds no row and no body. The number of different contents in a day is limited for each id, body
//! or signature that they conflict with, and for each source. Mitt does not acknowledge an event
//! above a limit, as [`TooManyConflicts`] describes.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | copies of a quarantined event | `Q#{source}#A#{hash of the conflict}` | `C`: `ek` names the row, `n` counts later copies, `last` is the time of the newest copy |
//! | quarantined events of a day | `Q#{source}#{yyyymmdd}` | `A` |
//! | quarantined events of a day for one id, body or signature | same | `A#{32 hex digits}` |

use std::fmt;
use std::time::Duration;

use super::body::{BodyLocation, StoredBody};
use super::receive::{New, Refusal};
use super::{By, Ledger, Moment, NEWEST_SCHEMA, Received, Row, State, Write, item, transition};
use crate::base::clock::UnixMillis;
use crate::inbox::queue::WorkMessage;
use crate::webhook::event::{Event, EventKey, Sha, Via};

/// The maximum number of different contents that are quarantined in a day for one id, body or
/// signature. A provider reuses an id only a few times. An attacker can make as many variants of a
/// captured request as the signature scheme allows.
pub const MOST_OF_ONE: u32 = 16;

/// The maximum number of quarantined events of a source in a day.
pub const MOST_OF_DAY: u32 = 500;

/// How long the counters of a day are kept.
const KEEP_TALLY: Duration = Duration::from_secs(2 * 24 * 3600);

/// Why an event is quarantined.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// An earlier event has the same id and another content.
    OtherBody,
    /// The body with this hash was received before under another id: that of this event.
    KnownBody(Sha, Option<EventKey>),
    /// The signature with this hash was received before with other bytes: those of this event.
    KnownSignature(Sha, Option<EventKey>),
}

impl Why {
    fn reason(&self) -> &'static str {
        match self {
            Self::OtherBody => "another body under a known id",
            Self::KnownBody(..) => "a known body under another id",
            Self::KnownSignature(..) => "other bytes under a known signature",
        }
    }

    /// Returns the hash of the id, body or signature that the event conflicts with.
    fn of(&self, event: &Event) -> Sha {
        match self {
            Self::OtherBody => Sha::of(event.key.id().as_bytes()),
            Self::KnownBody(known, _) | Self::KnownSignature(known, _) => *known,
        }
    }

    /// Returns the event that was stored before.
    fn other<'e>(&'e self, event: &'e Event) -> Option<&'e EventKey> {
        match self {
            Self::OtherBody => Some(&event.key),
            Self::KnownBody(_, other) | Self::KnownSignature(_, other) => other.as_ref(),
        }
    }

    /// Returns the identity of the conflict. All copies of a conflict have the same identity, and
    /// two different conflicts have different identities. An unsigned id is not part of the
    /// identity. If the id is signed, the same content under two ids counts as two conflicts.
    fn conflict(&self, event: &Event) -> Sha {
        let of = self.of(event);
        Sha::of(&[of.0.as_slice(), &event.content.0].concat())
    }
}

/// Today's limit of quarantined events for this id, body, signature or source is reached. The event
/// is not stored, so the catcher must not acknowledge it. The response asks the provider to retry.
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
            "{key} conflicts with another event, and today's limit of {most} quarantined events is reached"
        )
    }
}

impl std::error::Error for TooManyConflicts {}

/// The result of a decision.
#[derive(Clone, Debug)]
pub enum Decided {
    /// The decision is stored.
    Made(Box<Row>),
    /// The event is not quarantined, or no longer quarantined. Nothing was changed.
    NotQuarantined(State),
    /// The body was erased, has expired or is damaged, so the event cannot be processed.
    MissingBody,
    Missing,
}

impl Decided {
    /// Returns the message to send to the work queue if the event was released.
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

/// The decision of an operator.
#[derive(Clone, Copy)]
enum Decision {
    Release,
    Discard,
}

impl Ledger {
    /// Quarantines an event. When this method returns, the event is durable in its own row. If the
    /// event is a copy, it is durable in the row of the first copy.
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
        // A spilled event was already acknowledged, so the provider cannot be asked to retry.
        if event.via == Via::Webhook && event.drained_at.is_none() {
            self.count_conflict(event, &why, now).await?;
        }
        let (key, known) = self.put_conflict(event, placed, &why, now).await?;
        let change = transition::conflict::expect_copies(&key.pk(), expires);
        if let Err(error) = self.change_item(&copies, "C", change).await {
            // Without the counter, the put of the next copy still finds the existing row.
            tracing::warn!(event.key = %key, error = format!("{error:#}"), "could not create the counter for copies of {key}");
        }
        Ok(if known {
            Received::Repeated(key)
        } else {
            Received::Conflict(key)
        })
    }

    /// Checks the limit of the conflicting id, body or signature first. So the variants of one
    /// captured request can use at most `MOST_OF_ONE` of the source's limit.
    async fn count_conflict(
        &self,
        event: &Event,
        why: &Why,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
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

    /// Stores a quarantined event. Returns the key of the row, and whether the row already existed.
    async fn put_conflict(
        &self,
        event: &Event,
        placed: &StoredBody,
        why: &Why,
        now: UnixMillis,
    ) -> anyhow::Result<(EventKey, bool)> {
        let keys = [
            event.key.conflicting(&event.content),
            event.key.conflicting_whole(&event.content),
        ];
        for key in keys {
            // The quarantined event gets its own object, so that an erasure of one event keeps the
            // body of the other.
            let own = if placed.is_in_bucket() && !event.body.is_empty() {
                Some(self.store_body(&event.under(key.clone())).await?)
            } else {
                None
            };
            let at = own.as_ref().unwrap_or(placed);
            let new = New::Conflicting {
                reason: why.reason(),
                other: why.other(event),
            };
            let refusal = self.put_event(event, &key, at, new, now).await?;
            let known = match refusal {
                None | Some(Refusal::Own) => false,
                Some(Refusal::Known(..) | Refusal::NotAccepted | Refusal::Newer(_)) => true,
                // The row belongs to a different content whose hash begins with the same digits.
                Some(Refusal::OtherBody) => continue,
            };
            if let (Some(_), BodyLocation::Bucket(first)) = (&own, &placed.at) {
                self.drop_object(first).await;
            }
            return Ok((key, known));
        }
        anyhow::bail!(
            "cannot quarantine event {}, because both of its quarantine keys belong to other events",
            event.key
        )
    }

    /// Releases a quarantined event for processing. An event can be released only once, and keeps
    /// its time of receipt. The caller sends the work message. If that message is lost, the sweep
    /// sends another one.
    pub async fn release(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Decided> {
        self.decide(Decision::Release, key, by, now).await
    }

    /// Turns a quarantined event into a dead letter. Its row and body are kept, as for all dead
    /// letters.
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
        // The loop repeats if the row changes between the read and the write.
        for _ in 0..4 {
            let Some(item) = self.get(&pk, "M").await? else {
                return Ok(Decided::Missing);
            };
            let row = Row::read(&item)?;
            // Our own write was applied, but its response was lost.
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
                "a newer version of Mitt wrote the row of {key}; use that version to release or discard the event"
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
                // The event may have waited so long that its body expires soon.
                self.hold_if_old(&row, now).await;
                return Ok(Decided::Made(Box::new(row)));
            }
            ours = Some(this);
        }
        anyhow::bail!("the row of {key} changed during each of 4 tries; run the command again")
    }
}

/// Returns a history entry for the reason of the quarantine, and one for the decision. The decision
/// removes or replaces the reason attribute of the row.
fn moments(decision: Decision, row: &Row, by: By<'_>, now: UnixMillis) -> [Moment; 2] {
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let moment = |at, what: &str, owner: &str, note: &str| Moment {
        at,
        what: what.to_owned(),
        attempt: 0,
        lease_until: None,
        // A stored entry separates its parts with `|`, so the owner must not contain this
        // character.
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
