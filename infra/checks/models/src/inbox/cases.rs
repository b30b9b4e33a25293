//! The cases of the model, and the cases with a protection switched off.

use super::rules::{Expires, Inbox, Rule, Temper};
use crate::case::{Case, Expect};
use crate::property::Property;

const MODEL: &str = "inbox";
const PLAN: Inbox = Inbox::PLAN;
const UNKEYED: Inbox = Inbox {
    keyed: false,
    ..PLAN
};
const REPLAYED: Inbox = Inbox {
    deliveries: 1,
    attempts: 1,
    replays: 1,
    ..PLAN
};
const FAILS: Inbox = Inbox {
    temper: Temper::AlwaysFails,
    ..PLAN
};
const CRASHES: Inbox = Inbox {
    temper: Temper::AlwaysCrashes,
    ..PLAN
};
const LATE: Inbox = Inbox {
    expires: Expires::Row,
    ..PLAN
};

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let sets = [
        holds(),
        twice(),
        ways_in(),
        claims(),
        ends(),
        effects(),
        outside(),
    ];
    sets.into_iter().flatten().collect()
}

/// Returns the cases with all protections.
fn holds() -> Vec<Case> {
    let case = |name, of| Case::new(MODEL, name, Expect::Holds, of);
    let longer = PLAN.with(|m| (m.deliveries, m.attempts, m.crashes) = (1, 3, 3));
    let again = REPLAYED.with(|m| m.attempts = 2);
    vec![
        case("the protocol", PLAN),
        case("the destination accepts no key", UNKEYED),
        case("a destination that always fails", FAILS),
        case("an event that kills its workers", CRASHES),
        case(
            "an event that kills its workers, no key",
            CRASHES.with(|m| m.keyed = false),
        ),
        case("a replay", REPLAYED),
        case("a replay, no key", REPLAYED.with(|m| m.keyed = false)),
        case(
            "a replay that requests a new effect",
            REPLAYED.with(|m| m.new_effect = true),
        ),
        case("rows that expire", LATE).large(),
        case("two messages", PLAN.with(|m| m.bells = 2)).large(),
        case("three attempts, three crashes", longer).large(),
        case(
            "three attempts, three crashes, no key",
            longer.with(|m| m.keyed = false),
        )
        .large(),
        case(
            "three deliveries, two catchers",
            PLAN.with(|m| (m.deliveries, m.catchers) = (3, 2)),
        )
        .large(),
        case("a replay after two attempts", again).large(),
        case(
            "a replay after two attempts, no key",
            again.with(|m| m.keyed = false),
        )
        .large(),
    ]
}

/// Returns the cases without a redundant protection. Another protection is sufficient in them.
fn twice() -> Vec<Case> {
    let case = |name, of: Inbox, off| Case::new(MODEL, name, Expect::Holds, of.without(off));
    vec![
        case(
            "message before the put, with the sweep",
            PLAN,
            &[Rule::PutBeforeRing],
        )
        .large(),
        case("fence by epoch alone", REPLAYED, &[Rule::FenceByOwner]),
        case(
            "fence by claim id alone, and a replay resets the epoch",
            REPLAYED,
            &[Rule::FenceByEpoch, Rule::ReplayRaisesEpoch],
        ),
        case(
            "attempts counted when they fail",
            CRASHES,
            &[Rule::AttemptsCountedAtClaim],
        ),
        case("no crash counter", CRASHES, &[Rule::CrashesCounted]),
        case(
            "the sweep records no exhausted event",
            PLAN,
            &[Rule::SweepExhausts],
        ),
        case(
            "workers record no exhausted event",
            PLAN,
            &[Rule::WorkerExhausts],
        )
        .large(),
    ]
}

fn breaks(name: &'static str, property: Property, of: Inbox, off: &'static [Rule]) -> Case {
    Case::new(MODEL, name, Expect::Breaks(property), of.without(off))
}

fn ways_in() -> Vec<Case> {
    use Property::{AckedIsKept, EveryEventEnds, OneOutcomePerRun, WriterRings};
    vec![
        breaks(
            "answer before the put",
            AckedIsKept,
            PLAN,
            &[Rule::PutBeforeAck],
        ),
        breaks("no sweep", EveryEventEnds, PLAN, &[Rule::Sweep]),
        breaks(
            "no scan for new rows",
            EveryEventEnds,
            PLAN,
            &[Rule::SoughtByTime],
        ),
        breaks(
            "a sweep checkpoint ahead of the visible rows",
            EveryEventEnds,
            PLAN,
            &[Rule::MarkStaysBehind],
        ),
        breaks(
            "no sweep, message before the put",
            EveryEventEnds,
            PLAN,
            &[Rule::PutBeforeRing, Rule::Sweep],
        ),
        breaks(
            "own put mistaken for a duplicate",
            WriterRings,
            PLAN,
            &[Rule::OwnPut],
        ),
        breaks(
            "a row that expires before the last redelivery",
            OneOutcomePerRun,
            LATE,
            &[Rule::RowOutlivesRedelivery],
        ),
    ]
}

fn claims() -> Vec<Case> {
    use Property::{EveryEventEnds, LiveLeaseIsLeft, NewestClaimWrites, NoUnexecutedDeadLetter};
    vec![
        breaks(
            "own claim mistaken for another worker's",
            NoUnexecutedDeadLetter,
            PLAN,
            &[Rule::OwnClaim],
        ),
        breaks(
            "claim without a condition on the state",
            LiveLeaseIsLeft,
            PLAN,
            &[Rule::ClaimAsksForState],
        ),
        breaks(
            "other workers do not wait for the lease",
            LiveLeaseIsLeft,
            PLAN,
            &[Rule::OthersWaitForLease],
        ),
        breaks(
            "a lease that never expires",
            EveryEventEnds,
            PLAN,
            &[Rule::LeaseRunsOut],
        ),
        breaks(
            "the claim removes the row from the index",
            EveryEventEnds,
            PLAN,
            &[Rule::ClaimedRowIsSwept],
        ),
        breaks(
            "no fence",
            NewestClaimWrites,
            PLAN,
            &[Rule::FenceByEpoch, Rule::FenceByOwner],
        ),
        breaks(
            "fence by epoch alone, and a replay resets it",
            NewestClaimWrites,
            REPLAYED,
            &[Rule::FenceByOwner, Rule::ReplayRaisesEpoch],
        ),
    ]
}

fn ends() -> Vec<Case> {
    use Property::{EveryEventEnds, OneOutcomePerRun, WriterRings};
    let alone = |of: Inbox| of.with(|m| (m.deliveries, m.workers) = (1, 1));
    vec![
        breaks(
            "own settlement mistaken for a stale one",
            WriterRings,
            PLAN,
            &[Rule::OwnSettlement],
        ),
        breaks(
            "unlimited attempts",
            EveryEventEnds,
            alone(FAILS),
            &[Rule::AttemptsLimited],
        ),
        breaks(
            "attempts counted when they fail, no crash counter",
            EveryEventEnds,
            alone(CRASHES),
            &[Rule::AttemptsCountedAtClaim, Rule::CrashesCounted],
        ),
        breaks(
            "workers and sweep record no exhausted event",
            EveryEventEnds,
            PLAN,
            &[Rule::WorkerExhausts, Rule::SweepExhausts],
        ),
        breaks(
            "exhaustion without a condition",
            OneOutcomePerRun,
            PLAN,
            &[Rule::ExhaustAsksForEpoch],
        ),
    ]
}

fn effects() -> Vec<Case> {
    use Property::{DoneMeansHappened, NewestClaimWrites, OneEffectPerKey};
    let renewed = REPLAYED.with(|m| m.new_effect = true);
    vec![
        breaks(
            "a key for each attempt",
            OneEffectPerKey,
            PLAN,
            &[Rule::StableKey],
        ),
        breaks(
            "no intent for an effect without a key",
            OneEffectPerKey,
            UNKEYED,
            &[Rule::Intent],
        ),
        breaks(
            "an intent without the fence",
            NewestClaimWrites,
            UNKEYED,
            &[Rule::IntentIsFenced],
        ),
        breaks(
            "the known state of the effect is not checked",
            OneEffectPerKey,
            UNKEYED,
            &[Rule::KnownEffects],
        ),
        breaks(
            "a new effect that finds the old one done",
            DoneMeansHappened,
            renewed,
            &[Rule::NewEffectForgetsOld],
        ),
    ]
}

/// Returns the cases that show documented limits, or the behaviour of the code in rare situations.
fn outside() -> Vec<Case> {
    let case = |name, expect, of: Inbox| Case::new(MODEL, name, expect, of);
    let forgotten = PLAN.with(|m| m.expires = Expires::Key);
    let unheard = UNKEYED.with(|m| m.lost_for_good = 1);
    vec![
        case(
            "the destination forgets the key",
            Expect::Limit(Property::OneEffectPerKey),
            forgotten,
        ),
        case(
            "claims whose answers are lost permanently",
            Expect::Limit(Property::NoUnexecutedDeadLetter),
            PLAN.with(|m| m.lost_for_good = 2),
        ),
        case(
            "an intent whose answer is lost counts as a call",
            Expect::Breaks(Property::NoFalseDoubt),
            unheard.without(&[Rule::FailedIntentIsKnown]),
        ),
        case(
            "an intent whose answer is lost permanently",
            Expect::Holds,
            unheard,
        )
        .large(),
    ]
}
