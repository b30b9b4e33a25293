//! Each command under the policies that it is said to need: nothing is missing, and nothing is
//! allowed that no command uses.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shared::ledger::{Claim, Settlement, State};
use shared::timing::LEASE;

use crate::policy::Policy;
use crate::recorder::Call;
use crate::verbs::{Verb, table};
use crate::world::World;

const POLICIES: [&str; 4] = ["viewer", "body-reader", "operator", "secret-admin"];

/// The ids that the lines of the table name.
pub(crate) async fn ids(world: &World) -> BTreeMap<&'static str, String> {
    world.text(&["send", "stripe", "--wait", "-q"]).await;
    // Bodies in the bucket, in a row of their own and in the row of the event are read, kept and
    // deleted in different ways.
    let middling = send(world, "middling", 3_000, &[]).await;
    let large = send(world, "large", 300_000, &[]).await;
    world.run(&["send", "stripe", "--tamper", "body"]).await;
    world.invoke("count").await;
    world.invoke("sync").await;
    world.invoke("reconcile").await;
    let dead = dead_letter(world, "evt_dead").await;
    let plan = ["replay", "plan", "--id", &dead, "-m", "why", "-o", "ids"];
    let plan = world.text(&plan).await.trim().to_owned();
    std::fs::write(world.folder.join("coming"), COMING).unwrap();
    let first = async |args: &[&str]| {
        let output = world.run(&[args, &["-o", "ids"]].concat()).await;
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let ids = BTreeMap::from([
        ("{event}", large),
        ("{middling}", middling),
        ("{dead}", dead),
        ("{apart}", kept_apart(world, "evt_apart").await),
        ("{other}", kept_apart(world, "evt_other").await),
        ("{plan}", plan),
        ("{held}", first(&["quarantine", "list", "--flat"]).await),
        ("{report}", first(&["reconcile", "report"]).await),
        ("{folder}", world.folder.to_str().unwrap().to_owned()),
    ]);
    assert!(ids.values().all(|id| !id.is_empty()), "{ids:?}");
    world.calls();
    ids
}

/// An event that was given up; its address.
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

/// A second body under the id of another event; its address.
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
    let item = apart.into_iter().find(of_it).expect("it is kept apart");
    item["id"].as_str().unwrap().to_owned()
}

/// Sends a webhook with so many bytes that no compression makes smaller; its address.
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

#[tokio::test]
async fn each_command_asks_for_what_its_policies_allow_and_they_allow_no_more() {
    let world = World::start().await;
    let policies: BTreeMap<&str, Policy> = POLICIES
        .map(|name| (name, Policy::read(name, &world)))
        .into();
    let ids = ids(&world).await;
    let (mut refused, mut used) = (BTreeSet::new(), BTreeSet::new());
    for verb in table() {
        for call in tried(&world, &verb, &ids).await {
            if verb.reads {
                assert!(
                    call.reads(),
                    "{} only reads, but asks for {call:?}",
                    verb.name
                );
            }
            let attached = verb.policies.iter().map(|name| &policies[name.as_str()]);
            let parts: BTreeSet<String> =
                attached.flat_map(|policy| policy.allows(&call)).collect();
            if parts.is_empty() && !verb.without.contains(&call.action) {
                refused.insert(format!(
                    "{}: {} {:?} {}",
                    verb.name, call.action, call.keys, call.on
                ));
            }
            used.extend(parts);
        }
    }
    let all: BTreeSet<String> = policies.values().flat_map(Policy::parts).collect();
    let idle: Vec<&String> = all.difference(&used).collect();
    assert!(
        refused.is_empty() && idle.is_empty(),
        "not allowed: {refused:#?}\nallowed, and used by nobody: {idle:#?}"
    );
    world.end().await;
}

/// What a command asks for in the lines of its row.
async fn tried(world: &World, verb: &Verb, ids: &BTreeMap<&str, String>) -> Vec<Call> {
    let mut calls = Vec::new();
    for line in &verb.run {
        let mut line = line.clone();
        if let Some(rest) = line.strip_prefix("{rotate} ") {
            line = rest.to_owned();
            hold_a_genuine_one(world).await;
            world.calls();
        }
        for (name, id) in ids {
            line = line.replace(name, id);
        }
        if line.contains("{held_count}") {
            let held = world
                .text(&["quarantine", "list", "--flat", "-o", "ids"])
                .await;
            line = line.replace("{held_count}", &held.lines().count().to_string());
            world.calls();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = world.run(&words).await;
        let code = output.status.code().unwrap_or(-1);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(verb.exit.contains(&code), "{line}: exit {code}: {said}");
        calls.extend(world.calls());
    }
    if !verb.policies.is_empty() && !verb.run.is_empty() {
        assert!(!calls.is_empty(), "{} asks nobody for anything", verb.name);
    } else {
        assert!(calls.is_empty(), "{} asks for {calls:?}", verb.name);
    }
    calls.sort();
    calls.dedup();
    calls
}

/// A webhook that is signed with a secret which the stack gets to know only later. Its body is one
/// for the bucket, and yet small enough for the quarantine.
async fn hold_a_genuine_one(world: &World) {
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
const NEXT: &str = "whsec_bmV4dC1zZWNyZXQtb2Ytc3RyaXBl";

#[tokio::test]
async fn a_viewer_can_say_what_happened_without_a_single_write() {
    let world = World::start().await;
    let key = world
        .put("acme", "evt_1", "job.completed", world.ago(5))
        .await;
    let row = world.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.state, State::Received);
    world.calls();
    for line in [
        &["inbox", "list"][..],
        &["inbox", "inspect", "acme:evt_1"],
        &["inbox", "stats"],
        &["quarantine", "list"],
        &["sync", "status"],
    ] {
        assert!(world.run(line).await.status.success(), "{line:?}");
    }
    let calls = world.calls();
    assert!(
        !calls.is_empty() && calls.iter().all(Call::reads),
        "{calls:?}"
    );
    let after = world.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(format!("{row:?}"), format!("{after:?}"));
    world.end().await;
}
