//! Heartbeats: when each backup-sync task last finished. A scheduled task that stops running
//! reports no error, so its heartbeat must be checked.
//!
//! A heartbeat also describes the sources of the functions: `src` (`table` or `embedded`), `cv`
//! (version in use), `cfg` (its hash), `cs` (newest file format), `cbad` (the current version cannot
//! be used), `hosts` and `lb` (allowed hosts), `la` (1 if the stack has a function for long actions).

use super::Operations;
use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Item, SCHEMA, item};
use crate::base::clock::UnixMillis;
use crate::sources::Bounds;

const PK: &str = "SYS";
const SK: &str = "HB#";
const TABLE: &str = "table";

/// The sources that the functions of a deployment use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcesReport {
    /// Whether the functions follow the versions in the table.
    pub from_table: bool,
    /// The version in use; `None` for the built-in file.
    pub version: Option<u64>,
    pub hash: String,
    /// The newest file format that the functions read.
    pub schema: u32,
    /// Whether the current version could not be read or used.
    pub failed: bool,
    pub bounds: Bounds,
    /// Whether the stack has a function for long actions; `None` if the functions do not report it.
    pub long_actions: Option<bool>,
}

impl SourcesReport {
    fn attributes(&self) -> Item {
        let src = if self.from_table { TABLE } else { "embedded" };
        let mut attributes = Item::from([
            ("src".to_owned(), item::s(src)),
            ("cfg".to_owned(), item::s(&self.hash)),
            ("cs".to_owned(), item::n(self.schema)),
            ("hosts".to_owned(), item::s(self.bounds.hosts())),
        ]);
        let version = self
            .version
            .map(|version| ("cv".to_owned(), item::n(version)));
        let long = self.long_actions;
        let long = long.map(|runs| ("la".to_owned(), item::n(u8::from(runs))));
        attributes.extend(version.into_iter().chain(long));
        let flags = [("cbad", self.failed), ("lb", self.bounds.loopback())];
        let flags = flags.into_iter().filter(|(_, set)| *set);
        attributes.extend(flags.map(|(name, _)| (name.to_owned(), item::n(1))));
        attributes
    }

    fn read(beat: &Item) -> Option<Self> {
        let hosts = item::text(beat, "hosts").unwrap_or_default();
        Some(Self {
            from_table: item::text(beat, "src")? == TABLE,
            version: item::number(beat, "cv"),
            hash: item::text(beat, "cfg").unwrap_or_default().to_owned(),
            schema: item::number(beat, "cs").unwrap_or(0),
            failed: beat.contains_key("cbad"),
            bounds: Bounds::of(hosts, beat.contains_key("lb")),
            long_actions: item::number(beat, "la").map(|runs: u8| runs > 0),
        })
    }
}

impl Operations<'_> {
    /// Records that a task finished. If two runs finish at the same time, either may be recorded
    /// last.
    pub async fn beat(self, task: &str, now: UnixMillis) -> anyhow::Result<()> {
        self.beat_about(task, None, now).await
    }

    /// Like [`Self::beat`], and describes the sources of the function.
    pub async fn beat_about(
        self,
        task: &str,
        sources: Option<&SourcesReport>,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let mut heartbeat = Item::from([
            ("pk".to_owned(), item::s(PK)),
            ("sk".to_owned(), item::s(format!("{SK}{task}"))),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("at".to_owned(), item::ms(now)),
        ]);
        heartbeat.extend(sources.into_iter().flat_map(SourcesReport::attributes));
        self.put("store the heartbeat of a task", heartbeat, None)
            .await?;
        Ok(())
    }

    /// Returns each task that has ever finished, with the time at which its last run finished.
    pub async fn heartbeats(self) -> anyhow::Result<BTreeMap<String, UnixMillis>> {
        let beats = self.stored_heartbeats().await?;
        Ok(beats.into_iter().map(|(task, at, _)| (task, at)).collect())
    }

    /// Returns what the newest heartbeat says about the sources. Returns `None` if no function of
    /// this release has finished a task yet.
    pub async fn sources_report(self) -> anyhow::Result<Option<(UnixMillis, SourcesReport)>> {
        let beats = self.stored_heartbeats().await?.into_iter();
        let reports = beats.filter_map(|(_, at, beat)| Some((at, SourcesReport::read(&beat)?)));
        Ok(reports.max_by_key(|(at, _)| *at))
    }

    async fn stored_heartbeats(self) -> anyhow::Result<Vec<(String, UnixMillis, Item)>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", item::s(PK))
            .expression_attribute_values(":sk", item::s(SK))
            .send()
            .await
            .context("read the heartbeats of the tasks")?;
        let beats = answer.items.unwrap_or_default().into_iter();
        let beats = beats.filter_map(|heartbeat| {
            let task = item::text(&heartbeat, "sk")?.strip_prefix(SK)?.to_owned();
            Some((task, item::time(&heartbeat, "at")?, heartbeat))
        });
        Ok(beats.collect())
    }
}
