//! The ablations: runs without one protection. They show what the protection prevents.

use super::{AGENTS, Case, DAY_MS, Figure, HOUR_MS, LATEST, ROUGH, STOPPED, STRANGER, STRICT};
use crate::scenario::{Scenario, Without};
use crate::wire::dynamodb::Weakness;

/// A run without one protection, and the figure that shows its effect.
#[derive(Clone, Copy, Debug)]
pub struct Ablation {
    pub without: &'static str,
    pub figure: Figure,
    pub case: Case,
    pub events: usize,
    pub change: fn(&mut Scenario),
}

/// Returns all ablations.
pub fn ablations() -> Vec<Ablation> {
    [
        of_settlement(),
        of_claims(),
        of_order(),
        of_strangers(),
        of_agents(),
    ]
    .concat()
}

/// Returns the ablations of the protections that settle every acknowledged event.
fn of_settlement() -> Vec<Ablation> {
    let of = rough;
    vec![
        of("a 2xx only for stored events", Figure::Lost, |s| {
            s.without = Some(Without::HonestAnswer);
            // Many puts fail, and each event is delivered only once.
            s.odds.hangs = 1_500;
            s.odds.unreached = 1_500;
            s.duplicates = 0;
        }),
        of("the sweep", Figure::Stuck, |s| {
            s.without = Some(Without::Sweep);
            s.ends_after_ms = DAY_MS.unsigned_abs();
        }),
        of("the drain", Figure::Undrained, |s| {
            s.without = Some(Without::Drain);
            s.ends_after_ms = DAY_MS.unsigned_abs();
        }),
        of("counting attempts at the claim", Figure::Stuck, |s| {
            s.weakness = Some(Weakness::AttemptsNotCounted);
            s.killers = 100;
            s.ends_after_ms = DAY_MS.unsigned_abs() / 2;
        }),
        of("counting an attempt once", Figure::Unexplained, |s| {
            s.weakness = Some(Weakness::AttemptsCountedTwice);
            s.destination_trouble = 5_000;
        }),
    ]
}

/// Returns the ablations of the protections of a claim, and of the effect under a claim.
fn of_claims() -> Vec<Ablation> {
    let of = rough;
    vec![
        of("the fence of a claim", Figure::DoubleOutcomes, |s| {
            s.weakness = Some(Weakness::NoFence);
            s.freezes = 300;
        }),
        of("the condition of the put", Figure::DoubleOutcomes, |s| {
            s.weakness = Some(Weakness::BlindPut);
        }),
        of("one key for all attempts", Figure::DoubleEffects, |s| {
            s.without = Some(Without::StableKey);
        }),
        of(
            "a destination that reports real effects",
            Figure::Hollow,
            |s| {
                s.without = Some(Without::Deed);
            },
        ),
        of("the lease", Figure::Early, |s| {
            s.weakness = Some(Weakness::NoLease);
            s.message_copies = 5_000;
            s.arrive_in_ms = 60_000;
        }),
        of("an increasing token", Figure::BadHistories, |s| {
            s.weakness = Some(Weakness::EpochStays);
        }),
        of("recognizing an own write", Figure::FalseConflicts, |s| {
            s.weakness = Some(Weakness::OwnWriteUnseen);
            s.ends_after_ms = 2 * HOUR_MS.unsigned_abs();
        }),
        of("waiting until a retry is due", Figure::Early, |s| {
            s.weakness = Some(Weakness::NotWaiting);
        }),
    ]
}

fn rough(without: &'static str, figure: Figure, change: fn(&mut Scenario)) -> Ablation {
    Ablation {
        without,
        figure,
        case: ROUGH,
        events: 1_000,
        change,
    }
}

/// Returns the ablations of the protections of the event order and of the queues.
fn of_order() -> Vec<Ablation> {
    vec![
        Ablation {
            without: "ordering: the last state",
            figure: Figure::Stale,
            case: LATEST,
            events: 1_000,
            change: unordered,
        },
        Ablation {
            without: "ordering: the sequence of calls",
            figure: Figure::Inversions,
            case: STRICT,
            events: 1_000,
            change: unordered,
        },
        Ablation {
            without: "capacity check and pauses of the sweep",
            figure: Figure::Amplification,
            case: STOPPED,
            events: 200,
            change: |s| {
                s.ends_after_ms = 6 * HOUR_MS.unsigned_abs();
                s.without = Some(Without::DepthGate);
                s.weakness = Some(Weakness::PausesStay);
            },
        },
    ]
}

/// Returns the ablations of the protections against a caller without a secret.
fn of_strangers() -> Vec<Ablation> {
    let of = |without, figure, change| Ablation {
        without,
        figure,
        case: STRANGER,
        events: 105,
        change,
    };
    vec![
        of("the check of stored markers", Figure::Forged, |s| {
            s.weakness = Some(Weakness::BlindMarker);
        }),
        of(
            "a separate budget for keys: fetching",
            Figure::Unfetched,
            |s| {
                s.weakness = Some(Weakness::SharedBudget);
            },
        ),
        of("a separate budget for keys: delay", Figure::Delayed, |s| {
            s.weakness = Some(Weakness::SharedBudget);
        }),
        of("the handshake guard", Figure::Forged, |s| {
            s.without = Some(Without::HandshakeGuard);
        }),
        of("synchronized clocks", Figure::Refused, |s| {
            s.skew_ms = HOUR_MS;
        }),
    ]
}

/// Returns the ablations of the protections of workers outside of Lambda and of approvals.
fn of_agents() -> Vec<Ablation> {
    let of = |without, figure, change| Ablation {
        without,
        figure,
        case: AGENTS,
        events: 300,
        change,
    };
    vec![
        of("agents: the fence of a claim", Figure::StaleWrites, |s| {
            s.weakness = Some(Weakness::NoFence);
            s.freezes = 300;
        }),
        of(
            "agents: the wait before a search",
            Figure::DoubleEffects,
            |s| {
                s.without = Some(Without::Wait);
            },
        ),
        of("agents: the rule that holds", Figure::Unapproved, |s| {
            s.without = Some(Without::Rule);
        }),
        of("agents: the queue in a claim", Figure::Trespasses, |s| {
            s.weakness = Some(Weakness::PullUnseen);
        }),
        of("agents: the hold in a claim", Figure::Trespasses, |s| {
            s.weakness = Some(Weakness::HoldUnseen);
        }),
        of("agents: the part of the index", Figure::Misplaced, |s| {
            s.weakness = Some(Weakness::PartStays);
            s.ends_after_ms = HOUR_MS.unsigned_abs();
        }),
    ]
}

fn unordered(scenario: &mut Scenario) {
    if let Some(order) = &mut scenario.order {
        order.mode = "none";
    }
}
