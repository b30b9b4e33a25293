//! What the console may change with `--write`, and how the records name it.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::support::page::{Page, Response};
use crate::support::world::World;

const SOURCES: &str = r#"
    schema = 1
    [[source]]
    name = "acme"
    preset = "stripe"
    [[source.action]]
    name = "keep"
    kind = "keep"
"#;

fn document(answer: &Response) -> anyhow::Result<Value> {
    serde_json::from_str(&answer.body).with_context(|| answer.body.clone())
}

/// The body of a request for a plan of all events.
fn all(attempt: &str, reason: &str) -> Value {
    json!({"attempt": attempt, "reason": reason, "flags": {"status": "done", "mode": "force"}})
}

#[test]
fn a_plan_is_made_once_and_applied_with_its_count() -> anyhow::Result<()> {
    let world = World::start("console-plan", SOURCES)?;
    world.text(&["send", "acme", "--count", "3", "--wait"])?;
    let page = Page::open(&world, &["--write"])?;
    let plan = page.post("/api/plan", &all("attempt-1", "the warehouse lost them"))?;
    assert_eq!(plan.status, 200, "{}", plan.body);
    let plan = document(&plan)?;
    let id = plan["id"].as_str().context("an id")?;
    let again = page.post("/api/plan", &all("attempt-1", "the warehouse lost them"))?;
    assert_eq!(document(&again)?, plan, "a double click is one plan");
    assert_eq!(
        world.json(&["replay", "log"])?["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    let apply = format!("/api/plan/{id}/apply");
    let wanted = |attempt: &str, confirm: Option<u64>| json!({"attempt": attempt, "reason": "it answers again", "confirm": confirm});
    for (attempt, confirm, code) in [
        ("attempt-2", None, "replay.force"),
        ("attempt-3", Some(2), "replay.confirm_mismatch"),
    ] {
        let refused = page.post(&apply, &wanted(attempt, confirm))?;
        assert_eq!((refused.status, refused.code()), (409, code.to_owned()));
    }
    // A failure that arrives later does not belong to the plan.
    world.text(&["send", "acme", "--wait"])?;
    let applied = page.post(&apply, &wanted("attempt-4", Some(3)))?;
    assert_eq!(applied.status, 200, "{}", applied.body);
    let status = finished(&world, id)?;
    assert_eq!(status["planned"]["through"], "console");
    assert_eq!(status["runs"][0]["through"], "console");
    assert_eq!(status["events"]["planned"], 3);
    let entry = world.json(&["log", "-n", "1"])?["items"][0].clone();
    assert_eq!(entry["what"], "replay.apply", "{entry}");
    assert_eq!(entry["through"], "console");
    assert_eq!(entry["reason"], "it answers again");
    let list = world.json(&["inbox", "list", "--reverse"])?;
    let event = list["items"][0]["id"].as_str().context("an event")?;
    let event = world.json(&["inbox", "inspect", event])?;
    assert_eq!(event["replays"][0]["through"], "console", "{event}");
    Ok(())
}

/// Waits until the plan is finished.
fn finished(world: &World, id: &str) -> anyhow::Result<Value> {
    for _ in 0..150 {
        let status = world.json(&["replay", "status", id])?;
        if status["state"] == "finished" {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    anyhow::bail!("plan {id} does not end")
}

#[test]
fn a_replay_stops_on_request_and_another_run_resumes_it() -> anyhow::Result<()> {
    let world = World::start("console-stop", SOURCES)?;
    world.text(&["send", "acme", "--count", "12", "--wait"])?;
    let page = Page::open(&world, &["--write"])?;
    let plan = document(&page.post("/api/plan", &all("attempt-1", "again"))?)?;
    let id = plan["id"].as_str().context("an id")?;
    let apply = json!({"attempt": "attempt-2", "reason": "x", "confirm": 12, "flags": {"rate": 1}});
    let answer = page.post(&format!("/api/plan/{id}/apply"), &apply)?;
    assert_eq!(document(&answer)?["running"], true, "{}", answer.body);
    let stop = json!({"attempt": "attempt-3", "reason": "x"});
    let stopped = page.post(&format!("/api/plan/{id}/stop"), &stop)?;
    assert_eq!(stopped.status, 202, "{}", stopped.body);
    let mut ended = Value::Null;
    for _ in 0..100 {
        let status = world.json(&["replay", "status", id])?;
        ended = status["runs"][0]["end"].clone();
        if ended.is_string() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(ended, "stopped from the console");
    world.text(&["replay", "apply", id, "--confirm", "12", "--rate", "100"])?;
    let status = finished(&world, id)?;
    assert_eq!(status["runs"][1]["through"], "cli");
    let gone = page.post(&format!("/api/plan/{id}/stop"), &stop)?;
    assert_eq!(
        (gone.status, gone.code()),
        (409, "console.not_running".to_owned())
    );
    Ok(())
}

#[test]
fn a_change_needs_a_reason_and_no_other_command_is_one() -> anyhow::Result<()> {
    let world = World::start("console-changes", SOURCES)?;
    world.text(&["send", "acme", "--wait"])?;
    let page = Page::open(&world, &["--write"])?;
    let no_reason = page.post("/api/plan", &all("attempt-1", "  "))?;
    assert_eq!(
        (no_reason.status, no_reason.code()),
        (400, "console.reason".to_owned())
    );
    assert_eq!(
        page.post("/api/plan", &all("x", "y"))?.code(),
        "console.body"
    );
    for (path, flags, status) in [
        (
            "/api/plan",
            json!({"status": "done", "endpoint-url": "http://x"}),
            400,
        ),
        ("/api/plan", json!({"status": "done", "reason": "z"}), 400),
        ("/api/plan", json!({"status": {"a": 1}}), 400),
        ("/api/replay.apply", json!({"plan": "rpl_1"}), 404),
        ("/api/erase", json!({}), 404),
        ("/api/inbox.list", json!({}), 404),
        ("/api/sources.rotate-secret", json!({"name": "acme"}), 404),
        ("/api/plan/rpl_1/erase", json!({}), 404),
        ("/api/plan/rpl_1/apply", json!({}), 404),
        ("/api/plan/rpl_1/cancel", json!({}), 404),
        ("/api/quarantine.release", json!({"id": "evt_1"}), 404),
        ("/api/quarantine.discard", json!({"id": "-"}), 400),
    ] {
        let body =
            json!({"attempt": format!("attempt {path} {flags}"), "reason": "x", "flags": flags});
        let answer = page.post(path, &body)?;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let wanted = |attempt: &str| json!({"attempt": attempt, "reason": "a bad release", "flags": {"name": "acme"}});
    assert_eq!(
        page.post("/api/sources.pause", &wanted("attempt-2"))?
            .status,
        200
    );
    let entry = world.json(&["log", "-n", "1"])?["items"][0].clone();
    assert_eq!(
        (&entry["what"], &entry["through"]),
        (&json!("source.pause"), &json!("console"))
    );
    assert_eq!(
        page.post("/api/sources.pause", &wanted("attempt-3"))?
            .status,
        409
    );
    assert_eq!(world.json(&["replay", "log"])?["items"], json!([]));
    Ok(())
}
