//! The silence check: reports which sources have stopped sending webhooks, and whether the provider
//! had events to send. For each source, a check reads one item, and from the index the events since
//! the previous check.

use std::time::Duration;

use serde::Serialize;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::monitoring::silence::{ArrivalGaps, Quiet, Why};
use shared::sources::Source;
use shared::sources::policy::QuietAfter;
use shared::webhook::event::Via;
use tokio::time::Instant;

use crate::BackupSync;
use crate::deadline::{cut, from_anywhere};

/// The maximum number of events since the last check that are examined, newest first.
const MOST: usize = 30;

/// The maximum time until a new event appears in the index.
const OVERLAP: Duration = Duration::from_secs(120);

/// How far back the first check reads. A later check does not read further back either.
const FIRST: Duration = Duration::from_secs(2 * 3600);

const HOUR_MS: i64 = 3_600_000;

/// A source that has stopped sending webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silence {
    pub source: String,
    pub silent_s: u64,
    /// The usual time between its webhooks, if known.
    pub usually_s: Option<u64>,
    pub why: Why,
}

impl BackupSync {
    /// Checks every source. An error of one source is logged, and does not stop the others. If no
    /// time is left for a source, the next run checks it from the end of its last check.
    pub(crate) async fn watch(&self, ends: Instant) -> Vec<Silence> {
        let mut silences = Vec::new();
        let config = self.services.sources.config();
        let sources = config.sources();
        let heard = sources.filter(|source| source.quiet_after != QuietAfter::Off);
        for source in from_anywhere(heard.collect()).unwrap_or_default() {
            let what = format!("the silence check of {}", source.name);
            match cut(ends, &what, self.listen(source)).await {
                Ok(silence) => silences.extend(silence),
                Err(error) => tracing::warn!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "could not check whether {} is silent",
                    source.name
                ),
            }
        }
        silences
    }

    async fn listen(&self, source: &Source) -> anyhow::Result<Option<Silence>> {
        let now = (self.clock)();
        let ledger = &self.services.inbox.ledger;
        let known = ledger.statistics().rhythm(&source.name).await?;
        let mut rhythm = known.clone();
        let (times, cut) = self.webhooks(&source.name, &known, now).await?;
        rhythm.heard(&times, cut, now);
        if !ledger
            .statistics()
            .keep_rhythm(&source.name, known.looked, &rhythm)
            .await?
        {
            // Another run is checking the source, and reports the result.
            return Ok(None);
        }
        let Quiet::Silent { silent, .. } = rhythm.judge(source.quiet_after, now) else {
            return Ok(None);
        };
        let silence = Silence {
            source: source.name.clone(),
            silent_s: silent.as_secs(),
            usually_s: rhythm.usual().map(|usual| usual.as_secs()),
            why: self.why(source, &rhythm, now).await?,
        };
        say(&silence);
        Ok(Some(silence))
    }

    /// Returns the times at which the newest webhooks since the last check arrived, and whether
    /// there were more.
    async fn webhooks(
        &self,
        source: &str,
        known: &ArrivalGaps,
        now: UnixMillis,
    ) -> anyhow::Result<(Vec<UnixMillis>, bool)> {
        let ledger = &self.services.inbox.ledger;
        let first = now - FIRST;
        let from = known
            .looked
            .map_or(first, |looked| (looked - OVERLAP).max(first));
        let mut newest = Vec::new();
        let mut to = now;
        while from <= to && newest.len() <= MOST {
            let hour = UnixMillis(to.0.div_euclid(HOUR_MS) * HOUR_MS).max(from);
            let room = MOST + 1 - newest.len();
            newest.extend(ledger.received_in_hour(source, hour, to, room).await?);
            to = UnixMillis(hour.0 - 1);
        }
        // Events before `from` were not read.
        let unheard = known.looked.is_some_and(|looked| looked < from);
        let cut = newest.len() > MOST || unheard;
        let mut times = Vec::new();
        for event in newest.iter().take(MOST) {
            // Because of the overlap, the last check has already read some of these events.
            let known = known.last.is_some_and(|last| event.received_at <= last);
            if known {
                continue;
            }
            let seen = ledger.seen(&event.key).await?;
            if seen.is_some_and(|seen| seen.via == Via::Webhook) {
                times.push(event.received_at);
            }
        }
        Ok((times, cut))
    }

    /// Returns what the sync knows about the time since the last webhook.
    async fn why(
        &self,
        source: &Source,
        rhythm: &ArrivalGaps,
        now: UnixMillis,
    ) -> anyhow::Result<Why> {
        let (Some(_), Some(last)) = (&source.sync, rhythm.last) else {
            return Ok(Why::Unknown);
        };
        let today = Day::of(now);
        let from = Day::of(last).max(today.before(7));
        let ledger = &self.services.inbox.ledger;
        let days = ledger
            .statistics()
            .day_counts(&source.name, from, today)
            .await?;
        Ok(Why::of(&days, last))
    }
}

/// Logs one line for operators, from which the template creates a metric.
fn say(silence: &Silence) {
    let source = &silence.source;
    let usually = match silence.usually_s {
        Some(seconds) => format!(" (usually one every {})", short(seconds)),
        None => String::new(),
    };
    let silent = short(silence.silent_s);
    match silence.why {
        Why::NothingHappened => {
            tracing::info!(
                source,
                "{source} has sent no webhook for {silent}{usually}: the provider had no events"
            );
        }
        Why::NotArriving(events) => {
            tracing::error!(
                source,
                silent_s = silence.silent_s,
                missed_since = events,
                "{source} has sent no webhook for {silent}{usually}: the provider had at least {events} events, and none of them arrived"
            );
        }
        Why::Unknown => {
            tracing::warn!(
                source,
                silent_s = silence.silent_s,
                "{source} has sent no webhook for {silent}{usually}"
            );
        }
    }
}

/// Formats seconds in a short form: `36m`, `4m`, `14s`.
fn short(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_short_to_read() {
        let said = [14, 240, 2160, 40_000, 300_000].map(short);
        assert_eq!(said, ["14s", "4m", "36m", "11h", "3d"]);
    }
}
