//! The sides of a comparison: a table with other names, an endpoint, another provider.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Router, routing::get};
use serde_json::{Value, json};

use super::provider::Api;
use super::world::{BY_ID, OVER_HTTP, World, serve, subscription};

fn drifted(report: &Value) -> Vec<String> {
    let drift = report["drift"].as_array().unwrap().iter();
    drift
        .map(|d| {
            format!(
                "{} {}",
                d["object"].as_str().unwrap(),
                d["kind"].as_str().unwrap()
            )
        })
        .collect()
}

/// Users of an application by customer id, each with a plan. The test compares them with the active
/// subscriptions.
#[tokio::test]
async fn users_are_compared_by_their_customer_and_plans_by_our_words() {
    let by_customer = BY_ID
        .replace(
            "objects = \"subscriptions\"",
            "objects = \"subscriptions\"\nid = \"customer\"\nwhere = [{ path = \"status\", equals = \"active\" }]",
        )
        .replace("SUB#{id}", "USER#{customer}");
    let world = World::start(&by_customer).await;
    let user = async |customer: &str, tier: &str| {
        world
            .ours(&format!("USER#{customer}"), customer, "active", tier)
            .await;
    };
    world
        .stripe
        .put("sub_1", subscription("sub_1", "active", "price_pro"));
    user("cus_sub_1", "pro").await;
    // The user has another plan. An older subscription of the same customer is ignored.
    world
        .stripe
        .put("sub_2", subscription("sub_2", "active", "price_pro"));
    let mut old = subscription("sub_2_old", "canceled", "price_free");
    old["customer"] = json!("cus_sub_2");
    world.stripe.put("sub_2_old", old);
    user("cus_sub_2", "free").await;
    // The provider has no active subscription for this user.
    world
        .stripe
        .put("sub_3", subscription("sub_3", "canceled", "price_pro"));
    user("cus_sub_3", "pro").await;
    // Two subscriptions of this user are active, so the match is ambiguous.
    for (id, price) in [("sub_4", "price_pro"), ("sub_4_b", "price_free")] {
        let mut one = subscription(id, "active", price);
        one["customer"] = json!("cus_sub_4");
        world.stripe.put(id, one);
    }
    user("cus_sub_4", "pro").await;

    let report = world.report().await;
    assert_eq!(
        drifted(&report),
        [
            "cus_sub_2 different",
            "cus_sub_4 ambiguous",
            "cus_sub_3 gone"
        ]
    );
    assert_eq!(report["counts"]["agree"], 1);
    let asked = world.stripe.requests();
    assert!(
        asked.contains(&"list Some(\"cus_sub_3\")".to_owned()),
        "{asked:?}"
    );
    world.end().await;
}

#[tokio::test]
async fn an_endpoint_of_ours_is_read_page_by_page_and_asked_again() {
    let world = World::start(OVER_HTTP).await;
    for n in 1..=5 {
        let id = format!("sub_{n}");
        world
            .stripe
            .put(&id, subscription(&id, "active", "price_pro"));
        world.app.put(&id, json!({"id": id, "status": "active"}));
    }
    world
        .app
        .put("sub_2", json!({"id": "sub_2", "status": "trialing"}));
    world
        .app
        .put("sub_6", json!({"id": "sub_6", "status": "active"}));
    // The user is updated while the comparison runs.
    world
        .app
        .put("sub_3", json!({"id": "sub_3", "status": "trialing"}));
    world.app.at(4, |objects| {
        objects.insert("sub_3".into(), json!({"id": "sub_3", "status": "active"}));
        None
    });
    let report = world.report().await;
    assert_eq!(drifted(&report), ["sub_2 different", "sub_6 gone"]);
    assert_eq!(report["counts"]["settled"], 1);
    let mut asked = world.app.requests();
    asked[3..].sort();
    let again = ["sub_2", "sub_3", "sub_6"].map(|id| format!("state Some(\"{id}\")"));
    assert_eq!(
        asked[..3],
        ["state None", "state Some(\"2\")", "state Some(\"4\")"]
    );
    assert_eq!(asked[3..], again);
    world.end().await;
}

#[tokio::test]
async fn an_endpoint_cannot_send_us_elsewhere() {
    let world = World::start(OVER_HTTP).await;
    world
        .stripe
        .put("sub_1", subscription("sub_1", "active", "price_pro"));
    let elsewhere = Api::default();
    let noted = elsewhere.clone();
    let url = serve(Router::new().fallback(get(async move || {
        noted.put("called", Value::Null);
        StatusCode::OK
    })));
    let to = format!("{url}/latest/meta-data/");
    world.app.at(1, move |_| {
        Some((StatusCode::FOUND, [(header::LOCATION, to)]).into_response())
    });
    let error = world.run("stripe-main").await.unwrap_err();
    assert!(error.contains("your endpoint answered 302"), "{error}");
    // The cursor of the next page is only a value in the query of the endpoint, even if it looks
    // like a URL.
    let page = json!({"items": [], "next": format!("{url}/next")}).to_string();
    world.app.forget_requests();
    world.app.at(1, move |_| Some(page.into_response()));
    world.app.at(2, |_| Some(r#"{"items":[]}"#.into_response()));
    let report = world.report().await;
    assert_eq!(drifted(&report), ["sub_1 missing"]);
    assert!(world.app.requests()[1].contains("/next"));
    assert!(elsewhere.is_empty(), "another host was called");
    world.end().await;
}

#[tokio::test]
async fn hooks_of_a_repository_are_compared_by_numbered_pages() {
    let world = World::start("").await;
    let hook = |id: u32, active: bool| {
        json!({"id": id, "type": "Repository", "active": active, "events": ["push", "issues"],
               "config": {"url": "https://hooks.example.com/in/github-main"}, "created_at": "2019-06-03T00:57:16Z"})
    };
    for id in 1000..1101 {
        let name = id.to_string();
        world.github.put(&name, hook(id, id != 1050));
        world.app.put(
            &name,
            json!({"id": id, "active": true, "events": ["issues", "push"]}),
        );
    }
    let reports = world.run("github-main").await.unwrap();
    assert_eq!(drifted(&reports[0]), ["1050 different"]);
    assert_eq!(reports[0]["counts"]["compared"], 101);
    let asked = world.github.requests();
    assert_eq!(asked, ["list None", "list Some(\"2\")", "one 1050"]);
    world.end().await;
}
