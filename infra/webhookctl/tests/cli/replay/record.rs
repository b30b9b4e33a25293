//! The record of a replay: operator, events, time, reason and result.

use serde_json::json;

use super::world::{World, document, id, refused, replay_apply, told};

#[tokio::test]
async fn the_record_says_who_when_why_what_and_what_came_of_it() {
    let world = World::start().await;
    world.dead(0..7).await;
    let plan = world
        .plan(&["-s", "orders", "--status", "dead_letter"])
        .await;
    let apply = [
        "replay",
        "apply",
        &id(&plan),
        "--confirm",
        "7",
        "--rate",
        "50",
    ];
    let applied = world.webhookctl(&apply).await;
    assert!(applied.status.success(), "{}", told(&applied));
    assert!(
        told(&applied).contains("● 7 done in "),
        "{}",
        told(&applied)
    );

    let shown = world.show(&id(&plan)).await;
    assert_eq!(shown["schema"], "webhookctl/replay.run/v1");
    assert_eq!(shown["planned"]["by"], "local/anna");
    assert_eq!(shown["planned"]["cli"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["reason"], "they are back");
    assert_eq!(
        shown["selection"],
        json!({"source": ["orders"], "status": ["dead_letter"]})
    );
    assert_eq!(shown["events"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(shown["events"]["sha256"], plan["events"]["sha256"]);
    let run = &shown["runs"][0];
    assert_eq!(
        (&run["by"], &run["rate"]),
        (&json!("local/anna"), &json!(50))
    );
    assert_eq!(run["canary"], json!({"tried": 5, "done": 5}));
    assert_eq!(run["end"], "finished");
    let outcome = json!({"done": 7, "failed": 0, "waiting": 0, "changed": 0});
    assert_eq!(
        (&shown["outcome"], &shown["state"]),
        (&outcome, &json!("finished"))
    );

    is_logged(&world, &id(&plan)).await;
    world.end().await;
}

/// The audit log and the log of replays name the plan, its operator and its reason.
async fn is_logged(world: &World, plan: &str) {
    // The command writes the record before the replay runs.
    let log = world.log().await;
    let of = |name: &str| log[0][name].as_s().unwrap().clone();
    assert_eq!(
        (of("what"), of("who")),
        ("replay.apply".into(), "local/anna".into())
    );
    assert_eq!(of("why"), "they are back");
    assert!(of("sel").contains(plan));

    let listed = world.webhookctl(&["replay", "log", "-o", "json"]).await;
    let listed = document(&listed, 0)["items"][0].clone();
    assert_eq!(listed["plan"], plan);
    assert_eq!(listed["outcome"], "7 done");
    assert_eq!(listed["reason"], "they are back");
    let unknown = ["replay", "log", "--by", "berta", "-o", "json"];
    assert_eq!(
        document(&world.webhookctl(&unknown).await, 0)["items"],
        json!([])
    );
    // The commands accept a prefix of the id, in upper or lower case.
    let prefix = &plan.to_lowercase()[..9];
    assert_eq!(world.show(prefix).await["id"], plan);
    refused(
        &world.webhookctl(&["replay", "show", "rpl_nobody"]).await,
        3,
        "replay.not_found",
    );
}

#[tokio::test]
async fn a_plan_whose_events_were_exchanged_is_not_applied() {
    let world = World::start().await;
    world.dead(0..3).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let mut chunk = world.item(&format!("R#{plan}"), "C#00000").await;
    let text = chunk["e"].as_s().unwrap().replace("evt_00002", "evt_00009");
    chunk.insert("e".to_owned(), super::world::s(&text));
    let put = world.stack.clients().dynamodb.put_item();
    let put = put.table_name(world.stack.table().unwrap());
    put.set_item(Some(chunk)).send().await.unwrap();
    let apply = replay_apply(&plan, "--confirm 3");
    refused(&world.webhookctl(&apply).await, 7, "replay.changed");
    assert_eq!(world.downstream.heard(), (0, 0));
    world.end().await;
}
