//! Measures the functions' work on events. Each step runs in its own process, so that its processor
//! time can be measured separately from the store's.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use local::clients;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Claim, Lease, Ledger, Received, Settlement, SweepResult, Waiting};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

/// The number of events in one run of a step.
const EVENTS: usize = 50;

/// The steps: the printed description, and the argument that selects the step in this program.
pub(crate) const STEPS: [(&str, &str); 3] = [
    ("receive 50", "receive"),
    ("claim, settle 50", "work"),
    ("sweep, 1 a shard", "sweep"),
];

/// Returns the command that runs this program for one step. Each round has its own events.
pub(crate) fn command(step: &str, url: &str, table: &str, round: u32) -> Command {
    let this: PathBuf = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    command.args(["step", step, url, table, &round.to_string()]);
    command
}

/// Runs one step of a round.
pub(crate) async fn step(words: &[String]) {
    let [step, url, table, round] = words else {
        panic!("step NAME URL TABLE ROUND, not {words:?}");
    };
    let ledger = Ledger::new(clients::dynamodb(url), table, None);
    let now = UnixMillis::now();
    let ids = (0..EVENTS).map(|n| format!("evt_new_{round}_{n:04}"));
    match step.as_str() {
        "receive" => {
            for id in ids {
                let received = ledger.receive(&event(&id, now), now).await.unwrap();
                assert!(matches!(received, Received::New), "{received:?}");
            }
        }
        "work" => {
            for id in ids {
                work(&ledger, &EventKey::new(SOURCE, &id), now).await;
            }
        }
        "sweep" => sweep(&ledger, now).await,
        other => panic!("the step {other:?}"),
    }
}

const SOURCE: &str = "source-3";

fn event(id: &str, now: UnixMillis) -> Event {
    let body = format!(r#"{{"id":"{id}","data":{{"note":"{}"}}}}"#, "x".repeat(300));
    Event::fetched(Fetched {
        source: SOURCE,
        provider: "stripe",
        preset: "stripe",
        id,
        kind: "payment_intent.succeeded",
        body: body.into(),
        now,
        via: Via::Webhook,
        config: "scale",
    })
}

async fn work(ledger: &Ledger, key: &EventKey, now: UnixMillis) {
    let lease = lease(ledger, key, now).await;
    let settled = ledger.settle(lease, Settlement::Done, &[], now);
    settled.await.unwrap();
}

async fn lease(ledger: &Ledger, key: &EventKey, now: UnixMillis) -> Lease {
    let lease = Duration::from_secs(35);
    let claim = ledger.claim(key, "scale", now, lease, 10).await.unwrap();
    match claim {
        Claim::Leased(lease) => *lease,
        other => panic!("{other:?}"),
    }
}

/// Sweeps the first event of each index partition that is due within the next hour. Every table has
/// some open events.
async fn sweep(ledger: &Ledger, now: UnixMillis) {
    let later = now + Duration::from_secs(3600);
    for shard in 0..Waiting::SHARDS {
        for (key, seen) in ledger.sweep().due(shard, later, 1).await.unwrap() {
            let swept = ledger
                .sweep()
                .sweep_one(&key, seen, 10, true, later)
                .await
                .unwrap();
            assert!(matches!(swept, SweepResult::Send(..)), "{swept:?}");
        }
    }
}
