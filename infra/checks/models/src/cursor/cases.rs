//! The cases of the sync, and the cases with a protection switched off.

use super::{Mark, Rule, Sync};
use crate::case::{Case, Expect};
use crate::property::Property;

const MODEL: &str = "sync";
const FOUND: Property = Property::SyncFindsAll;

/// The basic case: two runs for three ticks, with the parameters of the code.
const PLAN: Sync = Sync {
    off: &[],
    mark: Mark::StartOfRun,
    lag: 1,
    overlap: 2,
    inclusive: true,
    last_tick: 3,
    events: 2,
    runs: 2,
    pages_expire: false,
};
const ALONE: Sync = Sync { runs: 1, ..PLAN };
const QUICK: Sync = Sync {
    last_tick: 2,
    ..PLAN
};
/// The case with less time, for a third event.
const SHORT: Sync = Sync {
    last_tick: 1,
    events: 3,
    ..PLAN
};

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    holds().into_iter().chain(breaks()).chain(pages()).collect()
}

fn holds() -> Vec<Case> {
    let case = |name, of| Case::new(MODEL, name, Expect::Holds, of);
    let both = &[Rule::Fence, Rule::CursorOnlyGrows];
    vec![
        case("one run", ALONE),
        case("two runs", QUICK),
        case("two runs, longer", PLAN).large(),
        case("three events", SHORT).large(),
        case("overlap = lag, inclusive", QUICK.with(|s| s.overlap = 1)).large(),
        // With two parallel runs, the fence and the growing cursor only avoid unnecessary calls.
        case("no fence", QUICK.with(|s| s.off = &[Rule::Fence])).large(),
        case(
            "no fence, and the cursor may go back",
            QUICK.with(|s| s.off = both),
        )
        .large(),
    ]
}

fn breaks() -> Vec<Case> {
    let case = |name, change: fn(&mut Sync)| {
        Case::new(MODEL, name, Expect::Breaks(FOUND), ALONE.with(change))
    };
    vec![
        case("no overlap", |s| s.overlap = 0),
        case("the newest event as cursor, no overlap", |s| {
            s.mark = Mark::NewestEvent;
            s.overlap = 0;
        }),
        case("overlap = lag, exclusive", |s| {
            s.overlap = 1;
            s.inclusive = false;
        }),
        case("the time at the end of the run as cursor", |s| {
            s.mark = Mark::EndOfRun;
        }),
        case("cursor before the puts", |s| {
            s.off = &[Rule::PutsBeforeAdvance];
        }),
        case("page before its puts", |s| s.off = &[Rule::PutsBeforePage]),
        case("a failed put is skipped", |s| {
            s.off = &[Rule::FailedPutEndsRun];
        }),
        case("a resumed run counts from its own start", |s| {
            s.events = 3;
            s.off = &[Rule::ResumedRunKeepsStart];
        }),
    ]
}

/// Returns the cases with a stored page from which a run must not or cannot continue.
fn pages() -> Vec<Case> {
    let breaks = |name, of| Case::new(MODEL, name, Expect::Breaks(FOUND), of);
    let holds = |name, of| Case::new(MODEL, name, Expect::Holds, of);
    let may_go_back = &[Rule::StalePageDropped, Rule::CursorOnlyGrows];
    vec![
        breaks(
            "a run continues from a page older than the cursor",
            SHORT.with(|s| s.off = &[Rule::StalePageDropped]),
        )
        .large(),
        holds(
            "the same with a cursor that may go back",
            SHORT.with(|s| s.off = may_go_back),
        )
        .large(),
        breaks(
            "a forgotten page is requested again",
            ALONE.with(|s| {
                s.pages_expire = true;
                s.off = &[Rule::RefusedPageDropped];
            }),
        ),
        holds(
            "a page that the provider forgets",
            QUICK.with(|s| s.pages_expire = true),
        )
        .large(),
    ]
}
