//! `replay apply` runs each event of the plan once, and no other events.

use serde_json::json;
use shared::inbox::ledger::Settlement;

use super::world::{World, document, id, refused, replay_apply, told};

#[tokio::test]
async fn a_plan_that_is_applied_a_hundred_times_runs_each_event_once() {
    let world = World::start().await;
    let keys = world.dead(0..40).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    // The plan does not have events that arrive later.
    let later = world.dead(100..105).await;
    let mut before = Vec::new();
    for key in &later {
        before.push(world.row(key).await);
    }

    let apply = replay_apply(&plan, "--rate 200 -o json");
    refused(
        &world.webhookctl(&apply[..3]).await,
        7,
        "replay.confirm_needed",
    );
    let wrong = [&apply[..3], &["--confirm", "45"]].concat();
    refused(
        &world.webhookctl(&wrong).await,
        7,
        "replay.confirm_mismatch",
    );
    let dry = document(
        &world
            .webhookctl(&[&apply[..], &["--dry-run"]].concat())
            .await,
        0,
    );
    assert_eq!((&dry["run"], &dry["changed"]), (&json!(40), &json!(0)));
    assert_eq!(world.downstream.heard(), (0, 0));

    let confirmed = [&apply[..], &["--confirm", "40"]].concat();
    let mut more = Vec::new();
    for time in 0..100 {
        let applied = document(&world.webhookctl(&confirmed).await, 0);
        assert_eq!(applied["state"], "finished");
        let outcome = json!({"done": 40, "failed": 0, "waiting": 0, "changed": 0});
        assert_eq!(applied["outcome"], outcome, "{time}");
        if time < 5 {
            more.extend(world.dead(200 + time..201 + time).await);
        }
    }
    assert_eq!(world.downstream.heard(), (40, 40));
    world.all(&keys, "done").await;
    for (key, before) in later.iter().zip(before) {
        assert_eq!(world.row(key).await, before, "{key} was touched");
    }
    world.all(&more, "dead_letter").await;
    world.end().await;
}

#[tokio::test]
async fn what_changed_since_the_plan_is_left_as_it_is() {
    let world = World::start().await;
    let keys = world.dead(0..5).await;
    let first = id(&world.plan(&["-s", "orders"]).await);
    let second = id(&world
        .plan(&["--id", &format!("orders:{}", keys[0].id())])
        .await);
    let apply = replay_apply(&second, "--confirm 1 -o json");
    let applied = document(&world.webhookctl(&apply).await, 0);
    assert_eq!(applied["outcome"]["done"], 1);

    let dry = replay_apply(&first, "--dry-run -o json");
    let dry = document(&world.webhookctl(&dry).await, 0);
    assert_eq!((&dry["run"], &dry["changed"]), (&json!(4), &json!(1)));
    let apply = replay_apply(&first, "--confirm 5 -o json");
    let applied = document(&world.webhookctl(&apply).await, 0);
    let outcome = json!({"done": 4, "failed": 0, "waiting": 0, "changed": 1});
    assert_eq!(applied["outcome"], outcome);
    assert_eq!(world.show(&first).await["outcome"], outcome);
    assert_eq!(world.downstream.heard(), (5, 5));
    world.end().await;
}

#[tokio::test]
async fn what_is_done_runs_again_by_force_and_under_a_new_key_if_that_is_said() {
    let world = World::start().await;
    let keys = world.dead(0..2).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let of_each = |outcome: &str, actions: &[&str]| {
        let actions: Vec<String> = actions.iter().map(|&action| action.to_owned()).collect();
        vec![(outcome.to_owned(), actions); 2]
    };
    assert_eq!(world.events(&plan).await, of_each("planned", &["runs"]));
    let apply = replay_apply(&plan, "--confirm 2");
    assert!(world.webhookctl(&apply).await.status.success());
    assert_eq!(world.downstream.heard(), (2, 2));
    assert_eq!(world.events(&plan).await, of_each("done", &["skipped"]));

    let force = ["-s", "orders", "--mode", "force"];
    let plan = world.plan(&force).await;
    assert_eq!(plan["events"]["committed"], 2);
    let unsaid = world.webhookctl(&["replay", "apply", &id(&plan)]).await;
    refused(&unsaid, 7, "replay.force");
    let apply = ["replay", "apply", &id(&plan), "--confirm", "2"];
    assert!(world.webhookctl(&apply).await.status.success());
    world.all(&keys, "done").await;
    assert_eq!(
        world.downstream.heard(),
        (2, 2),
        "completed effects are skipped"
    );

    let plan = world.plan(&[&force[..], &["--new-effect"]].concat()).await;
    let planned = world.events(&id(&plan)).await;
    assert_eq!(planned, of_each("planned", &["runs"]));
    let apply = ["replay", "apply", &id(&plan), "--confirm", "2"];
    let applied = world.webhookctl(&apply).await;
    assert!(applied.status.success(), "{}", told(&applied));
    assert_eq!(
        world.downstream.heard(),
        (4, 4),
        "two more, with idempotency keys of their own"
    );
    world.end().await;
}

#[tokio::test]
async fn nobody_has_to_wait_for_outcomes() {
    let world = World::start().await;
    let keys = world.dead(0..3).await;
    let other = world.received("others", 9).await;
    world.settled(&other, Settlement::Done, &[]).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let apply = replay_apply(&plan, "--confirm 3 --no-wait -o json");
    let applied = document(&world.webhookctl(&apply).await, 0);
    assert_eq!(
        (&applied["queued"], &applied["state"]),
        (&json!(3), &json!("finished"))
    );
    world.all(&keys, "done").await;
    assert_eq!(world.show(&plan).await["outcome"]["done"], 3);
    world.end().await;
}
