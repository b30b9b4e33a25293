//! Watches the inbox: reads past events if requested, then polls for new events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::try_join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Listed};
use shared::webhook::event::EventId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::wanted::Wanted;
use crate::output::aws::{Place, rewrite};
use crate::output::time::HOUR_MS;

/// The maximum number of events that are read for one hour of one source.
const MOST_AN_HOUR: usize = 1_000_000;

/// The number of hours that are read in parallel.
const AT_ONCE: usize = 8;

/// How far each poll reaches back. The index can show an event later than another event that was
/// received after it.
const BACK: Duration = Duration::from_secs(120);

/// How far every 30th poll reaches back. An event that waited in the spill queue is stored under
/// its original time of receipt. The local clock may also be ahead of the catcher's clock.
const FAR_LOOK: u32 = 30;
const FAR_BACK: Duration = Duration::from_secs(900);

/// How far the catcher's clock may be ahead of the local clock.
const AHEAD: Duration = Duration::from_secs(300);

/// The number of failed polls in a row after which `listen` stops.
const MOST_FAILURES: u32 = 10;

/// A message from the task that watches the inbox.
pub(super) enum News {
    /// The number of past events that follow.
    Backfill(usize),
    /// All further events are new.
    Live,
    Event(Listed),
    /// A read of the inbox failed. The watch retries it.
    Trouble(String),
    /// No further events can arrive.
    Over,
    Failed(anyhow::Error),
}

/// Reads the inbox once, then starts a task that watches it. The task ends when the receiver is
/// dropped.
pub(super) async fn start(
    ledger: Ledger,
    wanted: Arc<Wanted>,
    now: UnixMillis,
    every: Duration,
) -> anyhow::Result<UnboundedReceiver<News>> {
    let (news, heard) = unbounded_channel();
    let mut watch = Watch {
        ledger,
        wanted,
        seen: HashMap::new(),
        news,
    };
    watch.first_look(now).await?;
    if watch.is_over(now) {
        let _ = watch.news.send(News::Over);
        return Ok(heard);
    }
    let _ = watch.news.send(News::Live);
    tokio::spawn(async move {
        let end = watch.live(now - FAR_BACK, every).await;
        let _ = watch.news.send(end);
    });
    Ok(heard)
}

struct Watch {
    ledger: Ledger,
    wanted: Arc<Wanted>,
    /// The events that were sent to the receiver. An event is removed when no poll can find it
    /// again.
    seen: HashMap<EventId, UnixMillis>,
    news: UnboundedSender<News>,
}

impl Watch {
    /// Sends the selected past events. Remembers all other events that a later poll would find, so
    /// that the poll does not send them.
    async fn first_look(&mut self, now: UnixMillis) -> anyhow::Result<()> {
        let near = now - FAR_BACK;
        let since = self.wanted.since;
        let from = since.map_or(near, |since| since.min(near));
        let found = self.between(from, self.last(now + AHEAD)).await?;
        let is_told = |event: &Listed| since.is_some_and(|since| event.received_at >= since);
        let (told, known): (Vec<_>, Vec<_>) = found.into_iter().partition(is_told);
        for event in known {
            self.seen.insert(event.id, event.received_at);
        }
        if since.is_some() {
            let _ = self.news.send(News::Backfill(told.len()));
        }
        self.tell(told);
        Ok(())
    }

    async fn live(&mut self, from: UnixMillis, every: Duration) -> News {
        let mut failures = 0;
        for look in 1_u32.. {
            tokio::time::sleep(every * (1 << failures.min(5))).await;
            let now = UnixMillis::now();
            let back = if look.is_multiple_of(FAR_LOOK) {
                FAR_BACK
            } else {
                BACK
            };
            match self
                .between(from.max(now - back), self.last(now + AHEAD))
                .await
            {
                Ok(found) => {
                    failures = 0;
                    self.tell(found);
                }
                Err(error) if failures + 1 >= MOST_FAILURES => return News::Failed(error),
                Err(error) => {
                    failures += 1;
                    let _ = self
                        .news
                        .send(News::Trouble(error.root_cause().to_string()));
                }
            }
            if self.is_over(now) || self.news.is_closed() {
                break;
            }
            self.seen
                .retain(|_, at| *at + FAR_BACK + AHEAD + AHEAD > now);
        }
        News::Over
    }

    /// Returns whether the selection ends in the past, so that no further events can match.
    fn is_over(&self, now: UnixMillis) -> bool {
        self.wanted.until.is_some_and(|until| until <= now)
    }

    /// Returns the end of a poll: `to`, or the end of the selection if that is earlier.
    fn last(&self, to: UnixMillis) -> UnixMillis {
        let until = self.wanted.until.map(|until| UnixMillis(until.0 - 1));
        until.map_or(to, |until| until.min(to))
    }

    /// Returns the events of a time range that were not sent before, oldest first.
    async fn between(&self, from: UnixMillis, to: UnixMillis) -> anyhow::Result<Vec<Listed>> {
        let mut hours = futures::stream::iter(hours(from, to).collect::<Vec<_>>())
            .map(|(from, to)| {
                let of_each = self.wanted.sources.iter().map(move |source| {
                    self.ledger.received_in_hour(source, from, to, MOST_AN_HOUR)
                });
                try_join_all(of_each)
            })
            .buffered(AT_ONCE);
        let mut found = Vec::new();
        while let Some(hour) = hours.next().await {
            let all = hour?.into_iter().flatten();
            found.extend(
                all.filter(|event| self.wanted.lists(event) && !self.seen.contains_key(&event.id)),
            );
        }
        found.sort_by(|a: &Listed, b| a.id.cmp(&b.id));
        Ok(found)
    }

    fn tell(&mut self, found: Vec<Listed>) {
        for event in found {
            self.seen.insert(event.id.clone(), event.received_at);
            let _ = self.news.send(News::Event(event));
        }
    }
}

/// Returns the error in a few words.
pub(super) fn in_words(error: &anyhow::Error) -> String {
    rewrite(error, &Place::default()).message
}

/// Returns the UTC hours of a time range, because the `time` index is read by hour.
fn hours(from: UnixMillis, to: UnixMillis) -> impl Iterator<Item = (UnixMillis, UnixMillis)> {
    let end = move |at: i64| ((at.div_euclid(HOUR_MS) + 1) * HOUR_MS - 1).min(to.0);
    let starts = std::iter::successors(Some(from.0), move |at| Some(end(*at) + 1));
    starts
        .take_while(move |at| *at <= to.0)
        .map(move |at| (UnixMillis(at), UnixMillis(end(at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_hour_by_hour() {
        let of = |from, to| -> Vec<(i64, i64)> {
            hours(UnixMillis(from), UnixMillis(to))
                .map(|(from, to)| (from.0, to.0))
                .collect()
        };
        assert_eq!(of(10, 20), [(10, 20)]);
        assert_eq!(
            of(HOUR_MS - 1, 2 * HOUR_MS),
            [
                (HOUR_MS - 1, HOUR_MS - 1),
                (HOUR_MS, 2 * HOUR_MS - 1),
                (2 * HOUR_MS, 2 * HOUR_MS)
            ]
        );
        assert!(of(20, 10).is_empty());
    }
}
