//! Actions that take minutes: the worker renews its lease, and after a crash another worker makes the
//! next attempt with the same idempotency key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use processor::Processor;
use shared::aws::outbound::{Answer, Inside};
use shared::inbox::ledger::State;
use shared::inbox::queue::WorkMessage;
use shared::webhook::event::EventKey;
use simulation::clock;
use simulation::sandbox::{SOURCE, Sandbox};
use simulation::wire::fate::{Down, Outage, Service};
use tokio::time::{Instant, sleep, timeout};

use super::world::{MINUTE, SECOND, World, live, now};

/// What the destination did: the starts and the ends of its work, by idempotency key.
type Seen = Arc<Mutex<BTreeMap<String, (usize, usize)>>>;

/// Returns a destination that answers after eight minutes. It works on, even if the caller goes away.
fn handler(seen: &Seen) -> Inside {
    let seen = Arc::clone(seen);
    Arc::new(move |request| {
        let key = request.headers()["idempotency-key"].to_str().unwrap();
        let (key, seen) = (key.to_owned(), Arc::clone(&seen));
        seen.lock().unwrap().entry(key.clone()).or_default().0 += 1;
        let work = async move {
            sleep(8 * MINUTE).await;
            seen.lock().unwrap().entry(key).or_default().1 += 1;
        };
        let work = tokio::spawn(work);
        Box::pin(async move {
            work.await.unwrap();
            Ok(Answer {
                status: 200,
                ..Answer::default()
            })
        })
    })
}

fn sources(timeout: &str) -> String {
    format!(
        "schema = 1\n[forward]\nallow_hosts = [\"slow.example\"]\n\
         [[source]]\nname = \"{SOURCE}\"\npreset = \"stripe\"\n\
         [[source.action]]\nkind = \"http\"\nurl = \"https://slow.example/hook\"\n\
         sign = \"none\"\ntimeout = \"{timeout}\"\n"
    )
}

fn worker(world: &World, seen: &Seen) -> std::rc::Rc<Sandbox<Processor>> {
    let sandboxes = &world.sandboxes;
    sandboxes
        .processor_of(&sources("10m"), handler(seen), true)
        .unwrap()
}

/// Delivers the message of an event, as the event source mapping does. Returns whether the queue
/// must redeliver it.
async fn deliver(worker: &Sandbox<Processor>, key: &EventKey) -> bool {
    let message = WorkMessage {
        key: key.clone(),
        run: 0,
    };
    let mut record = SqsMessage::default();
    record.message_id = Some("1".to_owned());
    record.body = Some(message.to_message());
    let mut batch = SqsEvent::default();
    batch.records = vec![record];
    let deadline = now() + 15 * MINUTE;
    let answer = worker.function.process_batch(batch, deadline).await;
    !answer.batch_item_failures.is_empty()
}

async fn state(world: &World, key: &EventKey) -> (State, u32) {
    let row = world.ledger.event(key).await.unwrap().unwrap();
    (row.state, row.attempts)
}

fn totals(seen: &Seen) -> Vec<(usize, usize)> {
    seen.lock().unwrap().values().copied().collect()
}

#[test]
fn a_handler_of_eight_minutes_is_called_once() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let (first, second) = (worker(&world, &seen), worker(&world, &seen));
        let began = Instant::now();
        let others = async {
            // In the meantime, the sweep finds the lease valid, and a copy of the message has no
            // effect.
            let mut sent = 0;
            for _ in 0..7 {
                sleep(MINUTE).await;
                sent += world.sweep().await.sent;
                assert!(!deliver(&second, &key).await);
                assert_eq!(state(&world, &key).await, (State::Processing, 1));
            }
            sent
        };
        let (redeliver, sent) = tokio::join!(deliver(&first, &key), others);
        assert_eq!((redeliver, sent), (false, 0));
        assert!(began.elapsed() < 8 * MINUTE + SECOND);
        assert_eq!(state(&world, &key).await, (State::Done, 1));
        assert_eq!(totals(&seen), [(1, 1)]);
    });
}

#[test]
fn after_a_crash_another_worker_calls_again_with_the_same_key() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let killed = worker(&world, &seen);
        let work = deliver(&killed, &key);
        assert!(timeout(5 * MINUTE, work).await.is_err());
        let mut waited = 0;
        while world.sweep().await.sent == 0 {
            sleep(MINUTE).await;
            waited += 1;
            assert!(waited < 5, "the lease ends after two minutes");
        }
        assert!(!deliver(&worker(&world, &seen), &key).await);
        assert_eq!(state(&world, &key).await, (State::Done, 2));
        assert_eq!(totals(&seen), [(2, 2)], "two calls with one key");
    });
}

/// Makes DynamoDB unavailable for some minutes.
fn outage(world: &World, minutes: i64) {
    let from_ms = i64::try_from(clock::elapsed().as_millis()).unwrap();
    world.stores.lock().scenario.outages.push(Outage {
        what: Down::Service(Service::DynamoDb),
        from_ms,
        to_ms: from_ms + minutes * 60_000,
    });
}

#[test]
fn a_worker_that_cannot_renew_its_lease_stops_in_time() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let cut_off = worker(&world, &seen);
        let began = Instant::now();
        let trouble = async {
            sleep(MINUTE).await;
            outage(&world, 4);
        };
        let (redeliver, ()) = tokio::join!(deliver(&cut_off, &key), trouble);
        assert!(redeliver, "the result is unknown");
        // The renewal after 50 s succeeded, so the lease ends after 170 s.
        assert!(began.elapsed() < 170 * SECOND, "{:?}", began.elapsed());
        sleep(3 * MINUTE).await;
        assert_eq!(state(&world, &key).await, (State::Processing, 1));
        assert!(!deliver(&worker(&world, &seen), &key).await);
        assert_eq!(state(&world, &key).await, (State::Done, 2));
        assert_eq!(totals(&seen).len(), 1, "one key");
    });
}

#[test]
fn a_short_outage_does_not_interrupt_a_long_action() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let worker = worker(&world, &seen);
        let trouble = async {
            sleep(2 * MINUTE + 20 * SECOND).await;
            outage(&world, 1);
        };
        let (redeliver, ()) = tokio::join!(deliver(&worker, &key), trouble);
        assert!(!redeliver);
        assert_eq!(state(&world, &key).await, (State::Done, 1));
        assert_eq!(totals(&seen), [(1, 1)]);
    });
}

#[test]
fn without_a_function_for_long_actions_an_event_becomes_a_dead_letter() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let short = world.sandboxes;
        let short = short
            .processor_of(&sources("10m"), handler(&seen), false)
            .unwrap();
        assert!(!deliver(&short, &key).await);
        let row = world.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.state, State::DeadLetter);
        let error = row.error.unwrap_or_default();
        assert!(error.contains("LongActions=true"), "{error}");
        assert_eq!(totals(&seen), []);
    });
}

#[test]
fn an_action_that_takes_longer_than_its_timeout_is_tried_again() {
    live(async |world| {
        let seen = Seen::default();
        let key = world.comes("evt_1").await;
        let sandboxes = &world.sandboxes;
        let worker = sandboxes
            .processor_of(&sources("5m"), handler(&seen), true)
            .unwrap();
        let began = Instant::now();
        assert!(!deliver(&worker, &key).await);
        assert!(began.elapsed() < 5 * MINUTE + 10 * SECOND);
        assert_eq!(state(&world, &key).await, (State::Failed, 1));
    });
}
