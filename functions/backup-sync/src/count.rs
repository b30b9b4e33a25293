//! Counts the events of each hour after its end, so that the cost of statistics does not depend on
//! the number of events.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::monitoring::hours::Arrived;
use shared::monitoring::hours::HourCount;

use crate::{BackupSync, RunTime};

/// The maximum time until a new event appears in the index.
const SETTLING: Duration = Duration::from_secs(120);

/// The time after the end of an hour at which the hour is counted for the second and last time. By
/// then, the drain has usually stored the spilled events of the hour.
const FINAL: Duration = Duration::from_secs(24 * 3600);

/// The number of past hours that are checked for a missing count.
const LOOK_BACK: i64 = 48;

/// The number of sources that are counted in parallel.
const AT_ONCE: usize = 8;

/// The time in a run after which no further hour is started. The next run continues.
const BUDGET: Duration = Duration::from_secs(120);

/// The result of a count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountReport {
    pub hours: u64,
    /// Events in the counted hours.
    pub events: u64,
    /// Hours that are left for the next run.
    pub left: u64,
}

impl BackupSync {
    /// Counts the hours that are due, newest first.
    pub(crate) async fn count_hours(&self, time: RunTime) -> anyhow::Result<CountReport> {
        let now = (self.clock)();
        let ledger = &self.services.inbox.ledger;
        let last = Hour::of(now - SETTLING).before(1);
        let first = last.before(LOOK_BACK - 1);
        let (known, _) = ledger.statistics().hour_counts(first, last).await?;
        let known: BTreeMap<Hour, UnixMillis> = known.iter().map(|c| (c.hour, c.as_of)).collect();
        let due = first.up_to(last).rev();
        let due = due.filter(|hour| is_due(*hour, known.get(hour).copied(), now));
        let until = time.until(BUDGET);
        let mut report = CountReport::default();
        for hour in due {
            if tokio::time::Instant::now() > until {
                report.left += 1;
                continue;
            }
            let mut sources = self.count_hour(hour).await?;
            ledger.statistics().note_active(hour, &sources).await?;
            sources.retain(|_, arrived| arrived.events > 0);
            let count = HourCount {
                hour,
                as_of: now,
                sources,
            };
            if ledger.statistics().keep_hour(&count).await? {
                report.hours += 1;
                let events = count.sources.values().map(|arrived| arrived.events);
                report.events += events.sum::<u64>();
            }
        }
        tracing::info!(
            hours = report.hours,
            events = report.events,
            left = report.left,
            "counted {} events of {} hours",
            report.events,
            report.hours,
        );
        Ok(report)
    }

    async fn count_hour(&self, hour: Hour) -> anyhow::Result<BTreeMap<String, Arrived>> {
        let ledger = &self.services.inbox.ledger;
        let span = (hour.begins(), UnixMillis(hour.ends().0 - 1));
        let config = self.services.sources.config();
        let counting = config.sources().map(async |source| {
            let (arrived, _) = ledger
                .statistics()
                .arrived(&source.name, span, usize::MAX)
                .await?;
            anyhow::Ok((source.name.clone(), arrived))
        });
        let counted = stream::iter(counting).buffer_unordered(AT_ONCE);
        counted.try_collect().await
    }
}

/// Returns whether an hour must be counted now. `as_of` is the time of its last count, if any.
fn is_due(hour: Hour, as_of: Option<UnixMillis>, now: UnixMillis) -> bool {
    let last_time = hour.ends() + FINAL;
    as_of.is_none_or(|as_of| as_of < last_time && last_time <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_counted_when_it_is_over_and_a_day_later_for_the_last_time() {
        let hour = Hour::of(UnixMillis(1_795_169_681_000));
        let at = |hours: u64| hour.ends() + Duration::from_secs(hours * 3600);
        assert!(is_due(hour, None, at(0)) && is_due(hour, None, at(40)));
        assert!(!is_due(hour, Some(at(0)), at(23)));
        assert!(is_due(hour, Some(at(0)), at(24)));
        assert!(!is_due(hour, Some(at(24)), at(40)));
    }
}
