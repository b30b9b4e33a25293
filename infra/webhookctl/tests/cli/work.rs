//! `webhookctl work` against a `dev`, as a user runs it: a program handles the events of a queue, and
//! another process takes over when its worker is killed.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::support::world::World;

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "issues"
preset = "github"

[[source.action]]
kind = "pull"
name = "triage"
queue = "triage"
lease = "30s"
workers = [
  "arn:aws:iam::000000000000:role/local-worker",
  "arn:aws:iam::000000000000:role/second",
]
"#;

/// Longer than a lease and the margin after it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes what it got, and then does what the file `then` says.
const HANDLER: &str = r#"#!/bin/sh
cat > event.$$.part
printf '%s %s\n' "$MITT_RUN_ID" "$MITT_IDEMPOTENCY_KEY $TRACEPARENT" > env.$$
mv event.$$.part "event.$(ls event.*.json 2>/dev/null | wc -l).json"
. ./then
"#;

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    fn handler(&self, then: &str) -> anyhow::Result<()> {
        self.write("then", then)?;
        self.write("handler", HANDLER)?;
        let path = self.path().join("handler");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn send_issue(&self) -> anyhow::Result<String> {
        let sent = self.json(&["send", "issues"])?;
        Ok(sent["id"].as_str().context("an id")?.to_owned())
    }

    fn worker(&self, more: &[&str]) -> anyhow::Result<Worker> {
        let arguments = [
            &["work", "run", "--queue", "triage"],
            more,
            &["--", "./handler"],
        ]
        .concat();
        let mut command = self.webhookctl(&arguments);
        Ok(Worker(command.stderr(Stdio::null()).spawn()?))
    }

    fn status_of(&self, id: &str) -> anyhow::Result<String> {
        let shown = self.json(&["inbox", "inspect", id])?;
        Ok(shown["status"].as_str().context("a status")?.to_owned())
    }

    fn event(&self, number: u32) -> anyhow::Result<Value> {
        let name = format!("event.{number}.json");
        let read = || serde_json::from_str(&self.read(&name).ok()?).ok();
        until(&name, read)
    }
}

fn until<T>(what: &str, is: impl Fn() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(is) = is() {
            return Ok(is);
        }
        ensure!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_exit_code_of_the_program_is_the_outcome() -> anyhow::Result<()> {
    let world = World::start("work", SOURCES)?;
    world.handler("exit 0")?;
    let id = world.send_issue()?;
    let _worker = world.worker(&["--worker", "triage-1"])?;
    let event = world.event(0)?;
    assert_eq!(event["id"], id.as_str());
    assert_eq!(event["source"], "issues");
    assert!(event["body"].is_string());
    until("done", || {
        (world.status_of(&id).ok()? == "done").then_some(())
    })?;

    world.handler("exit 65")?;
    let id = world.send_issue()?;
    until("dead", || {
        (world.status_of(&id).ok()? == "dead_letter").then_some(())
    })?;
    world.handler("exit 75")?;
    let id = world.send_issue()?;
    until("failed", || {
        (world.status_of(&id).ok()? == "failed").then_some(())
    })?;
    Ok(())
}

#[test]
fn another_worker_takes_over_when_one_is_killed() -> anyhow::Result<()> {
    let world = World::start("work-killed", SOURCES)?;
    world.handler("sleep 60")?;
    let id = world.send_issue()?;
    let mut first = world.worker(&[])?;
    let event = world.event(0)?;
    assert_eq!(event["takeover"], false);
    first.0.kill()?;
    first.0.wait()?;
    world.handler("exit 0")?;
    let _second = world.worker(&["--as", "second"])?;
    let again = world.event(1)?;
    assert_eq!(
        (&again["id"], &again["takeover"]),
        (&event["id"], &true.into())
    );
    assert_ne!(again["run_id"], event["run_id"]);
    until("done", || {
        (world.status_of(&id).ok()? == "done").then_some(())
    })?;
    Ok(())
}

#[test]
fn a_worker_that_is_told_to_stop_releases_its_event() -> anyhow::Result<()> {
    let world = World::start("work-stopped", SOURCES)?;
    world.handler("trap 'touch stopped; exit 1' TERM; sleep 60 & wait")?;
    let id = world.send_issue()?;
    let mut first = world.worker(&[])?;
    world.event(0)?;
    let pid = i32::try_from(first.0.id())?;
    let pid = rustix::process::Pid::from_raw(pid).context("a pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    ensure!(
        first.0.wait()?.success(),
        "the worker ends without an error"
    );
    assert!(world.path().join("stopped").exists());
    world.handler("exit 0")?;
    let ran = world.run(&[
        "work",
        "run",
        "--queue",
        "triage",
        "--once",
        "--",
        "./handler",
    ])?;
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(world.status_of(&id)?, "done");
    assert_eq!(world.event(1)?["attempt"], 1, "a release is not an attempt");
    Ok(())
}

#[test]
fn a_program_that_does_not_start_ends_the_run() -> anyhow::Result<()> {
    let world = World::start("work-program", SOURCES)?;
    let id = world.send_issue()?;
    until("parked", || {
        let shown = world.json(&["inbox", "inspect", &id]).ok()?;
        (shown["queue"] == "triage").then_some(())
    })?;
    let ran = world.run(&["work", "run", "--queue", "triage", "--", "./missing"])?;
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot start ./missing"), "{said}");
    let shown = world.json(&["inbox", "inspect", &id])?;
    assert_eq!(
        shown["attempt_count"], 0,
        "a release is not an attempt: {shown}"
    );
    Ok(())
}

#[test]
fn a_replay_does_not_wait_for_workers() -> anyhow::Result<()> {
    let world = World::start("work-replay", SOURCES)?;
    world.handler("exit 0")?;
    let id = world.send_issue()?;
    let worker = world.worker(&[])?;
    until("done", || {
        (world.status_of(&id).ok()? == "done").then_some(())
    })?;
    drop(worker);
    let plan = world.json(&[
        "replay",
        "plan",
        "--id",
        &id,
        "--mode",
        "force",
        "--new-effect",
        "-m",
        "again",
    ])?;
    let plan = plan["id"].as_str().context("a plan")?;
    let applied = world.text(&["replay", "apply", plan, "--confirm", "1"])?;
    ensure!(applied.contains("1 waiting"), "{applied}");
    assert_eq!(world.status_of(&id)?, "received");
    Ok(())
}

#[test]
fn one_command_for_each_operation_and_exit_3_for_a_lost_lease() -> anyhow::Result<()> {
    let world = World::start("work-operations", SOURCES)?;
    let id = world.send_issue()?;
    let claim = || {
        let answer = world.json(&["work", "next", "--queue", "triage"]).ok()?;
        answer["events"][0]["lease"].as_str().map(str::to_owned)
    };
    let lease = until("an event", claim)?;
    let lease = ["--queue", "triage", "--lease", lease.as_str()];
    let work = |op: &str, more: &[&str]| world.json(&[&["work", op], &lease[..], more].concat());
    assert!(work("extend", &["--for", "5m"])?["lease_ms"].as_u64() > Some(200_000));
    let begun = work("begin", &["--effect", "open-ticket", "--keys", "honoured"])?;
    assert_eq!(begun["go"], true);
    let error = world.error(&[&["work", "finish"], &lease[..], &["--outcome", "done"]].concat())?;
    assert_eq!(error, (7, "work.refused".to_owned()));
    let done = ["--outcome", "done", "--effect", "open-ticket=done"];
    assert_eq!(work("finish", &done)?["status"], "done");
    assert_eq!(world.status_of(&id)?, "done");
    let error = world.error(&[&["work", "extend"], &lease[..]].concat())?;
    assert_eq!(error, (3, "work.lease_lost".to_owned()));
    let error = world.error(&["work", "next", "--queue", "triage", "--as", "stranger"])?;
    assert_eq!(error, (4, "work.not_allowed".to_owned()));
    let error = world.error(&["work", "next", "--queue", "other"])?;
    assert_eq!(error, (3, "work.unknown_queue".to_owned()));
    Ok(())
}

/// Returns the words of `work begin` for an effect with the plan in `plan.json`.
fn begin_refund(event: &Value) -> Vec<String> {
    let lease = event["lease"].as_str().unwrap_or_default().to_owned();
    let line = "work begin --queue triage --effect refund --keys honoured --plan plan.json --lease";
    let line = line.split(' ').map(str::to_owned);
    line.chain([lease]).collect()
}

/// A person sees each character of the plan, and the next worker gets it.
#[test]
fn a_plan_is_shown_approved_and_handed_out() -> anyhow::Result<()> {
    let rule = "\n[[source.policy]]\nname = \"large\"\neffect = \"refund\"\ndecide = \"hold\"\n\
                amount = { path = \"plan.amount\", above = 50 }\n";
    let world = World::start("work-plan", &[SOURCES, rule].concat())?;
    let id = world.send_issue()?;
    let claim = || {
        let mut answer = world.json(&["work", "next", "--queue", "triage"]).ok()?;
        let event = answer["events"][0].take();
        event.is_object().then_some(event)
    };
    let event = until("an event", claim)?;
    world.write("plan.json", "[]")?;
    let line = begin_refund(&event);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    assert_eq!(world.error(&line)?, (2, "work.plan".to_owned()));
    let plan = r#"{"summary": "refund \u001b[2J", "amount": "74.00", "full": "step 1\nstep 2"}"#;
    world.write("plan.json", plan)?;
    let held = world.json(&line)?;
    assert_eq!(
        (&held["held"], &held["rule"]),
        (&true.into(), &"large".into())
    );
    let shown = world.json(&["hold", "show", &id])?;
    assert_eq!(shown["declared"]["full"], "step 1\nstep 2");
    assert_eq!(shown["hold"], held["hold"]);
    let text = world.run(&["hold", "show", &id])?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for line in [
        "says        refund ␛[2J",
        "amount      74.00",
        "full plan   step 1",
        "            step 2",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let hold = held["hold"].as_str().context("a hold")?;
    let approve = [
        "hold",
        "approve",
        &id,
        "-m",
        "the customer called",
        "--confirm",
        hold,
    ];
    assert_eq!(world.json(&approve)?["status"], "received");
    let event = until("the event again", claim)?;
    let approved = &event["effects"]["refund"]["plan"];
    assert_eq!(approved["full"], "step 1\nstep 2");
    world.write("plan.json", &approved.to_string())?;
    let line = begin_refund(&event);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let begun = world.json(&line)?;
    assert_eq!(begun["go"], true, "{begun}");
    Ok(())
}
