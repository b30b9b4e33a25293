//! What the demo shows beyond single webhooks: a gap that is reported, a drift that is repaired.

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

/// How long before now the demo says that the sync has run: what it finds of the time since then
/// is old enough to be counted as missed.
const SYNCED_AGO: Duration = Duration::from_secs(2 * 3600);

/// When what was missed happened.
pub(super) const MISSED_AGO: Duration = Duration::from_secs(3600);

impl Demo<'_> {
    /// Has the inbox stand as if a sync had run two hours ago; `false` when one has run in truth,
    /// as on a stack whose state was kept. What it has counted is not counted again.
    pub(super) async fn as_if_synced(&self) -> anyhow::Result<bool> {
        let ledger = &self.deployment.ledger;
        let then = UnixMillis::now() - SYNCED_AGO;
        let Some(lease) = ledger
            .sync_lease(SOURCE, "demo", then, Duration::from_secs(1))
            .await?
        else {
            return Ok(false);
        };
        let is_first = lease.cursor.at.is_none();
        if !ledger.sync_advance(lease, then, then).await? {
            ledger.sync_rewind(SOURCE, then, UnixMillis::now()).await?;
        }
        Ok(is_first)
    }

    /// The gap that `webhookctl sync gaps` shows: how late the event was found.
    pub(super) async fn gap(&self, id: &str) -> anyhow::Result<Option<Duration>> {
        let today = Day::of(UnixMillis::now());
        let ledger = &self.deployment.ledger;
        let days = ledger.day_counts(SOURCE, today.before(1), today).await?;
        let mut gaps = days.iter().flat_map(|day| &day.counts.gaps);
        let gap = gaps.find(|gap| gap.id == id);
        Ok(gap.map(|gap| gap.found.since(gap.happened)))
    }

    /// A subscription that was canceled at Stripe, of which we never heard: found by comparing,
    /// repaired by an event through the door, and gone when compared again.
    pub(super) async fn drift(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let (downstream, provider) = (&self.stand_ins.downstream, &self.stand_ins.provider);
        // Few enough of many: a repair asks for a second word when it is more than 5 percent.
        for number in 0..30 {
            let id = format!("sub_{number:02}");
            provider.subscribe(&id, "active");
            downstream.keep(&id, "active");
        }
        provider.subscribe("sub_07", "canceled");
        let report = self.compared().await?;
        let fault = report.drift.first().context("the drift is not reported")?;
        let now = UnixMillis::now();
        let source = self.config.source(SOURCE).context("it is configured")?;
        let event = report.event(fault, source, self.config.hash(), now);
        let door = Door {
            ledger: self.deployment.ledger.clone(),
            queue: self.deployment.queue.clone(),
        };
        door.accept(&event, now).await.context("put the repair")?;
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

    /// The report of a comparison that is made now.
    async fn compared(&self) -> anyhow::Result<Report> {
        let now = UnixMillis::now();
        let task = (self.deployment.task)("reconcile");
        task.await.context("run backup-sync")?;
        let ledger = &self.deployment.ledger;
        let reports = ledger.reports(SOURCE, "subscriptions", 1, now).await?;
        let made = reports.into_iter().find(|report| report.started >= now);
        made.context("the comparison left no report")
    }
}
