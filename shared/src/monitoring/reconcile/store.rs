//! Stores reconciliation reports, and the lease of a comparison.

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition::{self, Fence};
use crate::inbox::ledger::{Item, Ledger, Write, item};
use crate::monitoring::reconcile::{Repair, Report};

/// How long a report is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The report version that this code writes.
const VERSION: u32 = 1;

/// The lease of a comparison, which is the right to run it.
#[derive(Debug)]
pub struct ReconcileLease {
    source: String,
    name: String,
    owner: String,
    epoch: u64,
}

/// The stored results of checks at the provider: endpoint status and reconciliation reports.
#[derive(Clone, Copy, Debug)]
pub struct ProviderReports<'l>(&'l Ledger);

impl Ledger {
    /// Returns the stored results of checks at the provider.
    pub fn provider_reports(&self) -> ProviderReports<'_> {
        ProviderReports(self)
    }
}

impl Deref for ProviderReports<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl ProviderReports<'_> {
    /// Takes the lease of a comparison. Returns `None` if another run has the lease.
    pub async fn reconcile_lease(
        self,
        source: &str,
        name: &str,
        owner: &str,
        now: UnixMillis,
        lease: Duration,
    ) -> anyhow::Result<Option<ReconcileLease>> {
        let change = transition::reconcile::lease(owner, now, now + lease);
        let item = match self.change_item(&pk(source), &turn(name), change).await? {
            Write::Applied(Some(item)) => item,
            // This is our own lease. The response to its write was lost.
            Write::Refused(Some(item)) if item::text(&item, "own") == Some(owner) => item,
            Write::Applied(None) | Write::Refused(_) => return Ok(None),
        };
        Ok(Some(ReconcileLease {
            source: source.to_owned(),
            name: name.to_owned(),
            owner: owner.to_owned(),
            epoch: item::number(&item, "epoch")
                .context("the lease of a reconciliation has no epoch")?,
        }))
    }

    /// Releases the lease.
    pub async fn reconcile_release(self, lease: ReconcileLease) -> anyhow::Result<()> {
        let fence = Fence {
            epoch: lease.epoch,
            owner: &lease.owner,
        };
        let change = transition::reconcile::release(fence);
        self.change_item(&pk(&lease.source), &turn(&lease.name), change)
            .await?;
        Ok(())
    }

    /// Stores a report for 30 days.
    pub async fn keep_report(self, report: &Report) -> anyhow::Result<()> {
        let document =
            serde_json::to_string(report).context("serialize a reconciliation report")?;
        let item = Item::from([
            ("pk".to_owned(), item::s(pk(&report.source))),
            ("sk".to_owned(), item::s(place(report))),
            ("sv".to_owned(), item::n(VERSION)),
            ("doc".to_owned(), item::s(document)),
            ("ttl".to_owned(), item::n((report.started + KEPT).secs())),
        ]);
        self.put("store a reconciliation report", item, None)
            .await?;
        Ok(())
    }

    /// Returns at most `limit` reports of a comparison, newest first.
    pub async fn reports(
        self,
        source: &str,
        name: &str,
        limit: i32,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<Report>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :of)")
            .expression_attribute_values(":pk", item::s(pk(source)))
            .expression_attribute_values(":of", item::s(format!("RECON#{name}#")))
            .scan_index_forward(false)
            .consistent_read(true)
            .limit(limit)
            .send()
            .await
            .context("read the reconciliation reports of a source")?;
        let items = answer.items().iter();
        // DynamoDB deletes expired items with a delay.
        let kept =
            items.filter(|item| item::number(item, "ttl").is_none_or(|at: i64| at > now.secs()));
        kept.map(read).collect()
    }

    /// Stores the repair of a report. Returns `false` if the report no longer exists.
    pub async fn note_repair(self, report: &Report, repair: &Repair) -> anyhow::Result<bool> {
        let text = serde_json::to_string(repair)
            .context("serialize the repair of a reconciliation report")?;
        let change = transition::reconcile::repair(&text);
        let written = self
            .change_item(&pk(&report.source), &place(report), change)
            .await?;
        Ok(matches!(written, Write::Applied(_)))
    }
}

fn read(item: &Item) -> anyhow::Result<Report> {
    let version: u32 =
        item::number(item, "sv").context("a stored reconciliation report has no version")?;
    anyhow::ensure!(
        version == VERSION,
        "unsupported version {version} of a reconciliation report (expected {VERSION}); use the release that wrote the report"
    );
    let document = item::text(item, "doc").context("a stored reconciliation report is empty")?;
    let mut report: Report =
        serde_json::from_str(document).context("a stored reconciliation report is invalid")?;
    if let Some(repair) = item::text(item, "repair") {
        report.repair = Some(
            serde_json::from_str(repair)
                .context("the repair in a stored reconciliation report is invalid")?,
        );
    }
    Ok(report)
}

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}

fn turn(name: &str) -> String {
    format!("TURN#{name}")
}

fn place(report: &Report) -> String {
    format!("RECON#{}#{:013}", report.name, report.started.0)
}
