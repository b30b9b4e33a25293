//! A paused source with the real functions. Its events are stored but not processed, no event is
//! lost, and the events are processed after the source is resumed.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::pause::{LOOK_AGAIN, call_up};
use shared::inbox::ledger::transition::work_partition;
use shared::inbox::ledger::{FlagKind, FlagResult, Ledger, OperatorFlag};
use shared::webhook::event::EventKey;

use super::support::{Inbox, options, seconds_from_now, unique};
use super::support::{failures, record, work_message};

const PAUSE: FlagKind<'_> = FlagKind::Pause("github-main");

/// A time that is longer than any process needs to see the change.
const SOON: Duration = Duration::from_secs(30);

struct World {
    inbox: Inbox,
    ledger: Ledger,
}

impl World {
    async fn start(options: Options) -> Self {
        let inbox = Inbox::start(options).await;
        let clients = inbox.stack.clients();
        let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
        Self { inbox, ledger }
    }

    async fn pause(&self) -> OperatorFlag {
        let notice = OperatorFlag::new("anna", "a bad release", "", UnixMillis::now()).unwrap();
        let posted = self
            .ledger
            .operations()
            .set_flag(PAUSE, &notice)
            .await
            .unwrap();
        assert_eq!(posted, FlagResult::Set);
        notice
    }

    async fn ring(&self, key: &EventKey) {
        let record = record("1", &work_message(key));
        assert_eq!(failures(&self.inbox, &[record]).await, [""; 0]);
    }

    async fn state(&self, key: &EventKey) -> String {
        self.inbox.row(key).await["st"].as_s().unwrap().clone()
    }

    async fn number(&self, key: &EventKey, name: &str) -> i64 {
        let row = self.inbox.row(key).await;
        let number = row.get(name).and_then(|value| value.as_n().ok());
        number.map_or(0, |number| number.parse().unwrap())
    }

    /// Checks that the event has not begun: no claim, no attempt, no deferral.
    async fn is_untouched(&self, key: &EventKey) {
        assert_eq!(self.state(key).await, "received");
        for name in ["epoch", "att", "off", "cr"] {
            assert_eq!(self.number(key, name).await, 0, "{name}");
        }
    }

    async fn sweep(&self) -> Value {
        let task = json!({"task": "sweep"});
        let answer = self.inbox.invoke("BackupSync", &task).await;
        answer.json().unwrap()
    }

    /// Makes the event due for the sweep.
    async fn make_sleepy(&self, key: &EventKey) {
        let mut row = self.inbox.row(key).await;
        let long_ago = AttributeValue::N("1".into());
        let part = work_partition(&key.pk());
        row.insert("gsk".into(), long_ago);
        row.insert("gpk".into(), AttributeValue::S(part));
        self.inbox.put(row).await;
    }

    /// Waits for a condition, because a process may have read the pause five seconds ago.
    async fn until(&self, what: &str, is: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !is().await {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn a_paused_event_costs_nothing_and_other_sources_go_on() {
    let world = World::start(options()).await;
    let notice = world.pause().await;
    let key = world.inbox.new_event().await;
    for _ in 0..5 {
        world.ring(&key).await;
    }
    world.is_untouched(&key).await;

    let (id, at) = (unique(), seconds_from_now(0));
    let body = format!(r#"{{"id":"evt_{id}","type":"a"}}"#);
    let headers = world.inbox.timed("stripe-main", &id, &at, body.as_bytes());
    let answer = world.inbox.post("stripe-main", &headers, body.as_bytes());
    assert_eq!(answer.await.status, 200);
    let other = EventKey::new("stripe-main", &format!("evt_{id}"));
    world.ring(&other).await;
    assert_eq!(world.state(&other).await, "done");

    // The sweep postpones the event and sends no message, however often it runs.
    world.make_sleepy(&key).await;
    let before = UnixMillis::now();
    let report = world.sweep().await;
    assert_eq!(
        (&report["skipped_unreachable"], &report["sent"]),
        (&1.into(), &0.into()),
        "{report}"
    );
    let next = UnixMillis(world.number(&key, "gsk").await);
    assert!(next >= before + LOOK_AGAIN, "{next:?}");
    assert_eq!(world.sweep().await["checked"], 0);
    world.is_untouched(&key).await;

    // After the source is resumed, the event is scheduled, gets one message, and is done.
    assert!(
        world
            .ledger
            .operations()
            .clear_flag(PAUSE, &notice)
            .await
            .unwrap()
    );
    let called = call_up(&world.ledger, "github-main", UnixMillis::now()).await;
    assert_eq!(called.unwrap(), 1);
    world
        .until("the sweep sends a message", async || {
            let report = world.sweep().await;
            if report["skipped_unreachable"] == 1 {
                // A process may have read the old state of the pause.
                call_up(&world.ledger, "github-main", UnixMillis::now())
                    .await
                    .unwrap();
            }
            report["sent"] == 1
        })
        .await;
    world
        .until("the event is done", async || {
            world.ring(&key).await;
            world.state(&key).await == "done"
        })
        .await;
    assert_eq!(world.number(&key, "att").await, 1);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn what_is_resumed_drains_by_itself_and_nothing_is_lost() {
    let world = World::start(Options {
        mappings: true,
        max_processes: 4,
        ..options()
    })
    .await;
    let notice = world.pause().await;
    let mut keys = Vec::new();
    for _ in 0..40 {
        keys.push(world.inbox.new_event().await);
    }
    // The processor receives and drops every message.
    let depth = async || {
        let url = world.inbox.stack.queue_url("WorkQueue").unwrap();
        let queue = shared::inbox::queue::Queue::new(world.inbox.stack.clients().sqs, url);
        queue
            .depth(shared::inbox::queue::QueueName::Main)
            .await
            .unwrap()
    };
    world
        .until("all messages are received", async || depth().await == 0)
        .await;
    for key in &keys {
        world.is_untouched(key).await;
    }

    assert!(
        world
            .ledger
            .operations()
            .clear_flag(PAUSE, &notice)
            .await
            .unwrap()
    );
    tokio::time::sleep(shared::delivery::pause::REREAD + Duration::from_secs(1)).await;
    let called = call_up(&world.ledger, "github-main", UnixMillis::now()).await;
    assert_eq!(called.unwrap(), 40);
    let report = world.sweep().await;
    assert_eq!(report["sent"], 40, "{report}");
    for key in &keys {
        world
            .until("it is done", async || world.state(key).await == "done")
            .await;
        assert_eq!(world.number(key, "att").await, 1);
    }
    world.inbox.tells_nothing();
}
