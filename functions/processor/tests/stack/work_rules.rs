//! Rules about the effects of workers outside of Lambda, with the real functions: what `begin` answers,
//! and how a plan survives the wait for its approval.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{By, EffectState, Hold, HoldDecision, Ledger, Row};
use shared::webhook::event::EventKey;
use testkit::sources::SourcesFile;

use super::support::{Inbox, failures, options, record, work_message};
use super::work::{World, with};

/// The body of the test event is an issue of GitHub, without a field `amount`.
const SOURCES: &str = r#"
schema = 1

[[source]]
name = "github-main"
preset = "github"

[[source.action]]
kind = "keep"
name = "all"

[[source.action]]
kind = "pull"
name = "triage"
queue = "triage"
workers = ["arn:aws:iam::000000000000:role/one", "arn:aws:iam::000000000000:role/two"]

[[source.policy]]
name = "large-refund"
effect = "refund*"
amount = { path = "plan.amount", above = 50 }
decide = "hold"

[[source.policy]]
name = "no-mail"
effect = "mail"
decide = "deny"

[[source.policy]]
name = "trial"
effect = "post"
decide = "dry-run"

[[source.policy]]
name = "unread"
effect = "unread"
amount = { path = "no.such.path", above = 1 }
decide = "deny"
"#;

const ANNA: By<'static> = By {
    who: "anna",
    why: "the customer called",
};

fn ledger(world: &World) -> Ledger {
    let stack = &world.inbox.stack;
    Ledger::new(stack.clients().dynamodb, stack.table().unwrap(), None)
}

async fn stored(world: &World, key: &EventKey) -> Row {
    ledger(world).event(key).await.unwrap().unwrap()
}

/// Approves the hold of the event, and returns it.
async fn approve(world: &World, key: &EventKey) -> Hold {
    let hold = stored(world, key).await.hold.expect("the event is held");
    let ledger = ledger(world);
    let approved = ledger.approve(key, &hold.id, ANNA, UnixMillis::now());
    assert!(matches!(approved.await.unwrap(), HoldDecision::Made(_)));
    *hold
}

fn refund(amount: u32, plan: &str) -> Value {
    let plan =
        json!({ "summary": "refund the order", "target": "cus_1", "amount": amount, "full": plan });
    json!({ "effect": "refund", "keys": "honoured", "plan": plan })
}

/// The worker of a held event has nothing more to say.
async fn leaves(world: &World, event: &Value) {
    for (outcome, status) in [
        ("retry", 200),
        ("release", 200),
        ("done", 409),
        ("permanent", 409),
    ] {
        let finish = with(event, json!({ "outcome": outcome }));
        let (found, answer) = world.call("one", "triage/finish", &finish).await;
        assert_eq!(found, status, "{outcome}: {answer}");
        assert!(status == 409 || answer["held"] == true, "{answer}");
    }
}

#[tokio::test]
async fn a_plan_survives_the_wait_for_its_approval() {
    let world = World::with("work-hold", SOURCES).await;
    let key = world.parked().await;
    let event = world.claimed("one").await;
    // No log has what the worker declares.
    let secret = world.inbox.canary();
    let begin = with(&event, refund(74, &secret));
    let held = world.ok("one", "begin", &begin).await;
    assert_eq!(
        (&held["held"], &held["rule"]),
        (&json!(true), &json!("large-refund"))
    );
    assert!(
        held["hold"].is_string() && held["expires"].is_string(),
        "{held}"
    );
    let row = stored(&world, &key).await;
    assert!(row.is_held() && row.pull.is_some() && row.effects.is_empty());
    assert_eq!(row.attempts, 0, "waiting is not an attempt");
    let hold = row.hold.unwrap();
    assert_eq!(
        (hold.id.as_str(), hold.effect.as_str()),
        (held["hold"].as_str().unwrap(), "refund")
    );
    assert_eq!(hold.summary, "amount 74, target cus_1, refund the order");
    assert_eq!(hold.why, "the amount of the plan is above 50");
    // The answer was lost.
    assert_eq!(world.ok("one", "begin", &begin).await, held);
    // Another plan has no answer: the lease has ended.
    let other = with(&event, refund(74, "step 2"));
    let lost = world.refused("one", "begin", &other).await;
    assert_eq!(lost, (409, "lease_lost".into()));
    leaves(&world, &event).await;
    let empty = world.ok("two", "next", &json!({})).await;
    assert_eq!(empty["reason"], "empty");

    approve(&world, &key).await;
    let again = world.claimed("two").await;
    let effect = &again["effects"]["refund"];
    assert_eq!(
        (&effect["state"], &effect["plan"]["approved"]),
        (&json!("planned"), &json!(true))
    );
    assert_eq!(effect["plan"]["full"], secret.as_str());
    assert_eq!(again["attempt"], 1);
    // The worker executes the plan that it got.
    let plan = json!({ "effect": "refund", "keys": "honoured", "plan": effect["plan"] });
    let begun = world.ok("two", "begin", &with(&again, plan)).await;
    assert_eq!(
        (&begun["go"], &begun["key"]),
        (&json!(true), &effect["key"])
    );
    let end = json!({ "effect": "refund", "result": "done", "note": "re_1" });
    world.ok("two", "end", &with(&again, end)).await;
    let done = with(&again, json!({ "outcome": "done" }));
    assert_eq!(world.ok("two", "finish", &done).await["status"], "done");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_worker_with_another_plan_is_held_again_and_then_given_up() {
    let world = World::with("work-unstable", SOURCES).await;
    let key = world.parked().await;
    for plan in ["a", "b"] {
        let event = world.claimed("one").await;
        let held = world
            .ok("one", "begin", &with(&event, refund(74, plan)))
            .await;
        assert_eq!(held["held"], true, "{held}");
        approve(&world, &key).await;
    }
    let event = world.claimed("one").await;
    let third = world
        .ok("one", "begin", &with(&event, refund(74, "c")))
        .await;
    assert_eq!(third["denied"], true, "{third}");
    assert!(
        third["note"].as_str().unwrap().contains("held it twice"),
        "{third}"
    );
    let row = world.inbox.row(&key).await;
    assert_eq!(row["reason"].as_s().unwrap(), "plan_unstable");
    assert!(!row.contains_key("pul"));
    // The worker says that it gives up, and learns that the event is a dead letter.
    let finish = with(&event, json!({ "outcome": "permanent" }));
    let finished = world.ok("one", "finish", &finish).await;
    assert_eq!(finished["reason"], "plan_unstable", "{finished}");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_rule_that_does_not_apply_costs_no_approval() {
    let world = World::with("work-small", SOURCES).await;
    let key = world.parked().await;
    let event = world.claimed("one").await;
    let begun = world
        .ok("one", "begin", &with(&event, refund(50, "a")))
        .await;
    assert_eq!(begun["go"], true, "{begun}");
    // A worker that declares no amount is held.
    let silent = json!({ "effect": "refund-2", "keys": "honoured" });
    let held = world.ok("one", "begin", &with(&event, silent)).await;
    assert_eq!(held["held"], true, "{held}");
    let hold = approve(&world, &key).await;
    assert_eq!(hold.summary, "the worker declared no plan");
    assert_eq!(
        hold.why,
        "the amount of the plan is missing or not a number"
    );
    // The other effect was begun, and its record is as it was.
    let row = stored(&world, &key).await;
    assert_eq!(row.effects["refund"].state, EffectState::Intent);
    let again = world.claimed("one").await;
    assert_eq!(
        again["effects"]["refund-2"]["plan"],
        json!({ "approved": true })
    );
}

#[tokio::test]
async fn a_denied_effect_never_begins() {
    let world = World::with("work-deny", SOURCES).await;
    let key = world.parked().await;
    let event = world.claimed("one").await;
    for (effect, rule, why) in [
        ("mail", "no-mail", "it applies to each event"),
        (
            "unread",
            "unread",
            "no.such.path is missing or not a number",
        ),
    ] {
        let begin = json!({ "effect": effect, "keys": "honoured" });
        let denied = world.ok("one", "begin", &with(&event, begin)).await;
        assert_eq!(
            (&denied["denied"], &denied["rule"]),
            (&json!(true), &json!(rule))
        );
        assert_eq!(denied["note"], why);
    }
    assert!(stored(&world, &key).await.effects.is_empty());
    // No rule is about this one.
    let begin = json!({ "effect": "ticket", "keys": "honoured" });
    let begun = world.ok("one", "begin", &with(&event, begin)).await;
    assert_eq!(begun["go"], true, "{begun}");
    let finish = with(&event, json!({ "outcome": "permanent" }));
    world.ok("one", "finish", &finish).await;
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_dry_run_is_recorded_and_a_replay_hands_out_the_event_again() {
    let world = World::with("work-dry", SOURCES).await;
    let key = world.parked().await;
    let event = world.claimed("one").await;
    let begin =
        json!({ "effect": "post", "keys": "ignored", "plan": { "summary": "post an answer" } });
    let dry = world.ok("one", "begin", &with(&event, begin)).await;
    assert_eq!(
        (&dry["dry_run"], &dry["rule"]),
        (&json!(true), &json!("trial"))
    );
    let done = with(&event, json!({ "outcome": "done" }));
    assert_eq!(world.ok("one", "finish", &done).await["status"], "done");
    let row = stored(&world, &key).await;
    let effect = &row.effects["post"];
    assert_eq!(effect.state, EffectState::Not);
    assert!(
        effect
            .note
            .starts_with("dry run (rule trial): post an answer, plan "),
        "{}",
        effect.note
    );
    assert!(!row.effects.contains_key("triage"), "the work is not done");
    assert_eq!(row.history.last().unwrap().note, "dry run");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_plan_that_cannot_be_kept_is_refused() {
    let world = World::with("work-plan", SOURCES).await;
    world.parked().await;
    let event = world.claimed("one").await;
    for plan in [
        json!("text"),
        json!({ "amount": "much" }),
        json!({ "full": "x".repeat(8193) }),
    ] {
        let begin = json!({ "effect": "refund", "keys": "honoured", "plan": plan });
        let refused = world.refused("one", "begin", &with(&event, begin)).await;
        assert_eq!(refused, (400, "invalid_request".into()));
    }
    let longest = json!({ "amount": 1, "full": "x".repeat(8192) });
    let begin = json!({ "effect": "refund", "keys": "honoured", "plan": longest });
    let begun = world.ok("one", "begin", &with(&event, begin)).await;
    assert_eq!(begun["go"], true, "{begun}");
}

#[tokio::test]
async fn a_rule_with_a_rate_applies_when_its_window_is_full() {
    let sources = SOURCES.to_owned()
        + "\n[[source.policy]]\nname = \"cap\"\neffect = \"ticket\"\ndecide = \"hold\"\nrate = \"2/168h\"\n\
           [[source.policy]]\nname = \"cap-all\"\neffect = \"ticket\"\ndecide = \"deny\"\nrate = \"3/168h\"\n\
           per = \"source\"\n";
    let world = World::with("work-rate", &sources).await;
    let begin = json!({ "effect": "ticket", "keys": "honoured", "plan": { "full": "a" } });
    let mut said = Vec::new();
    let (mut held, mut last) = (None, None);
    for role in ["one", "one", "one", "two"] {
        let key = world.parked().await;
        let event = world.claimed(role).await;
        let begun = world.ok(role, "begin", &with(&event, begin.clone())).await;
        if begun["go"] == true {
            // A repeated request is not counted again.
            let again = world.ok(role, "begin", &with(&event, begin.clone())).await;
            assert_eq!(again["go"], true, "{again}");
        }
        if begun["held"] == true {
            held = Some(key);
        }
        let words = ["go", "held", "denied"];
        let word = words.into_iter().find(|word| begun[*word] == true);
        said.push(format!("{role} {}", word.unwrap_or_default()));
        last = Some(event);
    }
    // The rule that denies does not count an effect that the other one holds.
    assert_eq!(said, ["one go", "one go", "one held", "two go"]);
    // Another plan under the same lease is counted, and its window is full.
    let other = json!({ "effect": "ticket", "keys": "honoured", "plan": { "full": "b" } });
    let begun = world.ok("two", "begin", &with(&last.unwrap(), other)).await;
    assert_eq!(begun["denied"], true, "{begun}");
    let hold = approve(&world, &held.unwrap()).await;
    assert_eq!(
        (hold.rule.as_str(), hold.why.as_str()),
        ("cap", "the rate 2/168h per role is used up")
    );
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_request_that_is_refused_does_not_use_up_a_rate() {
    let sources = SOURCES.to_owned()
        + "\n[[source.policy]]\nname = \"cap\"\neffect = \"ticket\"\ndecide = \"deny\"\nrate = \"1/168h\"\n";
    let world = World::with("work-rate-short", &sources).await;
    let begin = json!({ "effect": "ticket", "keys": "honoured" });
    let key = world.parked().await;
    let event = world.claimed("one").await;
    let mut row = world.inbox.row(&key).await;
    let soon = UnixMillis::now() + Duration::from_secs(8);
    row.insert("lu".into(), AttributeValue::N(soon.0.to_string()));
    world.inbox.put(row).await;
    let refused = world
        .refused("one", "begin", &with(&event, begin.clone()))
        .await;
    assert_eq!(refused, (422, "lease_too_short".into()));
    world.parked().await;
    let event = world.claimed("one").await;
    let begun = world.ok("one", "begin", &with(&event, begin)).await;
    assert_eq!(begun["go"], true, "{begun}");
}

/// The rules of other sources' events are not asked, and those of push actions are as before.
#[tokio::test]
async fn a_rule_of_workers_can_stand_beside_one_of_the_event() {
    let sources = SOURCES.to_owned() + "\n[[source.policy]]\nname = \"all\"\ndecide = \"hold\"\n";
    let file = SourcesFile::new("work-both", &sources);
    let inbox = Inbox::start(Options {
        sources_file: Some(file.path()),
        parameters: [("WorkerApi".to_owned(), "true".to_owned())].into(),
        ..options()
    })
    .await;
    let key = inbox.new_event().await;
    let message = record("1", &work_message(&key));
    assert_eq!(
        failures(&inbox, std::slice::from_ref(&message)).await,
        [""; 0]
    );
    let row = inbox.row(&key).await;
    assert!(row.contains_key("hld") && !row.contains_key("pul"));
    let ledger = Ledger::new(
        inbox.stack.clients().dynamodb,
        inbox.stack.table().unwrap(),
        None,
    );
    let hold = ledger.event(&key).await.unwrap().unwrap().hold.unwrap();
    let approved = ledger
        .approve(&key, &hold.id, ANNA, UnixMillis::now())
        .await;
    // The processor has to park the event.
    assert!(approved.unwrap().work_message().is_some());
    assert_eq!(failures(&inbox, &[message]).await, [""; 0]);
    assert_eq!(inbox.row(&key).await["pul"].as_s().unwrap(), "triage");
}
