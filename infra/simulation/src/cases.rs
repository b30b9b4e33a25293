//! What is run, what must come of it, and what comes of it without one of the protections.

use crate::observer::Figures;
use crate::scenario::{Ordering, Scenario, Stranger, Without};
use crate::wire::dynamodb::Weakness;
use crate::wire::fate::{Down, Odds, Outage, Service};

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
    Undrained,
    Stale,
    Inversions,
    Forged,
    Refused,
    Delayed,
    Unfetched,
    Amplification,
}

impl Figure {
    pub const ALL: [Self; 17] = [
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
            Self::Undrained => "messages left in the spill queue",
            Self::Stale => "entities not in their newest version",
            Self::Inversions => "calls before an older event",
            Self::Forged => "events that no sender sent, or again",
            Self::Refused => "genuine requests refused",
            Self::Delayed => "genuine requests turned away too long",
            Self::Unfetched => "genuine keys not fetched in time",
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
            Self::Undrained => figures.undrained,
            Self::Stale => figures.stale,
            Self::Inversions => figures.inversions,
            Self::Forged => figures.forged,
            Self::Refused => figures.refused,
            Self::Delayed => figures.delayed,
            Self::Unfetched => figures.unfetched,
            Self::Amplification => return figures.amplification(),
        };
        count as f64
    }

    /// The most that is allowed in a case.
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

/// A kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub figures: &'static [Figure],
    /// The most messages for each that is needed.
    pub messages: f64,
    pub scenario: fn(u64, usize) -> Scenario,
}

impl Case {
    /// The figures of a world that do not hold, for who looks for the world.
    pub fn broken(&self, figures: &Figures) -> String {
        let broken = self
            .figures
            .iter()
            .filter(|figure| !figure.holds(self, figures));
        let names: Vec<&str> = broken.map(|figure| figure.name()).collect();
        names.join(", ")
    }
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
    Figure::Undrained,
];

pub const ROUGH: Case = Case {
    name: "trouble at every step",
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
    // Four hours of ten, not of a month: the sweep rings once for every event of these, and each
    // of their messages is late and moved once.
    messages: 2.5,
    scenario: stopped,
};

/// What holds where an event may be done without its actions, because a newer one was.
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

/// What holds for genuine senders, whatever a stranger does.
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

/// Nothing else goes wrong, so that each answer is judged.
pub const STRANGER: Case = Case {
    name: "a stranger beside genuine senders",
    figures: &Figure::ALL,
    messages: 1.2,
    scenario: stranger,
};

pub const STRANGER_AMID_TROUBLE: Case = Case {
    name: "a stranger amid trouble",
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
        // He sends them again.
        duplicates: 0,
        arrive_in_ms: 4 * HOUR_MS.unsigned_abs(),
        stranger: Some(STRANGER_DOES),
        ..Scenario::rough(seed, events)
    }
}

/// More junk than what is kept of it in a day, more unknown keys than are fetched in a round.
const STRANGER_DOES: Stranger = Stranger {
    junk: 260,
    unknown_keys: 3,
    names_keys_for: 60,
    captures: 2_500,
};

fn ordered(seed: u64, events: usize, mode: &'static str) -> Scenario {
    Scenario {
        order: Some(Ordering { mode, versions: 20 }),
        // An event that is never taken says nothing of the order.
        unwanted: 0,
        killers: 0,
        // Within the margin that leases allow for.
        skew_ms: 2_000,
        // So that the versions of an entity meet, in a small world as well.
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

fn unordered(scenario: &mut Scenario) {
    if let Some(order) = &mut scenario.order {
        order.mode = "none";
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
pub struct Ablation {
    pub without: &'static str,
    pub figure: Figure,
    pub case: Case,
    pub events: usize,
    pub change: fn(&mut Scenario),
}

/// What each protection is for.
pub fn ablations() -> Vec<Ablation> {
    [of_stores(), of_strangers()].concat()
}

fn of_stores() -> Vec<Ablation> {
    let of = |without, figure, change| Ablation {
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
        Ablation {
            without: "an order: the last state",
            figure: Figure::Stale,
            case: LATEST,
            events: 1_000,
            change: unordered,
        },
        Ablation {
            without: "an order: who goes first",
            figure: Figure::Inversions,
            case: STRICT,
            events: 1_000,
            change: unordered,
        },
        Ablation {
            without: "the depth gate and pauses of the sweep",
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

/// What keeps a stranger from costing genuine senders anything.
fn of_strangers() -> Vec<Ablation> {
    let of = |without, figure, change| Ablation {
        without,
        figure,
        case: STRANGER,
        events: 105,
        change,
    };
    vec![
        of("the second look at what is known", Figure::Forged, |s| {
            s.weakness = Some(Weakness::BlindMarker);
        }),
        of(
            "a budget for keys: what is fetched",
            Figure::Unfetched,
            |s| {
                s.weakness = Some(Weakness::SharedBudget);
            },
        ),
        of("a budget for keys: who waits", Figure::Delayed, |s| {
            s.weakness = Some(Weakness::SharedBudget);
        }),
        of("a guard on what a handshake signs", Figure::Forged, |s| {
            s.without = Some(Without::HandshakeGuard);
        }),
        of("clocks that agree", Figure::Refused, |s| {
            s.skew_ms = HOUR_MS;
        }),
    ]
}
