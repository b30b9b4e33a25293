//! The cases that take a moment. `make models` runs all of them.

use models::case::Case;

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
