mod workers;

use std::collections::BTreeMap;

use super::*;
use crate::sources::Config;

/// Returns the rules of a source with these `[[source.policy]]` tables.
fn rules(policies: &[&str]) -> Vec<Rule> {
    checked(policies).unwrap_or_else(|error| panic!("{error}"))
}

fn checked(policies: &[&str]) -> Result<Vec<Rule>, String> {
    let mut text = "schema = 1\n[forward]\nallow_hosts = [\"a.example.com\"]\n[[source]]\n\
         name = \"s\"\npreset = \"stripe\"\n\
         [[source.action]]\nkind = \"http\"\nname = \"refund-card\"\n\
         url = \"https://a.example.com/x\"\nsecret = \"x\"\n\
         [[source.action]]\nkind = \"keep\"\nname = \"kept\"\n"
        .to_owned();
    for policy in policies {
        text.extend(["[[source.policy]]\n", policy, "\n"]);
    }
    let config = Config::parse(&text).map_err(|error| format!("{error:#}"))?;
    Ok(config.source("s").unwrap().policy.clone())
}

fn facts<'e>(kind: &'e str, body: &'e str, headers: &'e BTreeMap<String, String>) -> Facts<'e> {
    Facts {
        kind,
        body: body.as_bytes(),
        account: None,
        request: None,
        headers,
    }
}

/// What the rules say about the effect `refund-card` of an event.
fn word(rules: &[Rule], kind: &str, body: &str, approved: Option<&str>) -> String {
    let none = BTreeMap::new();
    let subject = Subject::Effect("refund-card");
    let proposed = Proposed {
        plan: "plan-1",
        approved,
        ..Proposed::default()
    };
    said(&decide(rules, subject, facts(kind, body, &none), proposed))
}

/// An effect without an approval, and without a declared plan.
const NO_PLAN: Proposed<'static> = Proposed {
    plan: "p",
    approved: None,
    amount: None,
    target: None,
};

fn said(decision: &Decision<'_>) -> String {
    let of = |word: &str, finding: &Finding<'_>| {
        format!("{word} {}: {}", finding.rule.name, finding.why)
    };
    match decision {
        Decision::Allow => "allow".to_owned(),
        Decision::DryRun(finding) => of("dry-run", finding),
        Decision::Hold(finding) => of("hold", finding),
        Decision::Deny(finding) => of("deny", finding),
    }
}

const LARGE: &str = "name = \"large\"\neffect = \"refund*\"\ndecide = \"hold\"\n\
     amount = { path = \"$.amount\", above = 5000 }";

#[test]
fn a_rule_applies_above_its_amount_and_if_the_amount_cannot_be_read() {
    let rules = rules(&[LARGE]);
    let of = |body: &str| word(&rules, "refund", body, None);
    assert_eq!(of(r#"{"amount": 5000}"#), "allow");
    assert_eq!(of(r#"{"amount": "4999.99"}"#), "allow");
    assert_eq!(
        of(r#"{"amount": 5000.01}"#),
        "hold large: amount is above 5000"
    );
    assert_eq!(
        of(r#"{"amount": "7400"}"#),
        "hold large: amount is above 5000"
    );
    let missing = "hold large: amount is missing or not a number";
    for body in [
        "{}",
        r#"{"amount": null}"#,
        r#"{"amount": {}}"#,
        r#"{"amount": "a lot"}"#,
        r#"{"amount": "NaN"}"#,
        r#"{"amount": "5,000"}"#,
        "amount=1",
        "",
    ] {
        assert_eq!(of(body), missing, "{body}");
    }
}

#[test]
fn each_element_on_a_path_counts() {
    let rules = rules(&["name = \"lines\"\neffect = \"*\"\ndecide = \"deny\"\n\
         amount = { path = \"lines[*].amount\", above = 10 }"]);
    let of = |body: &str| word(&rules, "x", body, None);
    assert_eq!(of(r#"{"lines": [{"amount": 1}, {"amount": 2}]}"#), "allow");
    let above = "deny lines: lines[*].amount is above 10";
    assert_eq!(of(r#"{"lines": [{"amount": 1}, {"amount": 20}]}"#), above);
    let missing = "deny lines: lines[*].amount is missing or not a number";
    assert_eq!(of(r#"{"lines": [{"amount": 1}, {}]}"#), missing);
    assert_eq!(of(r#"{"lines": []}"#), missing);
}

#[test]
fn a_rule_applies_to_values_outside_of_its_list() {
    let rules = rules(&[
        "name = \"pilot\"\neffect = \"refund-card\"\ndecide = \"deny\"\n\
         not_in = { path = \"customer\", list = [\"cus_1\", 2] }",
    ]);
    let of = |body: &str| word(&rules, "x", body, None);
    assert_eq!(of(r#"{"customer": "cus_1"}"#), "allow");
    assert_eq!(of(r#"{"customer": 2}"#), "allow");
    let other = "deny pilot: customer is not in the list";
    assert_eq!(of(r#"{"customer": "cus_3"}"#), other);
    assert_eq!(of("{}"), "deny pilot: customer is missing");
    assert_eq!(
        of(r#"{"customer": ["cus_1"]}"#),
        "deny pilot: customer is missing"
    );
}

#[test]
fn a_condition_without_its_value_counts_as_true() {
    let rules = rules(&[
        "name = \"eur\"\neffect = \"*\"\ndecide = \"hold\"\ntypes = [\"refund.*\"]\n\
         where = [{ path = \"currency\", equals = \"eur\" }, { path = \"test\", not = true }]",
    ]);
    let of = |kind: &str, body: &str| word(&rules, kind, body, None);
    let live = r#"{"currency": "eur", "test": false}"#;
    assert_eq!(
        of("refund.created", live),
        "hold eur: its conditions are true"
    );
    assert_eq!(of("charge.created", live), "allow");
    assert_eq!(of("", live), "hold eur: the event has no type");
    let usd = r#"{"currency": "usd", "test": false}"#;
    assert_eq!(of("refund.created", usd), "allow");
    assert_eq!(of("refund.created", r#"{"currency": "usd"}"#), "allow");
    assert_eq!(
        of("refund.created", r#"{"currency": "eur"}"#),
        "hold eur: test is missing"
    );
    assert_eq!(
        of("refund.created", "{}"),
        "hold eur: currency is missing; test is missing"
    );
    assert_eq!(of("refund.created", r#"{"test": true}"#), "allow");
    assert_eq!(
        of("refund.created", "no json"),
        "hold eur: currency is missing; test is missing"
    );
}

#[test]
fn a_test_for_existence_is_decided_by_the_body_if_it_is_json() {
    let rules = rules(&["name = \"any\"\neffect = \"*\"\ndecide = \"hold\"\n\
         where = [{ path = \"refund\", exists = true }]"]);
    let of = |body: &str| word(&rules, "x", body, None);
    assert_eq!(of(r#"{"refund": {}}"#), "hold any: its conditions are true");
    assert_eq!(of("{}"), "allow");
    assert_eq!(of("a=b"), "hold any: refund is missing");
}

#[test]
fn the_strictest_rule_decides_and_an_approval_answers_only_holds() {
    let dry = "name = \"dry\"\neffect = \"*\"\ndecide = \"dry-run\"";
    let hold = "name = \"hold\"\neffect = \"*\"\ndecide = \"hold\"";
    let deny = "name = \"deny\"\neffect = \"*\"\ndecide = \"deny\"";
    let of = |policies: &[&str], approved| word(&rules(policies), "x", "{}", approved);
    let because = "it applies to each event";
    for order in [[dry, hold, deny], [deny, hold, dry]] {
        assert_eq!(of(&order, None), format!("deny deny: {because}"));
        assert_eq!(of(&order, Some("plan-1")), format!("deny deny: {because}"));
    }
    assert_eq!(of(&[dry, hold], None), format!("hold hold: {because}"));
    assert_eq!(
        of(&[dry, hold], Some("plan-1")),
        format!("dry-run dry: {because}")
    );
    assert_eq!(of(&[hold], Some("plan-1")), "allow");
    assert_eq!(of(&[hold], Some("plan-2")), format!("hold hold: {because}"));
}

#[test]
fn a_rule_without_an_effect_is_about_the_event() {
    let rules = rules(&[
        "name = \"all\"\ndecide = \"hold\"",
        "name = \"dry\"\ndecide = \"dry-run\"",
    ]);
    let none = BTreeMap::new();
    let of = |subject| said(&decide(&rules, subject, facts("x", "{}", &none), NO_PLAN));
    assert_eq!(of(Subject::Event), "hold all: it applies to each event");
    // A dry run of the event is a dry run of each effect.
    let effect = of(Subject::Effect("refund-card"));
    assert_eq!(effect, "dry-run dry: it applies to each event");
    let other = checked(&[LARGE]).unwrap();
    let event = decide(&other, Subject::Event, facts("x", "{}", &none), NO_PLAN);
    assert_eq!(event, Decision::Allow);
}

#[test]
fn a_finding_names_the_paths_and_no_values() {
    let rules = rules(&["name = \"a\"\neffect = \"*\"\ndecide = \"hold\"\n\
         where = [{ path = \"a.b\", exists = true }, { path = \"a.c\", equals = \"secret\" }]\n\
         amount = { path = \"$.a.c\", above = 1 }\nnot_in = { path = \"d\", list = [\"e\"] }"]);
    let none = BTreeMap::new();
    let body = r#"{"a": {"b": 1, "c": "secret"}, "d": "other"}"#;
    let subject = Subject::Effect("refund-card");
    let Decision::Hold(finding) = decide(&rules, subject, facts("x", body, &none), NO_PLAN) else {
        panic!("not held");
    };
    assert_eq!(finding.read, ["a.b", "a.c", "d"]);
    assert!(
        !finding.why.contains("secret") && !finding.why.contains("other"),
        "{}",
        finding.why
    );
}

#[test]
fn settings_without_an_effect_are_refused() {
    let refused = |policy: &str| checked(&[policy]).unwrap_err();
    for (policy, part) in [
        ("decide = \"hold\"", "missing field `name`"),
        ("name = \"a\"", "missing field `decide`"),
        ("name = \"A\"\ndecide = \"hold\"", "a policy's name"),
        (
            "name = \"a\"\ndecide = \"hold\"\neffect = \"ticket\"",
            "matches no action with an effect; use the name of an action, such as \"refund-card\"",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\neffect = \"kept\"",
            "matches no action",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\neffect = \"*a*\"",
            "at most one \"*\"",
        ),
        (
            "name = \"a\"\ndecide = \"deny\"\nexpires = \"1h\"",
            "decide = \"hold\" only",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\nexpires = \"30s\"",
            "out of range",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\nexpires = \"169h\"",
            "out of range",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\nwhere = [{ header = \"x-a\", equals = \"b\" }]",
            "the body only",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\nnot_in = { path = \"a\", list = [] }",
            "list is empty",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\namount = { path = \"a\", above = inf }",
            "finite",
        ),
        (
            "name = \"a\"\ndecide = \"deny\"\napprovers = [\"arn:aws:iam::111122223333:role/a\"]",
            "approvers is a setting of decide = \"hold\" only",
        ),
        (
            "name = \"a\"\ndecide = \"hold\"\napprovers = [\"oncall\"]",
            "invalid role ARN",
        ),
    ] {
        let error = refused(policy);
        assert!(error.contains(part), "{policy}\n{error}");
    }
    let twice = checked(&[LARGE, LARGE]).unwrap_err();
    assert!(twice.contains("duplicate policy"), "{twice}");
}

#[test]
fn a_source_without_an_effect_and_one_that_fetches_have_no_rules() {
    let parse = |rest: &str| {
        let text = format!("schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n{rest}");
        format!("{:#}", Config::parse(&text).unwrap_err())
    };
    let policy = "[[source.policy]]\nname = \"a\"\ndecide = \"hold\"\n";
    let kept = parse(&format!("[[source.action]]\nkind = \"keep\"\n{policy}"));
    assert!(
        kept.contains("policy needs an action with an effect"),
        "{kept}"
    );
    let fetched = parse(&format!(
        "order = {{ mode = \"fetch\", entity = \"json:id\", version = \"json:v\", compare = \"number\", \
         url = \"http://127.0.0.1/{{entity}}\" }}\n[[source.action]]\nkind = \"sqs\"\n\
         queue = \"https://sqs.eu-central-1.amazonaws.com/111122223333/x\"\n{policy}\
         [forward]\nallow_loopback = true\n"
    ));
    assert!(fetched.contains("order.mode = \"fetch\""), "{fetched}");
}

/// Decisions over arbitrary bodies: an event that lacks the path of a rule never passes it, and
/// adding a rule never makes a decision less strict.
#[test]
fn no_body_makes_a_rule_fail_open() {
    let values = [
        "1", "9999", "\"9999\"", "\"x\"", "null", "{}", "[]", "true", "1e400",
    ];
    let mut bodies = vec![String::new(), "[]".into(), "{".into(), "\u{0}".into()];
    for key in ["amount", "Amount", "other"] {
        bodies.extend(values.iter().map(|value| format!("{{\"{key}\": {value}}}")));
    }
    let one = rules(&[LARGE]);
    let two = rules(&[
        LARGE,
        "name = \"d\"\neffect = \"*\"\ndecide = \"deny\"\namount = { path = \"other\", above = 1 }",
    ]);
    let strictness = |rules: &[Rule], body: &str| {
        let word = word(rules, "x", body, None);
        ["allow", "dry-run", "hold", "deny"]
            .iter()
            .position(|begin| word.starts_with(begin))
    };
    for body in &bodies {
        let small = body.contains("\"amount\": 1}");
        assert_eq!(strictness(&one, body) == Some(0), small, "{body}");
        assert!(strictness(&two, body) >= strictness(&one, body), "{body}");
    }
}

#[test]
fn rules_that_hold_the_same_effect_are_all_named() {
    let role = |name: &str| format!("approvers = [\"arn:aws:iam::111122223333:role/{name}\"]");
    let rule = |name: &str, above: u32, more: &str| {
        format!(
            "name = \"{name}\"\neffect = \"refund*\"\ndecide = \"hold\"\n\
             amount = {{ path = \"$.amount\", above = {above} }}\n{more}"
        )
    };
    let large = rule("large", 5, "expires = \"4h\"");
    let huge = rule("huge", 50, &format!("expires = \"1h\"\n{}", role("cfo")));
    let pilot = "name = \"pilot\"\neffect = \"*\"\ndecide = \"dry-run\"";
    let rules = rules(&[&large, pilot, &huge]);
    let none = BTreeMap::new();
    let of = |body| {
        let facts = facts("refund", body, &none);
        match decide(&rules, Subject::Effect("refund-card"), facts, NO_PLAN) {
            Decision::Hold(finding) => finding,
            other => panic!("{other:?}"),
        }
    };
    let both = of(r#"{"amount": 70}"#);
    assert_eq!(both.names(), "large, huge");
    assert_eq!(both.why, "amount is above 5; amount is above 50");
    assert_eq!(both.read, ["amount"]);
    assert_eq!(both.expires(), Duration::from_secs(3_600));
    assert!(both.names_approvers());
    let one = of(r#"{"amount": 7}"#);
    assert_eq!(
        (one.names().as_str(), one.names_approvers()),
        ("large", false)
    );
}

#[test]
fn a_worker_of_the_source_is_not_an_approver() {
    let parse = |worker: &str, approver: &str| {
        let text = format!(
            "schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n\
             [[source.action]]\nkind = \"pull\"\nworkers = [\"{worker}\"]\n\
             [[source.policy]]\nname = \"a\"\ndecide = \"hold\"\napprovers = [\"{approver}\"]"
        );
        Config::parse(&text).map_err(|error| format!("{error:#}"))
    };
    let agent = "arn:aws:iam::111122223333:role/agent";
    assert!(parse(agent, "arn:aws:iam::111122223333:role/oncall").is_ok());
    assert!(parse(agent, "arn:aws:iam::444455556666:role/agent").is_ok());
    for same in [agent, "arn:aws:iam::111122223333:role/team/agent"] {
        let error = parse(agent, same).unwrap_err();
        assert!(error.contains("a worker cannot approve"), "{error}");
    }
}
