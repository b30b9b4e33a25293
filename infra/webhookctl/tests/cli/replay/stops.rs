//! The causes that stop a replay: failures, another operator, Ctrl-C, a cancellation.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Child;

use super::world::{World, document, id, refused, replay_apply, told};
use crate::support::folder::words;

/// Waits until the plan has handled this many events.
async fn queued(world: &World, plan: &str, count: u64) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let row = world.item(&format!("R#{plan}"), "M").await;
        let next: u64 = row["next"].as_n().unwrap().parse().unwrap();
        if next >= count {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{next} of {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
}

#[tokio::test]
async fn a_few_go_first_and_when_they_fail_the_others_are_not_touched() {
    let world = World::start().await;
    let keys = world.dead(0..20).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    world.downstream.answers(422);
    let apply = replay_apply(&plan, "--confirm 20 --rate 100");
    let stopped = world.webhookctl(&apply).await;
    assert_eq!(stopped.status.code(), Some(6), "{}", told(&stopped));
    let said = "stopped: 5 of 5 failed again (limit 10%); 15 events were not replayed";
    assert!(told(&stopped).contains(said), "{}", told(&stopped));
    assert_eq!(world.downstream.heard(), (5, 5));
    for key in &keys[5..] {
        assert_eq!(world.row(key).await["run"].as_n().unwrap(), "0");
    }
    // The canary of the next run has five other events.
    world.downstream.answers(200);
    let gone_on = world
        .webhookctl(&[&apply[..], &["-o", "json"]].concat())
        .await;
    let gone_on = document(&gone_on, 6);
    let outcome = json!({"done": 15, "failed": 5, "waiting": 0, "changed": 0});
    assert_eq!(gone_on["outcome"], outcome);
    let failures = gone_on["failures"].as_array().unwrap();
    assert_eq!((failures.len(), &failures[0]["events"]), (1, &json!(5)));
    assert_eq!(gone_on["runs"][0]["canary"], json!({"tried": 5, "done": 0}));
    assert_eq!(gone_on["runs"][1]["canary"], json!({"tried": 5, "done": 5}));
    assert_eq!(world.downstream.heard(), (20, 20));
    world.end().await;
}

#[tokio::test]
async fn it_stops_above_a_share_of_failures() {
    let world = World::start().await;
    world.dead(0..200).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    world.downstream.answers_after(12, 422);
    let apply = replay_apply(&plan, "--confirm 200 --rate 20 -o json");
    let stopped = document(&world.webhookctl(&apply).await, 6);
    assert_eq!(stopped["state"], "running");
    let queued = stopped["queued"].as_u64().unwrap();
    assert!((12..200).contains(&queued), "{queued}");
    let end = stopped["runs"][0]["end"].as_str().unwrap();
    assert!(end.contains("failed again"), "{end}");
    // With a higher limit, the plan continues.
    let on = words("--canary 0 --stop-at 100% --rate 500 -o json");
    let on = [&apply[..5], &on].concat();
    let ended = document(&world.webhookctl(&on).await, 6);
    assert_eq!(
        (&ended["state"], &ended["queued"]),
        (&json!("finished"), &json!(200))
    );
    assert_eq!(world.downstream.heard(), (200, 200));
    world.end().await;
}

#[tokio::test]
async fn a_second_operator_is_refused_and_can_watch_or_cancel() {
    let world = World::start().await;
    let keys = world.dead(0..12).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 12 --canary 0");
    let slow = world.spawn(&[&apply[..], &["--rate", "2"]].concat());
    queued(&world, &plan, 2).await;
    let second = world.webhookctl(&apply).await;
    refused(&second, 8, "replay.locked");
    let said = format!("plan {plan} is being applied by anna since ");
    assert!(told(&second).contains(&said), "{}", told(&second));
    let status = ["replay", "status", &plan];
    let status = told(&world.webhookctl(&status).await);
    assert!(
        status.contains("running, leased by anna until "),
        "{status}"
    );
    assert!(status.contains("/12"), "{status}");

    let cancel = world.webhookctl(&["replay", "cancel", &plan]).await;
    assert!(cancel.status.success(), "{}", told(&cancel));
    let first = slow.wait_with_output().await.unwrap();
    assert_eq!(first.status.code(), Some(8), "{}", told(&first));
    refused(&world.webhookctl(&apply).await, 7, "replay.cancelled");
    let again = world.webhookctl(&["replay", "cancel", &plan]).await;
    assert!(again.status.success(), "{}", told(&again));
    // The second one changed nothing, so it is not in the audit log.
    let log = ["log", "--what", "replay.cancel", "-o", "jsonl"];
    let log = world.webhookctl(&log).await.stdout;
    assert_eq!(String::from_utf8(log).unwrap().lines().count(), 1);
    let shown = world.show(&plan).await;
    assert_eq!(
        (&shown["state"], &shown["cancelled_by"]),
        (&json!("cancelled"), &json!("local/anna"))
    );
    let queued = usize::try_from(shown["queued"].as_u64().unwrap()).unwrap();
    assert!((2..12).contains(&queued), "{queued}");
    world.all(&keys[..queued], "done").await;
    assert_eq!(world.downstream.heard(), (queued, queued));
    world.end().await;
}

#[tokio::test]
async fn after_ctrl_c_it_goes_on_where_it_was() {
    let world = World::start().await;
    let keys = world.dead(0..10).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 10 --canary 0");
    let child = world.spawn(&[&apply[..], &["--rate", "2"]].concat());
    queued(&world, &plan, 3).await;
    interrupt(&child);
    let stopped = child.wait_with_output().await.unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{}", told(&stopped));
    assert!(
        told(&stopped).contains("were not replayed"),
        "{}",
        told(&stopped)
    );
    let shown = world.show(&plan).await;
    assert_eq!(shown["runs"][0]["end"], "stopped with Ctrl-C");
    assert!(!shown["runs"][0]["to"].is_null());
    let on = world
        .webhookctl(&[&apply[..], &["-o", "json"]].concat())
        .await;
    assert_eq!(document(&on, 0)["outcome"]["done"], 10);
    world.all(&keys, "done").await;
    assert_eq!(world.downstream.heard(), (10, 10));
    world.end().await;
}

#[tokio::test]
async fn a_retry_that_is_due_later_has_failed_again() {
    let world = World::start().await;
    world.dead(0..2).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 2 -o json");
    world.downstream.answers(503);
    let ended = document(&world.webhookctl(&apply).await, 6);
    assert_eq!(
        (&ended["outcome"]["failed"], &ended["state"]),
        (&json!(2), &json!("finished"))
    );
    world.end().await;
}

#[tokio::test]
async fn it_waits_for_outcomes_only_so_long() {
    let world = World::start().await;
    world.dead(0..2).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 2 --timeout 1s -o json");
    world.downstream.answers_never();
    let ended = document(&world.webhookctl(&apply).await, 124);
    assert_eq!(
        (&ended["outcome"]["waiting"], &ended["state"]),
        (&json!(2), &json!("finished"))
    );
    world.end().await;
}
