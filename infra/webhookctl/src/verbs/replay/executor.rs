//! Applies a plan: first a few events as a canary, then the others at a limited rate, with a
//! checkpoint after each batch.
//!
//! The process can stop at any call. One transaction replays an event and marks it as applied, so
//! the next run recognises events that were already replayed. The checkpoint only saves reads: the
//! next run starts after it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use shared::base::clock::UnixMillis;
use shared::base::timing::BACKLOG_BATCH;
use shared::inbox::ledger::{Again, Ledger, PlanEvent, PlanLease, PlanOutcome, Replayed};
use shared::inbox::queue::{Queue, QueueName, WorkMessage};
use shared::sources::Config;
use tokio::time::Instant;

use super::outcome::{Became, Failure, count, failures, look};
use super::progress::Watch;

use crate::interrupt::Interrupt;

/// The duration of the lease on a plan without a renewal.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The interval at which the lease is renewed while no checkpoint is written.
const RENEW: Duration = Duration::from_secs(10);

/// The interval at which outcomes are read.
const LOOK: Duration = Duration::from_millis(500);

/// The number of events that are replayed concurrently.
const AT_ONCE: usize = 8;

/// The maximum number of outcomes in one read. A limit is needed so that reads do not delay the
/// queueing of events.
const MOST_LOOKED_AT: usize = 256;

/// The minimum number of known outcomes before the failure rate can stop the plan.
const ENOUGH: usize = 10;

/// How fast a plan is applied, and when it stops.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The number of events per second.
    pub(super) rate: u32,
    pub(super) canary: usize,
    /// The percentage of failures above which the plan stops.
    pub(super) stop_at: u32,
    pub(super) wait: bool,
    /// How long to wait for outcomes.
    pub(super) timeout: Duration,
}

/// The reason why a run of the plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Each event has its outcome, or the run does not wait for outcomes.
    Finished,
    /// Too many of the events with a known outcome failed again.
    Failed {
        failed: usize,
        of: usize,
    },
    Interrupted,
    TimedOut,
    /// Another process has the lease, or the plan was cancelled.
    Lost,
}

pub(super) struct Engine<'e> {
    pub(super) ledger: &'e Ledger,
    pub(super) queue: &'e Queue,
    pub(super) config: &'e Config,
    pub(super) lease: PlanLease,
    pub(super) events: Vec<PlanEvent>,
    pub(super) pace: Pace,
    pub(super) interrupt: Interrupt,
    pub(super) watch: Watch,
    /// The outcome of each event.
    pub(super) became: Vec<Became>,
    /// The number of events that were handled.
    pub(super) next: usize,
    /// The position from which this run started.
    begun: usize,
    /// The events that an earlier run of the plan has replayed.
    applied: BTreeSet<String>,
    renewed: Instant,
    looked: Instant,
    /// The positions of the canary events, while the canary runs.
    trying: Option<Range<usize>>,
    /// The position from which the next read of outcomes starts.
    look_from: usize,
    /// The number of messages that could not be sent. The sweep will send them.
    pub(super) unrung: usize,
}

impl<'e> Engine<'e> {
    pub(super) async fn new(
        (ledger, queue, config): (&'e Ledger, &'e Queue, &'e Config),
        lease: PlanLease,
        events: Vec<PlanEvent>,
        pace: Pace,
        interrupt: Interrupt,
        watch: Watch,
    ) -> anyhow::Result<Self> {
        let next = lease.plan.next.min(events.len());
        let planned = ledger.plans().planned(&lease.plan.id).await?;
        let applied = planned.iter().filter(|event| event.applied_at.is_some());
        let applied: BTreeSet<String> = applied.map(|event| event.key.pk()).collect();
        let before = |(place, event): (usize, &PlanEvent)| {
            if place >= next {
                Became::NotYet
            } else if applied.contains(&event.key.pk()) {
                Became::Waiting
            } else {
                Became::Changed
            }
        };
        Ok(Self {
            became: events.iter().enumerate().map(before).collect(),
            ledger,
            queue,
            config,
            lease,
            events,
            pace,
            interrupt,
            watch,
            next,
            begun: next,
            applied,
            renewed: Instant::now(),
            looked: Instant::now(),
            trying: None,
            look_from: 0,
            unrung: 0,
        })
    }

    /// Applies the plan from its checkpoint until it ends.
    pub(super) async fn run(&mut self) -> anyhow::Result<Stop> {
        self.watch.begin(self.events.len());
        if let Some(stop) = self.canary().await? {
            return Ok(stop);
        }
        while self.next < self.events.len() {
            let (size, began) = (self.batch_size(), Instant::now());
            if let Some(stop) = self.batch(size).await? {
                return Ok(stop);
            }
            if let Some(stop) = self.too_many(ENOUGH) {
                return Ok(stop);
            }
            let due =
                began + Duration::from_secs(1) * u32::try_from(size).unwrap_or(1) / self.pace.rate;
            while self.next < self.events.len() {
                if self.looked.elapsed() >= LOOK {
                    self.look().await?;
                }
                if self.interrupt.is_set() {
                    return Ok(Stop::Interrupted);
                }
                if Instant::now() >= due {
                    break;
                }
                self.interrupt.sleep(LOOK.min(due - Instant::now())).await;
            }
        }
        if !self.pace.wait {
            return Ok(Stop::Finished);
        }
        // A worker or an approval can take hours, and the run has nothing to do with them.
        let stop = self.outcomes(0, &[Became::Waiting]).await?;
        Ok(stop.unwrap_or(Stop::Finished))
    }

    pub(super) fn outcome(&self) -> PlanOutcome {
        count(self.became.iter())
    }

    pub(super) fn failures(&self) -> Vec<Failure> {
        failures(self.became.iter())
    }

    /// Replays the canary events. The other events follow only when all canary events are done.
    async fn canary(&mut self) -> anyhow::Result<Option<Stop>> {
        let (from, tried) = (self.next, self.pace.canary);
        if tried == 0 || self.events.len() - from <= tried {
            return Ok(None);
        }
        let began = Instant::now();
        self.trying = Some(from..from + tried);
        self.show();
        while self.next < from + tried {
            let size = self.batch_size().min(from + tried - self.next);
            if let Some(stop) = self.batch(size).await? {
                return Ok(Some(stop));
            }
        }
        // What a worker says about the canary events decides whether the others follow.
        let both = [Became::Waiting, Became::Parked];
        let stop = self.outcomes(from, &both).await?;
        self.trying = None;
        let tried = self.became.get(from..self.next).unwrap_or_default();
        let outcome = count(tried.iter());
        self.lease.run.canary = Some((tried.len(), outcome.done));
        self.watch.canary(tried, began.elapsed());
        Ok(stop.or_else(|| self.too_many(1)))
    }

    /// Replays the next events and writes a checkpoint.
    async fn batch(&mut self, size: usize) -> anyhow::Result<Option<Stop>> {
        let (from, to) = (self.next, self.events.len().min(self.next + size));
        let events = self.events.get(from..to).unwrap_or_default();
        let now = UnixMillis::now();
        let again = events.iter().zip(from..);
        let again: Vec<_> = again
            .map(|(event, place)| self.again(event, place, now))
            .collect();
        let became: Vec<(Became, bool)> =
            stream::iter(again).buffered(AT_ONCE).try_collect().await?;
        for (place, (became, rung)) in became.into_iter().enumerate() {
            self.unrung += usize::from(!rung);
            if let Some(slot) = self.became.get_mut(from + place) {
                *slot = became;
            }
        }
        self.next = to;
        self.show();
        self.renew().await
    }

    /// Replays one event. The second value is true if its work message was sent. The first events
    /// of a plan go to the work queue and not to the backlog queue, because the operator waits for
    /// their outcome.
    async fn again(
        &self,
        event: &PlanEvent,
        place: usize,
        now: UnixMillis,
    ) -> anyhow::Result<(Became, bool)> {
        let late = event.until.is_some_and(|until| now >= until);
        if late && !self.applied.contains(&event.key.pk()) {
            return Ok((Became::Changed, true));
        }
        let again = Again {
            plan: &self.lease.plan.id,
            seen: event.epoch,
            new_effects: self.lease.plan.facts.new_effects,
        };
        match self.ledger.plans().replay(&event.key, &again, now).await? {
            // An earlier run may have stopped before it sent the message. So the message is sent in
            // both cases.
            Replayed::Again | Replayed::Before => {
                let bell = WorkMessage {
                    key: event.key.clone(),
                    run: event.run + 1,
                };
                let lane = if (place as u64) < BACKLOG_BATCH {
                    QueueName::Main
                } else {
                    QueueName::of(event.received_at, now)
                };
                let rung = self.queue.send_to(lane, &bell, Duration::ZERO).await;
                Ok((Became::Waiting, rung.is_ok()))
            }
            Replayed::Moved | Replayed::Gone => Ok((Became::Changed, true)),
        }
    }

    /// Waits until no queued event after the position `from` is in one of these states.
    async fn outcomes(&mut self, from: usize, open: &[Became]) -> anyhow::Result<Option<Stop>> {
        let until = Instant::now() + self.pace.timeout;
        loop {
            self.look().await?;
            let queued = self.became.get(from..self.next).unwrap_or_default();
            if !queued.iter().any(|became| open.contains(became)) {
                return Ok(None);
            }
            if self.interrupt.is_set() {
                return Ok(Some(Stop::Interrupted));
            }
            if Instant::now() >= until {
                return Ok(Some(Stop::TimedOut));
            }
            if self.renewed.elapsed() >= RENEW
                && let Some(stop) = self.renew().await?
            {
                return Ok(Some(stop));
            }
            self.interrupt.sleep(LOOK).await;
        }
    }

    /// Reads the outcomes of those events that are not known to be finished.
    async fn look(&mut self) -> anyhow::Result<()> {
        let waiting = |(place, became): (usize, &Became)| {
            matches!(became, Became::Waiting | Became::Parked).then_some(place)
        };
        let mut places: Vec<usize> = self.became.iter().enumerate().filter_map(waiting).collect();
        let begin = places.partition_point(|place| *place < self.look_from);
        places.rotate_left(begin);
        places.truncate(MOST_LOOKED_AT);
        self.look_from = places.last().map_or(0, |last| last + 1);
        let events = places.iter().filter_map(|place| self.events.get(*place));
        let seen = look(self.ledger, self.config, events).await?;
        for (place, became) in places.into_iter().zip(seen) {
            if let Some(slot) = self.became.get_mut(place) {
                *slot = became;
            }
        }
        self.looked = Instant::now();
        self.show();
        Ok(())
    }

    fn show(&mut self) {
        let outcome = self.outcome();
        self.watch.show(self.next, &outcome);
        if let Some(trying) = self.trying.clone() {
            let tried = self.became.get(trying).unwrap_or_default();
            self.watch.trying(tried);
        }
    }

    async fn renew(&mut self) -> anyhow::Result<Option<Stop>> {
        let until = UnixMillis::now() + LEASE;
        let held = self
            .ledger
            .plans()
            .checkpoint_plan(&self.lease, self.next, until);
        let held = held.await?;
        self.renewed = Instant::now();
        Ok((!held).then_some(Stop::Lost))
    }

    /// Returns a stop if the failure rate among the known outcomes of this run exceeds the limit.
    fn too_many(&self, enough: usize) -> Option<Stop> {
        let of_this_run = self.became.get(self.begun..self.next).unwrap_or_default();
        let PlanOutcome { done, failed, .. } = count(of_this_run.iter());
        let of = done + failed;
        // If all events are queued, a stop would have no effect.
        let left = self.next < self.events.len();
        (left && of >= enough && failed * 100 > of * self.pace.stop_at as usize)
            .then_some(Stop::Failed { failed, of })
    }

    /// Returns the number of events for half a second. With small batches, a low rate stays even.
    fn batch_size(&self) -> usize {
        (self.pace.rate as usize / 2).clamp(1, 25)
    }
}
