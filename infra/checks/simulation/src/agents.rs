//! Workers outside of Lambda, the tracker in which they open a ticket for each event, and a person
//! who approves a part of the events.

mod approver;
mod client;
mod tracker;
mod worker;

use std::rc::Rc;

use crate::rng::Dice;
use crate::run::Run;
use crate::scenario::Scenario;
pub use tracker::Tracker;
use worker::Worker;

/// The sources whose events workers take.
pub const SOURCES: [&str; 6] = [
    "agents-0", "agents-1", "agents-2", "agents-3", "agents-4", "agents-5",
];

/// The queue of each source.
const QUEUES: [&str; 6] = [
    "triage", "triage", "refunds", "refunds", "reports", "reports",
];

/// The lease of each source.
const LEASES: [&str; 6] = ["30s", "1m", "2m", "5m", "10m", "15m"];

/// The number of workers of a queue.
const OF_EACH: usize = 2;

/// The maximum number of attempts of an event.
pub const ATTEMPTS: u32 = 30;

/// The role of the workers.
const ROLE: &str = "arn:aws:iam::111122223333:role/agent";

const RULE: &str = r#"
[[source.policy]]
name = "large"
where = [{ path = "$.data.held", equals = true }]
decide = "hold"
expires = "1h"
"#;

/// Starts the workers and the person.
pub fn act(run: &Rc<Run>) {
    if !run.world.lock().scenario.agents {
        return;
    }
    for queue in QUEUES.into_iter().step_by(2) {
        for number in 0..OF_EACH {
            let worker = Rc::new(Worker::new(run, queue, number));
            tokio::task::spawn_local(worker.run());
        }
    }
    tokio::task::spawn_local(approver::approve(run.clone()));
}

/// Returns the settings of the sources, with or without the rule that holds events. Only every second
/// source has it: the catcher leaves the events of the others to the workers itself.
pub fn sources(rule: bool) -> String {
    let each = SOURCES.into_iter().zip(QUEUES).zip(LEASES).enumerate();
    let each = each.map(|(place, ((name, queue), lease))| {
        let ruled = rule && place.is_multiple_of(2);
        let rule = if ruled { RULE } else { "" };
        format!(
            r#"
            [[source]]
            name = "{name}"
            preset = "stripe"
            secret = "{name}"
            retry = {{ attempts = {ATTEMPTS}, waits = ["5s", "30s", "2m"] }}
            [[source.action]]
            kind = "pull"
            name = "work"
            queue = "{queue}"
            lease = "{lease}"
            workers = ["{ROLE}"]
            {rule}
            "#
        )
    });
    each.collect()
}

/// Returns whether a rule holds the event. This is a third of the events, two of three of a source
/// with the rule.
pub fn is_held(event: usize) -> bool {
    event.is_multiple_of(2) && (event / SOURCES.len()) % 3 < 2
}

/// Returns whether no person decides about the event, if it is held.
pub fn is_forgotten(scenario: &Scenario, event: usize) -> bool {
    Dice::new(scenario.seed, 0x666f_7267_6f74 + event as u64).hits(1_000)
}
