//! The case with workers outside of Lambda.

use super::{Case, Figure};
use crate::scenario::Scenario;

/// Workers outside of Lambda take the events of six sources from three queues.
pub const AGENTS: Case = Case {
    name: "agents take the events",
    figures: &[
        Figure::Lost,
        Figure::Stuck,
        Figure::DoubleOutcomes,
        Figure::DoubleEffects,
        Figure::Hollow,
        Figure::Unexplained,
        Figure::BadHistories,
        Figure::FalseConflicts,
        Figure::Early,
        Figure::Undrained,
        Figure::StaleWrites,
        Figure::Unapproved,
        Figure::Misplaced,
        Figure::Trespasses,
    ],
    messages: f64::INFINITY,
    scenario: agents,
};

fn agents(seed: u64, events: usize) -> Scenario {
    Scenario {
        agents: true,
        // The workers are slower than the functions.
        arrive_in_ms: events as u64 * 1_000,
        unwanted: 0,
        killers: 0,
        // The clock error is within the margin of the leases.
        skew_ms: 2_000,
        ..Scenario::rough(seed, events)
    }
}
