//! Tests which differences a reconciliation reports as drift.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;

use super::provider::API_KEY;
use super::world::{BY_ID, MISSING_TABLE, TABLE, World, document, subscription, told};

fn counts(report: &Value, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| report["counts"][name].as_u64().unwrap())
}

fn kinds(report: &Value) -> Vec<(String, String)> {
    let drift = report["drift"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    drift
        .map(|d| (text(&d["object"]), text(&d["kind"])))
        .collect()
}

/// About 230 subscriptions are on both sides, and some of them differ.
async fn differing() -> World {
    let world = World::start(BY_ID).await;
    // The list has three pages. The first request for the second page fails.
    for n in 0..230 {
        world.both(&format!("sub_{n:03}")).await;
    }
    let answer = || {
        (
            StatusCode::TOO_MANY_REQUESTS,
            [(header::RETRY_AFTER, "1")],
            "{}",
        )
    };
    world.stripe.at(2, move |_| Some(answer().into_response()));
    world.stripe.put(
        "sub_missing",
        subscription("sub_missing", "active", "price_pro"),
    );
    world
        .ours("SUB#sub_gone", "sub_gone", "active", "pro")
        .await;
    world.ours("SUB#sub_007", "sub_007", "active", "free").await;
    // The provider has canceled this subscription. A list without `status=all` would not have it.
    world
        .stripe
        .put("sub_008", subscription("sub_008", "canceled", "price_pro"));
    let mut new = subscription("sub_young", "active", "price_pro");
    new["created"] = json!(UnixMillis::now().secs() - 60);
    world.stripe.put("sub_young", new);
    world
}

#[tokio::test]
async fn what_differs_is_reported_whichever_side_it_is_on() {
    let world = differing().await;
    let before = world.table().await;

    let report = world.report().await;
    assert_eq!(
        kinds(&report),
        [
            ("sub_007".into(), "different".to_owned()),
            ("sub_008".into(), "different".to_owned()),
            ("sub_missing".into(), "missing".to_owned()),
            ("sub_gone".into(), "gone".to_owned()),
        ]
    );
    assert_eq!(
        report["drift"][0]["fields"],
        json!([{"name": "plan", "here": ["free"], "there": ["pro"]}])
    );
    assert_eq!(
        counts(&report, ["compared", "agree", "young", "unconfirmed"]),
        [233, 228, 1, 0]
    );
    let asked = world.stripe.requests();
    let lists = asked.iter().filter(|what| what.starts_with("list")).count();
    assert_eq!(lists, 4, "three pages, one of them twice: {asked:?}");
    assert_eq!(world.table().await, before, "the comparison only reads");

    // The text output shows the same, and the exit code tells it to a script.
    let shown = world
        .webhookctl(&["reconcile", "report", "-o", "json"])
        .await;
    assert_eq!(shown.status.code(), Some(5), "{}", told(&shown));
    assert_eq!(document(&shown)["reports"][0], report);
    let shown = world.webhookctl(&["reconcile", "report"]).await;
    assert!(
        told(&shown).contains("plan: ours=free theirs=pro"),
        "{}",
        told(&shown)
    );
    let listed = world.webhookctl(&["reconcile", "list", "-o", "json"]).await;
    let row = &document(&listed)["items"][1];
    assert_eq!(
        (&row["drifted"], &row["report"]),
        (&json!(4), &report["id"])
    );

    // There is one log line, which has numbers and no data of objects.
    let log = world.logged();
    let line = log
        .lines()
        .find(|line| line.contains(r#""metric":"reconcile""#));
    let line: Value = serde_json::from_str(line.expect("the run is logged")).unwrap();
    assert_eq!(line["fields"]["drift"], 4);
    assert!(!log.contains("sub_007"), "{log}");
    world.end().await;
}

#[tokio::test]
async fn what_changed_while_it_was_looked_at_is_not_drift() {
    let world = World::start(BY_ID).await;
    world.both("sub_same").await;
    for id in ["sub_settles", "sub_moves", "sub_stays"] {
        world
            .stripe
            .put(id, subscription(id, "active", "price_pro"));
        world.ours(&format!("SUB#{id}"), id, "active", "free").await;
    }
    // The objects change after the list is read, and before any object is read again.
    world.stripe.at(2, |objects| {
        let free = |id: &str| subscription(id, "active", "price_free");
        objects.insert("sub_settles".into(), free("sub_settles"));
        let past_due = subscription("sub_moves", "past_due", "price_pro");
        objects.insert("sub_moves".into(), past_due);
        None
    });
    let report = world.report().await;
    assert_eq!(
        kinds(&report),
        [("sub_stays".into(), "different".to_owned())]
    );
    assert_eq!(
        counts(&report, ["compared", "settled", "moving", "agree"]),
        [4, 1, 1, 2]
    );
    let asked = world.stripe.requests();
    assert_eq!(
        asked.len(),
        4,
        "each of the three is read once more: {asked:?}"
    );
    world.end().await;
}

#[tokio::test]
async fn a_list_that_breaks_off_is_no_report() {
    let world = World::start(BY_ID).await;
    for n in 0..150 {
        world.both(&format!("sub_{n:03}")).await;
    }
    let cut = r#"{"object":"list","data":[{"id":"sub"#;
    for request in 2..8 {
        world.stripe.at(request, move |_| Some(cut.into_response()));
    }
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(error.contains("no list of objects"), "{error}");
    world.stripe.forget_requests();
    world
        .stripe
        .at(2, |_| Some(StatusCode::BAD_REQUEST.into_response()));
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(error.contains("answered 400"), "{error}");
    world
        .secret("stripe-main", "rk_test_of_another_account")
        .await;
    world
        .stack
        .kill_function_processes("BackupSync")
        .await
        .unwrap();
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(
        error.contains("API key \"stripe-main\" is invalid or lacks a permission"),
        "{error}"
    );
    assert!(
        !error.contains(API_KEY) && !error.contains("rk_test"),
        "{error}"
    );
    let reports = world.ledger.provider_reports().reports(
        "stripe-main",
        "subscriptions",
        9,
        UnixMillis::now(),
    );
    assert!(reports.await.unwrap().is_empty());
    world.end().await;
}

#[tokio::test]
async fn only_one_run_is_at_it_and_one_that_was_killed_holds_nobody_up_for_long() {
    let world = World::start(BY_ID).await;
    world.both("sub_1").await;
    let now = UnixMillis::now();
    let minutes = std::time::Duration::from_secs(300);
    let lease = world.ledger.provider_reports().reconcile_lease(
        "stripe-main",
        "subscriptions",
        "me",
        now,
        minutes,
    );
    let lease = lease.await.unwrap().unwrap();
    assert!(world.run("stripe-main").await.unwrap().is_empty());
    assert!(world.stripe.requests().is_empty());
    world
        .ledger
        .provider_reports()
        .reconcile_release(lease)
        .await
        .unwrap();
    // backup-sync requests a page again if it cannot be parsed.
    world.stripe.at(1, |_| Some("<html>".into_response()));
    assert_eq!(world.report().await["counts"]["agree"], 1);
    // An earlier run stopped long ago without releasing its lease.
    let then = UnixMillis(now.0 - 600_000);
    let lease = world.ledger.provider_reports().reconcile_lease(
        "stripe-main",
        "subscriptions",
        "dead",
        then,
        minutes,
    );
    assert!(lease.await.unwrap().is_some());
    assert_eq!(world.report().await["counts"]["agree"], 1);
    world.end().await;
}

#[tokio::test]
async fn the_inbox_is_no_state_of_ours_and_a_table_that_is_not_there_is_named() {
    let world = World::start(&BY_ID.replace(TABLE, MISSING_TABLE)).await;
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(error.contains("read table app-no-such-table"), "{error}");
    world.end().await;

    let inbox = local::Template::load(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml").as_ref(),
        &local::Naming::default(),
    );
    let inbox = inbox.unwrap().table_definition().unwrap().name.clone();
    let world = World::start(&BY_ID.replace(TABLE, &inbox)).await;
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(error.contains("is the inbox"), "{error}");
    world.end().await;
}
