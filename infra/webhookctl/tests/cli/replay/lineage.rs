//! `inbox inspect` shows the replays of an event, and the newer event that superseded the event.

use std::time::Duration;

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Claim, Settlement, VersionCheck};
use shared::sources::ordering::{Entity, Version};
use shared::webhook::event::EventKey;
use shared::webhook::preset::Compare;

use super::world::{World, document, id, replay_apply, told};

async fn inspected(world: &World, key: &EventKey) -> (Value, String) {
    let name = key.to_string();
    let inspect = ["inbox", "inspect", &name];
    let json = [&inspect[..], &["-o", "json"]].concat();
    let full = [&inspect[..], &["--full"]].concat();
    (
        document(&world.webhookctl(&json).await, 0),
        told(&world.webhookctl(&full).await),
    )
}

#[tokio::test]
async fn an_event_names_the_plan_that_ran_it_again_and_who_and_why() {
    let world = World::start().await;
    let keys = world.dead(0..2).await;
    let one = format!("orders:{}", keys[0].id());
    let plan = id(&world.plan(&["--id", &one]).await);
    let apply = replay_apply(&plan, "--confirm 1");
    let applied = world.webhookctl(&apply).await;
    assert!(applied.status.success(), "{}", told(&applied));

    let (event, text) = inspected(&world, &keys[0]).await;
    let replay = &event["replays"][0];
    assert_eq!(
        (&replay["plan"], &replay["by"], &replay["reason"]),
        (&json!(plan), &json!("local/anna"), &json!("they are back"))
    );
    assert_eq!(event["superseded"], false);
    let line = format!("\nLineage\n  replayed from  {plan}  ");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("  by local/anna: they are back\n"), "{text}");

    let (other, text) = inspected(&world, &keys[1]).await;
    assert_eq!(other["replays"], json!([]));
    assert!(!text.contains("Lineage"), "{text}");
    world.end().await;
}

#[tokio::test]
async fn an_event_that_came_too_late_names_the_newest_of_its_entity() {
    let world = World::start().await;
    let (old, newest) = (
        world.received("carts", 5).await,
        EventKey::new("carts", "evt_00006"),
    );
    let lease = Duration::from_secs(35);
    let claim = world
        .ledger
        .claim(&old, "test", UnixMillis::now(), lease, 10);
    let Claim::Leased(mut lease) = claim.await.unwrap() else {
        panic!("{old} cannot be claimed");
    };
    lease.annotate("skipped_stale");
    let settled = world
        .ledger
        .settle(*lease, Settlement::Done, &[], UnixMillis::now());
    settled.await.unwrap();
    let (event, text) = inspected(&world, &old).await;
    assert_eq!(
        (&event["superseded"], &event["superseded_by"]),
        (&json!(true), &Value::Null),
        "its version is not kept any more"
    );
    assert!(text.contains("  superseded by  a newer event  "), "{text}");

    let version = Version::read("6", Compare::Number).unwrap();
    let cart = Entity::new("carts", "c1");
    let raised =
        world
            .ledger
            .entities()
            .advance_version(&cart, &version, &newest, UnixMillis::now());
    assert_eq!(raised.await.unwrap(), VersionCheck::Newest);
    let (event, text) = inspected(&world, &old).await;
    assert_eq!(event["superseded_by"], "carts:evt_00006");
    assert!(
        text.contains("  superseded by  carts:evt_00006  "),
        "{text}"
    );
    world.end().await;
}
