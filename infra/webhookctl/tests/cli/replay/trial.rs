//! A replay of the events that the route of a trial lost.

use std::time::Duration;

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{RouteAnswer, RouteOutcome};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

use super::world::{World, document, id, replay_apply};

async fn recorded(world: &World, name: &str, outcome: RouteOutcome) -> EventKey {
    let at = UnixMillis::now() - Duration::from_secs(4 * 86_400);
    let event = Event::fetched(Fetched {
        source: "orders",
        provider: "stripe",
        preset: "stripe",
        id: name,
        kind: "order.paid",
        body: format!(r#"{{"id":"{name}"}}"#).into(),
        now: at,
        via: Via::Webhook,
        config: "test",
    });
    let placed = world.ledger.store_body(&event).await.unwrap();
    let recorded = world.ledger.record_trial(&event, &placed, at);
    recorded.await.unwrap();
    let took = Duration::from_millis(200);
    let answer = RouteAnswer::new(at, outcome, took, None, "new");
    let noted = world.ledger.record_route_answer(event.key(), &answer);
    assert!(noted.await.unwrap());
    event.key().clone()
}

#[tokio::test]
async fn lost_events_of_a_trial_run_their_actions_once() {
    let world = World::start().await;
    let failed = recorded(&world, "failed", RouteOutcome::Status(500)).await;
    let timeout = recorded(&world, "timeout", RouteOutcome::Timeout).await;
    let accepted = recorded(&world, "accepted", RouteOutcome::Status(200)).await;
    let before = world.row(&accepted).await;
    // The route may have processed the event that timed out.
    let plan = world.plan(&["-s", "orders", "--tee", "lost"]).await;
    let events = &plan["events"];
    assert_eq!(
        (&events["selected"], &events["planned"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(events["left_out"], json!({"effect_unknown": 1}));
    let selection = json!({"source": ["orders"], "tee": ["lost"]});
    assert_eq!(plan["selection"], selection);
    assert_eq!(world.show(&id(&plan)).await["selection"], selection);

    let again = [
        "--like",
        &id(&plan),
        "--mode",
        "guarded",
        "--accept-duplicate-risk",
    ];
    let again = world.plan(&again).await;
    assert_eq!(again["selection"], selection);
    assert_eq!(again["events"]["planned"], 2);
    let all = world.plan(&["-s", "orders", "--since", "7d"]).await;
    assert_eq!(all["events"]["left_out"]["done"], 1, "{all}");

    let again = id(&again);
    let apply = replay_apply(&again, "--rate 200 --confirm 2 -o json");
    for _ in 0..2 {
        let applied = document(&world.webhookctl(&apply).await, 0);
        assert_eq!(applied["outcome"]["done"], 2, "{applied}");
    }
    world.all(&[failed, timeout], "done").await;
    assert_eq!(world.downstream.heard(), (2, 2));
    assert_eq!(world.row(&accepted).await, before);
    let nothing = world.plan(&["-s", "orders", "--tee", "lost"]).await;
    assert_eq!(nothing["events"]["selected"], 0);
    world.end().await;
}
