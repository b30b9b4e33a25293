//! A repair stores events like those of a webhook. It stores each event once, respects the cap, and
//! writes to the audit log.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::State as Standing;
use shared::webhook::event::{EventKey, Via};

use crate::support::forward::forward;

use super::world::{BY_ID, World, document, serve, subscription, told};

/// Creates a hundred objects, of which three have drifted.
async fn drifted() -> (World, String) {
    let world = World::start(BY_ID).await;
    for n in 0..97 {
        world.both(&format!("sub_{n:03}")).await;
    }
    world
        .stripe
        .put("sub_a", subscription("sub_a", "active", "price_pro"));
    world.ours("SUB#sub_b", "sub_b", "active", "pro").await;
    world
        .stripe
        .put("sub_c", subscription("sub_c", "canceled", "price_pro"));
    world.ours("SUB#sub_c", "sub_c", "active", "pro").await;
    let report = world.report().await;
    let id = report["id"].as_str().unwrap().to_owned();
    (world, id)
}

fn keys(report: &str) -> [EventKey; 3] {
    ["sub_a", "sub_b", "sub_c"]
        .map(|object| EventKey::new("stripe-main", &format!("recon:{report}:{object}")))
}

#[tokio::test]
async fn each_drifted_object_is_told_of_once_however_often_it_is_repaired() {
    let (world, id) = drifted().await;
    let line = ["reconcile", "repair", &id, "-m", "the app was down"];
    let shown = world.webhookctl(&line).await;
    assert_eq!(shown.status.code(), Some(7), "{}", told(&shown));
    assert!(told(&shown).contains("--confirm 3"), "{}", told(&shown));
    let wrong = world
        .webhookctl(&[&line[..], &["--confirm", "4"]].concat())
        .await;
    assert_eq!(wrong.status.code(), Some(7));
    for key in keys(&id) {
        assert!(world.ledger.event(&key).await.unwrap().is_none());
    }
    assert!(world.log().await.is_empty());
    let before = world.table().await;

    let confirmed = [&line[..], &["--confirm", "3", "-o", "json"]].concat();
    let done = world.webhookctl(&confirmed).await;
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(
        (&document(&done)["new"], &document(&done)["known"]),
        (&json!(3), &json!(0))
    );
    let again = world.webhookctl(&confirmed).await;
    assert_eq!(
        (&document(&again)["new"], &document(&again)["known"]),
        (&json!(0), &json!(3))
    );

    for (key, kind) in keys(&id).iter().zip(["missing", "gone", "different"]) {
        let row = settled(&world, key).await;
        assert_eq!(
            (row.via, row.kind.as_str()),
            (Via::Recon, format!("mitt.reconcile.{kind}").as_str())
        );
        assert_eq!(row.state, Standing::Done);
    }
    let body = world.ledger.event_body(&keys(&id)[2]).await.unwrap();
    let body: Value = serde_json::from_slice(&body.unwrap().unwrap().0).unwrap();
    assert_eq!(body["object"], "sub_c");
    assert_eq!(
        body["fields"],
        json!([{"name": "status", "here": ["active"], "there": ["canceled"]}])
    );
    // The repair itself changes no object. The actions of the source change it.
    assert_eq!(world.table().await, before);
    // Each entry of the audit log has the operator and the reason.
    let log = world.log().await;
    assert_eq!(log.len(), 2);
    for entry in log {
        assert_eq!(entry["what"].as_s().unwrap(), "reconcile.repair");
        assert_eq!(entry["who"].as_s().unwrap(), "local/anna");
        assert_eq!(entry["why"].as_s().unwrap(), "the app was down");
        assert!(entry["sel"].as_s().unwrap().contains(&id));
    }
    let shown = world.webhookctl(&["reconcile", "report"]).await;
    assert!(
        told(&shown).contains("repaired by local/anna"),
        "{}",
        told(&shown)
    );
    world.end().await;
}

async fn settled(world: &World, key: &EventKey) -> shared::inbox::ledger::Row {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let row = world
            .ledger
            .event(key)
            .await
            .unwrap()
            .expect("the row exists");
        if !row.is_open() || tokio::time::Instant::now() > deadline {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn so_much_drift_that_it_is_no_drift_stops_a_repair() {
    let world = World::start(BY_ID).await;
    for n in 0..9 {
        world.both(&format!("sub_{n}")).await;
    }
    world
        .stripe
        .put("sub_a", subscription("sub_a", "active", "price_pro"));
    let id = world.report().await["id"].as_str().unwrap().to_owned();
    let line = ["reconcile", "repair", &id, "-m", "why", "--confirm", "1"];
    let refused = world.webhookctl(&line).await;
    assert_eq!(refused.status.code(), Some(7), "{}", told(&refused));
    assert!(
        told(&refused).contains("10.0% of 10 objects drifted, which is more than the cap of 5%"),
        "{}",
        told(&refused)
    );
    let key = EventKey::new("stripe-main", &format!("recon:{id}:sub_a"));
    assert!(world.ledger.event(&key).await.unwrap().is_none());
    let done = world
        .webhookctl(&[&line[..], &["--over-cap"]].concat())
        .await;
    assert!(done.status.success(), "{}", told(&done));
    assert!(world.ledger.event(&key).await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn only_what_is_true_now_is_repaired() {
    let (world, old) = drifted().await;
    let new = world.report().await["id"].as_str().unwrap().to_owned();
    assert_ne!(old, new);
    let line = ["reconcile", "repair", &old, "-m", "why", "--confirm", "3"];
    let refused = world.webhookctl(&line).await;
    assert_eq!(refused.status.code(), Some(7), "{}", told(&refused));
    assert!(told(&refused).contains(&new), "{}", told(&refused));
    for wrong in [
        &["reconcile", "repair", "rec_nobody", "-m", "why"][..],
        &["reconcile", "repair", &new, "-m", " "],
        &["reconcile", "repair", &new],
        &["reconcile", "report", "-s", "unknown"],
    ] {
        let refused = world.webhookctl(wrong).await;
        assert!(
            matches!(refused.status.code(), Some(2 | 3)),
            "{wrong:?}: {}",
            told(&refused)
        );
    }
    assert!(world.log().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_run_by_hand_says_what_a_scheduled_one_does() {
    let (world, old) = drifted().await;
    let run = world
        .webhookctl(&["reconcile", "run", "-s", "stripe-main", "-o", "json"])
        .await;
    assert_eq!(run.status.code(), Some(5), "{}", told(&run));
    let report = document(&run)["reports"][0].clone();
    assert_eq!(report["drift"].as_array().unwrap().len(), 3);
    assert_ne!(report["id"], json!(old));
    let older = world
        .webhookctl(&["reconcile", "report", &old, "-o", "json"])
        .await;
    assert_eq!(document(&older)["reports"][0]["id"], json!(old));
    world.stripe.forget_requests();
    world
        .stripe
        .at(1, |_| Some(StatusCode::FORBIDDEN.into_response()));
    let failed = world
        .webhookctl(&["reconcile", "run", "-s", "stripe-main"])
        .await;
    assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
    assert!(
        told(&failed).contains("is invalid or lacks a permission"),
        "{}",
        told(&failed)
    );
    // For a deployment, the function must be named, and it must exist.
    let url = world.stack.lambda_url();
    let at = [
        "--table",
        "t",
        "--region",
        "us-east-1",
        "--endpoint-url",
        url,
    ];
    let unnamed = [&at[..], &["reconcile", "run"]].concat();
    let unnamed = world.webhookctl(&unnamed).await;
    assert_eq!(unnamed.status.code(), Some(2), "{}", told(&unnamed));
    let unknown = [&at[..], &["reconcile", "run", "--function", "unknown"]].concat();
    let unknown = world.webhookctl(&unknown).await;
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
    world.end().await;
}

/// The test runs the repair repeatedly. In each run, the proxy lets one more request to the table
/// succeed than in the run before, and fails all later requests.
#[tokio::test]
async fn a_repair_that_is_cut_off_anywhere_is_done_by_the_next() {
    let (world, id) = drifted().await;
    let line = Line::to(&world.stack.endpoints().dynamodb);
    let url = serve(Router::new().fallback(pass).with_state(line.clone()));
    world.announce(&url);
    let args = [
        "reconcile",
        "repair",
        &id,
        "-m",
        "why",
        "--confirm",
        "3",
        "-o",
        "json",
    ];
    let mut most = 0;
    let cuts = loop {
        line.left.store(most, Ordering::Relaxed);
        let output = world.webhookctl(&args).await;
        if output.status.success() {
            let report = document(&output);
            assert_eq!(
                report["known"].as_u64().unwrap() + report["new"].as_u64().unwrap(),
                3
            );
            break most;
        }
        most += 1;
        assert!(most < 60, "{}", told(&output));
    };
    assert!(cuts > 6, "the repair was cut {cuts} times");
    let now = UnixMillis::now();
    let hour = UnixMillis(now.0 - now.0.rem_euclid(3_600_000));
    let mut all = Vec::new();
    for (from, to) in [
        (UnixMillis(hour.0 - 600_000), UnixMillis(hour.0 - 1)),
        (hour, now),
    ] {
        let listed = world.ledger.received_in_hour("stripe-main", from, to, 100);
        all.extend(listed.await.unwrap().into_iter().map(|listed| listed.key));
    }
    all.sort();
    assert_eq!(all, keys(&id));
    world.end().await;
}

/// A proxy that forwards this number of requests, and fails all later requests.
#[derive(Clone)]
struct Line {
    left: Arc<AtomicI64>,
    to: String,
    http: reqwest::Client,
}

impl Line {
    fn to(url: &str) -> Self {
        let http = shared::aws::outbound::unguarded(Duration::from_secs(10)).unwrap();
        Self {
            left: Arc::default(),
            to: url.to_owned(),
            http,
        }
    }
}

async fn pass(State(line): State<Line>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    if line.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    forward(&line.http, &line.to, &uri, &headers, body).await
}
