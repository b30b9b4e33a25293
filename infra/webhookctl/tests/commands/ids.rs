//! Creates the events, requests, reports and plans whose ids the lines of the table use.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shared::base::backoff::Backoff;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Claim, Settlement};
use shared::inbox::outcome::{HoldRequest, Outcome};

use crate::provider;
use crate::world::World;

/// The ids that the lines of the table use.
pub(crate) async fn ids(world: &World) -> BTreeMap<&'static str, String> {
    world.text(&["send", "stripe", "--wait", "-q"]).await;
    // The inbox reads, stores and deletes a body differently if it is in the bucket, in a row of
    // its own, or in the event's row.
    let middling = send(world, "middling", 3_000, &[]).await;
    let large = send(world, "large", 300_000, &[]).await;
    world.run(&["send", "stripe", "--tamper", "body"]).await;
    world.invoke("count").await;
    world.invoke("sync").await;
    world.invoke("reconcile").await;
    let dead = dead_letter(world, "evt_dead").await;
    let plan = async || {
        let plan = ["replay", "plan", "--id", &dead, "-m", "why", "-o", "ids"];
        world.text(&plan).await.trim().to_owned()
    };
    let (plan, spare) = (plan().await, plan().await);
    std::fs::write(world.folder.join("coming"), COMING).unwrap();
    let sources = world.folder.join("sources.toml");
    std::fs::copy(&sources, world.folder.join("own.toml")).unwrap();
    let changed = std::fs::read_to_string(sources).unwrap();
    let changed = changed.replace("schema = 1\n", "schema = 1 # ours\n");
    std::fs::write(world.folder.join("tee.toml"), format!("{changed}{TRIAL}")).unwrap();
    std::fs::write(world.folder.join("changed.toml"), changed).unwrap();
    let first = async |args: &[&str]| {
        let output = world.run(&[args, &["-o", "ids"]].concat()).await;
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let (waiting, hold) = held(world, "evt_waiting").await;
    let ids = BTreeMap::from([
        ("{event}", large),
        ("{middling}", middling),
        ("{dead}", dead.clone()),
        ("{dying}", dead_letter(world, "evt_dying").await),
        ("{apart}", kept_apart(world, "evt_apart").await),
        ("{other}", kept_apart(world, "evt_other").await),
        ("{waiting}", waiting),
        ("{hold}", hold),
        ("{unwanted}", held(world, "evt_unwanted").await.0),
        ("{plan}", plan),
        ("{spare}", spare),
        ("{held}", first(&["quarantine", "list", "--flat"]).await),
        ("{report}", first(&["reconcile", "report"]).await),
        ("{folder}", world.folder.to_str().unwrap().to_owned()),
        ("{app}", provider::serve()),
    ]);
    assert!(ids.values().all(|id| !id.is_empty()), "{ids:?}");
    world.calls();
    ids
}

/// Creates a dead letter. Returns its `source:event-id`.
async fn dead_letter(world: &World, id: &str) -> String {
    let key = world.put("acme", id, "job.completed", world.ago(60)).await;
    let claim = world.ledger.claim(&key, "worker", world.ago(60), LEASE, 10);
    let Claim::Leased(lease) = claim.await.unwrap() else {
        panic!("{id} is free")
    };
    let given_up = Settlement::DeadLetter {
        reason: "permanent",
        error: "404".to_owned(),
    };
    let settled = world.ledger.settle(*lease, given_up, &[], world.ago(59));
    settled.await.unwrap();
    key.to_string()
}

/// Creates an event that waits for an approval. Returns its `source:event-id` and the id of its hold.
async fn held(world: &World, id: &str) -> (String, String) {
    let key = world.put("acme", id, "job.completed", world.ago(60)).await;
    let claim = world.ledger.claim(&key, "worker", world.ago(60), LEASE, 10);
    let Claim::Leased(lease) = claim.await.unwrap() else {
        panic!("{id} is free")
    };
    let request = HoldRequest {
        effect: "orders".to_owned(),
        rule: "large".to_owned(),
        over_api: false,
        plan: "a1b2".to_owned(),
        summary: "POST to hooks.example.com (12 bytes)".to_owned(),
        why: "amount is above 5000".to_owned(),
        read: vec!["amount".to_owned()],
        expires: Duration::from_secs(24 * 3600),
    };
    let outcome = Outcome::Held(Box::new(request));
    let held = Settlement::of(outcome, &lease.row, &Backoff::default(), world.ago(59), 0.0);
    let settled = world.ledger.settle(*lease, held, &[], world.ago(59));
    settled.await.unwrap();
    let row = world.ledger.event(&key).await.unwrap().unwrap();
    (key.to_string(), row.hold.unwrap().id)
}

/// Stores a second body under the id of another event. Returns its `source:event-id`.
async fn kept_apart(world: &World, id: &str) -> String {
    world.put("acme", id, "job.completed", world.ago(60)).await;
    world.put("acme", id, "job.failed", world.ago(50)).await;
    let list = ["inbox", "list", "--status", "quarantined"];
    let list = world.json(&list).await;
    let apart = list["items"].as_array().unwrap().iter();
    let of_it = |item: &&serde_json::Value| {
        let key = item["dedupe_key"].as_str().unwrap_or_default();
        key.starts_with(id)
    };
    let item = apart
        .into_iter()
        .find(of_it)
        .expect("the event is quarantined");
    item["id"].as_str().unwrap().to_owned()
}

/// Sends a webhook with this number of bytes, which do not compress. Returns its `source:event-id`.
async fn send(world: &World, id: &str, bytes: usize, how: &[&str]) -> String {
    let mut noise = vec![0; bytes];
    getrandom::fill(&mut noise).unwrap();
    let body = serde_json::json!({
        "id": id, "object": "event", "type": "invoice.paid", "created": 1_795_000_000,
        "data": {"object": {"id": "in_1", "object": "invoice"}}, "noise": STANDARD.encode(noise),
    });
    let file = world.folder.join(format!("{id}.json"));
    std::fs::write(&file, body.to_string()).unwrap();
    let line = ["send", "stripe", "--file", file.to_str().unwrap(), "-q"];
    let sent = world.run(&[&line[..], how].concat()).await;
    if how.is_empty() {
        assert!(sent.status.success(), "{sent:?}");
    }
    format!("stripe-main:{id}")
}

/// Sends a webhook that is signed with a secret that is stored only later. Its body is large enough
/// for the bucket, and small enough for the quarantine.
pub(crate) async fn hold_a_genuine_one(world: &World) {
    let path = world.stack.secrets_path("Catcher").unwrap();
    let file = world.folder.join("next");
    std::fs::write(&file, NEXT).unwrap();
    let from = format!("file:{}", file.display());
    let to = format!("{}/in/stripe-main", world.stack.front_url());
    let how = ["--secret-from", &from, "--to", &to];
    send(world, "genuine", 40_000, &how).await;
    world
        .secret(&format!("{path}/stripe-main/next"), NEXT)
        .await;
}

const COMING: &str = "whsec_Y29taW5nLXNlY3JldC1vZi1zdHJpcGU=";
/// A source that has a trial.
const TRIAL: &str = "
[[source]]
name = \"route\"
preset = \"github\"
mode = \"tee\"
[[source.action]]
kind = \"http\"
url = \"http://127.0.0.1:1/hook\"
sign = \"none\"
";
const NEXT: &str = "whsec_bmV4dC1zZWNyZXQtb2Ytc3RyaXBl";

/// Sends a message that fails until SQS moves it to the dead-letter queue.
pub(crate) async fn let_a_message_die(world: &World) {
    let sqs = world.stack.clients().sqs;
    let queue = world.stack.queue_url("WorkDeadLetters").unwrap();
    let send = sqs.send_message().queue_url(queue);
    send.message_body("no message").send().await.unwrap();
}
