//! `inbox list --repeats` and `inspect`, for events whose requests arrived again.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;

use super::world::{New, World, stderr, stdout};

async fn repeated(world: &World, id: &str, counts: &[(&str, i64)]) {
    let key = world.put(New::of("stripe-main", id)).await;
    let later = world.now.0 - 30_000;
    let all = counts.iter().copied().chain([("dat", later)]);
    world
        .edit(&key, |row| {
            for (name, value) in all {
                row.insert(name.to_owned(), AttributeValue::N(value.to_string()));
            }
        })
        .await;
}

#[tokio::test]
async fn events_are_selected_by_their_repeated_requests() {
    let world = World::start("repeats").await;
    world.put(New::of("stripe-main", "once")).await;
    repeated(&world, "resent", &[("dr", 3)]).await;
    repeated(&world, "copied", &[("dr", 1), ("dc", 2)]).await;
    assert_eq!(world.listed(&["--repeats", "copied"]).await, ["copied"]);
    let mut both = world
        .listed(&["--repeats", "copied", "--repeats", "resent"])
        .await;
    both.sort();
    assert_eq!(both, ["copied", "resent"]);
    assert!(world.listed(&["--repeats", "repeated"]).await.is_empty());

    let text = stdout(&world.run(&["inbox", "inspect", "resent", "--full"]).await);
    assert!(
        text.contains("repeats 3 resent, last 30s later: retries of the provider"),
        "{text}"
    );
    let copied = world.json(&["inbox", "inspect", "copied"]).await;
    let repeats = &copied["repeats"];
    assert_eq!(
        [&repeats["resent"], &repeats["copied"], &repeats["verdict"]],
        [&json!(1), &json!(2), &json!("suspicious_copy")]
    );
    let once = world.json(&["inbox", "inspect", "once"]).await;
    assert_eq!(once["repeats"]["verdict"], "none");
    let wrong = world.run(&["inbox", "list", "--repeats", "again"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let stats = world.run(&["inbox", "stats", "--repeats", "copied"]).await;
    assert_eq!(stats.status.code(), Some(2), "{}", stderr(&stats));
}
