//! Models the end of a trial: the provider retries an event while two sandboxes of the catcher change
//! from recording to delivering, at different times, and back.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "trial";

/// The maximum number of deliveries of the provider.
const DELIVERIES: u8 = 3;

/// The maximum number of changes of the configuration, over both sandboxes.
const CHANGES: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// An event that the route did not accept is adopted when it arrives again.
    Adopts,
    /// Only an answer with 2xx counts as accepted.
    OnlySuccessCounts,
    /// A failed adoption is answered with 503.
    FailedAdoptionIsNotAcked,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    off: Option<Rule>,
    /// Whether the case expects one effect only.
    once: bool,
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let case = |name, expect, off, once| Case::new(MODEL, name, expect, Trial { off, once });
    let lost = Expect::Breaks(Property::AckedIsKept);
    vec![
        case("the protocol", Expect::Holds, None, false),
        case(
            "a recorded event is a duplicate",
            lost,
            Some(Rule::Adopts),
            false,
        ),
        case(
            "every answer counts as accepted",
            lost,
            Some(Rule::OnlySuccessCounts),
            false,
        ),
        case(
            "2xx after a failed adoption",
            lost,
            Some(Rule::FailedAdoptionIsNotAcked),
            false,
        ),
        case(
            "the answer of the route was not recorded",
            Expect::Limit(Property::OneEffectPerKey),
            None,
            true,
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    None,
    /// The trial recorded the event.
    Recorded {
        accepted: bool,
    },
    /// A worker will process the event.
    Open,
    Processed,
}

/// A request that a sandbox is working on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    /// The sandbox asks the route, and puts the row at the same time.
    Asking {
        tried_put: bool,
        answer: Option<bool>,
    },
    /// The sandbox delivers: it puts the row.
    Putting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether each sandbox delivers.
    delivers: [bool; 2],
    changes: u8,
    left: u8,
    request: Option<Request>,
    row: Row,
    /// Whether the route answered a request with 2xx. It did the work.
    route: bool,
    /// Whether the provider got a 2xx.
    acked: bool,
}

impl Model for Trial {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            delivers: [false; 2],
            changes: CHANGES,
            left: DELIVERIES,
            request: None,
            row: Row::None,
            route: false,
            acked: false,
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        for sandbox in 0..2 {
            if world.changes > 0 {
                let mut to = *world;
                to.changes -= 1;
                to.delivers[sandbox] = !to.delivers[sandbox];
                steps.maybe("operator", "changes the mode of a sandbox", to);
            }
            // The provider retries also after a 2xx, because the answer can be lost.
            if world.request.is_none() && world.left > 0 {
                let request = if world.delivers[sandbox] {
                    Request::Putting
                } else {
                    Request::Asking {
                        tried_put: false,
                        answer: None,
                    }
                };
                let to = World {
                    left: world.left - 1,
                    request: Some(request),
                    ..*world
                };
                steps.maybe("provider", "delivers the event", to);
            }
        }
        if world.request.is_some() {
            steps.maybe("catcher", "is killed", answered(*world, false));
        }
        match world.request {
            Some(Request::Asking { tried_put, answer }) => {
                self.ask(*world, tried_put, answer, steps);
            }
            Some(Request::Putting) => self.put(*world, steps),
            None => {}
        }
        if world.row == Row::Open {
            let row = Row::Processed;
            steps.sure("worker", "processes the event", World { row, ..*world });
        }
    }

    fn broken(&self, world: &World) -> Option<Property> {
        let is_kept = world.route || matches!(world.row, Row::Open | Row::Processed);
        if world.acked && !is_kept {
            return Some(Property::AckedIsKept);
        }
        let twice = world.route && world.row == Row::Processed;
        (self.once && twice).then_some(Property::OneEffectPerKey)
    }

    fn at_rest(&self, world: &World) -> bool {
        world.request.is_none() && world.row != Row::Open
    }
}

impl Trial {
    fn has(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }

    /// The steps of a sandbox in the trial.
    fn ask(self, world: World, tried_put: bool, answer: Option<bool>, steps: &mut Steps<World>) {
        let go = |tried_put, answer| Some(Request::Asking { tried_put, answer });
        if !tried_put {
            let request = go(true, answer);
            let row = match world.row {
                Row::None => Row::Recorded { accepted: false },
                known => known,
            };
            steps.sure(
                "ledger",
                "records the event",
                World {
                    request,
                    row,
                    ..world
                },
            );
            steps.maybe(
                "ledger",
                "fails; the event is not recorded",
                World { request, ..world },
            );
        }
        if answer.is_none() {
            route_answers(world, tried_put, steps);
        }
        if let (true, Some(accepted)) = (tried_put, answer) {
            let counts = accepted || !self.has(Rule::OnlySuccessCounts);
            let row = match world.row {
                Row::Recorded { accepted: before } => Row::Recorded {
                    accepted: before || counts,
                },
                known => known,
            };
            let to = answered(World { row, ..world }, accepted);
            steps.sure(
                "catcher",
                "records the answer, and gives it to the provider",
                to,
            );
            let to = answered(world, accepted);
            steps.maybe(
                "catcher",
                "cannot record the answer, and gives it to the provider",
                to,
            );
        }
    }

    /// The steps of a sandbox that delivers.
    fn put(self, world: World, steps: &mut Steps<World>) {
        let adopts = self.has(Rule::Adopts);
        let row = match world.row {
            Row::None => Row::Open,
            Row::Recorded { accepted: false } if adopts => Row::Open,
            known => known,
        };
        let to = answered(World { row, ..world }, true);
        steps.sure("catcher", "puts or adopts the event, and answers 2xx", to);
        let is_adoption = world.row == Row::Recorded { accepted: false } && adopts;
        let acks = is_adoption && !self.has(Rule::FailedAdoptionIsNotAcked);
        steps.maybe(
            "ledger",
            "fails; the catcher answers",
            answered(world, acks),
        );
    }
}

/// The route answers, or does the work and does not answer in time.
fn route_answers(world: World, tried_put: bool, steps: &mut Steps<World>) {
    let heard = |accepted, route| World {
        request: Some(Request::Asking {
            tried_put,
            answer: Some(accepted),
        }),
        route: world.route || route,
        ..world
    };
    steps.sure("route", "answers 2xx", heard(true, true));
    steps.sure("route", "answers an error", heard(false, false));
    steps.maybe(
        "route",
        "does the work, and answers too late",
        heard(false, true),
    );
}

fn answered(world: World, acked: bool) -> World {
    World {
        request: None,
        acked: world.acked || acked,
        ..world
    }
}
