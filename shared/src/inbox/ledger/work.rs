//! How workers outside of Lambda find the events of a queue, claim them and end their work.
//!
//! The processor parks an event with a matching action of kind `pull` after its other actions are
//! done. A worker then holds the event under the same lease as the processor: a fencing token, an
//! owner and an end. Every decision is a condition on the row, because an index entry can be late.

use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::claim::{self, Refusal};
use super::pages::key_of;
use super::transition::work::{self as change, pull_partition_of};
use super::{
    Cost, EffectRow, EffectState, Item, Lease, Ledger, NEWEST_SCHEMA, Next, PARKED_SCHEMA, Page,
    Row, State, Write, item, transition,
};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// The number of sources that are read at the same time.
const AT_ONCE: usize = 16;

/// The number of index entries in one read, and of events whose bodies one run holds.
const PAGE: i32 = 500;
const MOST_HELD: i32 = 10_000;

/// How long an event waits for a worker before the sweep holds its body.
const LONG_WAIT: Duration = Duration::from_secs(3_600);

/// A time after every time of the index.
const FAR: UnixMillis = UnixMillis(i64::MAX);

/// The result of a worker's claim.
#[derive(Debug)]
pub enum WorkClaim {
    Leased(Box<Lease>),
    /// Another worker holds the event, its next attempt is not due, or it waits for an approval.
    Busy,
    /// The event is not in a queue. For example, it was replayed and its other actions run.
    NotInQueue,
    /// No attempts are left. The event is now a dead letter.
    Exhausted,
    /// The event is done, a dead letter or quarantined.
    Settled(State),
    /// The event does not exist, or no longer exists.
    Missing,
    /// A newer release wrote the row, with this version.
    TooNew(u32),
}

/// The lease of a worker, as the row has it now.
#[derive(Debug)]
pub enum WorkLease {
    /// The worker holds the event. The lease can have expired, if no other worker took the event.
    Held(Box<Lease>),
    /// This lease ended with the last entry of the row's history. So a repeated request gets the
    /// answer of the first one.
    Ended(Box<Row>),
    /// The lease ended in another way, for example because another worker took over the event.
    Lost,
}

/// The result of recording the intent of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intended {
    Recorded,
    /// The effect is done already.
    Done(EffectRow),
    LeaseLost,
}

impl Row {
    /// Returns whether the event is in a queue of workers, waiting or held by a worker.
    pub fn is_pulled(&self) -> bool {
        self.pull.is_some() && self.is_open()
    }

    /// Returns whether the event waits for a worker outside of Lambda, and not for an approval.
    pub fn waits_for_worker(&self) -> bool {
        self.is_pulled() && self.state != State::Processing && !self.is_held()
    }

    /// Returns whether only a newer release can process the row.
    pub fn is_too_new(&self) -> bool {
        let waits = self.pull.is_some() || self.hold.is_some();
        let known = self.is_trial() || (self.schema == PARKED_SCHEMA && waits);
        self.schema > NEWEST_SCHEMA && !known
    }
}

impl Ledger {
    /// Returns up to `limit` events of a source that a worker can take at `now`, longest available
    /// first. The read is eventually consistent, and one request.
    pub async fn work_available(
        &self,
        source: &str,
        now: UnixMillis,
        limit: i32,
    ) -> anyhow::Result<Vec<EventKey>> {
        let span = (UnixMillis(0), now);
        let page = self.pulled_page(source, span, Some(limit), None).await?;
        Ok(page.found.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the next events of a source that wait for a worker or that a worker holds, with the
    /// times from which a worker can take them. Both times of `span` are inclusive.
    pub async fn pulled_page(
        &self,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        limit: Option<i32>,
        start: Option<Next>,
    ) -> anyhow::Result<Page<(EventKey, UnixMillis)>> {
        let query = self.table.query().index_name("work");
        let query = query
            .key_condition_expression("gpk = :part AND gsk BETWEEN :from AND :to")
            .projection_expression("pk, gsk")
            .expression_attribute_values(":part", item::s(pull_partition_of(source)))
            .expression_attribute_values(":from", item::ms(from))
            .expression_attribute_values(":to", item::ms(to))
            .set_limit(limit);
        let page = self.page(query, start).await;
        let page = page.context("list the events that wait for a worker")?;
        Ok(page.read(|keys| Some((key_of(keys)?, item::time(keys, "gsk")?))))
    }

    /// Returns the events of these sources that wait for a worker or that a worker holds, at most
    /// `limit` of each source. Also returns whether there are more. Leaves out events that were
    /// received before `since`, but may return some of them.
    pub async fn pulled(
        &self,
        sources: &[&str],
        since: UnixMillis,
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool, Cost)> {
        let pages = sources
            .iter()
            .map(|source| self.pulled_page(source, (since, FAR), Some(limit), None));
        let mut pages = stream::iter(pages).buffer_unordered(AT_ONCE);
        let (mut keys, mut more, mut spent) = (Vec::new(), false, Cost::default());
        while let Some(page) = pages.try_next().await? {
            spent += page.cost;
            more |= page.next.is_some();
            keys.extend(page.found.into_iter().map(|(key, _)| key));
        }
        Ok((keys, more, spent))
    }

    /// Keeps the bodies of events that have been available to workers for an hour from expiring.
    /// Reads the events that have waited longest, up to a limit, and returns their number.
    pub async fn hold_pulled(&self, source: &str, now: UnixMillis) -> anyhow::Result<u64> {
        let (mut seen, mut start) = (0, None);
        for _ in 0..MOST_HELD / PAGE {
            let span = (UnixMillis(0), now - LONG_WAIT);
            let page = self.pulled_page(source, span, Some(PAGE), start).await?;
            let keys: Vec<_> = page.found.into_iter().map(|(key, _)| key).collect();
            let (items, _) = self.state_rows(&keys, None).await?;
            // An unreadable row must not keep the bodies of the others from being held.
            let rows = items.iter().filter_map(|item| Row::read(item).ok());
            let rows: Vec<Row> = rows.collect();
            let holds = rows.iter().map(|row| self.hold_if_old(row, now));
            let holds = stream::iter(holds).buffer_unordered(AT_ONCE);
            holds.for_each(|()| async {}).await;
            seen += rows.len() as u64;
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        Ok(seen)
    }

    /// Claims an event of a source whose queue is `queue` until `until`. `worker` is the first part of the owner's name,
    /// which this method makes unique. `attempts` is the maximum number of attempts in one run. Of
    /// several concurrent workers, at most one gets the lease.
    pub async fn claim_work(
        &self,
        key: &EventKey,
        queue: &str,
        worker: &str,
        now: UnixMillis,
        until: UnixMillis,
        attempts: u32,
    ) -> anyhow::Result<WorkClaim> {
        let pk = key.pk();
        let owner = claim::owner(worker)?;
        let claim = change::claim(queue, &owner, now, until, attempts);
        let old = match self.change(&pk, claim).await? {
            Write::Applied(item) => {
                let claim = leased(item, owner, until)?;
                if let WorkClaim::Leased(lease) = &claim {
                    // The sweep looks only at events that no worker takes.
                    self.hold_if_old(&lease.row, now).await;
                }
                return Ok(claim);
            }
            Write::Refused(None) => return Ok(WorkClaim::Missing),
            Write::Refused(Some(old)) => old,
        };
        let row = Row::read(&old);
        if let Some(version) = claim::too_new(&old, &row) {
            return Ok(WorkClaim::TooNew(version));
        }
        let row = match row {
            Ok(row) => row,
            Err(bad) => {
                // The other events of the queue must stay available.
                tracing::error!(event.key = %key, error = %bad, "a worker cannot take event {key}: {bad}");
                return Ok(WorkClaim::Busy);
            }
        };
        if row.pull.is_none() {
            return Ok(if row.is_open() {
                WorkClaim::NotInQueue
            } else {
                WorkClaim::Settled(row.state)
            });
        }
        match claim::refusal(&row, &owner, now, attempts) {
            Refusal::Own => leased(Some(old), owner, until),
            Refusal::Settled(state) => Ok(WorkClaim::Settled(state)),
            Refusal::Held | Refusal::NotDue(_) => Ok(WorkClaim::Busy),
            Refusal::TakeOver { seen } => {
                let take_over = change::take_over(seen, &owner, now, until, attempts);
                match self.change(&pk, take_over).await? {
                    Write::Applied(item) => {
                        tracing::warn!(event.key = %key, takeover = 1, "a worker took over event {key}: the lease of its last worker expired");
                        leased(item, owner, until)
                    }
                    Write::Refused(Some(old)) if claim::is_mine(&old, &owner) => {
                        leased(Some(old), owner, until)
                    }
                    Write::Refused(_) => Ok(WorkClaim::Busy),
                }
            }
            Refusal::Exhaust { seen, reason } => {
                let exhaust = transition::exhaust(seen, &row, attempts, reason, now);
                Ok(match self.change(&pk, exhaust).await? {
                    Write::Applied(_) => WorkClaim::Exhausted,
                    Write::Refused(_) => WorkClaim::Busy,
                })
            }
        }
    }

    /// Returns the lease with this fencing token and owner, for a request that names it. The read is
    /// strongly consistent.
    pub async fn work_lease(
        &self,
        key: &EventKey,
        epoch: u64,
        owner: &str,
    ) -> anyhow::Result<WorkLease> {
        let Some(item) = self.get(&key.pk(), "M").await? else {
            return Ok(WorkLease::Lost);
        };
        let row = Row::read(&item)?;
        if row.epoch != epoch {
            return Ok(WorkLease::Lost);
        }
        if row.state == State::Processing && row.owner.as_deref() == Some(owner) {
            let until = row.lease_until.unwrap_or_default();
            let lease = claim::lease_of(row, item, owner.to_owned(), until);
            return Ok(WorkLease::Held(Box::new(lease)));
        }
        let last = row.history.last();
        Ok(match last.filter(|moment| moment.owner == owner) {
            Some(_) => WorkLease::Ended(Box::new(row)),
            None => WorkLease::Lost,
        })
    }

    /// Extends the lease of a worker until `until`. Returns `false` if the lease has expired or if
    /// another worker has taken over the event.
    pub async fn extend_work(
        &self,
        lease: &Lease,
        now: UnixMillis,
        until: UnixMillis,
    ) -> anyhow::Result<bool> {
        let extend = change::extend(lease.fence(), &lease.row, now, until);
        let extended = match self.change(&lease.row.key.pk(), extend).await? {
            Write::Applied(_) => true,
            // An earlier try of this write succeeded, but its response was lost.
            Write::Refused(old) => old.is_some_and(|old| {
                claim::is_mine(&old, &lease.owner) && item::time(&old, "lu") == Some(until)
            }),
        };
        if extended {
            lease.extended(until);
        }
        Ok(extended)
    }

    /// Records that a worker is about to try an effect.
    pub async fn begin_effect(
        &self,
        lease: &Lease,
        name: &str,
        effect: &EffectRow,
    ) -> anyhow::Result<Intended> {
        let intent = transition::intent(lease.fence(), name, effect);
        let old = match self.change(&lease.row.key.pk(), intent).await? {
            Write::Applied(_) => return Ok(Intended::Recorded),
            Write::Refused(old) => old,
        };
        let row = old.map(|old| Row::read(&old)).transpose()?;
        let mut done = row.and_then(|mut row| row.effects.remove(name));
        let done = done.take_if(|before| before.state == EffectState::Done);
        Ok(done.map_or(Intended::LeaseLost, Intended::Done))
    }

    /// Records what became of an effect. Returns `false` if the lease ended before.
    pub async fn end_effect(
        &self,
        lease: &Lease,
        name: &str,
        effect: &EffectRow,
    ) -> anyhow::Result<bool> {
        let end = change::end_effect(lease.fence(), name, effect);
        let old = match self.change(&lease.row.key.pk(), end).await? {
            Write::Applied(_) => return Ok(true),
            Write::Refused(old) => old,
        };
        // An earlier try of this write succeeded, and the lease ended after it.
        let row = old.map(|old| Row::read(&old)).transpose()?;
        Ok(row.is_some_and(|row| {
            row.epoch == lease.row.epoch && row.effects.get(name) == Some(effect)
        }))
    }
}

fn leased(item: Option<Item>, owner: String, until: UnixMillis) -> anyhow::Result<WorkClaim> {
    let item = item.unwrap_or_default();
    let row = Row::read(&item)?;
    let lease = claim::lease_of(row, item, owner, until);
    Ok(WorkClaim::Leased(Box::new(lease)))
}
