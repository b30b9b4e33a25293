//! Models the catcher's time budget, in tenths of a second, with stores that answer late or never.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "budget";
const ME: &str = "catcher";

/// The times of the model: the end of the put into the ledger, the end of the spill, the time for
/// the message to the work queue, and the time in which the sender gets an answer.
const LEDGER: u8 = 15;
const KEEP: u8 = 22;
const RING: u8 = 3;
const PROMISE: u8 = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    KeepingIsCutOff,
    RingingIsCutOff,
    /// Sending the message has a separate time budget.
    RingHasItsShare,
    /// A timeout before the event is durable is answered with 503.
    CutOffIsNotKept,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    off: Option<Rule>,
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let breaks = |name, property, rule| {
        let off = Some(rule);
        Case::new(MODEL, name, Expect::Breaks(property), Budget { off })
    };
    vec![
        Case::new(MODEL, "the protocol", Expect::Holds, Budget { off: None }),
        breaks(
            "no timeout of the put",
            Property::AnsweredInTime,
            Rule::KeepingIsCutOff,
        ),
        breaks(
            "no timeout of the message",
            Property::AnsweredInTime,
            Rule::RingingIsCutOff,
        ),
        breaks(
            "one time budget for put and message",
            Property::KeptIsAcked,
            Rule::RingHasItsShare,
        ),
        breaks(
            "2xx after a timeout",
            Property::AckedIsKept,
            Rule::CutOffIsNotKept,
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    row: bool,
    spilled: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Keeping,
    /// The ledger has not confirmed the event.
    Spilling,
    /// The event has been durable since this time, and the catcher knows it.
    Ringing(u8),
    Answered {
        acked: bool,
        known: bool,
    },
}

impl Model for Budget {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            now: 0,
            row: false,
            spilled: false,
            phase: Phase::Keeping,
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        let go = |phase| World { phase, ..*world };
        let no = Phase::Answered {
            acked: false,
            known: false,
        };
        let yes = Phase::Answered {
            acked: true,
            known: true,
        };
        if !world.row {
            let to = World {
                row: true,
                ..*world
            };
            steps.maybe("ledger", "applies the put", to);
        }
        match world.phase {
            Phase::Keeping => {
                if world.row {
                    let to = go(Phase::Ringing(world.now));
                    steps.maybe("ledger", "answers", to);
                }
                steps.maybe("ledger", "refuses; the catcher spills", go(Phase::Spilling));
            }
            Phase::Spilling => {
                if world.spilled {
                    steps.maybe("spill queue", "answers; the catcher answers 2xx", go(yes));
                } else {
                    let to = World {
                        spilled: true,
                        ..*world
                    };
                    steps.maybe("spill queue", "takes the event", to);
                }
                steps.maybe("spill queue", "refuses; the catcher answers 503", go(no));
            }
            Phase::Ringing(_) => steps.maybe("queue", "answers; the catcher answers 2xx", go(yes)),
            Phase::Answered { .. } => {}
        }
        self.cut_off(*world, steps);
        if !self.is_over(*world) && world.now < PROMISE + 5 {
            let to = World {
                now: world.now + 1,
                ..*world
            };
            steps.sure("time", "passes: a tenth of a second", to);
        }
    }

    fn broken(&self, world: &World) -> Option<Property> {
        match world.phase {
            Phase::Answered { acked: true, .. } if !world.row && !world.spilled => {
                Some(Property::AckedIsKept)
            }
            Phase::Answered {
                acked: false,
                known: true,
            } => Some(Property::KeptIsAcked),
            Phase::Keeping | Phase::Spilling | Phase::Ringing(_) if world.now > PROMISE => {
                Some(Property::AnsweredInTime)
            }
            _ => None,
        }
    }

    fn at_rest(&self, world: &World) -> bool {
        matches!(world.phase, Phase::Answered { .. })
    }
}

impl Budget {
    fn has(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }

    /// Returns whether the catcher must answer before more time passes.
    fn is_over(self, world: World) -> bool {
        match world.phase {
            Phase::Keeping => world.now >= LEDGER && self.has(Rule::KeepingIsCutOff),
            Phase::Spilling => world.now >= KEEP && self.has(Rule::KeepingIsCutOff),
            Phase::Ringing(_) if !self.has(Rule::RingHasItsShare) => world.now >= KEEP,
            Phase::Ringing(since) => world.now >= since + RING && self.has(Rule::RingingIsCutOff),
            Phase::Answered { .. } => true,
        }
    }

    fn cut_off(self, world: World, steps: &mut Steps<World>) {
        if !self.is_over(world) {
            return;
        }
        let (what, acked, known) = match world.phase {
            Phase::Keeping if self.has(Rule::CutOffIsNotKept) => {
                let phase = Phase::Spilling;
                steps.sure(ME, "times out and spills", World { phase, ..world });
                return;
            }
            Phase::Spilling if self.has(Rule::CutOffIsNotKept) => {
                ("times out and answers 503", false, false)
            }
            Phase::Keeping | Phase::Spilling => ("times out and answers 2xx", true, false),
            Phase::Ringing(_) if self.has(Rule::RingHasItsShare) => (
                "times out while sending the message and answers 2xx",
                true,
                true,
            ),
            Phase::Ringing(_) => ("times out and answers 503", false, true),
            Phase::Answered { .. } => return,
        };
        let phase = Phase::Answered { acked, known };
        steps.sure(ME, what, World { phase, ..world });
    }
}
