//! Runs the clients of `infra/clients` as workers outside of Lambda, while they, the functions and
//! the stores fail.
//!
//! The workers open tickets in a tracker that ignores idempotency keys. People approve a part of the
//! events first. The history check finds tickets that were opened twice, not at all, or without an
//! approval. After a kill in a call, the ticket is in doubt for a minute after the lease. So the run
//! ends two minutes or more after the last kill.
//!
//! `MITT_EVENTS` is the number of events.

mod clients;
mod people;
mod tracker;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shared::base::backoff::CRASHES;
use shared::base::clock::UnixMillis;

use self::clients::Clients;
pub(crate) use self::clients::Habit;
use self::people::People;
use self::tracker::Tracker;
use crate::fault_schedule::{self, Sky, Weather};
use crate::history::{History, Verdict};
use crate::inbox::{ATTEMPTS, Inbox, Setup};
use crate::killer;
use crate::load::Load;
use crate::sender::Canaries;

const SOURCES: [&str; 3] = ["github-main", "stripe-main", "standard-main"];

/// Returns the number of events that are delivered at once. The next ones wait until the workers have
/// called for most of them, so that the faults last as long as the work. A long run has larger waves.
fn wave(events: usize) -> usize {
    (events / 50).clamp(50, 200)
}

/// Returns the maximum time that the tracker takes for a call. A long run has shorter calls.
fn call_time(events: usize) -> Duration {
    Duration::from_secs(if events <= 1_000 { 5 } else { 1 })
}

/// The longest time for a wave. Events in doubt wait for a minute and a half.
const LONGEST_WAVE: Duration = Duration::from_secs(20);

/// The interval between two kills of a processor.
const PROCESSOR_KILLS: Duration = Duration::from_secs(2);

/// The maximum time in which the catcher answers. The run is about the workers, which need most of
/// the machine.
const ANSWER: Duration = Duration::from_secs(10);

/// The maximum time in which an event finishes after the faults end, or after its last retry was
/// due: three takeovers, each followed by a ticket in doubt.
const RECOVERY: Duration = Duration::from_secs(480);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos CASE=agents"]
async fn killed_workers_open_each_ticket_once() {
    let events = fault_schedule::number("MITT_EVENTS").unwrap_or(300);
    let verdict = Box::pin(open_tickets("agents", weather(events), Habit::Careful)).await;
    assert!(verdict.is_sound(), "see {}", verdict.folder.display());
}

/// Returns the faults of a run with this number of events.
pub(crate) fn weather(events: usize) -> Weather {
    Weather {
        sources: &SOURCES,
        // These are events of the third source, which has the rule.
        held: Some(21),
        faults: 0.03,
        downstream_faults: 0.06,
        work: call_time(events),
        stranger: false,
        patience: Duration::from_secs(600),
        // The sender makes 13 deliveries of 10 events.
        ..Weather::calm(events * 13 / 10)
    }
}

/// Makes one run.
pub(crate) async fn open_tickets(name: &str, weather: Weather, habit: Habit) -> Verdict {
    eprintln!("{name}: SEED={}", weather.seed);
    let began = Instant::now();
    let sky = Arc::new(Sky::new(weather));
    let history = Arc::new(History::new(name));
    let canaries = Canaries::new(&sky.dice);
    let tracker = Tracker::start(&sky, &history).await;
    let setup = Setup {
        sources: include_str!("agents/sources.toml").to_owned(),
        parameters: BTreeMap::from([("WorkerApi".to_owned(), "true".to_owned())]),
    };
    let inbox = Inbox::of(&sky, &history, &canaries, setup).await;
    let front = inbox.stack.front_url();
    let load = Load::new(&sky, &history, &canaries, front.clone());
    let people = People::new(&sky, &history, &inbox);
    let clients = Clients::start(&sky, &history, habit, (&front, &tracker.url));
    let calm_at = Cell::new(UnixMillis::now());
    let story = async {
        let delivering = async {
            deliver(&sky, &load, &tracker).await;
            let took = began.elapsed().as_secs();
            eprintln!("{name}: delivered after {took} s");
            sky.clear_up();
            calm_at.set(UnixMillis::now());
        };
        tokio::join!(
            delivering,
            clients.kill_while_stormy(),
            clients.stop_while_stormy(Duration::from_secs(3)),
            clients.stop_while_stormy(Duration::from_secs(20)),
            kill_processors(&sky, &history, &inbox),
        );
        let rest = comes_to_rest(&sky, &inbox, &people).await;
        let took = began.elapsed().as_secs();
        eprintln!("{name}: at rest: {rest}, after {took} s");
        clients.assert_running();
    };
    tokio::select! {
        () = story => {}
        () = inbox.keep_schedules(Duration::from_secs(1)) => unreachable!("schedules do not end"),
        () = people.approve_as("ann") => unreachable!("people do not end"),
        () = people.approve_as("ben") => unreachable!("people do not end"),
    }
    drop(clients);
    let run = summary(&sky, &canaries, began.elapsed(), calm_at.get());
    history.end(&inbox.stack, &run).await
}

/// Delivers the events in waves, and waits until workers have called for four fifths of them.
async fn deliver(sky: &Sky, load: &Load, tracker: &Tracker) {
    let events = sky.weather.deliveries * 10 / 13;
    let wave = wave(events);
    for first in (0..events).step_by(wave) {
        let last = events.min(first + wave);
        load.deliver(first..last).await;
        let until = Instant::now() + LONGEST_WAVE;
        while tracker.called() < last * 4 / 5 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn kill_processors(sky: &Sky, history: &History, inbox: &Inbox) {
    while sky.is_stormy() {
        tokio::time::sleep(PROCESSOR_KILLS).await;
        let running = inbox.stack.function_processes("Processor").unwrap();
        if let Some(process) = sky.dice.one_of(&running) {
            history.death(*process, "killed");
            killer::kill(*process);
            sky.count("killed Processor");
        }
    }
}

/// Waits until each event has ended. Replays the events whose workers were killed three times.
async fn comes_to_rest(sky: &Sky, inbox: &Inbox, people: &People<'_>) -> bool {
    for round in 0.. {
        if !inbox.comes_to_rest(sky.weather.patience).await {
            return false;
        }
        if people.replay(&format!("round-{round}")).await == 0 {
            break;
        }
    }
    true
}

/// Returns the data that the judge needs in addition to the history.
fn summary(sky: &Sky, canaries: &Canaries, took: Duration, calm_at: UnixMillis) -> Value {
    let actions = SOURCES.map(|source| (source.to_owned(), json!(["open-ticket"])));
    json!({
        "seed": sky.weather.seed,
        "took_s": took.as_secs(),
        "attempts": ATTEMPTS,
        "crashes": CRASHES,
        "answer_ms": ANSWER.as_millis(),
        "calm_at": calm_at.0,
        "recover_ms": RECOVERY.as_millis(),
        "actions": serde_json::Map::from_iter(actions),
        "canaries": canaries.all(),
        "must_be_empty": ["SpillQueue"],
        "done_to_it": sky.counted(),
    })
}
