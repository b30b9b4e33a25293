//! What is run, what must come of it, and what comes of it without one of the protections.

use crate::scenario::{Scenario, Without};
use crate::wire::dynamodb::Weakness;
use crate::wire::fate::{Down, Odds, Outage, Service};
use crate::witness::Figures;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A number that is judged.
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
    Amplification,
}

impl Figure {
    pub const ALL: [Self; 10] = [
        Self::Lost,
        Self::Stuck,
        Self::DoubleOutcomes,
        Self::DoubleEffects,
        Self::Hollow,
        Self::Unexplained,
        Self::BadHistories,
        Self::FalseConflicts,
        Self::Early,
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
            Self::BadHistories => "tokens or histories that go back",
            Self::FalseConflicts => "events kept apart from themselves",
            Self::Early => "attempts begun before their time",
            Self::Amplification => "messages sent for each needed",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a count for people")]
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
            Self::Amplification => return figures.amplification(),
        };
        count as f64
    }

    /// The most that is allowed.
    pub fn most(self) -> f64 {
        if self == Self::Amplification {
            1.05
        } else {
            0.0
        }
    }

    pub fn holds(self, figures: &Figures) -> bool {
        self.of(figures) <= self.most()
    }
}

/// A kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub figures: &'static [Figure],
    pub scenario: fn(u64, usize) -> Scenario,
}

/// The zeros.
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
];

pub const ROUGH: Case = Case {
    name: "trouble at every step",
    figures: ZEROS,
    scenario: Scenario::rough,
};

pub const MONTH: Case = Case {
    name: "a month with outages",
    figures: &Figure::ALL,
    scenario: month,
};

pub const STOPPED: Case = Case {
    name: "the processor stops for 4 h",
    figures: &Figure::ALL,
    scenario: stopped,
};

/// Thirty days, in which each part is down once, and somebody empties the queue.
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

/// Ten hours of heavy traffic, in which the processor does nothing for four.
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

/// As a good day is.
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

/// A run without one of the protections, and the figure that shows it.
#[derive(Clone, Copy, Debug)]
pub struct Companion {
    pub without: &'static str,
    pub figure: Figure,
    pub case: Case,
    pub events: usize,
    pub change: fn(&mut Scenario),
}

/// What each protection is for.
pub fn companions() -> Vec<Companion> {
    let of = |without, figure, change| Companion {
        without,
        figure,
        case: ROUGH,
        events: 1_000,
        change,
    };
    vec![
        of("an honest answer to the sender", Figure::Lost, |s| {
            s.without = Some(Without::HonestAnswer);
            // A put that fails, of an event that comes once.
            s.odds.hangs = 1_500;
            s.odds.unreached = 1_500;
            s.duplicates = 0;
        }),
        of("the sweep", Figure::Stuck, |s| {
            s.without = Some(Without::Sweep);
            s.ends_after_ms = DAY_MS.unsigned_abs();
        }),
        of("counting attempts at the claim", Figure::Stuck, |s| {
            s.weakness = Some(Weakness::AttemptsNotCounted);
            s.killers = 100;
            s.ends_after_ms = DAY_MS.unsigned_abs() / 2;
        }),
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
            "a destination that does what it says",
            Figure::Hollow,
            |s| s.without = Some(Without::Deed),
        ),
        of("the lease", Figure::Early, |s| {
            s.weakness = Some(Weakness::NoLease);
            s.message_copies = 5_000;
            s.arrive_in_ms = 60_000;
        }),
        of("a token that grows", Figure::BadHistories, |s| {
            s.weakness = Some(Weakness::EpochStays);
        }),
        of("knowing an own write", Figure::FalseConflicts, |s| {
            s.weakness = Some(Weakness::OwnWriteUnseen);
            s.ends_after_ms = 2 * HOUR_MS.unsigned_abs();
        }),
        of("waiting until a retry is due", Figure::Early, |s| {
            s.weakness = Some(Weakness::NotWaiting);
        }),
        Companion {
            without: "the depth gate and pauses of the sweep",
            figure: Figure::Amplification,
            case: STOPPED,
            events: 10_000,
            change: |s| {
                s.without = Some(Without::DepthGate);
                s.weakness = Some(Weakness::PausesStay);
            },
        },
    ]
}
