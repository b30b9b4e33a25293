//! Tests the rules about the effects of workers, and the rates of rules.

use std::collections::BTreeMap;

use super::{NO_PLAN, checked, facts, rules, said};
use crate::sources::Config;
use crate::sources::rules::{Decision, Proposed, Rule, Subject, concern, decide, limits};

/// Returns the rules of a source whose events workers take.
fn of_workers(policy: &str) -> Result<Vec<Rule>, String> {
    let text = format!(
        "schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n\
         [[source.action]]\nkind = \"pull\"\nname = \"triage\"\n\
         workers = [\"arn:aws:iam::111122223333:role/triage\"]\n\
         [[source.action]]\nkind = \"keep\"\nname = \"kept\"\n\
         [[source.policy]]\nname = \"a\"\n{policy}\n"
    );
    let config = Config::parse(&text).map_err(|error| format!("{error:#}"))?;
    Ok(config.source("s").unwrap().policy.clone())
}

#[test]
fn a_rule_can_be_about_the_effects_of_workers() {
    for verdict in ["hold", "deny", "dry-run"] {
        for effect in [
            "",
            "effect = \"*\"",
            "effect = \"refund*\"",
            "effect = \"a-1\"",
        ] {
            let rules = of_workers(&format!("decide = \"{verdict}\"\n{effect}")).unwrap();
            let on_effect = !effect.is_empty() || verdict == "dry-run";
            let name = effect.split('"').nth(1).unwrap_or("x").replace('*', "x");
            assert_eq!(
                concern(&rules, Subject::Effect(&name)),
                on_effect,
                "{verdict} {effect}"
            );
            assert_eq!(
                concern(&rules, Subject::Event),
                !on_effect,
                "{verdict} {effect}"
            );
        }
    }
    for (effect, said) in [
        ("Refund*", "matches no effect of a worker"),
        ("a_b", "matches no effect of a worker"),
        ("", "matches no effect of a worker"),
        ("triage", "is the name of an action"),
        ("kept", "is the name of an action"),
    ] {
        let refused = of_workers(&format!("decide = \"hold\"\neffect = \"{effect}\"")).unwrap_err();
        assert!(refused.contains(said), "{effect}: {refused}");
    }
    let long = "a".repeat(41);
    assert!(of_workers(&format!("decide = \"hold\"\neffect = \"{long}*\"")).is_err());
    let longest = &long[..40];
    assert!(of_workers(&format!("decide = \"hold\"\neffect = \"{longest}*\"")).is_ok());
}

#[test]
fn a_rule_can_test_the_plan_of_a_worker() {
    let rules = of_workers(
        "effect = \"refund\"\ndecide = \"hold\"\n\
         amount = { path = \"plan.amount\", above = 50 }\n\
         not_in = { path = \"plan.target\", list = [\"cus_1\"] }",
    )
    .unwrap();
    let none = BTreeMap::new();
    let of = |amount, target| {
        let proposed = Proposed {
            amount,
            target,
            ..NO_PLAN
        };
        let facts = facts("x", r#"{"plan": {"amount": 1, "target": "cus_1"}}"#, &none);
        said(&decide(&rules, Subject::Effect("refund"), facts, proposed))
    };
    assert_eq!(of(Some("50"), Some("cus_2")), "allow");
    assert_eq!(of(Some("51"), Some("cus_1")), "allow");
    let amount = "the amount of the plan";
    let target = "the target of the plan";
    assert_eq!(
        of(Some("51"), Some("cus_2")),
        format!("hold a: {amount} is above 50; {target} is not in the list")
    );
    assert_eq!(
        of(None, None),
        format!("hold a: {amount} is missing or not a number; {target} is missing")
    );
    assert_eq!(
        of(Some("NaN"), Some("cus_2")),
        format!("hold a: {target} is not in the list; {amount} is missing or not a number")
    );
    // An operator does not look for them in the body.
    assert!(rules[0].paths().is_empty());
    let body = of_workers(
        "effect = \"refund\"\ndecide = \"hold\"\namount = { path = \"$.plan.amount\", above = 50 }",
    );
    assert_eq!(body.unwrap()[0].paths(), ["plan.amount"]);
}

#[test]
fn a_field_of_a_plan_is_refused_where_there_is_no_plan() {
    let amount =
        |path: &str| format!("decide = \"hold\"\namount = {{ path = \"{path}\", above = 1 }}\n");
    let refused = of_workers(&amount("plan.amount")).unwrap_err();
    assert!(refused.contains("add effect"), "{refused}");
    let refused = of_workers(&format!("effect = \"*\"\n{}", amount("plan.total"))).unwrap_err();
    assert!(
        refused.contains("use plan.amount or plan.target"),
        "{refused}"
    );
    let condition =
        "effect = \"*\"\ndecide = \"hold\"\nwhere = [{ path = \"plan.target\", equals = \"a\" }]";
    let refused = of_workers(condition).unwrap_err();
    assert!(refused.contains("where tests the body only"), "{refused}");
    let pushed = checked(&[&format!(
        "name = \"a\"\neffect = \"*\"\n{}",
        amount("plan.amount")
    )]);
    let refused = pushed.unwrap_err();
    assert!(
        refused.contains("no action of the kind \"pull\""),
        "{refused}"
    );
    for fine in ["$.plan.amount", "data.plan.amount", "plan"] {
        let policy = format!("name = \"a\"\neffect = \"*\"\n{}", amount(fine));
        assert!(checked(&[&policy]).is_ok(), "{fine}");
    }
}

#[test]
fn a_rule_with_a_rate_is_asked_after_the_others() {
    let rules = rules(&[
        "name = \"cap\"\neffect = \"refund*\"\ndecide = \"hold\"\nrate = \"20/1h\"",
        "name = \"large\"\neffect = \"*\"\ndecide = \"deny\"\nrate = \"1/10m\"\nper = \"source\"\n\
         amount = { path = \"amount\", above = 10 }",
    ]);
    let none = BTreeMap::new();
    let of = |body: &str, approved| {
        let proposed = Proposed {
            approved,
            ..NO_PLAN
        };
        let facts = facts("x", body, &none);
        let subject = Subject::Effect("refund-card");
        // The rate alone never decides.
        assert_eq!(decide(&rules, subject, facts, proposed), Decision::Allow);
        let found = limits(&rules, subject, facts, proposed).into_iter();
        let found =
            found.map(|(rate, finding)| format!("{} {rate}: {}", finding.rule.name, finding.why));
        found.collect::<Vec<_>>()
    };
    let cap = "cap 20/1h per role: the rate 20/1h per role is used up";
    assert_eq!(of(r#"{"amount": 1}"#, None), [cap]);
    let large = "large 1/10m per source: amount is above 10; the rate 1/10m per source is used up";
    assert_eq!(of(r#"{"amount": 11}"#, None), [cap, large]);
    // An approval answers a rule that holds, and no other.
    assert_eq!(of(r#"{"amount": 11}"#, Some("p")), [large]);
    assert_eq!(of(r#"{"amount": 11}"#, Some("q")), [cap, large]);
    assert!(concern(&rules, Subject::Effect("refund")) && !concern(&rules, Subject::Event));
}

#[test]
fn a_rate_without_an_effect_or_a_rule_that_acts_is_refused() {
    for (policy, part) in [
        (
            "name = \"a\"\ndecide = \"hold\"\nrate = \"20/1h\"",
            "add effect",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\neffect = \"*\"\nper = \"source\"",
            "add rate, or remove per",
        ),
        (
            "name = \"a\"\ndecide = \"dry-run\"\neffect = \"*\"\nrate = \"20/1h\"",
            "use \"hold\" or \"deny\"",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\neffect = \"*\"\nrate = \"20 per hour\"",
            "use a rate like",
        ),
    ] {
        let error = checked(&[policy]).unwrap_err();
        assert!(error.contains(part), "{policy}\n{error}");
    }
}
