//! Runs the chaos test with one protection removed. The judge must report the violation. If
//! the judge reported none, the chaos test would not show that the protection works.

use std::time::Duration;

use crate::agents::{self, Habit};
use crate::fault_schedule::{Protection, Weather};
use crate::run::Run;

const DELIVERIES: usize = 500;

async fn without(protection: Protection, name: &str, weather: Weather, broken: &str) {
    let without = Some(protection);
    let verdict = Run::of(name, Weather { without, ..weather }).await;
    assert!(
        verdict.names(broken),
        "without {protection:?} nothing is {broken}: see {}",
        verdict.folder.display()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_the_fence_a_stopped_worker_overwrites_the_next() {
    // Few processors are stopped, so that other workers have time to take over before the stopped
    // ones continue.
    let weather = Weather {
        zombies: 2,
        work: Duration::from_secs(2),
        ..Weather::calm(DELIVERIES / 2)
    };
    without(Protection::Fence, "no-fence", weather, "stale_commit").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_the_condition_a_duplicate_is_a_new_event() {
    let weather = Weather::calm(DELIVERIES);
    without(
        Protection::Condition,
        "no-condition",
        weather,
        "double_outcome",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_the_sweep_an_event_without_a_message_is_stuck() {
    let weather = Weather {
        faults: 0.2,
        // A sweep would have sent the message within this time.
        patience: Duration::from_secs(300),
        ..Weather::calm(DELIVERIES)
    };
    without(Protection::Sweep, "no-sweep", weather, "stuck").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_keys_the_destination_applies_effects_twice() {
    let weather = Weather {
        downstream_faults: 0.2,
        ..Weather::calm(DELIVERIES)
    };
    without(Protection::Keys, "no-keys", weather, "duplicate_effect").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_the_deed_what_is_done_was_never_done() {
    let weather = Weather::calm(DELIVERIES / 5);
    without(Protection::Deed, "no-deed", weather, "missing_effect").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_an_honest_answer_the_provider_does_not_try_again() {
    let weather = Weather {
        faults: 0.8,
        ..Weather::calm(DELIVERIES / 5)
    };
    without(
        Protection::HonestAnswer,
        "no-honest-answer",
        weather,
        "lost",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_silence_a_secret_is_read_in_logs_and_rows() {
    let weather = Weather::calm(DELIVERIES / 5);
    without(Protection::Silence, "no-silence", weather, "leak").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_a_second_look_a_captured_request_runs_again() {
    let weather = Weather::calm(DELIVERIES / 5);
    without(Protection::SecondLook, "no-second-look", weather, "unsent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_a_guard_handshakes_hide_and_sign_events() {
    let weather = Weather {
        without: Some(Protection::HandshakeGuard),
        ..Weather::calm(DELIVERIES / 5)
    };
    let verdict = Run::of("no-handshake-guard", weather).await;
    for broken in ["lost", "unsent"] {
        let folder = verdict.folder.display();
        assert!(verdict.names(broken), "nothing is {broken}: see {folder}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-ablations"]
async fn without_a_wait_before_the_search_a_ticket_is_opened_twice() {
    let weather = Weather {
        // Many calls arrive after the lease of their worker.
        downstream_faults: 0.5,
        ..agents::weather(100)
    };
    let verdict = Box::pin(agents::open_tickets("no-wait", weather, Habit::Hasty)).await;
    let folder = verdict.folder.display();
    assert!(
        verdict.names("duplicate_effect"),
        "no ticket is opened twice: see {folder}"
    );
}
