//! The endpoint check reports a subscription that does not point to this endpoint. Only a command
//! of an operator enables it again.

use std::process::Output;

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;
use webhookctl::demo::provider::Provider;

use super::hooks::Hooks;
use super::provider::{API_KEY, Api};
use super::world::{World, document, serve, told};

const AT: &str = "https://hooks.example.com/in";

pub(crate) async fn world() -> (World, Hooks, Provider) {
    let hooks = Hooks::default();
    let events = Provider::new(API_KEY);
    let url = serve(hooks.router().merge(events.router()));
    let source = |name: &str, preset: &str, params: &str, endpoint: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\n{params}\n\
             [[source.action]]\nkind = \"keep\"\n\
             [source.endpoint]\nurl = \"{AT}/{name}\"\napi = \"{url}\"\n{endpoint}\n"
        )
    };
    let sources = [
        "schema = 1\n[forward]\nallow_loopback = true\n".to_owned(),
        source(
            "github-main",
            "github",
            "",
            "with = { repo = \"octo/hello\" }\nevents = [\"push\"]",
        ),
        source(
            "gitlab-main",
            "gitlab",
            "",
            "with = { project = \"octo/hello\" }\nevents = [\"note_events\"]",
        ),
        source(
            "shopify-main",
            "shopify",
            "",
            "with = { shop = \"a.myshopify.com\" }\nevents = [\"orders/create\", \"orders/paid\"]",
        ),
        source(
            "stripe-main",
            "stripe",
            &format!("params = {{ api = \"{url}\" }}"),
            "events = [\"invoice.paid\"]",
        ),
        "[source.sync]\n".to_owned(),
    ];
    let world = World::of(
        &sources.concat(),
        [Api::default(), Api::default(), Api::default()],
    )
    .await;
    subscribe(&hooks);
    (world, hooks, events)
}

/// Makes each provider deliver to this inbox.
fn subscribe(hooks: &Hooks) {
    let mut all = hooks.inner();
    all.github = vec![
        json!({"id": 12, "active": true, "events": ["push"], "config": {"url": format!("{AT}/github-main")}}),
    ];
    all.gitlab = vec![
        json!({"id": 1, "url": format!("{AT}/gitlab-main"), "note_events": true, "alert_status": "executable", "disabled_until": null}),
    ];
    all.shopify = ["ORDERS_CREATE", "ORDERS_PAID"]
        .map(|topic| (topic.to_owned(), format!("{AT}/shopify-main")))
        .into();
    all.stripe = vec![
        json!({"id": "we_1", "url": format!("{AT}/stripe-main"), "status": "enabled", "enabled_events": ["*"]}),
    ];
}

/// Runs `endpoint enable` with a confirmation.
async fn enable(world: &World, source: &str, more: &[&str]) -> Output {
    let line = [
        "endpoint",
        "enable",
        source,
        "--confirm",
        source,
        "-m",
        "why",
    ];
    world.webhookctl(&[&line, more].concat()).await
}

async fn looked(world: &World) -> Vec<String> {
    let task = json!({"task": "endpoints"});
    let invocation = world.stack.invoke("BackupSync", &task);
    let answer = invocation.await.unwrap().json().unwrap();
    let all = answer["endpoints"].as_array().unwrap().iter();
    all.map(|one| one["health"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_subscription_that_does_not_lead_to_us_is_told_of() {
    let (world, hooks, _) = world().await;
    assert_eq!(looked(&world).await, ["good"; 4]);
    let shown = world.webhookctl(&["endpoint", "show", "-o", "json"]).await;
    assert!(shown.status.success(), "{}", told(&shown));
    {
        let mut all = hooks.inner();
        all.github[0]["active"] = json!(false);
        all.gitlab[0]["alert_status"] = json!("temporarily_disabled");
        all.gitlab[0]["disabled_until"] = json!("2026-11-22T04:00:00Z");
        all.shopify.remove(1);
        all.stripe[0]["url"] = json!("https://old.example.com/in/stripe-main");
    }
    let bad = ["disabled", "disabled", "events_missing", "wrong_url"];
    assert_eq!(looked(&world).await, bad);
    let log = world.logged();
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let dark = |line: &Value| line["fields"]["metric"] == "endpoint" && line["fields"]["dark"] == 1;
    assert!(lines.any(|line| dark(&line)), "{log}");
    let shown = world.webhookctl(&["endpoint", "show", "-o", "json"]).await;
    assert_eq!(shown.status.code(), Some(5), "{}", told(&shown));
    let items = &document(&shown)["items"];
    assert_eq!(items[1]["note"], "disabled until 2026-11-22T04:00:00Z");
    assert_eq!(items[2]["missing_events"], json!(["ORDERS_PAID"]));
    hooks.inner().stripe.clear();
    let asked = world
        .webhookctl(&["endpoint", "show", "stripe-main", "--now"])
        .await;
    assert!(told(&asked).contains("missing"), "{}", told(&asked));
    // The command that shows the subscription changes nothing.
    assert!(hooks.inner().changes.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_subscription_is_enabled_as_each_provider_documents_it() {
    let (world, hooks, _) = world().await;
    {
        let mut all = hooks.inner();
        all.github[0]["active"] = json!(false);
        all.gitlab[0]["alert_status"] = json!("disabled");
        all.shopify.clear();
    }
    for source in ["github-main", "gitlab-main", "shopify-main"] {
        let line = ["endpoint", "enable", source, "-m", "the deploy was bad"];
        let refused = world.webhookctl(&line).await;
        assert_eq!(refused.status.code(), Some(7), "{}", told(&refused));
        let wrong = [&line[..], &["--confirm", "another"]].concat();
        assert_eq!(world.webhookctl(&wrong).await.status.code(), Some(7));
        let confirmed = [&line[..], &["--confirm", source]].concat();
        let done = world.webhookctl(&confirmed).await;
        assert!(done.status.success(), "{}", told(&done));
        assert!(
            told(&done).contains("ask the provider to send the events"),
            "{}",
            told(&done)
        );
        // A second run has nothing to do.
        let again = world.webhookctl(&confirmed).await;
        assert!(
            told(&again).contains("nothing was changed"),
            "{}",
            told(&again)
        );
    }
    let to = format!("{AT}/shopify-main");
    let changes = [
        r#"github 12 {"active":true}"#.to_owned(),
        "gitlab 1 note_events".to_owned(),
        format!("shopify ORDERS_CREATE {to}"),
        format!("shopify ORDERS_PAID {to}"),
    ];
    assert_eq!(hooks.inner().changes, changes);
    assert_eq!(looked(&world).await, ["good"; 4]);
    let log = world.log().await;
    assert_eq!(log.len(), 6);
    for entry in log {
        assert_eq!(entry["what"].as_s().unwrap(), "endpoint.enable");
        assert_eq!(entry["who"].as_s().unwrap(), "local/anna");
    }
    world.end().await;
}

#[tokio::test]
async fn types_that_are_missing_are_added_to_those_that_there_are_when_somebody_says_so() {
    let (world, hooks, _) = world().await;
    {
        let mut all = hooks.inner();
        all.github[0]["events"] = json!(["issues"]);
        all.gitlab[0]["note_events"] = json!(false);
        all.stripe[0]["enabled_events"] = json!(["charge.refunded", "v1.a&b"]);
    }
    for source in ["github-main", "gitlab-main", "stripe-main"] {
        let left = enable(&world, source, &[]).await;
        assert!(told(&left).contains("--add-types"), "{}", told(&left));
        assert!(hooks.inner().changes.is_empty());
    }
    for source in ["github-main", "gitlab-main", "stripe-main"] {
        let done = enable(&world, source, &["--add-types"]).await;
        assert!(done.status.success(), "{}", told(&done));
    }
    assert_eq!(looked(&world).await, ["good"; 4]);
    {
        let all = hooks.inner();
        assert_eq!(all.github[0]["events"], json!(["issues", "push"]));
        assert_eq!(
            all.stripe[0]["enabled_events"],
            json!(["charge.refunded", "v1.a&b", "invoice.paid"])
        );
        assert_eq!(all.gitlab[0]["note_events"], true);
        assert_eq!(all.changes.len(), 3, "{:?}", all.changes);
    }
    world.end().await;
}

#[tokio::test]
async fn what_happened_in_the_dark_is_asked_for_afterwards() {
    let (world, hooks, events) = world().await;
    let happen = |id: &str, created: i64| {
        let event =
            json!({"id": id, "object": "event", "created": created, "type": "invoice.paid"});
        events.happen(&event.to_string().into()).unwrap();
    };
    let sync = async || {
        let task = json!({"task": "sync"});
        let sync = world.stack.invoke("BackupSync", &task);
        sync.await.unwrap().json().unwrap()
    };
    assert_eq!(looked(&world).await, ["good"; 4]);
    // The last successful check was six hours ago. The syncs since then found nothing.
    let now = UnixMillis::now();
    let mut status = world
        .ledger
        .provider_reports()
        .endpoint("stripe-main")
        .await
        .unwrap()
        .unwrap();
    status.checked_at = UnixMillis(now.0 - 6 * 3_600_000);
    world
        .ledger
        .provider_reports()
        .note_endpoint(&status)
        .await
        .unwrap();
    sync().await;
    hooks.inner().stripe[0]["status"] = json!("disabled");
    assert_eq!(looked(&world).await[3], "disabled");
    // The provider's list shows an old event late. The event happened before the time from which
    // the next sync would read.
    happen("evt_dark", now.secs() - 5 * 3600);
    sync().await;
    let key = EventKey::new("stripe-main", "evt_dark");
    assert!(world.ledger.event(&key).await.unwrap().is_none());
    let done = enable(&world, "stripe-main", &[]).await;
    assert!(done.status.success(), "{}", told(&done));
    assert!(
        told(&done).contains("found 1 missed event\n"),
        "{}",
        told(&done)
    );
    assert!(world.ledger.event(&key).await.unwrap().is_some());
    assert_eq!(hooks.inner().changes, ["stripe we_1 disabled=false"]);
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_enabled_is_left_to_a_person_with_what_to_do() {
    let (world, hooks, _) = world().await;
    hooks.inner().github.clear();
    hooks.inner().stripe[0]["enabled_events"] = json!(["charge.refunded"]);
    for (source, said) in [
        (
            "github-main",
            "add a webhook in the settings at GitHub with a secret",
        ),
        (
            "stripe-main",
            "add these types at the provider: invoice.paid",
        ),
    ] {
        let failed = enable(&world, source, &[]).await;
        assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
        assert!(told(&failed).contains(said), "{}", told(&failed));
    }
    assert!(hooks.inner().changes.is_empty());
    let unknown = world.webhookctl(&["endpoint", "show", "unknown"]).await;
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
    world.end().await;
}
