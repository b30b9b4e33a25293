//! Makes each call to a service fail in each way, one after the other, while webhooks arrive.

use std::time::Duration;

use crate::fault_schedule::{Sky, Weather};
use crate::faults::Fault;
use crate::inbox::Inbox;
use crate::load::Load;
use crate::run::Run;
use crate::site::{Cell, SITES};

/// How many times a call fails in one way.
const TIMES: u64 = 20;

/// The time limit for these failures. Half of the requests of a call fail, so that a retry can
/// succeed.
const PATIENCE: Duration = Duration::from_secs(40);

const FAULTS: [Fault; 7] = [
    Fault::Refuse,
    Fault::LoseAnswer,
    Fault::Late(Duration::from_millis(900)),
    Fault::Error,
    Fault::Throttle,
    Fault::CutAnswer,
    Fault::Twice,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make chaos-cells"]
async fn each_call_may_fail_in_each_way() {
    let verdict = Run::of("cells", Weather::cells()).await;
    assert!(verdict.is_sound(), "see {}", verdict.folder.display());
}

/// Tests all cells (a call and a fault). Each fault must occur.
pub(crate) async fn visit(sky: &Sky, load: &Load, inbox: &Inbox) {
    let mut number = 0;
    let mut unmet = Vec::new();
    for site in SITES {
        eprintln!("{site}, {number} webhooks so far");
        for fault in FAULTS {
            let cell = Cell { site, fault };
            sky.enter(Some(cell));
            let until = tokio::time::Instant::now() + PATIENCE;
            while sky.met(cell) < TIMES && tokio::time::Instant::now() < until {
                // A process reads secrets only if it has none in memory, so a new process has to
                // start.
                match site {
                    "catcher's secrets" => inbox.restart("Catcher").await,
                    "processor's secrets" => inbox.restart("Processor").await,
                    _ => {}
                }
                // The sweep makes these calls without a webhook.
                if matches!(site, "list" | "depth") {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
                load.deliver(number..number + 20).await;
                number += 20;
            }
            if sky.met(cell) < TIMES {
                unmet.push((site, fault.word(), sky.met(cell)));
            }
        }
    }
    sky.enter(None);
    assert!(
        unmet.is_empty(),
        "fault occurred less often than {TIMES} times: {unmet:?}"
    );
}
