//! The cases of the model, and the cases with a protection switched off.

use super::rules::{Agents, InDoubt, Rule};
use crate::case::{Case, Expect};
use crate::property::Property;

const MODEL: &str = "agents";
const PULL: Agents = Agents::PULL;
const HOLD: Agents = Agents::HOLD;
const EXTENDED: Agents = Agents {
    extends: true,
    ..PULL
};
const TWO_PROCESSORS: Agents = Agents {
    processors: 2,
    replays: 0,
    ..PULL
};

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let sets = [holds(), twice(), claims(), effects(), approvals()];
    sets.into_iter().flatten().collect()
}

/// Returns the cases with all protections.
fn holds() -> Vec<Case> {
    let case = |name, of| Case::new(MODEL, name, Expect::Holds, of);
    vec![
        case("the protocol", PULL),
        case(
            "a destination that cannot be searched",
            Agents {
                in_doubt: InDoubt::Stops,
                ..PULL
            },
        ),
        case("leases that are extended", EXTENDED).large(),
        case("two processors", TWO_PROCESSORS).large(),
        case("effects that are held", HOLD),
        case(
            "effects that are held, two workers",
            Agents {
                workers: 2,
                replays: 0,
                ..HOLD
            },
        )
        .large(),
    ]
}

/// Returns the cases without a redundant protection. Another protection is sufficient in them.
fn twice() -> Vec<Case> {
    let case = |name, of: Agents, off| Case::new(MODEL, name, Expect::Holds, of.without(off));
    vec![
        case(
            "approval without the epoch",
            HOLD,
            &[Rule::ApprovalAsksForEpoch],
        ),
        case(
            "approval without the id of the hold",
            HOLD,
            &[Rule::ApprovalAsksForHold],
        ),
    ]
}

fn breaks(name: &'static str, property: Property, of: Agents, off: &'static [Rule]) -> Case {
    Case::new(MODEL, name, Expect::Breaks(property), of.without(off))
}

fn claims() -> Vec<Case> {
    use Property::{
        ClaimedByItsSide, EveryEventEnds, LiveLeaseIsLeft, NewestClaimWrites, WaitingIsListed,
    };
    vec![
        breaks(
            "the processor claims parked events",
            ClaimedByItsSide,
            PULL,
            &[Rule::ProcessorLeavesParked],
        ),
        breaks(
            "the processor takes over without the epoch",
            ClaimedByItsSide,
            TWO_PROCESSORS,
            &[Rule::ProcessorAsksForEpoch],
        ),
        breaks(
            "takeover without the epoch",
            ClaimedByItsSide,
            PULL,
            &[Rule::TakeoverAsksForEpoch],
        ),
        breaks(
            "takeover without the epoch and the end of the lease",
            LiveLeaseIsLeft,
            PULL,
            &[Rule::TakeoverAsksForEpoch, Rule::TakeoverWaitsForLease],
        ),
        breaks(
            "takeover without the end of the lease",
            LiveLeaseIsLeft,
            EXTENDED,
            &[Rule::TakeoverWaitsForLease],
        ),
        breaks("no fence", NewestClaimWrites, PULL, &[Rule::Fence]),
        breaks(
            "parking without the sort key",
            WaitingIsListed,
            PULL,
            &[Rule::ParkWritesSortKey],
        ),
        breaks(
            "workers claim held events",
            EveryEventEnds,
            HOLD,
            &[Rule::ClaimLeavesHeld],
        ),
    ]
}

fn effects() -> Vec<Case> {
    let once = Property::OneEffectPerKey;
    vec![
        breaks("no intent", once, PULL, &[Rule::Intent]),
        breaks("a search counts at once", once, PULL, &[Rule::SearchWaits]),
        breaks(
            "a search counts by the time of its report",
            once,
            PULL,
            &[Rule::SearchIsDated],
        ),
        breaks(
            "a call after the end of the lease",
            once,
            PULL,
            &[Rule::CallNeedsLease],
        ),
        breaks(
            "a call under an extension of the lease",
            once,
            EXTENDED,
            &[Rule::CallNeedsLeaseOfIntent],
        ),
        Case::new(
            MODEL,
            "a pause between the look at the clock and the call",
            Expect::Limit(once),
            PULL.without(&[Rule::LookAndCallAreOne]),
        ),
    ]
}

fn approvals() -> Vec<Case> {
    use Property::{ApprovedBeforeCall, EveryEventEnds};
    vec![
        breaks(
            "an approval of another plan counts",
            ApprovedBeforeCall,
            HOLD,
            &[Rule::ApprovalNamesPlan],
        ),
        breaks(
            "approval without the epoch and the id of the hold",
            ApprovedBeforeCall,
            HOLD,
            &[Rule::ApprovalAsksForEpoch, Rule::ApprovalAsksForHold],
        ),
        breaks(
            "a replay keeps the approval",
            ApprovedBeforeCall,
            HOLD,
            &[Rule::ReplayForgetsApproval],
        ),
        breaks(
            "a hold keeps the lease",
            EveryEventEnds,
            HOLD,
            &[Rule::HoldEndsLease],
        ),
    ]
}
