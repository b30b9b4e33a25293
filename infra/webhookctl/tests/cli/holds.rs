//! Events that wait for an approval, as lists and the console show them.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::support::page::Page;
use crate::support::receiver::{OK, Receiver};
use crate::support::world::World;

/// Starts a stack with a rule that holds events with a large amount.
fn start(name: &str) -> anyhow::Result<(World, Receiver)> {
    let receiver = Receiver::start(OK)?;
    let sources = format!(
        r#"
    schema = 1
    [forward]
    allow_loopback = true

    [[source]]
    name = "shop"
    preset = "stripe"
    [[source.action]]
    kind = "http"
    name = "refund"
    url = "{url}"
    sign = "none"
    [[source.policy]]
    name = "large"
    effect = "refund"
    amount = {{ path = "data.object.amount", above = 5000 }}
    decide = "hold"

    [[source]]
    name = "other"
    preset = "stripe"
    [[source.action]]
    kind = "http"
    name = "refund"
    url = "{url}"
    sign = "none"
    "#,
        url = receiver.url()
    );
    Ok((World::start(name, &sources)?, receiver))
}

fn send(world: &World, source: &str, id: &str, amount: u32) -> anyhow::Result<()> {
    let amount = format!("data.object.amount={amount}");
    world.text(&["send", source, "--id", id, "--set", &amount])?;
    Ok(())
}

/// Returns the ids of a list, when it has this many events.
fn ids(world: &World, words: &[&str], count: usize) -> anyhow::Result<Vec<String>> {
    let mut found = Value::Null;
    for _ in 0..150 {
        found = world.json(words)?["items"].take();
        let items = found.as_array().context("a list")?;
        if items.len() == count {
            let ids = items.iter().filter_map(|item| item["id"].as_str());
            return Ok(ids.map(str::to_owned).collect());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    anyhow::bail!("{words:?} lists {found}")
}

/// Returns the ids of the events that wait for an approval, first the one that expires first.
fn held(world: &World, count: usize) -> anyhow::Result<Vec<String>> {
    ids(world, &["hold", "list"], count)
}

fn with_status(world: &World, status: &str, count: usize) -> anyhow::Result<Vec<String>> {
    ids(world, &["inbox", "list", "--status", status], count)
}

fn hold_of(world: &World, event: &str) -> anyhow::Result<String> {
    let shown = world.json(&["hold", "show", event])?;
    Ok(shown["hold"].as_str().context("a hold")?.to_owned())
}

#[test]
fn held_events_have_a_status_of_their_own() -> anyhow::Result<()> {
    let (world, _receiver) = start("held-status")?;
    send(&world, "shop", "evt_one", 7400)?;
    held(&world, 1)?;
    send(&world, "shop", "evt_two", 9900)?;
    send(&world, "shop", "evt_small", 100)?;
    send(&world, "other", "evt_other", 7400)?;
    let mut waits = held(&world, 2)?;
    let done = with_status(&world, "done", 2)?;
    // `inbox list` begins with the newest event, and `hold list` with the one that expires first.
    waits.reverse();
    assert_eq!(with_status(&world, "held", 2)?, waits);
    with_status(&world, "received", 0)?;
    for (more, expected) in [
        (&["--status", "held", "-n", "1"][..], 1),
        (&["--status", "held", "-s", "shop"], 2),
        (&["--status", "held", "-s", "other"], 0),
        (&["--status", "held", "--until", "2026-01-01"], 0),
        (&["--status", "held", "--status", "failed"], 2),
        (&["--status", "held", "--status", "done"], 4),
        (&[], 4),
    ] {
        ids(&world, &[&["inbox", "list"], more].concat(), expected)?;
    }
    let first = world.json(&["inbox", "list", "--status", "held", "-n", "1"])?;
    let next = first["next_cursor"].as_str().context("a cursor")?;
    let rest = ["inbox", "list", "--status", "held", "--after", next];
    assert_eq!(ids(&world, &rest, 1)?, waits[1..]);
    let item = &first["items"][0];
    assert_eq!(
        (&item["status"], &item["held_by"]),
        (&json!("received"), &json!("large"))
    );
    let table = world.text(&["inbox", "list", "--status", "held"])?;
    ensure!(table.contains("  held  "), "{table}");
    let read = &world.json(&["hold", "list"])?["items"][0]["read"];
    assert_eq!(read, &json!(["data.object.amount"]));
    let plan = world.json(&["replay", "plan", "--status", "held", "-m", "x"])?;
    assert_eq!(plan["selection"]["status"], json!(["held"]), "{plan}");
    assert_eq!(plan["events"]["selected"], 2, "{plan}");
    assert!(done.iter().all(|id| !waits.contains(id)));
    let (exit, error) = world.error(&["inbox", "tail", "--status", "held"])?;
    assert_eq!(exit, 2);
    assert_eq!(error, "inbox.tail");
    // The rule is gone, and the events still wait.
    let sources = world.read("sources.toml")?;
    let (before, _) = sources.split_once("[[source.policy]]").context("a rule")?;
    world.write("sources.toml", before)?;
    assert_eq!(with_status(&world, "held", 2)?, waits);
    Ok(())
}

#[test]
fn the_console_decides_about_the_hold_that_it_showed() -> anyhow::Result<()> {
    let (world, receiver) = start("held-console")?;
    for id in ["evt_one", "evt_two"] {
        send(&world, "shop", id, 7400)?;
    }
    let waits = held(&world, 2)?;
    let holds = [hold_of(&world, &waits[0])?, hold_of(&world, &waits[1])?];
    let reader = Page::open(&world, &[])?;
    let list = reader.get("/api/hold.list")?;
    ensure!(list.status == 200 && list.body.contains(&holds[0]));
    let show = reader.get(&format!("/api/hold.show?id={}", waits[0]))?;
    let shown: Value = serde_json::from_str(&show.body)?;
    assert_eq!(shown["read"][0]["values"], json!(["7400"]));
    let page = Page::open(&world, &["--write"])?;
    let wanted = |attempt: &str, event: &str, confirm: Option<&str>| {
        let flags = match confirm {
            Some(confirm) => json!({"id": event, "confirm": confirm}),
            None => json!({ "id": event }),
        };
        json!({"attempt": attempt, "reason": "the customer called", "flags": flags})
    };
    for (path, attempt, event, confirm, code) in [
        ("approve", "attempt-1", 0, None, "hold.confirm"),
        ("approve", "attempt-2", 0, Some(&holds[1]), "hold.confirm"),
        ("reject", "attempt-3", 1, Some(&holds[0]), "hold.moved"),
    ] {
        let body = wanted(attempt, &waits[event], confirm.map(String::as_str));
        let answer = page.post(&format!("/api/hold.{path}"), &body)?;
        assert_eq!((answer.status, answer.code()), (409, code.to_owned()));
    }
    held(&world, 2)?;
    let body = wanted("attempt-4", &waits[0], Some(&holds[0]));
    assert_eq!(reader.post("/api/hold.approve", &body)?.status, 404);
    let approved = page.post("/api/hold.approve", &body)?;
    assert_eq!(approved.status, 200, "{}", approved.body);
    let entry = world.json(&["log", "-n", "1"])?["items"][0].take();
    let said = (&entry["what"], &entry["reason"], &entry["through"]);
    let expected = ["hold.approve", "the customer called", "console"].map(Value::from);
    assert_eq!(said, (&expected[0], &expected[1], &expected[2]));
    with_status(&world, "done", 1)?;
    receiver.next()?;
    let again = page.post(
        "/api/hold.approve",
        &wanted("attempt-5", &waits[0], Some(&holds[0])),
    )?;
    assert_eq!(again.code(), "hold.not_held");
    let rejected = page.post(
        "/api/hold.reject",
        &wanted("attempt-6", &waits[1], Some(&holds[1])),
    )?;
    assert_eq!(rejected.status, 200, "{}", rejected.body);
    with_status(&world, "dead_letter", 1)?;
    held(&world, 0)?;
    Ok(())
}
