//! Models the spill queue: what the catcher does while DynamoDB is unavailable, and how events get
//! into the ledger later.
//!
//! If the catcher cannot put a verified event, it sends the event to the spill queue, and
//! acknowledges the event when it is durable there. The drainer puts the event through the same
//! function as every other event. If the ledger keeps failing, the catcher skips it for some time.

mod drainer;

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "spill";
const CATCHER: &str = "catcher";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    SpillBeforeAck,
    /// The drainer deletes a message after the row is put.
    PutBeforeDelete,
    /// The drainer uses the same conditional put as the catcher.
    PutIsConditional,
    /// The age of a signature is measured at the time of receipt.
    JudgedAtReceipt,
    SpillOutlivesOutage,
    /// A message can be received as many times as an outage requires.
    ManyReceives,
}

#[derive(Clone, Copy, Debug)]
struct Spill {
    off: Option<Rule>,
    deliveries: u8,
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let breaks = |name, property, rule| {
        let of = Spill {
            off: Some(rule),
            deliveries: 2,
        };
        Case::new(MODEL, name, Expect::Breaks(property), of)
    };
    let holds = |name, deliveries| {
        let off = None;
        Case::new(MODEL, name, Expect::Holds, Spill { off, deliveries })
    };
    vec![
        holds("the protocol", 2),
        holds("five deliveries", 5),
        breaks(
            "answer before the spill is durable",
            Property::AckedIsKept,
            Rule::SpillBeforeAck,
        ),
        breaks(
            "delete before the put",
            Property::AckedIsKept,
            Rule::PutBeforeDelete,
        ),
        breaks(
            "the drainer overwrites",
            Property::OneOutcomePerRun,
            Rule::PutIsConditional,
        ),
        breaks(
            "the signature's age is checked at the drain",
            Property::AckedIsKept,
            Rule::JudgedAtReceipt,
        ),
        breaks(
            "the spill expires in the outage",
            Property::AckedIsKept,
            Rule::SpillOutlivesOutage,
        ),
        breaks(
            "few receives, without a redrive",
            Property::EveryEventEnds,
            Rule::ManyReceives,
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    deliveries: u8,
    acked: bool,
    up: bool,
    /// Whether time has passed since the event was signed.
    old: bool,
    row: Option<Row>,
    spilled: u8,
    /// The number of messages that were received too often.
    parked: u8,
    catcher: Catcher,
    drainer: Drainer,
    outcomes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Open,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Catcher {
    Free,
    Putting,
    Spilling,
    Answering,
    /// The catcher answers before the spill. This needs the protection off.
    AckingFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Drainer {
    Idle,
    Putting,
    Deleting,
    /// The drainer deletes a message before it puts the event. This needs the protection off.
    PuttingDeleted,
}

impl World {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn is_kept(&self) -> bool {
        let in_hand = matches!(self.drainer, Drainer::Putting | Drainer::Deleting);
        self.row.is_some() || self.spilled + self.parked > 0 || in_hand
    }
}

impl Model for Spill {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            deliveries: self.deliveries,
            acked: false,
            up: true,
            old: false,
            row: None,
            spilled: 0,
            parked: 0,
            catcher: Catcher::Free,
            drainer: Drainer::Idle,
            outcomes: 0,
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        self.catcher(world, steps);
        drainer::steps(*self, world, steps);
        self.around(world, steps);
    }

    fn broken(&self, world: &World) -> Option<Property> {
        if world.outcomes > 1 {
            return Some(Property::OneOutcomePerRun);
        }
        (world.acked && !world.is_kept()).then_some(Property::AckedIsKept)
    }

    fn at_rest(&self, world: &World) -> bool {
        world.row == Some(Row::Done) || !world.acked && !world.is_kept()
    }
}

impl Spill {
    fn has(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }

    fn around(self, world: &World, steps: &mut Steps<World>) {
        if world.up {
            steps.maybe("table", "goes down", world.with(|w| w.up = false));
        } else {
            steps.sure("table", "is available again", world.with(|w| w.up = true));
        }
        if !world.old {
            let to = world.with(|w| w.old = true);
            steps.maybe("time", "passes: the signature is no longer fresh", to);
        }
        if !world.up && world.spilled > 0 && !self.has(Rule::SpillOutlivesOutage) {
            let to = world.with(|w| w.spilled -= 1);
            steps.maybe("spill", "deletes a message that is too old", to);
        }
        if world.up && world.row == Some(Row::Open) {
            let to = world.with(|w| {
                w.row = Some(Row::Done);
                w.outcomes += 1;
            });
            steps.sure("processor", "does the work and records done", to);
        }
    }

    fn catcher(self, world: &World, steps: &mut Steps<World>) {
        let go = |to| world.with(|w| w.catcher = to);
        let spilled = |w: World| w.with(|w| w.spilled += 1);
        match world.catcher {
            Catcher::Free => {
                if world.deliveries > 0 {
                    let to = go(Catcher::Putting).with(|w| w.deliveries -= 1);
                    steps.maybe("provider", "delivers the event", to);
                    let to = go(self.unput()).with(|w| w.deliveries -= 1);
                    steps.maybe(
                        "provider",
                        "delivers the event while the catcher skips the table",
                        to,
                    );
                }
                return;
            }
            Catcher::Putting if world.up => {
                let put = |to| go(to).with(|w| w.row = w.row.or(Some(Row::Open)));
                steps.sure(CATCHER, "puts the row or finds it", put(Catcher::Answering));
                let to = put(self.unput());
                steps.maybe(CATCHER, "puts the row; the answer is lost", to);
            }
            Catcher::Putting => {
                steps.sure(CATCHER, "cannot put the row", go(self.unput()));
            }
            Catcher::Spilling => {
                let then = if self.has(Rule::SpillBeforeAck) {
                    Catcher::Answering
                } else {
                    Catcher::Free
                };
                steps.sure(CATCHER, "spills the request", spilled(go(then)));
                let unheard = spilled(go(Catcher::Free));
                steps.maybe(
                    CATCHER,
                    "spills the event; the answer is lost; answers 503",
                    unheard,
                );
                steps.maybe(
                    CATCHER,
                    "cannot spill the event and answers 503",
                    go(Catcher::Free),
                );
            }
            Catcher::Answering => {
                let acked = go(Catcher::Free).with(|w| w.acked = true);
                steps.sure(CATCHER, "answers 2xx", acked);
            }
            Catcher::AckingFirst => {
                let acked = go(Catcher::Spilling).with(|w| w.acked = true);
                steps.sure(CATCHER, "answers 2xx", acked);
            }
        }
        steps.maybe(CATCHER, "crashes", go(Catcher::Free));
    }

    fn unput(self) -> Catcher {
        if self.has(Rule::SpillBeforeAck) {
            Catcher::Spilling
        } else {
            Catcher::AckingFirst
        }
    }
}
