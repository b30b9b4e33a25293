//! Writes which hours have events: backup-sync after it has counted an hour, and a process before it
//! stores an event late.

use std::time::Duration;

use super::active::{SourceHours, sk};
use crate::base::calendar::{Day, Hour};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, Ledger, SCHEMA, Write, item};
use crate::inbox::table::Change;

/// How long the notes of a day are kept.
const KEEP: Duration = Duration::from_secs(180 * 24 * 3600);

/// The number of sources in one update.
const AT_ONCE: usize = 100;

/// Which of the counted hours of a source have events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) hour: Hour,
    pub(crate) has_events: bool,
    /// Whether the partitions of the hour have events.
    pub(crate) is_spread: bool,
}

impl Ledger {
    /// Notes that an hour of a source gets an event late, so that readers ask all its partitions. The
    /// note must be durable before the event is stored.
    pub(in crate::inbox::ledger) async fn note_late(
        &self,
        source: &str,
        received_at: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let hour = Hour::of(received_at);
        let day = Day::of(received_at);
        let name = hour.name();
        let of_day = name.get(8..).unwrap_or_default();
        let change = Change::new(
            "note an hour with a late event",
            "",
            "SET #late = :now, sv = :sv, #ttl = :ttl",
        )
        .named("#late", &format!("l#{source}#{of_day}"))
        .named("#ttl", "ttl")
        .with(":now", item::ms(now))
        .with(":sv", item::n(SCHEMA))
        .with(":ttl", item::n((day.ends() + KEEP).secs()));
        self.change_item("SYS", &sk(day), change).await?;
        self.time.noted(source, hour);
        Ok(())
    }

    /// Notes which sources have events in a counted hour. A source that is counted but has no events
    /// is also noted, so that a reader can tell it from a source that was not counted.
    pub(crate) async fn note_hour(
        &self,
        counted: &[(String, Counted)],
        hour: Hour,
    ) -> anyhow::Result<()> {
        let day = Day::of(hour.begins());
        let stored = self.get("SYS", &sk(day)).await?.unwrap_or_default();
        let written = counted.iter().map(|(source, one)| {
            let attribute = format!("s#{source}");
            let known = item::text(&stored, &attribute).and_then(SourceHours::read);
            let mut hours = known.unwrap_or_default();
            hours.count(one);
            (attribute, hours.written())
        });
        let written: Vec<_> = written.collect();
        for some in written.chunks(AT_ONCE) {
            self.note_day(day, some).await?;
        }
        Ok(())
    }

    async fn note_day(&self, day: Day, sources: &[(String, String)]) -> anyhow::Result<()> {
        let set: Vec<String> = (0..sources.len())
            .map(|index| format!("#s{index} = :s{index}"))
            .collect();
        let update = format!("SET sv = :sv, #ttl = :ttl, {}", set.join(", "));
        let mut change = Change::new("note the hours with events", "", &update)
            .named("#ttl", "ttl")
            .with(":sv", item::n(SCHEMA))
            .with(":ttl", item::n((day.ends() + KEEP).secs()));
        for (index, (attribute, hours)) in sources.iter().enumerate() {
            change = change
                .named(&format!("#s{index}"), attribute)
                .with(&format!(":s{index}"), item::s(hours));
        }
        // Two runs that count the same hour write the same bits. A run that loses the bits of another
        // one only makes readers ask more.
        let _: Write = self.change_item("SYS", &sk(day), change).await?;
        Ok(())
    }
}

/// Returns the hours that got an event late, from the item of a day.
pub(super) fn late(stored: &Item, day: Day) -> impl Iterator<Item = (String, Hour)> {
    let first = Hour::of(day.begins());
    let late = stored.keys().filter_map(move |name| {
        let (source, hour) = name.strip_prefix("l#")?.rsplit_once('#')?;
        let hour: i64 = hour.parse().ok()?;
        Some((source.to_owned(), first.before(-hour)))
    });
    late.collect::<Vec<_>>().into_iter()
}
