//! Reads the sync state of a source, and whether the source is silent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::base::timing::SYNC_EVERY;
use shared::inbox::ledger::{Ledger, SyncState};
use shared::monitoring::coverage::Counts;
use shared::monitoring::silence::{ArrivalGaps, Quiet, Why};
use shared::monitoring::source_records::SourceRecords;
use shared::sources::Source;

use crate::output::time::{duration, rfc3339};

/// The current sync state of a source.
pub(in crate::verbs) struct Facts {
    pub(in crate::verbs) state: Option<SyncState>,
    /// The counts since the beginning of yesterday.
    pub(in crate::verbs) lately: Counts,
    pub(in crate::verbs) silence: Silence,
    /// When the last webhook arrived, at the time of the last check.
    pub(in crate::verbs) last_webhook: Option<UnixMillis>,
}

/// How often webhooks of a source usually arrive, and whether they still arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::verbs) struct Silence {
    pub(in crate::verbs) last_webhook_at: Option<String>,
    /// The usual interval between webhooks.
    pub(in crate::verbs) usually_s: Option<u64>,
    /// The time without a webhook after which the source counts as silent.
    pub(in crate::verbs) quiet_after_s: Option<u64>,
    /// How long the source has been silent. It is missing if the source is not silent.
    pub(in crate::verbs) silent_s: Option<u64>,
    pub(in crate::verbs) why: Option<Why>,
    /// The time of the last check. Webhooks that arrived later were not checked.
    pub(in crate::verbs) as_of: Option<String>,
}

impl Facts {
    pub(in crate::verbs) async fn read(
        ledger: &Ledger,
        source: &Source,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let mut all = Self::all(ledger, &[source], now).await?;
        all.remove(&source.name)
            .context("the records of the source were not read")
    }

    /// Reads the facts of several sources by name, with few requests for all of them.
    pub(in crate::verbs) async fn all(
        ledger: &Ledger,
        sources: &[&Source],
        now: UnixMillis,
    ) -> anyhow::Result<BTreeMap<String, Self>> {
        let statistics = ledger.statistics();
        let (mut records, _) = statistics.source_records(sources, now).await?;
        let mut all = BTreeMap::new();
        for source in sources {
            let record = records.remove(&source.name).unwrap_or_default();
            let facts = Self::of(ledger, source, record, now).await?;
            all.insert(source.name.clone(), facts);
        }
        Ok(all)
    }

    async fn of(
        ledger: &Ledger,
        source: &Source,
        record: SourceRecords,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let mut lately = Counts::default();
        for day in &record.days {
            lately.merge(day.counts.clone());
        }
        let mut silence = Silence::of(source, &record.gaps, Some(Why::Unknown), now);
        if let (Some(_), Some(last), Some(_)) = (&source.sync, record.gaps.last, silence.silent_s) {
            // The counts since the last webhook show the reason for the silence. The counts of a week
            // are enough.
            let today = Day::of(now);
            let from = Day::of(last).min(today.before(1)).max(today.before(7));
            let statistics = ledger.statistics();
            let days = statistics.day_counts(&source.name, from, today).await?;
            silence.why = Some(Why::of(&days, last));
        }
        Ok(Self {
            state: record.sync.filter(|_| source.sync.is_some()),
            lately,
            silence,
            last_webhook: record.gaps.last,
        })
    }
}

impl Silence {
    /// Returns the silence at the time of the last check. Webhooks that arrived later were not
    /// checked yet.
    pub(in crate::verbs) fn of(
        source: &Source,
        rhythm: &ArrivalGaps,
        why: Option<Why>,
        now: UnixMillis,
    ) -> Self {
        let looked = rhythm.looked.unwrap_or(now).min(now);
        let silent = match rhythm.judge(source.quiet_after, looked) {
            Quiet::Silent { silent, .. } => Some(silent.as_secs()),
            Quiet::Ok | Quiet::Unknown => None,
        };
        Self {
            last_webhook_at: rhythm.last.map(|last| rfc3339(last.0)),
            usually_s: rhythm.usual().map(|usual| usual.as_secs()),
            quiet_after_s: rhythm
                .quiet_after(source.quiet_after)
                .map(|after| after.as_secs()),
            silent_s: silent,
            why: silent.and(why),
            as_of: rhythm.looked.map(|looked| rfc3339(looked.0)),
        }
    }

    /// Returns a text such as `silent 36m20s, usually every 4m`. Returns `None` if the source is
    /// not silent.
    pub(in crate::verbs) fn note(&self) -> Option<String> {
        let mut note = format!("silent {}", duration(self.silent_s?));
        if let Some(usually) = self.usually_s {
            let _ = write!(note, ", usually every {}", duration(usually));
        }
        match self.why {
            Some(Why::NothingHappened) => note += "; no events occurred at the provider",
            Some(Why::NotArriving(events)) => {
                let _ = write!(note, "; at least {events} events did not arrive");
            }
            Some(Why::Unknown) | None => {}
        }
        Some(note)
    }

    /// Returns a text such as `every 4m; silent after 12m`, or a text that says that the interval
    /// is not known yet.
    pub(in crate::verbs) fn rhythm(&self) -> String {
        let usually = match self.usually_s {
            Some(seconds) => format!("every {}", duration(seconds)),
            None => "not known yet".to_owned(),
        };
        match self.quiet_after_s {
            Some(after) => format!("{usually}; silent after {}", duration(after)),
            None => usually,
        }
    }
}

/// Returns the word for the state of a sync.
pub(in crate::verbs) fn standing(
    state: Option<&SyncState>,
    configured: bool,
    now: UnixMillis,
) -> &'static str {
    let Some(state) = state else {
        return if configured { "never ran" } else { "no sync" };
    };
    let held = state.lease.as_ref().is_some_and(|(_, until)| *until > now);
    let late = state
        .cursor
        .is_none_or(|cursor| now.since(cursor) > SYNC_EVERY * 3);
    match (held, &state.paused, late) {
        (true, _, _) => "running",
        (false, Some(_), _) => "paused",
        (false, None, true) => "late",
        (false, None, false) => "ok",
    }
}

/// Returns a percentage such as `4.9 %`, or `no events`.
pub(in crate::verbs) fn percent(rate: Option<f64>) -> String {
    rate.map_or("no events".to_owned(), |rate| format!("{rate:.1} %"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    #[test]
    fn a_sync_stands_in_one_of_six_ways() {
        let state = |ago: Option<u64>, lease: Option<i64>, paused: bool| SyncState {
            cursor: ago.map(|ago| NOW - Duration::from_secs(ago)),
            lease: lease.map(|left| ("backup-sync/1".to_owned(), UnixMillis(NOW.0 + left))),
            paused: paused.then_some((NOW, NOW)),
            ..SyncState::default()
        };
        for (expected, state) in [
            ("ok", state(Some(900), None, false)),
            ("late", state(Some(2701), None, false)),
            ("late", state(None, None, false)),
            ("paused", state(Some(900), None, true)),
            ("running", state(Some(900), Some(1000), true)),
            // The lease has expired, so the run that held it has stopped.
            ("ok", state(Some(900), Some(-1000), false)),
        ] {
            assert_eq!(standing(Some(&state), true, NOW), expected, "{state:?}");
        }
        assert_eq!(standing(None, true, NOW), "never ran");
        assert_eq!(standing(None, false, NOW), "no sync");
    }

    #[test]
    fn a_silence_is_said_in_a_line() {
        let silence = |why| Silence {
            usually_s: Some(240),
            quiet_after_s: Some(720),
            silent_s: Some(2180),
            why: Some(why),
            ..Silence::default()
        };
        let note = |why| silence(why).note().unwrap();
        assert_eq!(note(Why::Unknown), "silent 36m20s, usually every 4m");
        assert!(note(Why::NothingHappened).ends_with("; no events occurred at the provider"));
        assert!(note(Why::NotArriving(3)).ends_with("; at least 3 events did not arrive"));
        assert_eq!(silence(Why::Unknown).rhythm(), "every 4m; silent after 12m");
        assert_eq!(Silence::default().note(), None);
        assert_eq!(Silence::default().rhythm(), "not known yet");
    }

    #[test]
    fn no_events_are_not_zero_percent() {
        assert_eq!(percent(None), "no events");
        assert_eq!(percent(Some(0.0)), "0.0 %");
        assert_eq!(percent(Some(4.918)), "4.9 %");
    }
}
