//! Runs each command under the policies that it needs according to the table. No permission may be
//! missing, and none may be unused.

use std::collections::{BTreeMap, BTreeSet};

use shared::inbox::ledger::State;

use crate::lines::{Lines, May};
use crate::policy::Policy;
use crate::recorder::Call;
use crate::verbs::{Verb, table};
use crate::world::World;

const POLICIES: [&str; 5] = [
    "viewer",
    "body-reader",
    "operator",
    "secret-admin",
    "source-admin",
];

#[tokio::test]
async fn each_command_asks_for_what_its_policies_allow_and_they_allow_no_more() {
    let world = World::start().await;
    let policies: BTreeMap<&str, Policy> = POLICIES
        .map(|name| (name, Policy::read(name, &world)))
        .into();
    let lines = Lines::new(&world).await;
    let (mut refused, mut used) = (BTreeSet::new(), BTreeSet::new());
    for verb in table() {
        for call in tried(&lines, &verb).await {
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
        "not allowed: {refused:#?}\nallowed, but unused: {idle:#?}"
    );
    world.end().await;
}

/// Returns the calls that a command makes in the lines of its row.
async fn tried(lines: &Lines<'_>, verb: &Verb) -> Vec<Call> {
    let mut calls = Vec::new();
    for line in &verb.run {
        let ran = lines.run(line, May::Write).await;
        assert!(verb.exit.contains(&ran.code), "{line}: {ran:?}");
        for call in &ran.calls {
            let harmless = call.reads() || verb.probes.contains(&call.action);
            assert!(harmless, "{line} only looks, but asks for {call:?}");
        }
        calls.extend(ran.calls);
    }
    if verb.policies.is_empty() {
        assert!(calls.is_empty(), "{} asks for {calls:?}", verb.name);
        return calls;
    }
    let mut changes = false;
    for line in &verb.writes {
        let ran = lines.run(line, May::Write).await;
        assert!(verb.exit.contains(&ran.code), "{line}: {ran:?}");
        changes |= !ran.calls.iter().all(Call::reads);
        calls.extend(ran.calls);
    }
    let writes = !verb.writes.is_empty();
    assert_eq!(changes, writes, "whether {} changes something", verb.name);
    assert!(!calls.is_empty(), "{} makes no call", verb.name);
    calls.sort();
    calls.dedup();
    calls
}

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
