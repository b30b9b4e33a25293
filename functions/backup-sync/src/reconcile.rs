//! The reconciliation compares the provider's objects with your own state, and reports the
//! differences. It changes no object. With `repair = "auto"`, the scheduled run also adds an event
//! for each difference to the inbox.
//!
//! The reconciliation reads objects that differ again at the end. Only a difference that stays the
//! same is drift, because the two sides are read at different times, and an event can be in
//! progress.

mod compare;
mod local;
mod provider;
mod repair;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::{ASKING, BACKUP_SYNC, GRACE};
use shared::monitoring::reconcile::Report;
use shared::sources::{Local, Reconcile, Source};
use tokio::time::Instant;

use crate::api::Api;
use crate::deadline::{cut, from_anywhere, on};
use crate::{BackupSync, RunTime};
use compare::{Run, tell};
use local::Ours;

/// The minimum remaining time for which a comparison starts. The same time is reserved for each
/// comparison that has not started yet.
const LAST_LOOK: Duration = Duration::from_secs(30);

/// The maximum number of objects of one side. More objects do not fit into the memory of the
/// function.
const MOST: usize = 100_000;

/// Returns an error if there are too many objects. A partial comparison would report unread objects
/// as drift, and both sides change before the next run, so a large comparison has to be split.
fn few_enough(count: usize, what: &str) -> anyhow::Result<()> {
    ensure!(
        count <= MOST,
        "reconcile.too_many: {what} has more than {MOST} objects; exclude some with `where`, select one partition of the table, or split the comparison into several [[source.reconcile]]"
    );
    Ok(())
}

/// Returns an error if no time is left for another page.
fn in_time(now: UnixMillis, ends: UnixMillis, what: &str) -> anyhow::Result<()> {
    ensure!(
        now < ends,
        "reconcile.too_slow: {what} cannot be read in one run, so nothing was compared; split the comparison into several [[source.reconcile]], or select one partition of the table"
    );
    Ok(())
}

/// The comparisons to run.
#[derive(Clone, Copy)]
pub(crate) struct Which<'a> {
    /// `None` means all sources.
    pub(crate) source: Option<&'a str>,
    /// `None` means all comparisons.
    pub(crate) name: Option<&'a str>,
    /// Whether a comparison with `repair = "auto"` may repair. Only a run of all comparisons, which
    /// the schedule requests, repairs.
    pub(crate) may_repair: bool,
}

impl Which<'_> {
    fn repairs(self, reconcile: &Reconcile) -> bool {
        let is_scheduled = self.may_repair && self.source.is_none() && self.name.is_none();
        is_scheduled && reconcile.auto_repair
    }
}

impl BackupSync {
    /// Runs all comparisons, those of one source, or one of them. If one fails, the others still
    /// run, and the error is returned at the end. The start is random, so that a lack of time does
    /// not always affect the same comparisons. A partial comparison has no use, so each comparison
    /// may use all the time that is not reserved for the others.
    pub(crate) async fn reconcile_all(
        &self,
        which: Which<'_>,
        time: RunTime,
    ) -> anyhow::Result<Vec<Report>> {
        let Which { source, name, .. } = which;
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        let fits = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
        let config = self.services.sources.config();
        let all = config.reconciles();
        let chosen: Vec<_> = all
            .filter(|(of, one)| fits(source, &of.name) && fits(name, &one.name))
            .collect();
        ensure!(
            !chosen.is_empty() || source.is_none() && name.is_none(),
            "source {:?} has no [[source.reconcile]] with the name {:?}",
            source.unwrap_or_default(),
            name.unwrap_or_default()
        );
        let (count, chosen) = (chosen.len(), from_anywhere(chosen)?);
        for (index, (of, reconcile)) in chosen.into_iter().enumerate() {
            let ends = share(time, count - index - 1);
            let one = self.reconcile((of, reconcile), which, ends, time);
            match cut(ends + time.scaled(GRACE), "the comparison", one).await {
                Ok(Some(report)) => {
                    tell(&report);
                    reports.push(report);
                }
                Ok(None) => tracing::info!(
                    source = of.name,
                    "another run is reconciling {}/{}",
                    of.name,
                    reconcile.name
                ),
                Err(error) => {
                    tracing::error!(
                        source = of.name,
                        name = reconcile.name,
                        error = format!("{error:#}"),
                        "could not reconcile {}/{}",
                        of.name,
                        reconcile.name
                    );
                    failed.push(format!("{}/{}: {error:#}", of.name, reconcile.name));
                }
            }
        }
        reports.sort_by(|one, other| (&one.source, &one.name).cmp(&(&other.source, &other.name)));
        if failed.is_empty() {
            Ok(reports)
        } else {
            bail!("could not reconcile {}", failed.join("; "))
        }
    }

    /// Runs one comparison. Returns `None` if another run holds its lease.
    async fn reconcile(
        &self,
        (source, reconcile): (&Source, &Reconcile),
        which: Which<'_>,
        ends: Instant,
        time: RunTime,
    ) -> anyhow::Result<Option<Report>> {
        let ledger = &self.services.inbox.ledger;
        let now = (self.clock)();
        let last_look = time.scaled(LAST_LOOK);
        ensure!(
            Instant::now() + last_look <= ends,
            "no time was left in this run for the comparison"
        );
        let owner = owner()?;
        // The lease is longer than the function timeout, so it cannot expire while its holder still
        // runs.
        let lease = BACKUP_SYNC + Duration::from_secs(60);
        let lease = ledger.provider_reports().reconcile_lease(
            &source.name,
            &reconcile.name,
            &owner,
            now,
            lease,
        );
        let Some(lease) = lease.await? else {
            return Ok(None);
        };
        let ends = on(self.clock, ends);
        let report = async {
            let report = self.run_reconcile(source, reconcile, ends, last_look);
            let report = report.await?;
            self.keep_and_repair(report, (source, reconcile), which.repairs(reconcile))
                .await
        };
        let report = Box::pin(report).await;
        if let Err(error) = ledger.provider_reports().reconcile_release(lease).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "could not release the lease of a comparison; the lease expires"
            );
        }
        report.map(Some)
    }

    async fn run_reconcile(
        &self,
        source: &Source,
        reconcile: &Reconcile,
        ends: UnixMillis,
        last_look: Duration,
    ) -> anyhow::Result<Report> {
        let started = (self.clock)();
        let what = format!("the list of {}", reconcile.objects.name);
        let dynamodb = self.services.aws.dynamodb();
        let headers = reconcile.objects.headers.iter();
        let run = Run {
            source,
            reconcile,
            provider: Api {
                outbound: &self.outbound,
                clock: self.clock,
                ends,
                what: &what,
                key: self.api_key(&reconcile.secret).await?,
                secret: &reconcile.secret,
                key_header: None,
                auth: reconcile.objects.auth.as_ref(),
                headers: headers.map(|(k, v)| (k.as_str(), v.as_str())).collect(),
            },
            ours: match &reconcile.local {
                Local::DynamoDb(at) => {
                    ensure!(
                        at.table != self.services.table,
                        "table {} is the inbox itself; name a table with your own state",
                        at.table
                    );
                    Ours::Table(local::Table {
                        dynamodb: &dynamodb,
                        clock: self.clock,
                        ends,
                    })
                }
                Local::Http(at) => Ours::Endpoint(Api {
                    outbound: &self.outbound,
                    clock: self.clock,
                    ends,
                    what: "your endpoint",
                    key: self.api_key(&at.secret).await?,
                    secret: &at.secret,
                    key_header: None,
                    auth: None,
                    headers: vec![("accept", "application/json")],
                }),
            },
            ends,
            last_look,
            started,
        };
        let mut report = run.compare(self.clock).await?;
        let took = (self.clock)().since(started).as_millis();
        report.took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        Ok(report.bounded())
    }

    /// Returns the newest live value of an API key.
    pub(crate) async fn api_key(&self, name: &str) -> anyhow::Result<Secret> {
        let live = self.services.secrets.live(name, (self.clock)()).await?;
        let first = live.first().cloned();
        first.with_context(|| format!("API key {name:?} not found"))
    }
}

/// Returns the end of the next comparison, if `waiting` others follow it.
fn share(time: RunTime, waiting: usize) -> Instant {
    let (now, ends) = (Instant::now(), time.until(ASKING));
    let left = ends.saturating_duration_since(now);
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX - 1);
    let least = time.scaled(LAST_LOOK);
    let kept = least.saturating_mul(waiting);
    let share = left.saturating_sub(kept).max(left / (waiting + 1));
    now + share.max(least).min(left)
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::base::random::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_comparison_leaves_the_others_their_time() {
        let time = RunTime::of(BACKUP_SYNC);
        let of = |waiting| (share(time, waiting) - Instant::now()).as_secs();
        assert_eq!([0, 1, 3, 7, 99].map(of), [240, 210, 150, 30, 30]);
        tokio::time::advance(Duration::from_secs(250)).await;
        assert_eq!([0, 3].map(of), [0, 0]);
    }

    #[test]
    fn what_is_too_much_for_one_run_is_named_with_what_to_do() {
        assert!(few_enough(MOST, "table users").is_ok());
        let error = few_enough(MOST + 1, "table users").unwrap_err().to_string();
        assert!(
            error.starts_with("reconcile.too_many: table users"),
            "{error}"
        );
        assert!(
            error.contains("split the comparison into several"),
            "{error}"
        );

        assert!(in_time(UnixMillis(1), UnixMillis(2), "table users").is_ok());
        let late = in_time(UnixMillis(2), UnixMillis(2), "table users");
        let error = late.unwrap_err().to_string();
        assert!(
            error.starts_with("reconcile.too_slow: table users"),
            "{error}"
        );
        assert!(error.contains("nothing was compared"), "{error}");
    }
}
