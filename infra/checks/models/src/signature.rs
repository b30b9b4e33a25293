//! Models the rule that one signature belongs to one event. A provider sends a request. A caller
//! posts the captured request again, with other bytes or under another id. The model contains the
//! marker of the signed message, and the rows.
//!
//! The catcher writes the marker before the row, with the name of the event. The catcher accepts
//! another request with the same name, and quarantines a request with another name.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "signature";
const NAMES: [&str; 2] = ["catcher 1", "catcher 2"];

#[derive(Clone, Copy, Debug)]
struct Signature {
    deliveries: u8,
    copies: u8,
    /// Whether the catcher stores and checks a marker of the signed message before it writes a row.
    second_look: bool,
    /// Whether a marker accepts its own event again.
    own_name: bool,
    /// Whether a request can be captured only after it was acknowledged.
    after_the_ack: bool,
}

const PLAN: Signature = Signature {
    deliveries: 2,
    copies: 2,
    second_look: true,
    own_name: true,
    after_the_ack: true,
};

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let case = |name, expect, of| Case::new(MODEL, name, expect, of);
    let breaks = |name, property, of| case(name, Expect::Breaks(property), of);
    vec![
        case("the protocol", Expect::Holds, PLAN),
        case(
            "three copies",
            Expect::Holds,
            Signature { copies: 3, ..PLAN },
        ),
        breaks(
            "no marker of the signed message",
            Property::OneEventPerSignature,
            Signature {
                second_look: false,
                ..PLAN
            },
        ),
        breaks(
            "a marker that rejects its own event",
            Property::AckedIsKept,
            Signature {
                own_name: false,
                ..PLAN
            },
        ),
        case(
            "a request is captured before it is stored",
            Expect::Limit(Property::OneEventPerSignature),
            Signature {
                after_the_ack: false,
                ..PLAN
            },
        ),
    ]
}

/// The event name in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    Own,
    Other,
}

/// A request with the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    name: Name,
    /// Whether the bytes are the provider's bytes.
    genuine: bool,
    of_provider: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Catcher {
    Free,
    Marking(Request),
    Putting(Request),
    Answering(Request),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    deliveries: u8,
    copies: u8,
    acked: bool,
    sent: bool,
    marker: Option<Name>,
    /// The rows that run, by name. The value tells whether the row has the provider's bytes.
    own: Option<bool>,
    other: Option<bool>,
    catchers: [Catcher; 2],
}

impl World {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn row(&mut self, name: Name) -> &mut Option<bool> {
        match name {
            Name::Own => &mut self.own,
            Name::Other => &mut self.other,
        }
    }
}

impl Model for Signature {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            deliveries: self.deliveries,
            copies: self.copies,
            acked: false,
            sent: false,
            marker: None,
            own: None,
            other: None,
            catchers: [Catcher::Free; 2],
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        for n in 0..2 {
            self.catcher(world, n, steps);
        }
    }

    fn broken(&self, world: &World) -> Option<Property> {
        let forged = world.own == Some(false) || world.other.is_some();
        if forged {
            return Some(Property::OneEventPerSignature);
        }
        let lost = world.acked && world.own.is_none();
        lost.then_some(Property::AckedIsKept)
    }

    fn at_rest(&self, world: &World) -> bool {
        world.catchers.iter().all(|one| *one == Catcher::Free)
    }
}

impl Signature {
    fn catcher(self, world: &World, n: usize, steps: &mut Steps<World>) {
        let me = NAMES[n];
        let go = |to| world.with(|w| w.catchers[n] = to);
        match world.catchers[n] {
            Catcher::Free => self.hear(world, n, steps),
            Catcher::Marking(request) => {
                let same = world.marker == Some(request.name) && self.own_name;
                if world.marker.is_none() || same {
                    let noted = |to| go(to).with(|w| w.marker = Some(request.name));
                    steps.sure(me, "stores the marker", noted(Catcher::Putting(request)));
                    let what = "stores the marker and crashes before the row";
                    steps.maybe(me, what, noted(Catcher::Free));
                } else {
                    let what = "finds the marker of another event and quarantines the request";
                    steps.sure(me, what, go(Catcher::Answering(request)));
                }
            }
            Catcher::Putting(request) => {
                let put = go(Catcher::Answering(request)).with(|w| {
                    w.row(request.name).get_or_insert(request.genuine);
                });
                steps.sure(
                    me,
                    "puts the row, finds it, or quarantines the request",
                    put,
                );
                steps.maybe(me, "crashes before the row", go(Catcher::Free));
            }
            Catcher::Answering(request) => {
                let answered = go(Catcher::Free).with(|w| w.acked |= request.of_provider);
                steps.sure(me, "answers 2xx", answered);
                steps.maybe(me, "crashes before the answer", go(Catcher::Free));
            }
        }
    }

    fn hear(self, world: &World, n: usize, steps: &mut Steps<World>) {
        let begin = |request| {
            let to = if self.second_look {
                Catcher::Marking(request)
            } else {
                Catcher::Putting(request)
            };
            world.with(|w| w.catchers[n] = to)
        };
        if world.deliveries > 0 && !world.acked {
            let request = Request {
                name: Name::Own,
                genuine: true,
                of_provider: true,
            };
            let to = begin(request).with(|w| {
                w.deliveries -= 1;
                w.sent = true;
            });
            steps.maybe("provider", "delivers the event", to);
        }
        let captured = if self.after_the_ack {
            world.acked
        } else {
            world.sent
        };
        if world.copies == 0 || !captured {
            return;
        }
        let copies = [
            (Name::Own, true, "posts the captured request"),
            (Name::Own, false, "posts it with other bytes"),
            (Name::Other, true, "posts it under another id"),
            (Name::Other, false, "posts it with other bytes and id"),
        ];
        for (name, genuine, what) in copies {
            let request = Request {
                name,
                genuine,
                of_provider: false,
            };
            let to = begin(request).with(|w| w.copies -= 1);
            steps.maybe("stranger", what, to);
        }
    }
}
