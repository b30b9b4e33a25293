//! The case `agent` of the demo, as its text describes it: claim in one terminal, kill it, take over in
//! another, and approve in a third.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::support::folder::Folder;
use crate::support::world::Dev;

/// Longer than a lease and the margin after it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes the event that it got, and then does what the file `then` says.
const HANDLER: &str = "#!/bin/sh\ncat > part.$$\nmv part.$$ got.$MITT_RUN_ID.json\n. ./then\n";

struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the demo, and returns it with the lines that it printed until its end.
fn demo(folder: &Folder) -> anyhow::Result<(Dev, Vec<Value>)> {
    let arguments = [
        "dev", "--demo", "--case", "agent", "--port", "0", "-o", "jsonl",
    ];
    let mut child = folder
        .webhookctl(&arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    let dev = Dev(child);
    let mut lines = BufReader::new(stdout).lines();
    let mut told = Vec::new();
    for line in &mut lines {
        let line: Value = serde_json::from_str(&line?)?;
        let is_end = line["event"] == "end";
        told.push(line);
        if is_end {
            break;
        }
    }
    // `dev` goes on to print.
    std::thread::spawn(move || lines.for_each(drop));
    Ok((dev, told))
}

fn worker(folder: &Folder, then: &str) -> anyhow::Result<Terminal> {
    folder.write("then", then)?;
    folder.write("handler", HANDLER)?;
    let path = folder.path().join("handler");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    let run = ["work", "run", "--queue", "refunds", "--", "./handler"];
    Ok(Terminal(
        folder.webhookctl(&run).stderr(Stdio::null()).spawn()?,
    ))
}

/// Returns the events that the handlers got, in any order.
fn got(folder: &Folder) -> Vec<Value> {
    let files = std::fs::read_dir(folder.path()).into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let events = names.filter(|name| name.starts_with("got."));
    let events = events.filter_map(|name| serde_json::from_str(&folder.read(&name).ok()?).ok());
    events.collect()
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

fn is_done(folder: &Folder, id: &Value) -> Option<()> {
    let shown = folder.json(&["inbox", "inspect", id.as_str()?]).ok()?;
    (shown["status"] == "done").then_some(())
}

#[test]
fn a_worker_is_killed_another_takes_over_and_a_person_approves() -> anyhow::Result<()> {
    let folder = Folder::new("dev-agent")?;
    let (_dev, told) = demo(&folder)?;
    let fates: Vec<_> = told.iter().filter(|line| line["case"] == "agent").collect();
    let ends: Vec<_> = fates.iter().map(|fate| &fate["end"]).collect();
    assert_eq!(ends, ["waiting", "held"]);
    let end = told.last().context("an end")?;
    assert_eq!(end["unexpected"], 0, "{end}");

    let mut first = worker(&folder, "sleep 60")?;
    let claimed = until("claimed", || got(&folder).pop())?;
    assert_eq!(claimed["takeover"], false);
    first.0.kill()?;
    first.0.wait()?;
    let _second = worker(&folder, "exit 0")?;
    let again = until("taken over", || {
        got(&folder).into_iter().find(|it| it["takeover"] == true)
    })?;
    assert_eq!(again["id"], claimed["id"]);
    until("done", || is_done(&folder, &claimed["id"]))?;

    let held = folder.json(&["hold", "list"])?;
    let [held] = held["items"].as_array().context("holds")?.as_slice() else {
        panic!("{held}");
    };
    assert_eq!(held["rule"], "large-refund");
    let is_held = |it: &Value| it["id"] == held["id"];
    assert!(!got(&folder).iter().any(is_held), "it waits for a person");
    let text = |name: &str| held[name].as_str().context("a text");
    let approve = [
        "hold",
        "approve",
        text("id")?,
        "-m",
        "she called",
        "--confirm",
    ];
    folder.json(&[&approve[..], &[text("hold")?]].concat())?;
    let approved = until("handed out", || got(&folder).into_iter().find(is_held))?;
    assert!(
        approved["body"]
            .as_str()
            .context("a body")?
            .contains("7400")
    );
    until("done", || is_done(&folder, &held["id"]))
}

#[test]
fn the_demo_names_the_commands_of_the_case() -> anyhow::Result<()> {
    let folder = Folder::new("dev-agent-text")?;
    let demo = ["dev", "--demo", "--case", "agent", "--port", "0"];
    let mut child = folder.webhookctl(&demo).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    let _dev = Dev(child);
    let mut text = String::new();
    for line in BufReader::new(stdout).lines() {
        text.push_str(&line?);
        text.push('\n');
        if text.contains("webhookctl hold approve") {
            break;
        }
    }
    for words in [
        "◌ waiting",
        "◌ held",
        "1 waiting · 1 held · 0 unexpected",
        "webhookctl work run --queue refunds -- sleep 600",
        "webhookctl work run --queue refunds -- cat",
        "webhookctl hold list",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(folder.error(&["dev", "--case", "agent"])?.0, 2);
    Ok(())
}
