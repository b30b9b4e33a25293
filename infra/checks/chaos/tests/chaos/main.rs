//! Runs the real functions while their environment fails. The program in `infra/tests/history`
//! judges the result.
//!
//! Senders deliver webhooks, many events twice. Proxies between the functions and their stores make
//! a share of the requests fail. Processes are killed and stopped, and the destination fails in
//! every possible way. At the end, the whole history is in files. A program that shares no code
//! with this one reports each violated guarantee. `make chaos` injects the faults. `make evolution`
//! deploys two releases instead. `make chaos CASE=agents` runs the clients for workers outside of
//! Lambda.
//!
//! `MITT_DELIVERIES` is the number of deliveries. `SEED` repeats the random choices of a run.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ablations;
mod agents;
mod caller;
mod cells;
mod downstream;
mod evolution;
mod fault_schedule;
mod faults;
mod history;
mod inbox;
mod killer;
mod load;
mod proxy;
mod rng;
mod run;
mod sender;
mod site;
mod stranger;
mod strip;

use fault_schedule::Weather;
use run::Run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_calm_day_every_event_is_done_once() {
    let verdict = Run::of("calm", Weather::calm(300)).await;
    assert!(verdict.is_sound(), "see {}", verdict.folder.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos"]
async fn faults_lose_no_acknowledged_event_and_repeat_none() {
    let deliveries = fault_schedule::number("MITT_DELIVERIES").unwrap_or(5_000);
    let verdict = Run::of("storm", Weather::storm(deliveries)).await;
    assert!(verdict.is_sound(), "see {}", verdict.folder.display());
}
