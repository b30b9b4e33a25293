//! Compares both sides, and reads the objects that differ again.

use std::time::Duration;

use futures::StreamExt as _;
use shared::base::clock::{Clock, UnixMillis};
use shared::monitoring::reconcile::{Counts, Drift, Drifted, Report, Sides, drift};
use shared::sources::{Reconcile, Source};

use super::local::{Listed, Ours};
use super::provider;
use crate::api::Api;

/// The maximum number of objects that are read a second time.
const MOST_AGAIN: usize = 500;

/// The number of objects that are read a second time in parallel.
const AT_ONCE: usize = 4;

/// One run of one comparison.
pub(super) struct Run<'r> {
    pub(super) source: &'r Source,
    pub(super) reconcile: &'r Reconcile,
    pub(super) provider: Api<'r>,
    pub(super) ours: Ours<'r>,
    pub(super) ends: UnixMillis,
    /// The remaining time below which no object is read a second time.
    pub(super) last_look: Duration,
    pub(super) started: UnixMillis,
}

impl Run<'_> {
    pub(super) async fn compare(&self, clock: Clock) -> anyhow::Result<Report> {
        let there = provider::list(&self.provider, self.reconcile).await?;
        let here = self.ours.list(self.reconcile).await?;
        let mut report = Report::new(&self.source.name, &self.reconcile.name, self.started);
        let found = self.first_look(&there, &here, &mut report.counts);
        let again = futures::stream::iter(found.iter().take(MOST_AGAIN))
            .map(async |drift| {
                if clock() + self.last_look > self.ends {
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

    /// Returns the differences between the two lists.
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

    /// Reads one object again on both sides, and compares it.
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

/// Logs one line, from which the template creates a metric. The line contains counts, but no
/// objects.
pub(super) fn tell(report: &Report) {
    let counts = &report.counts;
    let drift = counts.drifted();
    let repaired = report.repair.as_ref().map_or(0, |repair| repair.events);
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
                repaired,
                unrepaired = report.unrepaired,
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
