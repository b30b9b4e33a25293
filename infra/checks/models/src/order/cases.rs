//! The modes of ordering, and what each of them depends on.

use super::{Mode, Order};
use crate::case::{Case, Expect};
use crate::property::Property;

const MODEL: &str = "order";

/// All cases.
pub fn cases() -> Vec<Case> {
    let of = |mode| Order {
        mode,
        events: 3,
        workers: 2,
        pauses: true,
    };
    let newest = Property::NewestStateWins;
    let latest_wins = Mode::LatestWins { at_write: true };
    let strict = Mode::Strict {
        oldest_first: true,
        keyed: true,
    };
    let case = |name, expect, of| Case::new(MODEL, name, expect, of);
    let locked = Mode::Fetch {
        lock: true,
        guard: false,
    };
    vec![
        case("latest_wins", Expect::Holds, of(latest_wins)),
        case(
            "latest_wins, three workers",
            Expect::Holds,
            Order {
                events: 2,
                workers: 3,
                ..of(latest_wins)
            },
        )
        .large(),
        case(
            "fetch under a lock that outlives every worker",
            Expect::Holds,
            Order {
                pauses: false,
                ..of(locked)
            },
        ),
        case(
            "fetch under a lock, with a guard",
            Expect::Holds,
            of(Mode::Fetch {
                lock: true,
                guard: true,
            }),
        ),
        case("strict", Expect::Holds, of(strict)),
        case("none", Expect::Limit(newest), of(Mode::None)),
        case(
            "fetch under a lock that expires",
            Expect::Limit(newest),
            of(locked),
        ),
        case(
            "latest_wins, compared before the write",
            Expect::Breaks(newest),
            of(Mode::LatestWins { at_write: false }),
        ),
        case(
            "fetch without a lock",
            Expect::Breaks(newest),
            Order {
                pauses: false,
                ..of(Mode::Fetch {
                    lock: false,
                    guard: false,
                })
            },
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
