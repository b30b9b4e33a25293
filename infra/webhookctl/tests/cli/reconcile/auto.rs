//! A scheduled run repairs what it finds, if the comparison allows it.

use serde_json::{Value, json};
use shared::webhook::event::EventKey;

use super::world::{BY_ID, World, subscription, told};

fn auto() -> String {
    BY_ID.replace("fields = [", "repair = \"auto\"\nfields = [")
}

/// Starts a stack with this number of objects that agree, and one that is missing locally.
async fn with_drift(reconcile: &str, agree: usize) -> World {
    let world = World::start(reconcile).await;
    for n in 0..agree {
        world.both(&format!("sub_{n:03}")).await;
    }
    world
        .stripe
        .put("sub_a", subscription("sub_a", "active", "price_pro"));
    world
}

/// Returns whether the inbox has the event of a repair of this report.
async fn is_repaired(world: &World, report: &Value) -> bool {
    let id = report["id"].as_str().unwrap();
    let key = EventKey::new("stripe-main", &format!("recon:{id}:sub_a"));
    world.ledger.event(&key).await.unwrap().is_some()
}

#[tokio::test]
async fn a_scheduled_run_repairs_what_it_may() {
    let world = with_drift(&auto(), 30).await;
    let before = world.table().await;
    for run in 1..=2 {
        let report = world.scheduled().await;
        assert_eq!(report["counts"]["missing"], json!(1));
        let repair = &report["repair"];
        assert_eq!(repair["by"], "backup-sync");
        assert_eq!(repair["why"], "repair = \"auto\"");
        assert_eq!(
            (&repair["events"], &repair["complete"]),
            (&json!(1), &json!(true))
        );
        assert!(is_repaired(&world, &report).await);
        // Each run has an entry in the audit log.
        let log = world.log().await;
        assert_eq!(log.len(), run);
        let entry = &log[run - 1];
        let text = |name: &str| entry[name].as_s().unwrap().clone();
        assert_eq!(text("what"), "reconcile.repair");
        assert_eq!(
            (text("who"), text("via")),
            ("backup-sync".into(), "schedule".into())
        );
        assert!(text("sel").contains(report["id"].as_str().unwrap()));
    }
    assert_eq!(world.table().await, before);
    let shown = world.webhookctl(&["reconcile", "report"]).await;
    let said = told(&shown);
    assert!(said.contains("repaired by backup-sync"), "{said}");
    let status = world.webhookctl(&["status", "-s", "stripe-main"]).await;
    assert!(
        !told(&status).contains("objects differ"),
        "{}",
        told(&status)
    );
    world.end().await;
}

#[tokio::test]
async fn a_scheduled_run_repairs_nothing_above_the_cap() {
    let world = with_drift(&auto(), 9).await;
    let report = world.scheduled().await;
    let why = "10.0% of the objects drifted, which is more than the cap of 5%";
    assert_eq!(report["unrepaired"], why);
    assert_eq!(report["repair"], Value::Null);
    assert!(!is_repaired(&world, &report).await);
    assert!(world.log().await.is_empty());
    for line in [&["reconcile", "report"][..], &["status"]] {
        let said = told(&world.webhookctl(line).await);
        assert!(said.contains(&format!("not repaired: {why}")), "{said}");
    }
    world.end().await;
}

#[tokio::test]
async fn only_the_schedule_repairs_and_only_if_it_is_told_to() {
    let world = with_drift(&auto(), 30).await;
    let by_hand = world.webhookctl(&["reconcile", "run"]).await;
    assert_eq!(by_hand.status.code(), Some(5), "{}", told(&by_hand));
    let one = world.report().await;
    assert!(!is_repaired(&world, &one).await);
    assert!(world.log().await.is_empty());
    world.end().await;

    let world = with_drift(BY_ID, 30).await;
    let report = world.scheduled().await;
    assert!(!is_repaired(&world, &report).await);
    assert_eq!(report["unrepaired"], Value::Null);
    assert!(world.log().await.is_empty());
    world.end().await;
}
