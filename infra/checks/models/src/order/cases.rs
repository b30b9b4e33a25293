//! The modes of ordering, and the protections that each of them needs.

use super::{Mode, Order};
use crate::case::{Case, Expect};
use crate::property::Property;

const MODEL: &str = "order";
const LATEST_WINS: Mode = Mode::LatestWins { at_write: true };
const LOCKED: Mode = Mode::Fetch {
    lock: true,
    guard: false,
};
const STRICT: Mode = Mode::Strict {
    oldest_first: true,
    keyed: true,
};

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    [holds(), fails()].into_iter().flatten().collect()
}

/// Returns the modes with all their protections.
fn holds() -> Vec<Case> {
    let case = |name, order| Case::new(MODEL, name, Expect::Holds, order);
    vec![
        case("latest_wins", of(LATEST_WINS)),
        case(
            "latest_wins, three workers",
            Order {
                events: 2,
                workers: 3,
                ..of(LATEST_WINS)
            },
        )
        .large(),
        case(
            "fetch under a lock that outlives every worker",
            without_pauses(LOCKED),
        ),
        case(
            "fetch under a lock, with a guard",
            of(Mode::Fetch {
                lock: true,
                guard: true,
            }),
        ),
        case("strict", of(STRICT)),
    ]
}

/// Returns the cases that show the limits of the modes, and the modes without one of their
/// protections.
fn fails() -> Vec<Case> {
    let case = |name, expect, order| Case::new(MODEL, name, expect, order);
    let newest = Property::NewestStateWins;
    vec![
        case("none", Expect::Limit(newest), of(Mode::None)),
        case(
            "fetch under a lock that expires",
            Expect::Limit(newest),
            of(LOCKED),
        ),
        case(
            "latest_wins, compared before the write",
            Expect::Breaks(newest),
            of(Mode::LatestWins { at_write: false }),
        ),
        case(
            "fetch without a lock",
            Expect::Breaks(newest),
            without_pauses(Mode::Fetch {
                lock: false,
                guard: false,
            }),
        ),
        case(
            "strict by the lock alone",
            Expect::Breaks(Property::ArrivedInOrder),
            of(Mode::Strict {
                oldest_first: false,
                keyed: true,
            }),
        ),
        case(
            "strict at a destination without keys",
            Expect::Limit(Property::ArrivedInOrder),
            of(Mode::Strict {
                oldest_first: true,
                keyed: false,
            }),
        ),
    ]
}

fn of(mode: Mode) -> Order {
    Order {
        mode,
        events: 3,
        workers: 2,
        pauses: true,
    }
}

fn without_pauses(mode: Mode) -> Order {
    Order {
        pauses: false,
        ..of(mode)
    }
}
