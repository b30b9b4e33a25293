//! `webhookctl sync run`: which events it adds, and that it adds no events with `--dry-run`.

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;
use webhookctl::demo::provider::Provider;

use super::endpoints::world;
use super::world::{document, told};

fn happen(events: &Provider, id: &str, secs: i64) {
    let event = json!({"id": id, "object": "event", "created": secs, "type": "invoice.paid"});
    events.happen(&event.to_string().into()).unwrap();
}

#[tokio::test]
async fn a_dry_run_says_what_is_missing_and_leaves_every_item_as_it_is() {
    let (world, _, events) = world().await;
    let run = ["sync", "run", "-s", "stripe-main"];
    let first = world.webhookctl(&run).await;
    assert!(first.status.success(), "{}", told(&first));
    let now = UnixMillis::now().secs();
    happen(&events, "evt_young", now - 60);
    happen(&events, "evt_old", now - 40 * 3600);
    let before = world.inbox().await;
    assert!(!before.is_empty(), "the first run left a cursor");

    let look = [&run[..], &["--dry-run", "--lookback", "48h"]].concat();
    let looked = world.webhookctl(&look).await;
    assert_eq!(looked.status.code(), Some(5), "{}", told(&looked));
    for said in [
        "2 listed, 2 not in the inbox",
        "evt_old",
        "Nothing was added",
    ] {
        assert!(told(&looked).contains(said), "{}", told(&looked));
    }
    let looked = world
        .webhookctl(&[&look[..], &["-o", "json"]].concat())
        .await;
    let missing = &document(&looked)["sources"][0]["missing"];
    let ids = missing.as_array().into_iter().flatten();
    let mut ids = ids.map(|event| &event["id"]);
    assert!(ids.any(|id| id == "evt_old"), "{missing}");
    // Without `--lookback`, the sync does not find the older event, because it is before the
    // overlap.
    let near = world.webhookctl(&[&run[..], &["--dry-run"]].concat()).await;
    assert!(told(&near).contains("1 listed"), "{}", told(&near));
    assert_eq!(world.inbox().await, before);

    let done = world
        .webhookctl(&[&run[..], &["--lookback", "48h"]].concat())
        .await;
    assert!(done.status.success(), "{}", told(&done));
    for id in ["evt_young", "evt_old"] {
        let key = EventKey::new("stripe-main", id);
        assert!(world.ledger.event(&key).await.unwrap().is_some(), "{id}");
    }
    let again = world.webhookctl(&look).await;
    assert!(again.status.success(), "{}", told(&again));
    let unknown = world
        .webhookctl(&["sync", "run", "-s", "github-main"])
        .await;
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
    world.end().await;
}
