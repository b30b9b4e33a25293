//! Tests how commands show the account and the request of an event, and select events by them.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::preset::Preset;
use shared::webhook::sign::signed;
use shared::webhook::verify::{Arrival, Trust, Verifier};

use super::world::{New, World, stderr, stdout};

/// An event as Stripe sends it for a connected account, through a proxy that adds `x-tenant` and a
/// trace.
pub(super) fn event(id: &str, account: &str, tenant: &str, at: UnixMillis) -> Event {
    let verifier = Verifier {
        source: "stripe-main".into(),
        preset: Preset::embedded("stripe", &BTreeMap::new()).unwrap(),
        variant: "default".into(),
        trust: Trust::default(),
        config: "test".into(),
    };
    let body = format!(r#"{{"id":"{id}","type":"invoice.paid","account":"{account}"}}"#);
    let headers = [
        ("content-type", "application/json"),
        ("x-tenant", tenant),
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        ("x-vault-token", "a credential"),
    ];
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://hooks.example.test/in/stripe-main?plan=pro".into(),
        headers: headers.into_iter().collect(),
        body: body.into(),
        received_at: at,
    };
    let secret = Secret::new("current.1", "whsec_test");
    let scheme = verifier.preset.scheme("default").unwrap();
    let envelope = signed(scheme, &secret, envelope, at).unwrap();
    match verifier.verify(&envelope, &[secret]) {
        Ok(Arrival::Event(event)) => *event,
        other => panic!("{other:?}"),
    }
}

/// Stores events of two accounts, `a` and `b` of the first and `c` of the second, and `d`, which has
/// no account and no request.
async fn two_accounts(name: &str) -> World {
    let world = World::start(name).await;
    for (id, account, tenant, minutes) in [
        ("a", "acct_1", "north", 1),
        ("b", "acct_1", "south", 2),
        ("c", "acct_2", "north", 3),
    ] {
        let at = world.ago(minutes);
        let event = event(id, account, tenant, at);
        world.ledger.receive(&event, at).await.unwrap();
    }
    world
        .put(New {
            minutes_ago: 4,
            ..New::of("stripe-main", "d")
        })
        .await;
    world
}

#[tokio::test]
async fn events_are_listed_by_account_and_by_header() {
    let world = two_accounts("accounts").await;
    for (arguments, ids) in [
        (vec!["--account", "acct_1"], vec!["a", "b"]),
        (
            vec!["--account", "acct_2", "--account", "acct_1"],
            vec!["a", "b", "c"],
        ),
        (vec!["--account", "acct"], vec![]),
        (vec!["--header", "X-Tenant=north"], vec!["a", "c"]),
        (
            vec!["--header", "x-tenant=north", "--account", "acct_1"],
            vec!["a"],
        ),
        (
            vec!["--header", "x-tenant=north", "--where", "id=c"],
            vec!["c"],
        ),
        (vec!["--header", "x-vault-token=a credential"], vec![]),
    ] {
        assert_eq!(world.listed(&arguments).await, ids, "{arguments:?}");
    }
    let output = world
        .run(&["inbox", "list", "--header", "x-tenant=north"])
        .await;
    assert!(
        stderr(&output).contains("--header reads up to 4 bodies"),
        "{}",
        stderr(&output)
    );
    let list = world.json(&["inbox", "list"]).await;
    let accounts: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["account"])
        .collect();
    assert_eq!(
        accounts,
        [
            &"acct_1".into(),
            &"acct_1".into(),
            &"acct_2".into(),
            &Value::Null
        ]
    );
}

#[tokio::test]
async fn a_table_has_the_account_only_if_an_event_has_one() {
    let world = two_accounts("column").await;
    let table = |output| stdout(&output);
    let all = table(world.run(&["inbox", "list"]).await);
    assert!(all.contains("ACCOUNT") && all.contains("acct_2"), "{all}");
    let none = table(world.run(&["inbox", "list", "--id", "stripe-main:d"]).await);
    assert!(!none.contains("ACCOUNT"), "{none}");
}

#[tokio::test]
async fn an_event_is_shown_with_its_request() {
    let world = two_accounts("request").await;
    let shown = world
        .run(&["inbox", "inspect", "stripe-main:a", "--full"])
        .await;
    let shown = stdout(&shown);
    for line in [
        "  account acct_1  signed\n",
        "\nRequest\n  POST /in/stripe-main?plan=pro\n",
        "  x-tenant          north\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("credential"), "{shown}");
    let json = world.json(&["inbox", "inspect", "stripe-main:a"]).await;
    assert_eq!(json["account"]["signed"], true);
    assert_eq!(json["request"]["kept"], true);
    assert_eq!(json["request"]["headers"]["x-tenant"], "north");
    let none = world
        .run(&["inbox", "inspect", "stripe-main:d", "--full"])
        .await;
    assert!(
        stdout(&none).contains("\nRequest\n  not kept\n"),
        "{}",
        stdout(&none)
    );
}

#[tokio::test]
async fn an_export_has_the_request() {
    let world = two_accounts("export").await;
    let file = world.folder.path().join("events.jsonl");
    let file = file.to_str().unwrap();
    let export = [
        "inbox",
        "export",
        "-f",
        file,
        "--with-request",
        "--account",
        "acct_2",
    ];
    let output = world.run(&export).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(file).unwrap();
    let [line] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let event: Value = serde_json::from_str(line).unwrap();
    assert_eq!(event["account"]["value"], "acct_2");
    let request = &event["request"];
    assert_eq!(
        (&request["method"], &request["query"]),
        (&"POST".into(), &"plan=pro".into())
    );
    assert_eq!(request["path"], "/in/stripe-main");
    assert_eq!(request["headers"]["x-tenant"], "north");
    assert_eq!(request["body"]["id"], "c");
}

#[tokio::test]
async fn an_account_is_erased_and_no_other() {
    let world = two_accounts("erase").await;
    let erase = [
        "erase",
        "--account",
        "acct_1",
        "-m",
        "asked for",
        "--confirm",
        "2",
    ];
    let output = world.run(&erase).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(world.listed(&["--account", "acct_1"]).await, [""; 0]);
    assert_eq!(world.listed(&["--account", "acct_2"]).await, ["c"]);
    // The audit log does not name what was erased.
    let log = stdout(&world.run(&["log", "-o", "json"]).await);
    assert!(
        log.contains("of 1 account") && !log.contains("acct_1"),
        "{log}"
    );
    let json = world.json(&["inbox", "inspect", "stripe-main:a"]).await;
    assert_eq!(json["request"]["kept"], false);
    assert_eq!(json["account"], Value::Null);
}
