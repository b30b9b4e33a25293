//! The text of a plan. Making a plan changes nothing.

use std::time::Duration;

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{EffectState, Settlement, VersionCheck};
use shared::sources::ordering::{Entity, Version};
use shared::webhook::event::EventKey;
use shared::webhook::preset::Compare;

use super::world::{World, dead_letter, document, effect, id, refused, told};

#[tokio::test]
async fn a_plan_counts_by_what_will_happen_and_changes_nothing() {
    let world = World::start().await;
    let clean = world.dead(0..6).await;
    for (number, keyed) in [(10, true), (11, true), (12, false)] {
        let key = world.received("orders", number).await;
        let effects = [("http".to_owned(), effect(EffectState::Unknown, keyed))];
        world.settled(&key, dead_letter(number), &effects).await;
    }
    let done = world.received("orders", 20).await;
    world.settled(&done, Settlement::Done, &[]).await;
    world.received("orders", 30).await;
    let held = world.received("orders", 40).await;
    let claim = world
        .ledger
        .claim(&held, "test", UnixMillis::now(), LEASE, 10);
    claim.await.unwrap();
    let before = world.row(&clean[0]).await;

    let plan = world.plan(&["-s", "orders"]).await;
    assert_eq!(
        (&plan["schema"], &plan["state"]),
        (&json!("webhookctl/replay.plan/v1"), &json!("planned"))
    );
    let offered = world.folder.offered(&["replay", "show", ""]).unwrap();
    assert_eq!(offered[0], id(&plan));
    let events = &plan["events"];
    assert_eq!(
        (&events["selected"], &events["planned"]),
        (&json!(12), &json!(6))
    );
    let left = json!({
        "effect_unknown": 2, "effect_unknown_no_key": 1, "done": 1, "queued": 1, "at_work": 1,
    });
    assert_eq!(events["left_out"], left);
    assert_eq!(plan["planned"]["by"], "local/anna");
    assert_eq!(plan["reason"], "they are back");
    assert_eq!(world.row(&clean[0]).await, before);
    assert_eq!(world.downstream.heard(), (0, 0));

    let shown = world
        .webhookctl(&["replay", "show", &id(&plan), "--left-out", "-o", "json"])
        .await;
    let shown = document(&shown, 0);
    assert_eq!(shown["items"].as_array().unwrap().len(), 6);

    let text = told(&world.webhookctl(&["replay", "plan", "-s", "orders"]).await);
    for line in [
        "nothing has been changed",
        "  selected        12   ",
        "  will run again   6   no side effect committed",
        "  left out         1   already done   (include with --mode force;",
        "  left out         2   side effect unknown   (include with --mode guarded;",
        "  left out         1   a worker is processing it",
        "  types           order.paid 6",
        "  takes           about 1s at 10/s",
        "s old; make sure that its cause is fixed",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }

    let guarded = world.plan(&["-s", "orders", "--mode", "guarded"]).await;
    assert_eq!(guarded["events"]["planned"], 8);
    world.end().await;
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_not_planned() {
    let world = World::start().await;
    world.dead(0..4).await;
    let done = world.received("orders", 20).await;
    world.settled(&done, Settlement::Done, &[]).await;
    for (args, exit, code) in [
        (&["--max", "3"][..], 7, "replay.too_many"),
        (&["--mode", "force"], 7, "replay.force"),
        (&["--new-effect"], 2, "replay.new_effect"),
        (&["--like", "rpl_nobody"], 3, "replay.not_found"),
        (&["-s", "unknown"], 2, "usage.source"),
        (&["--expires", "2d"], 2, "usage.span"),
    ] {
        let output = world
            .webhookctl(&[&["replay", "plan"], args].concat())
            .await;
        refused(&output, exit, code);
    }
    let many = world.webhookctl(&["replay", "plan", "--max", "3"]).await;
    assert!(
        told(&many).contains("5 events match, but --max is 3"),
        "{}",
        told(&many)
    );
    let force = world
        .webhookctl(&["replay", "plan", "--mode", "force"])
        .await;
    let message = "--mode force runs 1 event whose side effect is committed; \
                   this requires --reason and --confirm 5";
    assert!(told(&force).contains(message), "{}", told(&force));
    // No event would run, so there is no plan to apply.
    let none = world.plan(&["--status", "done"]).await;
    assert_eq!(none["events"]["planned"], 0);
    let log = world.webhookctl(&["replay", "log", "-o", "json"]).await;
    assert_eq!(document(&log, 0)["items"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn a_plan_that_is_too_old_is_made_again() {
    let world = World::start().await;
    world.dead(0..3).await;
    let narrow = ["-s", "orders", "--status", "dead_letter", "--since", "2h"];
    let plan = world
        .plan(&[&narrow[..], &["--expires", "1s"]].concat())
        .await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let late = ["replay", "apply", &id(&plan), "--confirm", "3"];
    let late = world.webhookctl(&late).await;
    refused(&late, 7, "replay.expired");
    let tip = format!("webhookctl replay plan --like {}", id(&plan));
    assert!(told(&late).contains(&tip), "{}", told(&late));
    assert_eq!(world.downstream.heard(), (0, 0));
    let log = told(&world.webhookctl(&["replay", "log"]).await);
    assert!(log.contains("plan expired, not applied"), "{log}");

    let again = world.plan(&["--like", &id(&plan)]).await;
    assert_eq!(again["events"], plan["events"]);
    assert_eq!(again["selection"], plan["selection"]);
    assert_ne!(again["id"], plan["id"]);
    world.end().await;
}

#[tokio::test]
async fn a_key_that_grows_too_old_while_the_plan_waits_is_left_out() {
    let world = World::start().await;
    let doubt = [("http".to_owned(), effect(EffectState::Unknown, true))];
    let old = UnixMillis::now() - Duration::from_secs(20 * 3600 - 8);
    let key = world.received_at("orders", 1, old).await;
    world.settled(&key, dead_letter(1), &doubt).await;
    let guarded = ["--since", "2d", "--mode", "guarded"];
    let plan = world.plan(&guarded).await;
    assert_eq!(plan["events"]["planned"], 1);
    let grown = old + Duration::from_secs(20 * 3600);
    tokio::time::sleep(grown.since(UnixMillis::now())).await;
    let apply = [
        "replay",
        "apply",
        &id(&plan),
        "--confirm",
        "1",
        "-o",
        "json",
    ];
    let applied = document(&world.webhookctl(&apply).await, 0);
    assert_eq!(applied["outcome"]["changed"], 1);
    assert_eq!(world.downstream.heard(), (0, 0));

    let later = world.plan(&guarded).await;
    assert_eq!(later["events"]["left_out"], json!({"key_too_old": 1}));
    let risky = [&guarded[..], &["--accept-duplicate-risk"]].concat();
    let risky = world.plan(&risky).await;
    let apply = [
        "replay",
        "apply",
        &id(&risky),
        "--confirm",
        "1",
        "-o",
        "json",
    ];
    let applied = document(&world.webhookctl(&apply).await, 0);
    assert_eq!(applied["outcome"]["done"], 1);
    assert_eq!(applied["duplicate_risk_accepted"], true);
    world.end().await;
}

#[tokio::test]
async fn what_a_newer_event_has_overtaken_is_left_out() {
    let world = World::start().await;
    for number in [5, 6, 7] {
        let key = world.received("carts", number).await;
        world.settled(&key, dead_letter(number), &[]).await;
    }
    let newest = Version::read("6", Compare::Number).unwrap();
    let cart = Entity::new("carts", "c1");
    let key = EventKey::new("carts", "evt_00006");
    let raised = world
        .ledger
        .entities()
        .advance_version(&cart, &newest, &key, UnixMillis::now());
    assert_eq!(raised.await.unwrap(), VersionCheck::Newest);
    let plan = world.plan(&["-s", "carts", "--mode", "force"]).await;
    assert_eq!(plan["events"]["planned"], 2);
    assert_eq!(plan["events"]["left_out"], json!({"superseded": 1}));
    world.end().await;
}

#[tokio::test]
async fn an_event_whose_signature_is_too_old_is_left_out() {
    let world = World::start().await;
    let old = UnixMillis::now() - Duration::from_secs(400);
    for (number, at) in [(1, old), (2, UnixMillis::now())] {
        let key = world.received_at("received", number, at).await;
        world.settled(&key, dead_letter(number), &[]).await;
    }
    let plan = world.plan(&["-s", "received", "--mode", "force"]).await;
    assert_eq!(plan["events"]["planned"], 1);
    assert_eq!(plan["events"]["left_out"], json!({"stale_signature": 1}));
    let text = told(
        &world
            .webhookctl(&["replay", "plan", "-s", "received"])
            .await,
    );
    assert!(
        text.contains("the provider's signature is too old"),
        "{text}"
    );
    assert!(text.contains("set sign = \"provider\""), "{text}");
    world.end().await;
}
