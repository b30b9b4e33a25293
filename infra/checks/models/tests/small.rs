//! Checks the small cases. `make models` checks all cases.

use models::case::{Case, Expect};
use models::property::Property;

fn are_as_expected(cases: &[Case]) {
    for case in cases.iter().filter(|case| !case.large) {
        let finding = case.check();
        assert!(
            case.is_as_expected(&finding),
            "{}, {}: expected {:?}, found {:?}",
            case.model,
            case.name,
            case.expect,
            finding.broken
        );
    }
}

#[test]
fn an_event_on_its_way() {
    are_as_expected(&models::inbox::cases());
}

#[test]
fn the_sync() {
    are_as_expected(&models::cursor::cases());
}

#[test]
fn the_order_of_an_entity() {
    are_as_expected(&models::order::cases());
}

#[test]
fn one_signature_is_one_event() {
    are_as_expected(&models::signature::cases());
}

#[test]
fn the_end_of_a_trial() {
    are_as_expected(&models::trial::cases());
}

#[test]
fn workers_outside_and_approvals() {
    are_as_expected(&models::agents::cases());
}

#[test]
fn the_spill_the_lease_the_budget_and_the_sweep() {
    are_as_expected(&models::spill::cases());
    are_as_expected(&models::lease::cases());
    are_as_expected(&models::budget::cases());
    are_as_expected(&models::shard::cases());
}

/// If no case violates a property, the models do not cover it.
#[test]
fn every_property_is_broken_by_something() {
    let cases = models::cases();
    for property in Property::ALL {
        let breaks = |case: &Case| match case.expect {
            Expect::Breaks(broken) => broken == property,
            Expect::Holds | Expect::Limit(_) => false,
        };
        assert!(cases.iter().any(breaks), "{property:?}");
    }
}
