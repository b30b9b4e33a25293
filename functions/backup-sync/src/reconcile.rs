//! The reconcile: reads the provider's objects and ours, and reports what differs.
//!
//! Nothing is changed here. What differs is read once more at the end, and only what stayed the
//! same in between is drift: the sides are read at different times, and an event may be under way.

mod local;
mod provider;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use shared::clock::Millis;
use shared::config::{Local, Reconcile, Source};
use shared::reconcile::{Counts, Drift, Drifted, Report, Sides, drift};
use shared::secrets::Secret;

use crate::BackupSync;
use crate::api::Api;
use local::{Listed, Ours};

/// How long a run may go on; the function is killed at 300 s.
const BUDGET: Duration = Duration::from_secs(240);

/// What is left for the second look of the budget, at least.
const LAST_LOOK: Duration = Duration::from_secs(30);

/// Objects of a side that fit into the memory of the function.
const MOST: usize = 100_000;

/// Objects that are read a second time.
const MOST_AGAIN: usize = 500;

/// Of them, how many at the same time.
const AT_ONCE: usize = 4;

/// One run over one comparison.
struct Run<'r> {
    source: &'r Source,
    reconcile: &'r Reconcile,
    provider: Api<'r>,
    ours: Ours<'r>,
    ends: Millis,
    started: Millis,
}

impl BackupSync {
    /// Every comparison, or those of one source, or one of them. One that fails does not keep the
    /// others from their turn; that one failed is said at the end.
    pub(crate) async fn reconcile_all(
        &self,
        source: Option<&str>,
        name: Option<&str>,
    ) -> anyhow::Result<Vec<Report>> {
        let (mut reports, mut failed, mut any) = (Vec::new(), Vec::new(), false);
        for (of, reconcile) in self.parts.config.reconciles() {
            if source.is_some_and(|source| source != of.name)
                || name.is_some_and(|name| name != reconcile.name)
            {
                continue;
            }
            any = true;
            match self.reconcile(of, reconcile).await {
                Ok(Some(report)) => {
                    tell(&report);
                    reports.push(report);
                }
                Ok(None) => tracing::info!(
                    source = of.name,
                    "another run reconciles {}/{}",
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
        ensure!(
            any || source.is_none() && name.is_none(),
            "source {:?} has no reconcile {:?}",
            source.unwrap_or_default(),
            name.unwrap_or_default()
        );
        if failed.is_empty() {
            Ok(reports)
        } else {
            bail!("could not reconcile {}", failed.join("; "))
        }
    }

    /// `None`: another run is at it.
    async fn reconcile(
        &self,
        source: &Source,
        reconcile: &Reconcile,
    ) -> anyhow::Result<Option<Report>> {
        let ledger = &self.parts.inbox.ledger;
        let now = (self.clock)();
        let owner = owner()?;
        // The lease outlasts the function: who holds it is alive or was killed.
        let lease = BUDGET + Duration::from_secs(60);
        let lease = ledger.reconcile_lease(&source.name, &reconcile.name, &owner, now, lease);
        let Some(lease) = lease.await? else {
            return Ok(None);
        };
        let report = self.run_reconcile(source, reconcile).await;
        if let Err(error) = ledger.reconcile_release(lease).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "the lease of a reconcile has to run out"
            );
        }
        report.map(Some)
    }

    async fn run_reconcile(
        &self,
        source: &Source,
        reconcile: &Reconcile,
    ) -> anyhow::Result<Report> {
        let started = (self.clock)();
        let ends = started + BUDGET;
        let what = format!("the list of {}", reconcile.objects.name);
        let dynamodb = self.parts.aws.dynamodb();
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
                headers: headers.map(|(k, v)| (k.as_str(), v.as_str())).collect(),
            },
            ours: match &reconcile.local {
                Local::DynamoDb(at) => {
                    ensure!(
                        at.table != self.parts.table,
                        "table {} is the inbox, not state of yours",
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
                    what: "our endpoint",
                    key: self.api_key(&at.secret).await?,
                    secret: &at.secret,
                    key_header: None,
                    headers: vec![("accept", "application/json")],
                }),
            },
            ends,
            started,
        };
        let mut report = run.compare(self.clock).await?;
        let took = (self.clock)().since(started).as_millis();
        report.took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        let report = report.bounded();
        self.parts.inbox.ledger.keep_report(&report).await?;
        Ok(report)
    }

    /// The newest live value of a key of a provider's API.
    pub(crate) async fn api_key(&self, name: &str) -> anyhow::Result<Secret> {
        let live = self.parts.secrets.live(name, (self.clock)()).await?;
        let first = live.first().cloned();
        first.with_context(|| format!("there is no API key {name:?}"))
    }
}

impl Run<'_> {
    async fn compare(&self, clock: shared::clock::Clock) -> anyhow::Result<Report> {
        let there = provider::list(&self.provider, self.reconcile).await?;
        let here = self.ours.list(self.reconcile).await?;
        let mut report = Report::new(&self.source.name, &self.reconcile.name, self.started);
        let found = self.first_look(&there, &here, &mut report.counts);
        let again = futures::stream::iter(found.iter().take(MOST_AGAIN))
            .map(async |drift| {
                if clock() + LAST_LOOK > self.ends {
                    return Ok(None);
                }
                self.second_look(drift, &here).await.map(Some)
            })
            .buffered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        report.counts.unconfirmed += found.len().saturating_sub(again.len()) as u64;
        for (first, second) in found.into_iter().zip(again) {
            match second? {
                None => report.counts.unconfirmed += 1,
                Some(None) => {
                    report.counts.settled += 1;
                    report.counts.agree += 1;
                }
                Some(Some(second)) if second == first => {
                    report.counts.note(first.kind);
                    report.drift.push(first);
                }
                Some(Some(_)) => report.counts.moving += 1,
            }
        }
        Ok(report)
    }

    /// What differs between the lists.
    fn first_look(&self, there: &Sides, here: &Listed, counts: &mut Counts) -> Vec<Drift> {
        let only_here = here.sides.keys().filter(|id| !there.contains_key(*id));
        let names: Vec<_> = self.names().collect();
        let mut found = Vec::new();
        for id in there.keys().chain(only_here) {
            counts.compared += 1;
            let on_its_way = |created| self.started.since(created) < self.reconcile.grace;
            let their = there.get(id);
            match drift(id, here.sides.get(id), their, &names) {
                None => counts.agree += 1,
                Some(drift)
                    if drift.kind == Drifted::Missing
                        && their.and_then(|side| side.created).is_some_and(on_its_way) =>
                {
                    counts.young += 1;
                }
                Some(drift) => found.push(drift),
            }
        }
        found
    }

    /// The same object once more, on both sides.
    async fn second_look(&self, first: &Drift, listed: &Listed) -> anyhow::Result<Option<Drift>> {
        let id = first.object.as_str();
        let there = provider::again(&self.provider, self.reconcile, id).await?;
        let here = self
            .ours
            .again(self.reconcile, id, listed, there.json.as_ref())
            .await?;
        let names: Vec<_> = self.names().collect();
        Ok(drift(id, here.as_ref(), there.side.as_ref(), &names))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.reconcile
            .fields
            .iter()
            .map(|field| field.name.as_str())
    }
}

/// One line for the log, of which the metric is made. It tells numbers, and of no object.
fn tell(report: &Report) {
    let counts = &report.counts;
    let drift = counts.drifted();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                metric = "reconcile",
                source = report.source,
                name = report.name,
                report = report.id,
                drift = drift,
                compared = counts.compared,
                missing = counts.missing,
                gone = counts.gone,
                different = counts.different,
                settled = counts.settled,
                moving = counts.moving,
                young = counts.young,
                unconfirmed = counts.unconfirmed,
                took_ms = report.took_ms,
                "reconciled {}/{}: {drift} of {} objects drifted",
                report.source,
                report.name,
                counts.compared,
            )
        };
    }
    if drift > 0 {
        line!(warn);
    } else {
        line!(info);
    }
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::chance::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
