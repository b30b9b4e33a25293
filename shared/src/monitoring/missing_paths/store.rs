//! Stores the missing paths, so that operators see them. All sources share one partition, and one
//! query reads the paths of a day.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | missing path in an hour | `PATHS` | `{yyyymmddhh}#{source}#{used for}#{path}` |

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;

use super::Noted;
use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Change, Returns};
use crate::monitoring::hours::Statistics;
use crate::webhook::missing::{MissingPath, PathUse};

const PK: &str = "PATHS";

/// How long a missing path is kept.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// A missing path, over all stored hours of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRecord {
    pub source: String,
    pub missing: MissingPath,
    /// The type of the last of these events.
    pub kind: String,
    /// The time of the first stored event in the period, and of the last.
    pub first: UnixMillis,
    pub last: UnixMillis,
    /// The number of events that were counted. There can be more.
    pub events: u64,
}

impl Statistics<'_> {
    /// Stores a missing path. If the SDK repeats an update that DynamoDB has already applied, the
    /// events count twice.
    pub async fn keep_missing(self, noted: &Noted, now: UnixMillis) -> anyhow::Result<()> {
        let MissingPath { used_for, path } = &noted.missing;
        let hour = now.hour();
        let sk = format!("{hour}#{}#{used_for}#{path}", noted.source);
        let change = Change::new(
            "store a missing path",
            "",
            "SET sv = :sv, #ttl = :ttl, fst = if_not_exists(fst, :now), lst = :now, ty = :ty \
             ADD n :n",
        )
        .named("#ttl", "ttl")
        .with(":sv", item::n(SCHEMA))
        .with(":ttl", item::n((now + KEEP).secs()))
        .with(":now", item::ms(now))
        .with(":ty", item::s(&noted.kind))
        .with(":n", item::n(noted.events));
        self.table
            .update((PK, &sk), change, Returns::Nothing)
            .await?;
        Ok(())
    }

    /// Returns the missing paths of all sources since the hour of `since`.
    pub async fn missing_paths(self, since: UnixMillis) -> anyhow::Result<Vec<MissingRecord>> {
        let mut found: BTreeMap<(String, MissingPath), MissingRecord> = BTreeMap::new();
        let mut start = None;
        loop {
            let query = self.table.query();
            let query = query
                .key_condition_expression("pk = :pk AND sk >= :from")
                .expression_attribute_values(":pk", item::s(PK))
                .expression_attribute_values(":from", item::s(Hour::of(since).name()));
            let page = self.page(query, start).await;
            let page = page.context("read the missing paths")?;
            for record in page.found.iter().filter_map(read) {
                let key = (record.source.clone(), record.missing.clone());
                let known = found.entry(key).or_insert_with(|| MissingRecord {
                    events: 0,
                    ..record.clone()
                });
                known.add(record);
            }
            start = page.next;
            if start.is_none() {
                return Ok(found.into_values().collect());
            }
        }
    }
}

impl MissingRecord {
    /// Adds the record of another hour.
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.first = self.first.min(other.first);
        if other.last >= self.last {
            self.last = other.last;
            self.kind = other.kind;
        }
    }
}

fn read(item: &Item) -> Option<MissingRecord> {
    let mut parts = item::text(item, "sk")?.splitn(4, '#').skip(1);
    let (source, used_for, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some(MissingRecord {
        source: source.to_owned(),
        missing: MissingPath::new(PathUse::parse(used_for)?, path),
        kind: item::text(item, "ty").unwrap_or_default().to_owned(),
        first: item::time(item, "fst")?,
        last: item::time(item, "lst")?,
        events: item::number(item, "n").unwrap_or(0),
    })
}
