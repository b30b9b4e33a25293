//! Reads what backup-sync and the catcher stored about many sources, with few requests. One request
//! reads a hundred items, so a command that shows all sources does not need requests for each.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Cost, Item, SyncState, item};
use crate::monitoring::coverage::{DayCount, read_day};
use crate::monitoring::endpoint::Status;
use crate::monitoring::hours::Statistics;
use crate::monitoring::silence::ArrivalGaps;
use crate::sources::Source;

/// The stored items of a source. The reads are eventually consistent.
#[derive(Clone, Debug, Default)]
pub struct SourceRecords {
    pub sync: Option<SyncState>,
    pub gaps: ArrivalGaps,
    /// The endpoint at the provider, if the source has a check of it.
    pub endpoint: Option<Status>,
    /// The counts of the sync for yesterday and today.
    pub days: Vec<DayCount>,
    /// The requests that the catcher rejected yesterday and today. Later released requests count.
    pub rejected: u64,
}

impl Statistics<'_> {
    /// Returns the records of these sources by name.
    pub async fn source_records(
        self,
        sources: &[&Source],
        now: UnixMillis,
    ) -> anyhow::Result<(BTreeMap<String, SourceRecords>, Cost)> {
        let today = Day::of(now);
        let days = [today.before(1), today];
        let keys: BTreeSet<(String, String)> = sources
            .iter()
            .flat_map(|source| keys(source, days))
            .collect();
        let keys: Vec<Item> = keys.iter().map(as_key).collect();
        let (items, cost) = self.items(&keys, None).await?;
        let mut records: BTreeMap<String, SourceRecords> = BTreeMap::new();
        for source in sources {
            records.entry(source.name.clone()).or_default();
        }
        for item in &items {
            let (Some(pk), Some(sk)) = (item::text(item, "pk"), item::text(item, "sk")) else {
                continue;
            };
            let named = pk.split('#').nth(1);
            let Some(record) = named.and_then(|source| records.get_mut(source)) else {
                continue;
            };
            record.add(sk, item)?;
        }
        for record in records.values_mut() {
            record.days.sort_by_key(|day| day.day);
        }
        Ok((records, cost))
    }
}

impl SourceRecords {
    fn add(&mut self, sk: &str, item: &Item) -> anyhow::Result<()> {
        let count = || item::number::<u64>(item, "n").unwrap_or(0);
        match sk {
            "RHYTHM" => self.gaps = ArrivalGaps::read(item),
            "CURSOR" => self.sync = Some(SyncState::read(item)),
            "ENDPOINT" => self.endpoint = Some(Status::read(item)?),
            "N" => self.rejected += count(),
            day => {
                let day = day.strip_prefix("DAY#").and_then(Day::parse);
                self.days.extend(day.map(|day| read_day(day, item)));
            }
        }
        Ok(())
    }
}

/// Returns the keys of the items of a source: those that the sync and its checks store, and the
/// daily counters of the catcher.
fn keys(source: &Source, days: [Day; 2]) -> Vec<(String, String)> {
    let of_sync = format!("SYNC#{}", source.name);
    let mut sorts = vec!["RHYTHM".to_owned()];
    if source.sync.is_some() {
        sorts.push("CURSOR".to_owned());
        sorts.extend(days.map(|day| format!("DAY#{}", day.name())));
    }
    if source.endpoint.is_some() {
        sorts.push("ENDPOINT".to_owned());
    }
    let mut keys: Vec<_> = sorts.into_iter().map(|sk| (of_sync.clone(), sk)).collect();
    for day in days {
        let of_day = format!("Q#{}#{}", source.name, day.name());
        keys.push((of_day, "N".to_owned()));
    }
    keys
}

fn as_key((pk, sk): &(String, String)) -> Item {
    Item::from([
        ("pk".to_owned(), item::s(pk)),
        ("sk".to_owned(), item::s(sk)),
    ])
}
