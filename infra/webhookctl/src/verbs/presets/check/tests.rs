use super::*;

/// 27 November 2026.
const NOW: UnixMillis = UnixMillis(1_795_737_600_000);
const DAY: i64 = 86_400_000;

fn of(preset: &str, rows: Vec<Row>) -> Row {
    let mut rows = rows.into_iter();
    rows.find(|row| row.preset == preset).unwrap()
}

#[test]
fn every_preset_passes_and_every_attack_is_refused() {
    let rows = rows(&vectors::read(None).unwrap(), NOW).unwrap();
    let failures: Vec<&String> = rows.iter().flat_map(|row| &row.failures).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(exit(&rows, false), Exit::Done);
    assert_eq!(rows.len(), Preset::ids().count());
    let sum = |of: fn(&Attacks) -> &Attack| -> usize {
        rows.iter().map(|row| of(&row.attacks).refused).sum()
    };
    assert!(sum(|all| &all.changed_body) > 3_000);
    assert!(sum(|all| &all.other_secret) > 200);
    assert!(sum(|all| &all.old_request) > 100);
}

#[test]
fn a_row_says_what_a_scheme_does_not_have() {
    let rows = || rows(&vectors::read(None).unwrap(), NOW).unwrap();
    let stripe = of("stripe", rows());
    assert!(stripe.attacks.each().iter().all(|attack| attack.tried > 0));
    assert!(stripe.sdk && !stripe.is_untested());
    let text = |attack: &Attack| attack.text();
    assert_eq!(text(&of("github", rows()).attacks.old_request), "no time");
    assert_eq!(
        text(&of("figma", rows()).attacks.changed_body),
        "not signed"
    );
    assert_eq!(
        text(&of("google-pubsub", rows()).attacks.other_secret),
        "no secret"
    );
    assert!(!of("figma", rows()).sdk);
}

#[test]
fn an_old_preset_is_a_failure_only_with_strict() {
    let stripe = Preset::embedded("stripe", &BTreeMap::new()).unwrap();
    let age = age_days(&stripe, NOW).unwrap();
    let at = |days: i64| {
        let checked = UnixMillis(NOW.0 + (days - age) * DAY);
        let row = of("stripe", rows(&[], checked).unwrap());
        let row = Row {
            failures: Vec::new(),
            ..row
        };
        (
            row.age_days,
            row.old,
            exit(std::slice::from_ref(&row), true),
        )
    };
    assert_eq!(at(180), (180, false, Exit::Done));
    assert_eq!(at(181), (181, true, Exit::No));
    let later = rows(&[], UnixMillis(NOW.0 + 365 * DAY)).unwrap();
    assert_eq!(exit(&later, false), Exit::Done);
    let all = Preset::ids().count();
    let told = format!("{all} presets · 0 vectors, 0 failed · {all} without vectors · {all} older");
    assert!(footer(&later).starts_with(&told), "{}", footer(&later));
    assert!(warning(&later).unwrap().contains("stripe"));
}

#[test]
fn a_wrong_vector_is_named() {
    let file = include_str!("../../../../../../shared/tests/data/vectors.json");
    let mut file: serde_json::Value = serde_json::from_str(file).unwrap();
    let vectors = file["vectors"].as_array_mut().unwrap();
    vectors.retain(|vector| vector["provider"] == "stripe");
    let valid = vectors
        .iter_mut()
        .find(|vector| vector["expect"]["verdict"] == "valid");
    valid.unwrap()["expect"]["verdict"] = "invalid".into();
    let rows = rows(&vectors::read(Some(&file.to_string())).unwrap(), NOW).unwrap();
    assert_eq!(exit(&rows, false), Exit::No);
    let stripe = of("stripe", rows);
    let [failure] = stripe.failures.as_slice() else {
        panic!("{:?}", stripe.failures);
    };
    assert!(failure.contains("expected invalid"), "{failure}");
    assert_eq!(stripe.invalid.passed + 1, stripe.invalid.all);
}
