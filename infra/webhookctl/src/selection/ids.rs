//! Finds single events by their ids.

use std::collections::{BTreeMap, HashSet};

use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, Row};
use shared::webhook::event::{EventId, EventKey};

use super::find::read_rows;
use super::time_scan::Walk;
use super::{DAY_MS, Selection};
use crate::output::CliError;
use crate::output::time::{HOUR_MS, age};
use crate::target::Deployment;

/// The longest time range that an id prefix may cover. Searching a longer range takes too long.
const WIDEST_PREFIX_MS: i64 = DAY_MS;

/// The length of a complete id: the prefix and a ULID.
const WHOLE: usize = 30;

/// The minimum number of complete ids from one hour for which the search reads the whole hour once.
/// For fewer ids, it looks up each id.
const WORTH_AN_HOUR: usize = 5;

/// The number of ids to look up in parallel.
const AT_ONCE: usize = 16;

/// Finds an event by its id, a unique prefix of it, `source:event-id`, or the provider's event id.
pub(crate) async fn find(inbox: &Deployment, wanted: &str) -> anyhow::Result<Row> {
    let sources = inbox.sources();
    let mut found: Vec<Row> = Vec::new();
    if let Some(key) = inbox.seen.key(wanted)
        && let Some(row) = inbox.ledger.event(&key).await?
    {
        return Ok(row);
    }
    if let Some((source, id)) = wanted.split_once(':') {
        // The text can be the provider's id, or the id in the table. The id in the table has a
        // suffix if the event is quarantined.
        let ours = EventKey::from_pk(&format!("E#{source}#{id}"));
        for key in [Some(EventKey::new(source, id)), ours]
            .into_iter()
            .flatten()
        {
            if let Some(row) = inbox.ledger.event(&key).await? {
                return Ok(row);
            }
        }
    }
    if let Some((from, to)) = EventId::times(wanted)
        && to.0 - from.0 <= WIDEST_PREFIX_MS
    {
        let listed = inbox.ledger.with_id_prefix(&sources, wanted, 10).await?;
        let keys: Vec<EventKey> = listed.into_iter().map(|event| event.key).collect();
        let rows = try_join_all(keys.iter().map(|key| inbox.ledger.event(key))).await?;
        found.extend(rows.into_iter().flatten());
    }
    if found.is_empty() {
        let asked = sources.iter().map(|source| EventKey::new(source, wanted));
        let keys: Vec<EventKey> = asked.collect();
        let rows = read_rows(inbox, &keys, &mut Cost::default()).await?;
        found.extend(rows.into_iter().map(|stored| stored.row));
    }
    match found.len() {
        0 => Err(missing(inbox, wanted).into()),
        1 => Ok(found.remove(0)),
        _ => Err(ambiguous(wanted, &found).into()),
    }
}

fn missing(inbox: &Deployment, wanted: &str) -> CliError {
    let region = inbox.region().map(|region| format!(" ({region})"));
    let place = format!("{}{}", inbox.name, region.unwrap_or_default());
    let tip = match inbox.others().join(", ").as_str() {
        "" => "webhookctl inbox list".to_owned(),
        others => format!("the event may be in another deployment; contexts: {others} (-c NAME)"),
    };
    let message = format!("no event '{wanted}' in {place}");
    CliError::not_found("inbox.not_found", message)
        .note(
            "searched for: an id, an id prefix that covers at most a day, a provider's event id, \
             source:event-id; by default, events are kept for 35 or 90 days",
        )
        .tip(tip)
}

fn ambiguous(wanted: &str, found: &[Row]) -> CliError {
    let now = UnixMillis::now().0;
    let line = |row: &Row| {
        let (id, source) = (row.id(), row.key.source());
        format!(
            "{id}  {source}  {}  {}",
            row.kind,
            age(row.received_at.0, now)
        )
    };
    let message = format!("'{wanted}' matches {} events", found.len());
    CliError::not_found("inbox.ambiguous_id", message).details(found.iter().map(line).collect())
}

impl Selection {
    /// Returns the keys of the events with the given ids. Returns an error if an id is unknown.
    pub(super) async fn named(
        &self,
        inbox: &Deployment,
        cost: &mut Cost,
    ) -> anyhow::Result<Vec<EventKey>> {
        let (mut keys, found) = self.in_their_hours(inbox, cost).await?;
        let rest = self.ids.iter().filter(|id| !found.contains(id.as_str()));
        let rows: Vec<Row> = futures::stream::iter(rest.map(|id| find(inbox, id)))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        // The lookup of an id needs about five reads: the parts of its hour, and then the row.
        cost.calls += 5 * rows.len() as u64;
        keys.extend(rows.into_iter().map(|row| row.key));
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        Ok(keys)
    }

    /// Returns the keys of those ids whose hour was read as a whole, and these ids. Ids that a list
    /// printed are often from few hours, so this reads each hour only once.
    async fn in_their_hours(
        &self,
        inbox: &Deployment,
        cost: &mut Cost,
    ) -> anyhow::Result<(Vec<EventKey>, HashSet<&str>)> {
        let mut hours: BTreeMap<i64, Vec<(i64, &str)>> = BTreeMap::new();
        for id in self.ids.iter().filter(|id| id.len() == WHOLE) {
            if let Some((at, to)) = EventId::times(id)
                && at == to
            {
                hours
                    .entry(at.0.div_euclid(HOUR_MS))
                    .or_default()
                    .push((at.0, id));
            }
        }
        let (mut keys, mut found) = (Vec::new(), HashSet::new());
        for ids in hours.values().filter(|ids| ids.len() >= WORTH_AN_HOUR) {
            let times = ids.iter().map(|(at, _)| *at);
            let span = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
            let wanted: BTreeMap<String, &str> = ids
                .iter()
                .map(|(_, id)| (id.to_ascii_uppercase(), *id))
                .collect();
            let sources = inbox.sources().into_iter().map(str::to_owned).collect();
            let mut walk = Walk::new(&inbox.ledger, sources, span, true, 1000);
            loop {
                let listed = walk.next(1000, &mut |_| ()).await?;
                if listed.is_empty() {
                    break;
                }
                for event in listed {
                    if let Some(id) = wanted.get(&event.id.as_str().to_ascii_uppercase()) {
                        found.insert(*id);
                        keys.push(event.key);
                    }
                }
            }
            *cost += walk.cost;
        }
        Ok((keys, found))
    }
}
