//! The cases, and the figures that are checked in each of them.

mod ablations;
mod agents;

use crate::observer::Figures;
use crate::scenario::{Ordering, Scenario, Stranger};
use crate::wire::fate::{Down, Odds, Outage, Service};
pub use ablations::{Ablation, ablations};
pub use agents::AGENTS;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A figure that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Lost,
    Stuck,
    DoubleOutcomes,
    DoubleEffects,
    Hollow,
    Unexplained,
    BadHistories,
    FalseConflicts,
    Early,
    Undrained,
    Stale,
    Inversions,
    Forged,
    Refused,
    Delayed,
    Unfetched,
    StaleWrites,
    Unapproved,
    Misplaced,
    Trespasses,
    Amplification,
}

impl Figure {
    pub const ALL: [Self; 21] = [
        Self::Lost,
        Self::Stuck,
        Self::DoubleOutcomes,
        Self::DoubleEffects,
        Self::Hollow,
        Self::Unexplained,
        Self::BadHistories,
        Self::FalseConflicts,
        Self::Early,
        Self::Undrained,
        Self::Stale,
        Self::Inversions,
        Self::Forged,
        Self::Refused,
        Self::Delayed,
        Self::Unfetched,
        Self::StaleWrites,
        Self::Unapproved,
        Self::Misplaced,
        Self::Trespasses,
        Self::Amplification,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "acknowledged events lost",
            Self::Stuck => "events not settled at the end",
            Self::DoubleOutcomes => "second outcomes in one run",
            Self::DoubleEffects => "effects done twice",
            Self::Hollow => "events done without their effect",
            Self::Unexplained => "dead letters without a cause",
            Self::BadHistories => "invalid tokens or histories",
            Self::FalseConflicts => "events in conflict with themselves",
            Self::Early => "attempts started too early",
            Self::Undrained => "messages left in the spill queue",
            Self::Stale => "entities not in their newest version",
            Self::Inversions => "calls before an older event",
            Self::Forged => "forged or repeated events",
            Self::Refused => "genuine requests rejected",
            Self::Delayed => "genuine requests delayed too long",
            Self::Unfetched => "genuine keys not fetched in time",
            Self::StaleWrites => "writes after the end of a lease",
            Self::Unapproved => "calls without an approval",
            Self::Misplaced => "events in another part of the index",
            Self::Trespasses => "waiting events a processor claimed",
            Self::Amplification => "messages sent per message needed",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a count for display")]
    pub fn of(self, figures: &Figures) -> f64 {
        let count = match self {
            Self::Lost => figures.lost,
            Self::Stuck => figures.stuck,
            Self::DoubleOutcomes => figures.double_outcomes,
            Self::DoubleEffects => figures.double_effects,
            Self::Hollow => figures.hollow,
            Self::Unexplained => figures.unexplained,
            Self::BadHistories => figures.bad_histories,
            Self::FalseConflicts => figures.false_conflicts,
            Self::Early => figures.early,
            Self::Undrained => figures.undrained,
            Self::Stale => figures.stale,
            Self::Inversions => figures.inversions,
            Self::Forged => figures.forged,
            Self::Refused => figures.refused,
            Self::Delayed => figures.delayed,
            Self::Unfetched => figures.unfetched,
            Self::StaleWrites => figures.stale_writes,
            Self::Unapproved => figures.unapproved,
            Self::Misplaced => figures.misplaced,
            Self::Trespasses => figures.trespasses,
            Self::Amplification => return figures.amplification(),
        };
        count as f64
    }

    /// Returns the maximum value of the figure in a case.
    pub fn most(self, case: &Case) -> f64 {
        if self == Self::Amplification {
            case.messages
        } else {
            0.0
        }
    }

    pub fn holds(self, case: &Case, figures: &Figures) -> bool {
        self.of(figures) <= self.most(case)
    }
}

/// A kind of simulation run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub figures: &'static [Figure],
    /// The maximum number of messages sent per message needed.
    pub messages: f64,
    pub scenario: fn(u64, usize) -> Scenario,
}

impl Case {
    /// Returns the figures of a run that are above their maximum, as text for the debug output.
    pub fn broken(&self, figures: &Figures) -> String {
        let broken = self
            .figures
            .iter()
            .filter(|figure| !figure.holds(self, figures));
        let names: Vec<&str> = broken.map(|figure| figure.name()).collect();
        names.join(", ")
    }
}

/// The figures that must be zero in every case.
const ZEROS: &[Figure] = &[
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
];

pub const ROUGH: Case = Case {
    name: "faults at every step",
    figures: ZEROS,
    messages: f64::INFINITY,
    scenario: Scenario::rough,
};

pub const MONTH: Case = Case {
    name: "a month with outages",
    figures: &Figure::ALL,
    messages: 1.05,
    scenario: month,
};

pub const STOPPED: Case = Case {
    name: "the processor stops for 4 h",
    figures: &Figure::ALL,
    // The stop takes four of the ten hours. The sweep sends one message for every event of these
    // hours. Each of their original messages is late, and is moved to the backlog queue once.
    messages: 2.5,
    scenario: stopped,
};

/// The figures for runs in which an event may be done without its actions, because a newer event
/// was done.
const ORDERED: &[Figure] = &[
    Figure::Lost,
    Figure::Stuck,
    Figure::DoubleOutcomes,
    Figure::DoubleEffects,
    Figure::Unexplained,
    Figure::BadHistories,
    Figure::FalseConflicts,
    Figure::Early,
    Figure::Undrained,
    Figure::Stale,
];

pub const LATEST: Case = Case {
    name: "the latest version wins",
    figures: ORDERED,
    messages: f64::INFINITY,
    scenario: latest,
};

pub const STRICT: Case = Case {
    name: "strict order",
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
        Figure::Stale,
        Figure::Inversions,
    ],
    messages: f64::INFINITY,
    scenario: strict,
};

/// The figures for genuine senders, which must not depend on the stranger.
const STRANGERS: &[Figure] = &[
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
    Figure::Forged,
    Figure::Refused,
];

/// No other fault occurs in this case, so every answer can be checked.
pub const STRANGER: Case = Case {
    name: "a caller without a secret",
    figures: &Figure::ALL,
    messages: 1.2,
    scenario: stranger,
};

pub const STRANGER_AMID_TROUBLE: Case = Case {
    name: "a caller without a secret, with faults",
    figures: STRANGERS,
    messages: f64::INFINITY,
    scenario: stranger_amid_trouble,
};

pub fn stranger(seed: u64, events: usize) -> Scenario {
    Scenario {
        arrive_in_ms: 4 * HOUR_MS.unsigned_abs(),
        stranger: Some(STRANGER_DOES),
        ..Scenario::calm(seed, events)
    }
}

pub fn stranger_amid_trouble(seed: u64, events: usize) -> Scenario {
    Scenario {
        // The stranger posts the events a second time.
        duplicates: 0,
        arrive_in_ms: 4 * HOUR_MS.unsigned_abs(),
        stranger: Some(STRANGER_DOES),
        ..Scenario::rough(seed, events)
    }
}

/// The actions of the stranger: more junk than the quarantine stores in a day, and more unknown
/// keys than one round fetches.
const STRANGER_DOES: Stranger = Stranger {
    junk: 260,
    unknown_keys: 3,
    names_keys_for: 60,
    captures: 2_500,
};

fn ordered(seed: u64, events: usize, mode: &'static str) -> Scenario {
    Scenario {
        order: Some(Ordering { mode, versions: 20 }),
        // An event that the destination always rejects shows nothing about the order.
        unwanted: 0,
        killers: 0,
        // The clock error is within the margin of the leases.
        skew_ms: 2_000,
        // The interval is short, so that versions of an entity overlap in a small run too.
        arrive_in_ms: events as u64 * 400,
        ..Scenario::rough(seed, events)
    }
}

pub fn latest(seed: u64, events: usize) -> Scenario {
    ordered(seed, events, "latest_wins")
}

pub fn strict(seed: u64, events: usize) -> Scenario {
    ordered(seed, events, "strict")
}

/// Returns a run of thirty days in which each part is down once and an operator purges the queues.
pub fn month(seed: u64, events: usize) -> Scenario {
    let down = |what, day: i64, hours: i64| Outage {
        what,
        from_ms: day * DAY_MS,
        to_ms: day * DAY_MS + hours * HOUR_MS,
    };
    Scenario {
        arrive_in_ms: 30 * DAY_MS.unsigned_abs(),
        ends_after_ms: 40 * DAY_MS.unsigned_abs(),
        duplicates: 500,
        odds: quiet(),
        destination_trouble: 100,
        message_loss: 1,
        message_copies: 50,
        deaths: 2,
        freezes: 1,
        outages: vec![
            down(Down::Service(Service::DynamoDb), 3, 3),
            down(Down::Service(Service::Sqs), 8, 1),
            down(Down::Processor, 12, 4),
            down(Down::Sweep, 17, 2),
        ],
        purges_ms: vec![12 * DAY_MS + 2 * HOUR_MS, 21 * DAY_MS],
        ..Scenario::rough(seed, events)
    }
}

/// Returns a run of ten hours with heavy traffic, in which the processor is stopped for four hours.
pub fn stopped(seed: u64, events: usize) -> Scenario {
    let stop = Outage {
        what: Down::Processor,
        from_ms: HOUR_MS,
        to_ms: 5 * HOUR_MS,
    };
    Scenario {
        arrive_in_ms: 10 * HOUR_MS.unsigned_abs(),
        outages: vec![stop],
        purges_ms: Vec::new(),
        ..month(seed, events)
    }
}

/// Returns the fault rates of a normal day.
fn quiet() -> Odds {
    Odds {
        unreached: 2,
        refused: 5,
        throttled: 5,
        conflict: 0,
        hangs: 2,
        answer_cut: 5,
        answer_lost: 2,
        late: 2,
    }
}
