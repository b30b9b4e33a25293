//! Runs the command that applies a plan repeatedly, and kills each run one request later.

use std::time::Duration;

use super::world::{World, document, id, replay_apply, told};

/// The maximum number of rounds. A command sends far fewer requests.
const MOST: i64 = 200;

/// Kills the command that applies the plan at the request with this number. Returns `true` if the
/// command ended before.
async fn killed_at(world: &World, apply: &[&str], request: i64, carried_out: bool) -> bool {
    world.line.cut_after(request, carried_out);
    let mut child = world.spawn(apply);
    let ended = loop {
        if world.line.is_cut() {
            break false;
        }
        if child.try_wait().unwrap().is_some() {
            break true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    if carried_out && !ended {
        // Requests in flight can still arrive.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if !ended {
        // The process gets SIGKILL.
        child.kill().await.unwrap();
    }
    world.line.mend();
    let output = child.wait_with_output().await.unwrap();
    assert!(!ended || output.status.success(), "{}", told(&output));
    ended
}

/// Applies one plan with several commands. Each command is killed one request later than the
/// command before.
async fn killed_again_and_again(carried_out: bool) {
    let world = World::start().await;
    let keys = world.dead(0..6).await;
    let untouched = world.received("others", 50).await;
    let before = world.row(&untouched).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 6 --canary 2 --rate 1000 -o json");
    let mut request = 0;
    while !killed_at(&world, &apply, request, carried_out).await {
        world.lease_is_over(&plan).await;
        request += 1;
        assert!(request < MOST, "the plan never ends");
    }
    assert!(request > 8, "the command was killed {request} times");
    world.all(&keys, "done").await;
    assert_eq!(world.downstream.heard(), (6, 6));
    for key in &keys {
        let row = world.row(key).await;
        assert_eq!(row["run"].as_n().unwrap(), "1", "{key}");
    }
    assert_eq!(world.row(&untouched).await, before);
    let again = document(&world.webhookctl(&apply).await, 0);
    assert_eq!(again["outcome"]["done"], 6);
    assert_eq!(world.downstream.heard(), (6, 6));
    world.end().await;
}

#[tokio::test]
async fn in_front_of_any_request() {
    killed_again_and_again(false).await;
}

#[tokio::test]
async fn behind_any_request_that_was_carried_out() {
    killed_again_and_again(true).await;
}

/// Makes a new plan for each request. The command is killed at this request, and a second command
/// continues the plan.
#[tokio::test]
async fn once_at_each_request_of_a_whole_run() {
    let world = World::start().await;
    let mut request = 0;
    loop {
        let first = u64::try_from(request).unwrap() * 10;
        let keys = world.dead(first..first + 3).await;
        let ids = keys.iter().map(ToString::to_string);
        let ids: Vec<String> = ids.flat_map(|id| ["--id".to_owned(), id]).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let plan = id(&world.plan(&ids).await);
        let apply = replay_apply(&plan, "--confirm 3 --canary 1 --rate 1000 -o json");
        let ended = killed_at(&world, &apply, request, true).await;
        if !ended {
            world.lease_is_over(&plan).await;
            let outcome = &document(&world.webhookctl(&apply).await, 0)["outcome"];
            assert_eq!(outcome["done"], 3, "killed at request {request}");
        }
        world.all(&keys, "done").await;
        let all = (usize::try_from(request).unwrap() + 1) * 3;
        assert_eq!(
            world.downstream.heard(),
            (all, all),
            "killed at request {request}"
        );
        if ended {
            break;
        }
        request += 1;
        assert!(request < MOST, "the plan never ends");
    }
    assert!(request > 18, "the command was killed {request} times");
    world.end().await;
}

#[tokio::test]
async fn while_a_plan_is_made() {
    let world = World::start().await;
    world.dead(0..3).await;
    let line = [
        "replay", "plan", "-s", "orders", "--since", "10m", "-o", "json",
    ];
    let mut request = 0;
    while !killed_at(&world, &line, request, true).await {
        request += 1;
        assert!(request < MOST, "the plan never ends");
    }
    assert!(request > 8, "the command was killed {request} times");
    // The list has no plan that was stored only in part.
    let log = world.webhookctl(&["replay", "log", "-o", "json"]).await;
    let log = document(&log, 0);
    let plans = log["items"].as_array().unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        let dry = [
            "replay",
            "apply",
            plan["plan"].as_str().unwrap(),
            "--dry-run",
            "-o",
            "json",
        ];
        let dry = document(&world.webhookctl(&dry).await, 0);
        assert_eq!(dry["run"], 3);
    }
    assert_eq!(world.downstream.heard(), (0, 0));
    world.end().await;
}
