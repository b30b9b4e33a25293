//! Checks single rows for the sweep, and sends their messages.

use std::cell::Cell;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::base::backoff::Backoff;
use shared::base::clock::UnixMillis;
use shared::delivery::pause::LOOK_AGAIN;
use shared::inbox::ledger::SweepResult;
use shared::inbox::queue::{QueueName, WorkMessage};
use shared::webhook::event::EventKey;
use tokio::time::Instant;

use super::Work;
use super::capacity::Reservation;
use crate::BackupSync;

/// The number of rows that are checked in parallel.
const AT_ONCE: usize = 16;

/// The number of messages in one request, and the number of parallel requests.
const TOGETHER: usize = 10;
const REQUESTS: usize = 4;

/// A message that has to be sent now, because its row is already updated.
struct PendingSend {
    work_message: WorkMessage,
    delay: Duration,
    place: Reservation,
}

impl BackupSync {
    /// Checks these rows while time is left.
    pub(super) async fn sweep_rows(&self, rows: &[(EventKey, UnixMillis)], work: &Work) {
        stream::iter(rows)
            .map(|(key, seen)| self.sweep_row(key, *seen, work))
            .buffer_unordered(AT_ONCE)
            .filter_map(async |send| send)
            .boxed_local()
            .chunks(TOGETHER)
            .for_each_concurrent(REQUESTS, |sends| self.send_all(sends, work))
            .await;
    }

    async fn sweep_row(
        &self,
        key: &EventKey,
        seen: UnixMillis,
        work: &Work,
    ) -> Option<PendingSend> {
        if work.is_over() {
            work.more.set(true);
            return None;
        }
        work.report.borrow_mut().checked += 1;
        if self.skip_if_unreachable(key, seen, work).await {
            work.report.borrow_mut().skipped_unreachable += 1;
            return None;
        }
        self.decide(key, seen, work).await
    }

    /// Postpones an event if none of its destinations is reachable. Returns whether the event was
    /// postponed.
    async fn skip_if_unreachable(&self, key: &EventKey, seen: UnixMillis, work: &Work) -> bool {
        let config = self.services.sources.config();
        let Some(source) = config.source(key.source()) else {
            return false;
        };
        let now = (self.clock)();
        let next = match self.pauses.is_paused(&source.name, now).await {
            Ok(true) => Some(now + LOOK_AGAIN),
            Ok(false) => self.skipped_unreachable(source, now, &work.ahead).await,
            Err(error) => {
                // The processor checks this as well.
                tracing::warn!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "could not read whether {} is paused",
                    source.name
                );
                None
            }
        };
        let Some(next) = next else {
            return false;
        };
        let ledger = &self.services.inbox.ledger;
        match ledger.sweep().postpone(key, seen, next, now).await {
            Ok(later) => later,
            Err(error) => {
                tracing::warn!(event.key = %key, error = format!("{error:#}"), "could not postpone event {key}");
                false
            }
        }
    }

    async fn decide(&self, key: &EventKey, seen: UnixMillis, work: &Work) -> Option<PendingSend> {
        let config = self.services.sources.config();
        let attempts = match config.source(key.source()) {
            Some(source) => source.backoff.attempts,
            None => Backoff::default().attempts,
        };
        let place = Cell::new(None);
        let looked = self.services.inbox.ledger.sweep().sweep_one_if(
            key,
            seen,
            attempts,
            (self.clock)(),
            |wanted| {
                place.set(work.room.borrow_mut().admit(wanted, Instant::now()));
                place.get().is_some()
            },
        );
        let looked = looked.await;
        if let Some(place) = place.get()
            && !matches!(looked, Ok(SweepResult::Send(..)))
        {
            work.room.borrow_mut().give_back(place);
        }
        let mut report = work.report.borrow_mut();
        // An error of one row must not stop the others.
        match looked {
            Ok(SweepResult::Send(work_message, delay, _)) => {
                let place = place.get()?;
                return Some(PendingSend {
                    work_message,
                    delay,
                    place,
                });
            }
            Ok(SweepResult::Exhausted) => {
                tracing::error!(event.key = %key, outcome = "dead_letter", "event {key} is a dead letter: its attempts are used up");
                report.exhausted += 1;
            }
            Ok(SweepResult::Throttled(_)) => report.throttled += 1,
            // Newer code wrote the row, or another worker changed it. The rows behind it are still
            // checked.
            Ok(SweepResult::Skipped) => {}
            Err(error) => {
                tracing::error!(event.key = %key, error = format!("{error:#}"), "could not check event {key}");
                report.failed += 1;
            }
        }
        None
    }

    /// Sends messages. The rows already have the time of their next check, which sends a failed
    /// message again.
    async fn send_all(&self, sends: Vec<PendingSend>, work: &Work) {
        for lane in [QueueName::Main, QueueName::Backlog] {
            let there = sends.iter().filter(|send| send.place.there == lane);
            let messages: Vec<_> = there
                .map(|send| (send.work_message.clone(), send.delay))
                .collect();
            let sent = match self.services.inbox.queue.send_all(lane, &messages).await {
                Ok(took) => took.iter().filter(|took| **took).count(),
                Err(error) => {
                    let first = messages.first().map(|(message, _)| message.key.to_string());
                    tracing::warn!(
                        event.key = first,
                        count = messages.len(),
                        error = format!("{error:#}"),
                        "could not send messages for {} events",
                        messages.len()
                    );
                    0
                }
            };
            if lane == QueueName::Backlog && sent > 0 {
                work.to_feed.set(true);
                work.stirred.notify_one();
            }
            let mut report = work.report.borrow_mut();
            report.sent += sent as u64;
            report.failed += messages.len().saturating_sub(sent) as u64;
        }
    }
}
