//! Events that are kept apart: another body under a known id, or a known body under another id.
//!
//! Nobody works on them until a human decides. Which it was, who decided and why stand in the
//! history of the row from then on.

use super::{By, Ledger, Moment, NEWEST_SCHEMA, Row, State, Write, transition};
use crate::clock::Millis;
use crate::event::EventKey;
use crate::queue::Doorbell;

/// What became of a decision.
#[derive(Clone, Debug)]
pub enum Decided {
    /// It holds.
    Made(Box<Row>),
    /// It is not kept apart (any more), and nothing was changed.
    NotApart(State),
    /// What it carried was erased, is past its keeping, or is damaged: there is nothing to work on.
    NoBody,
    Missing,
}

impl Decided {
    /// To be rung when it was released.
    pub fn doorbell(&self) -> Option<Doorbell> {
        match self {
            Self::Made(row) if row.state == State::Received => Some(Doorbell {
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
    /// Lets an event that was kept apart be worked on, once, as of its time of receipt. Whoever
    /// calls this rings; if nobody does, the sweep will.
    pub async fn release(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: Millis,
    ) -> anyhow::Result<Decided> {
        self.decide(Decision::Release, key, by, now).await
    }

    /// Makes a dead letter of an event that was kept apart. It stays whole, as dead letters do.
    pub async fn discard(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: Millis,
    ) -> anyhow::Result<Decided> {
        self.decide(Decision::Discard, key, by, now).await
    }

    async fn decide(
        &self,
        decision: Decision,
        key: &EventKey,
        by: By<'_>,
        now: Millis,
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
                return Ok(Decided::NotApart(row.state));
            }
            anyhow::ensure!(
                row.schema <= NEWEST_SCHEMA,
                "a newer version wrote the row of {key}; decide with that version"
            );
            let [why_apart, this] = moments(decision, &row, by, now);
            let change = match decision {
                Decision::Release => {
                    if self.body(&row, &item).await?.is_err() {
                        return Ok(Decided::NoBody);
                    }
                    transition::apart::release(&row, [&why_apart, &this], now)
                }
                Decision::Discard => transition::apart::discard(&row, [&why_apart, &this], now),
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
fn moments(decision: Decision, row: &Row, by: By<'_>, now: Millis) -> [Moment; 2] {
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
