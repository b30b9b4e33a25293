//! The people of a run: they approve held events, and replay events whose workers were killed too
//! often.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Again, By, HoldDecision, Ledger, Replayed};
use shared::inbox::queue::{Queue, WorkMessage};
use shared::webhook::event::EventKey;

use crate::fault_schedule::Sky;
use crate::history::History;
use crate::inbox::Inbox;

/// The interval between two looks at the held events.
const BETWEEN: Duration = Duration::from_millis(500);

/// The number of held events of a source that a person sees at once.
const PAGE: i32 = 50;

/// A time after every hold.
const FAR: UnixMillis = UnixMillis(i64::MAX);

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct People<'r> {
    sky: &'r Sky,
    history: &'r History,
    inbox: &'r Inbox,
    ledger: Ledger,
    queue: Queue,
}

impl<'r> People<'r> {
    pub(crate) fn new(sky: &'r Arc<Sky>, history: &'r Arc<History>, inbox: &'r Inbox) -> Self {
        let stack = &inbox.stack;
        let clients = stack.clients();
        Self {
            sky,
            history,
            inbox,
            ledger: Ledger::new(clients.dynamodb, stack.table().unwrap(), None),
            queue: Queue::new(clients.sqs, stack.queue_url("WorkQueue").unwrap()),
        }
    }

    /// Approves each held event. Never returns. Two people can try to approve the same event.
    pub(crate) async fn approve_as(&self, who: &str) {
        loop {
            for source in self.sky.weather.sources {
                let all = (UnixMillis(0), FAR);
                let (held, _) = self.ledger.held(source, all, PAGE).await.unwrap();
                for key in held {
                    self.decide(&key, who).await;
                }
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn decide(&self, key: &EventKey, who: &str) {
        let row = self.ledger.event(key).await.unwrap();
        let Some(hold) = row.and_then(|row| row.hold) else {
            // The index still has a hold that has ended.
            return;
        };
        let (now, why) = (UnixMillis::now(), "the ticket may be opened");
        let decided = self.ledger.approve(key, &hold.id, By { who, why }, now);
        let decided = decided.await.unwrap();
        let HoldDecision::Made(row) = &decided else {
            self.sky.count("approvals after those of another person");
            return;
        };
        self.history.approval(&json!({
            "at": now.0, "source": key.source(), "id": key.id(), "run": row.run, "hold": hold.id,
            "who": who,
        }));
        if let Some(message) = decided.work_message() {
            self.queue.send(&message, Duration::ZERO).await.unwrap();
        }
    }

    /// Replays the events that are dead letters because their workers were killed. Returns their
    /// number. A replay keeps what is known of the tickets.
    pub(crate) async fn replay(&self, plan: &str) -> usize {
        let (mut replayed, now) = (0, UnixMillis::now());
        for pk in self.inbox.rows_in(&["dead_letter"]).await {
            let key = EventKey::from_pk(&pk).unwrap();
            let row = self.ledger.event(&key).await.unwrap().unwrap();
            if row.reason.as_deref() != Some("crash_loop") {
                continue;
            }
            let again = Again {
                plan,
                seen: row.epoch,
                new_effects: false,
            };
            let plans = self.ledger.plans();
            let events = [(key.clone(), row.epoch)];
            plans.plan_events(plan, &events, now + HOUR).await.unwrap();
            let done = plans.replay(&key, &again, now).await.unwrap();
            assert_eq!(done, Replayed::Again, "{key}");
            let run = row.run + 1;
            let message = WorkMessage { key, run };
            self.queue.send(&message, Duration::ZERO).await.unwrap();
            self.sky.count("replayed after a crash loop");
            replayed += 1;
        }
        replayed
    }
}
