//! Observes the events that workers outside of Lambda take, and those that wait for an approval.

use std::collections::{HashMap, HashSet};

use super::{number, text};
use crate::agents;
use crate::scenario::Scenario;
use crate::wire::dynamodb::Item;

/// The first characters of an owner that is a worker outside of Lambda.
const WORKER: &str = "w:";

#[derive(Debug, Default)]
pub(super) struct Agents {
    /// Whether the events of the run are those of workers.
    on: bool,
    /// The event and the fencing token of each invocation that answers a request about a lease.
    leases: HashMap<u64, (usize, i128)>,
    approved: HashSet<usize>,
    /// The held events that no person approves.
    forgotten: HashSet<usize>,
    /// Writes for workers that changed a row with a newer claim than theirs.
    pub(super) stale_writes: u64,
    /// Calls for an event that a rule holds, without an approval.
    pub(super) unapproved: u64,
    /// Writes after which an event was in another part of the index than its state says.
    pub(super) misplaced: u64,
    /// Claims of a processor for an event that waits for a worker or for a person.
    pub(super) trespasses: u64,
}

impl Agents {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let forgotten =
            |event: &usize| agents::is_held(*event) && agents::is_forgotten(scenario, *event);
        let events = if scenario.agents { scenario.events } else { 0 };
        Self {
            on: scenario.agents,
            forgotten: (0..events).filter(forgotten).collect(),
            ..Self::default()
        }
    }

    /// Returns whether the event is a dead letter because no person approved it.
    pub(super) fn is_forgotten(&self, event: usize, row: &Item) -> bool {
        text(row, "reason") == "approval_expired" && self.forgotten.contains(&event)
    }

    /// Records that an invocation answers a request about a lease with this fencing token.
    pub(super) fn leased(&mut self, invocation: u64, event: usize, epoch: i128) {
        self.leases.insert(invocation, (event, epoch));
    }

    /// Records a call to the tracker.
    pub(super) fn called(&mut self, event: usize) {
        let without = agents::is_held(event) && !self.approved.contains(&event);
        self.unapproved += u64::from(without);
    }

    /// Records a write of a state row.
    pub(super) fn saw(&mut self, event: usize, old: &Item, new: &Item, invocation: u64) {
        if !self.on {
            return;
        }
        let lease = self.leases.get(&invocation);
        let lease = lease.filter(|(of, _)| *of == event);
        let is_stale = lease.is_some_and(|(_, epoch)| number(old, "epoch") > *epoch);
        self.stale_writes += u64::from(is_stale);
        if old.contains_key("hld") && new.contains_key("apv") && text(new, "st") == "received" {
            self.approved.insert(event);
        }
        let owner = text(new, "own");
        let claimed = text(new, "st") == "processing" && text(old, "own") != owner;
        let waited = old.contains_key("pul") || old.contains_key("hld");
        self.trespasses += u64::from(claimed && waited && !owner.starts_with(WORKER));
        self.misplaced += u64::from(!is_in_place(new));
    }
}

/// Returns whether the row is in the part of the index in which its next reader looks.
fn is_in_place(row: &Item) -> bool {
    let part = text(row, "gpk");
    let open = if row.contains_key("hld") {
        "H#"
    } else if row.contains_key("pul") {
        "P#"
    } else {
        "W#"
    };
    match text(row, "st") {
        "done" => part.is_empty(),
        "dead_letter" => part.starts_with("D#"),
        // The processor finds an event that was just received by its time, and the sweep an event
        // whose worker crashed.
        "received" | "processing" if part.is_empty() => open == "W#",
        _ => part.starts_with(open),
    }
}

/// Returns the time at which a worker claimed an event, by the clock of its function: the owner is
/// `w:{role}:{time}:{worker}/{random}`.
pub(super) fn claimed_at(row: &Item) -> Option<i128> {
    let owner = text(row, "own").strip_prefix(WORKER)?;
    owner.split(':').nth(1)?.parse().ok()
}

/// Returns whether a person or the end of a hold made the event a dead letter.
pub(super) fn ends_a_hold(what: &str) -> bool {
    matches!(what, "approval_expired" | "rejected")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dynamodb::Value;

    fn row(attributes: &[(&str, &str)]) -> Item {
        let texts = attributes.iter();
        let texts = texts.map(|(name, value)| ((*name).to_owned(), Value::S((*value).to_owned())));
        texts.collect()
    }

    #[test]
    fn each_state_has_its_part_of_the_index() {
        for (state, more, part) in [
            ("received", "x", ""),
            ("received", "x", "W#3"),
            ("received", "pul", "P#agents-0"),
            ("received", "hld", "H#agents-0"),
            ("processing", "pul", "P#agents-0"),
            ("failed", "x", "W#1"),
            ("dead_letter", "x", "D#0"),
            ("done", "x", ""),
        ] {
            let keyed = |part: &str| {
                let mut row = row(&[("st", state), (more, "q")]);
                if !part.is_empty() {
                    row.extend([("gpk".to_owned(), Value::S(part.to_owned()))]);
                }
                row
            };
            assert!(is_in_place(&keyed(part)), "{state} {more} {part}");
            assert!(!is_in_place(&keyed("Z#0")), "{state} {more}");
        }
    }

    #[test]
    fn a_write_after_a_newer_claim_is_stale() {
        let mut agents = Agents {
            on: true,
            ..Agents::default()
        };
        let mut row = row(&[("st", "processing"), ("pul", "q"), ("gpk", "P#s")]);
        row.insert("epoch".to_owned(), Value::N("5".to_owned()));
        agents.leased(7, 1, 5);
        agents.leased(8, 1, 4);
        agents.saw(1, &row, &row, 7);
        agents.saw(2, &row, &row, 8);
        assert_eq!(agents.stale_writes, 0);
        agents.saw(1, &row, &row, 8);
        assert_eq!(agents.stale_writes, 1);
    }

    #[test]
    fn the_owner_says_when_a_worker_claimed_the_event() {
        let claimed = row(&[("own", "w:0123456789ab:1767571200000:triage-1/0123456789ab")]);
        assert_eq!(claimed_at(&claimed), Some(1_767_571_200_000));
        assert_eq!(claimed_at(&row(&[("own", "processor/0123")])), None);
    }
}
