//! Reads the facts of `status`. Each part is read by itself: if one may not be read, the others are
//! shown, and the result names the missing one.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, Position};
use shared::inbox::ledger::{
    FlagKind, Hold, Listed, Lost, OperatorFlag, Plan, Row, State, Stored, Waiting,
};
use shared::inbox::rejected::RejectedRequest;
use shared::monitoring::hours::Brief;
use shared::monitoring::missing_paths::MissingRecord;
use shared::monitoring::reconcile::Report;
use shared::monitoring::source_records::SourceRecords;
use shared::sources::Source;
use shared::webhook::event::EventKey;

use crate::cli::By;
use crate::doctor::{Known, Queues, Table};
use crate::output::aws::{Place, rewrite};
use crate::output::time::DAY_MS;
use crate::selection::{held_rows, with_rules};
use crate::target::Deployment;
use crate::verbs::doctor::{queues, table, told};
use crate::verbs::missing_paths::missing_paths;
use crate::verbs::stats::{Chosen, Counts, Waits, arrivals, open};

/// The maximum number of dead letters that are read, for each of the eight parts of the index.
const DEAD: i32 = 125;

/// The maximum number of partitions that are read for the events since the last sweep, see
/// [`arrivals`]. The newest event comes from the busiest of these sources. An open event that is not
/// read is too new to be late.
const PARTS: usize = 4;

/// The maximum number of plans that are read, and their age in days. These are the newest plans.
const PLANS: usize = 20;
const PLAN_DAYS: i64 = 7;

/// The maximum number of sources whose rejected requests are read.
const LOOKED_AT: usize = 10;

/// The maximum number of quarantined events that are listed.
const QUARANTINED: i32 = 500;

/// The maximum number of held events of a source that are listed.
const HELD: i32 = 100;

/// The maximum number of rows that one request reads.
const BATCH_ROWS: usize = 100;

/// The facts, each read or missing.
pub(super) struct Facts {
    pub(super) sources: Known<BTreeMap<String, SourceRecords>>,
    /// The dead letters, and whether there are more.
    pub(super) dead: Known<(Vec<Row>, bool)>,
    pub(super) open: Known<Waits>,
    /// The oldest failed event of each source, for its error. An event that was settled since is not
    /// here.
    pub(super) failed: BTreeMap<String, Row>,
    pub(super) counts: Known<Counts>,
    pub(super) newest: Known<Option<Listed>>,
    pub(super) pauses: Known<BTreeMap<String, OperatorFlag>>,
    pub(super) rotations: Known<BTreeMap<String, OperatorFlag>>,
    pub(super) breakers: Known<BTreeMap<String, (Position, UnixMillis)>>,
    pub(super) lost: Known<BTreeMap<String, Lost>>,
    pub(super) drift: Known<Vec<Report>>,
    pub(super) plans: Known<Vec<Plan>>,
    /// The requests that wait in the quarantine, of the sources with the most of them.
    pub(super) rejected: Known<BTreeMap<String, Vec<RejectedRequest>>>,
    pub(super) quarantined: Known<Vec<Row>>,
    /// The events that wait for an approval, first the one that expires first.
    pub(super) held: Known<Vec<(Row, Hold)>>,
    /// The paths that events of the last day lack.
    pub(super) missing_paths: Known<Vec<MissingRecord>>,
    pub(super) heartbeats: Known<BTreeMap<String, UnixMillis>>,
    /// The table, if a heartbeat may be missing because the stack is new.
    pub(super) table: Known<Table>,
    pub(super) queues: Queues,
}

const QUERY: &str = "dynamodb:Query";
const BATCH: &str = "dynamodb:BatchGetItem";

/// Reads the facts of the chosen sources. Returns an error if the table cannot be read at all.
pub(super) async fn facts(
    inbox: &Deployment,
    chosen: &Chosen,
    now: UnixMillis,
) -> anyhow::Result<Facts> {
    let sources: Vec<&Source> = inbox
        .config
        .sources()
        .filter(|source| chosen.has_source(&source.name))
        .collect();
    let records = records(inbox, &sources, now).await?;
    let ledger = &inbox.ledger;
    let operations = ledger.operations();
    let counts = told(
        QUERY,
        Box::pin(arrivals(inbox, chosen, (By::Source, PARTS), now)).await,
    );
    let live = counts.as_ref().ok().map(|counts| &counts.live);
    let (dead, open, newest, drift, plans) = tokio::join!(
        Box::pin(dead(inbox, chosen)),
        Box::pin(open(inbox, chosen, live, now)),
        Box::pin(newest(inbox, chosen, counts.as_ref().ok(), now)),
        Box::pin(drift(inbox, &sources, now)),
        Box::pin(plans(inbox, now)),
    );
    let (pauses, rotations, breakers, lost, heartbeats, table, queues) = tokio::join!(
        operations.flags(FlagKind::Pause("")),
        operations.flags(FlagKind::Rotation("")),
        Breakers::positions(ledger, now),
        ledger.sync().last_lost(now),
        operations.heartbeats(),
        Box::pin(table(inbox)),
        Box::pin(queues(inbox)),
    );
    let open = told(BATCH, open);
    let (rejected, quarantined, held, failed, missing_paths) = tokio::join!(
        Box::pin(rejected(inbox, records.as_ref().ok(), now)),
        Box::pin(quarantined(inbox, chosen)),
        Box::pin(held(inbox, chosen)),
        Box::pin(failed(inbox, open.as_ref().ok())),
        Box::pin(missing_paths(inbox, now)),
    );
    Ok(Facts {
        sources: records,
        dead: told(BATCH, dead),
        open,
        // Without these rows, the items do not name an error.
        failed: failed.unwrap_or_default(),
        counts,
        newest: told(QUERY, newest),
        pauses: told(QUERY, pauses.map(|(flags, _)| flags)),
        rotations: told(QUERY, rotations.map(|(flags, _)| flags)),
        breakers: told(QUERY, breakers),
        lost: told(QUERY, lost.map(|(lost, _)| lost)),
        drift: told(QUERY, drift),
        plans: told(BATCH, plans),
        rejected: told(QUERY, rejected),
        quarantined: told(QUERY, quarantined),
        held: told(QUERY, held),
        missing_paths: told(QUERY, missing_paths),
        heartbeats: told(QUERY, heartbeats),
        table: table?,
        queues,
    })
}

/// Reads the records of the sources, first of all: without credentials or without a table, this is
/// the error of the command.
async fn records(
    inbox: &Deployment,
    sources: &[&Source],
    now: UnixMillis,
) -> anyhow::Result<Known<BTreeMap<String, SourceRecords>>> {
    let records = inbox.ledger.statistics().source_records(sources, now).await;
    match records {
        Err(error) if rewrite(&error, &Place::default()).code != "auth.denied" => Err(error),
        records => Ok(told(BATCH, records.map(|(records, _)| records))),
    }
}

/// Reads the dead letters of all sources, the oldest first.
async fn dead(inbox: &Deployment, chosen: &Chosen) -> anyhow::Result<(Vec<Row>, bool)> {
    let pages = (0..Waiting::SHARDS).map(|shard| inbox.ledger.waiting(Waiting::Dead, shard, DEAD));
    let (mut keys, mut more) = (Vec::new(), false);
    for (found, or_more) in try_join_all(pages).await? {
        keys.extend(found);
        more |= or_more;
    }
    keys.retain(|key| chosen.has_source(key.source()));
    let (rows, _) = inbox.ledger.rows(&keys).await?;
    let rows = rows.into_iter().map(|stored: Stored| stored.row);
    // An event that was replayed after the index was read is no dead letter.
    let rows = rows.filter(|row| row.state == State::DeadLetter);
    Ok((rows.collect(), more))
}

/// Reads the oldest failed event of each source, at most one batch.
async fn failed(inbox: &Deployment, open: Option<&Waits>) -> anyhow::Result<BTreeMap<String, Row>> {
    let briefs = open.into_iter().flat_map(|open| &open.briefs);
    let mut oldest: BTreeMap<&str, &Brief> = BTreeMap::new();
    for brief in briefs.filter(|brief| brief.state == State::Failed) {
        let first = oldest.entry(brief.key.source()).or_insert(brief);
        if brief.received_at < first.received_at {
            *first = brief;
        }
    }
    let keys = oldest.values().take(BATCH_ROWS);
    let keys: Vec<EventKey> = keys.map(|brief| brief.key.clone()).collect();
    let (rows, _) = inbox.ledger.rows(&keys).await?;
    let rows = rows.into_iter().map(|stored| stored.row);
    let failed = rows.filter(|row| row.state == State::Failed);
    Ok(failed
        .map(|row| (row.key.source().to_owned(), row))
        .collect())
}

/// Returns the last report of each comparison.
async fn drift(
    inbox: &Deployment,
    sources: &[&Source],
    now: UnixMillis,
) -> anyhow::Result<Vec<Report>> {
    let reports = sources.iter().flat_map(|source| {
        let names = source.reconcile.iter();
        names.map(|reconcile| async {
            let stored = inbox.ledger.provider_reports();
            stored.reports(&source.name, &reconcile.name, 1, now).await
        })
    });
    let reports = try_join_all(reports).await?;
    Ok(reports.into_iter().flatten().collect())
}

async fn plans(inbox: &Deployment, now: UnixMillis) -> anyhow::Result<Vec<Plan>> {
    let since = UnixMillis(now.0 - PLAN_DAYS * DAY_MS);
    let plans = inbox.ledger.plans();
    let ids = plans.plan_ids(since, now, PLANS).await?;
    Ok(plans.plans(&ids).await?.0)
}

/// Reads the requests that wait in the quarantine since yesterday. The daily counters tell which
/// sources have some, so a source without any costs nothing.
async fn rejected(
    inbox: &Deployment,
    records: Option<&BTreeMap<String, SourceRecords>>,
    now: UnixMillis,
) -> anyhow::Result<BTreeMap<String, Vec<RejectedRequest>>> {
    let of_sources = most(records, |record| record.rejected);
    let since = UnixMillis(now.0 - DAY_MS);
    let held = of_sources.iter().map(async |source| {
        let held = inbox.quarantine.held(source, since, now, now).await?;
        let waiting = held.into_iter().filter(|held| held.released.is_none());
        anyhow::Ok((source.clone(), waiting.collect::<Vec<_>>()))
    });
    Ok(try_join_all(held).await?.into_iter().collect())
}

/// Reads the quarantined events of any age, the oldest first.
async fn quarantined(inbox: &Deployment, chosen: &Chosen) -> anyhow::Result<Vec<Row>> {
    let what = Waiting::Quarantined;
    let (mut keys, _) = inbox.ledger.waiting(what, 0, QUARANTINED).await?;
    keys.retain(|key| chosen.has_source(key.source()));
    let (rows, _) = inbox.ledger.rows(&keys).await?;
    let rows = rows.into_iter().map(|stored| stored.row);
    Ok(rows.filter(|row| row.state == State::Quarantined).collect())
}

/// Reads the events that wait for an approval.
async fn held(inbox: &Deployment, chosen: &Chosen) -> anyhow::Result<Vec<(Row, Hold)>> {
    let ruled = with_rules(&inbox.config, |source| chosen.has_source(source));
    Ok(held_rows(&inbox.ledger, &ruled, HELD).await?.0)
}

/// Returns the newest event of the last day. The events of the current hour are already read.
async fn newest(
    inbox: &Deployment,
    chosen: &Chosen,
    counts: Option<&Counts>,
    now: UnixMillis,
) -> anyhow::Result<Option<Listed>> {
    let Some(counts) = counts else {
        return Ok(None);
    };
    let live = counts
        .live
        .entries
        .iter()
        .flat_map(|of_source| &of_source.found);
    if let Some(event) = live.max_by_key(|event| event.received_at) {
        return Ok(Some(event.clone()));
    }
    let hours = counts.arrived.keys();
    let Some(hour) = hours.map(|(_, hour)| *hour).max() else {
        return Ok(None);
    };
    let sources: Vec<&str> = counts
        .arrived
        .keys()
        .filter(|(source, of)| *of == hour && chosen.has_source(source))
        .map(|(source, _)| source.as_str())
        .collect();
    let span = (hour.begins(), UnixMillis(hour.ends().0 - 1).min(now));
    let active = &counts.live.active;
    let found = inbox
        .ledger
        .entries_of_all(active, &sources, span, 1)
        .await?;
    let found = found.into_iter().flat_map(|of_source| of_source.found);
    Ok(found.max_by_key(|event| event.received_at))
}

/// Returns the sources with the highest counts, without those that have none.
fn most(
    records: Option<&BTreeMap<String, SourceRecords>>,
    count: fn(&SourceRecords) -> u64,
) -> Vec<String> {
    let records = records.into_iter().flatten();
    let mut some: Vec<_> = records.filter(|(_, record)| count(record) > 0).collect();
    some.sort_by_key(|(_, record)| std::cmp::Reverse(count(record)));
    let names = some.into_iter().take(LOOKED_AT);
    names.map(|(name, _)| name.clone()).collect()
}
