//! The cases of the demo that need more than one webhook: a gap that the sync reports, and a drift
//! that a repair corrects.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::Inbox as Door;
use shared::inbox::ledger::State;
use shared::monitoring::reconcile::{Drifted, Report};
use shared::webhook::event::Via;

use super::Fate;
use super::cases::{Demo, same};

const SOURCE: &str = "stripe-main";

/// The age of the simulated sync. If the next sync finds an event that happened after it, the event
/// is old enough to count as missed.
const SYNCED_AGO: Duration = Duration::from_secs(2 * 3600);

/// The age of the missed event.
pub(super) const MISSED_AGO: Duration = Duration::from_secs(3600);

impl Demo<'_> {
    /// Simulates a sync that ran two hours ago. Returns `false` if a sync has already run, for
    /// example on a stack that keeps its state. The next sync then does not count the same events
    /// again.
    pub(super) async fn as_if_synced(&self) -> anyhow::Result<bool> {
        let ledger = &self.deployment.ledger;
        let then = UnixMillis::now() - SYNCED_AGO;
        let Some(lease) = ledger
            .sync()
            .sync_lease(SOURCE, "demo", then, Duration::from_secs(1))
            .await?
        else {
            return Ok(false);
        };
        let is_first = lease.cursor.at.is_none();
        if !ledger.sync().sync_advance(lease, then, then).await? {
            ledger
                .provider_reports()
                .sync_rewind(SOURCE, then, UnixMillis::now())
                .await?;
        }
        Ok(is_first)
    }

    /// Returns the time until the sync found the event, as in `webhookctl sync gaps`.
    pub(super) async fn gap(&self, id: &str) -> anyhow::Result<Option<Duration>> {
        let today = Day::of(UnixMillis::now());
        let ledger = &self.deployment.ledger;
        let days = ledger
            .statistics()
            .day_counts(SOURCE, today.before(1), today)
            .await?;
        let mut gaps = days.iter().flat_map(|day| &day.counts.gaps);
        let gap = gaps.find(|gap| gap.id == id);
        Ok(gap.map(|gap| gap.found.since(gap.happened)))
    }

    /// Changes a subscription at Stripe to canceled, without an event. A reconciliation finds the
    /// drift, a repair event corrects it, and the next reconciliation finds no drift.
    pub(super) async fn drift(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let (downstream, provider) = (&self.stand_ins.downstream, &self.stand_ins.provider);
        // One drifted object of 30 is less than 5 percent. Above 5 percent, a repair needs another
        // confirmation.
        for number in 0..30 {
            let id = format!("sub_{number:02}");
            provider.subscribe(&id, "active");
            downstream.keep(&id, "active");
        }
        provider.subscribe("sub_07", "canceled");
        let report = self.compared().await?;
        let fault = report
            .drift
            .first()
            .context("the reconciliation reported no drift")?;
        let now = UnixMillis::now();
        let source = self
            .config
            .source(SOURCE)
            .context("the source is not configured")?;
        let event = report.event(fault, source, self.config.hash(), now);
        let door = Door {
            ledger: self.deployment.ledger.clone(),
            queue: self.deployment.queue.clone(),
        };
        door.accept(&event, now)
            .await
            .context("store the repair event")?;
        let row = self.settled(event.key()).await?;
        let again = self.compared().await?;
        let mut fate = Fate {
            at: UnixMillis::now(),
            case: "drift",
            preset: "stripe",
            kind: "mitt.reconcile.different",
            status: None,
            took: began.elapsed(),
            end: "done",
            detail: "1 of 30 objects, repaired".to_owned(),
            key: Some(event.key().clone()),
            wrong: Vec::new(),
        };
        same(&mut fate, "drifted", 1, report.counts.drifted());
        same(&mut fate, "drifted object", "sub_07", &fault.object);
        same(&mut fate, "kind of drift", Drifted::Different, fault.kind);
        same(&mut fate, "via", Via::Recon, row.via);
        self.expect(&mut fate, &row, State::Done, 1, 1);
        same(
            &mut fate,
            "drift after the repair",
            0,
            again.counts.drifted(),
        );
        self.tell(fate)
    }

    /// Runs a reconciliation and returns its report.
    async fn compared(&self) -> anyhow::Result<Report> {
        let now = UnixMillis::now();
        let task = (self.deployment.task)("reconcile");
        task.await.context("run backup-sync")?;
        let ledger = &self.deployment.ledger;
        let reports = ledger
            .provider_reports()
            .reports(SOURCE, "subscriptions", 1, now)
            .await?;
        let made = reports.into_iter().find(|report| report.started >= now);
        made.context("the reconciliation stored no report")
    }
}
