//! `webhookctl dev --chaos`, as a user runs it. The events must behave as the printed description
//! says.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::folder::Folder;
use crate::support::world::Dev;
use anyhow::{Context as _, ensure};
use serde_json::Value;

/// The time limit for a line. A lease has to expire, and the sweep, the drain and the circuit
/// breaker have their own schedules.
const PATIENCE: Duration = Duration::from_secs(300);

/// A `dev` with a fault, and the lines that it prints.
struct Lesson {
    // This field is first, so that `dev` stops before its folder is deleted.
    _dev: Dev,
    lines: Receiver<String>,
    /// The lines that `dev` has printed and that the test has not used yet.
    passed: RefCell<Vec<Value>>,
    folder: Folder,
}

impl Lesson {
    fn begin(what: &str) -> anyhow::Result<Self> {
        let folder = Folder::new(what)?;
        let dev = ["dev", "--port", "0", "-o", "jsonl", "--chaos", what];
        let mut child = folder.webhookctl(&dev).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("a stdout")?;
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let lesson = Self {
            _dev: Dev(child),
            lines,
            passed: RefCell::default(),
            folder,
        };
        let chaos = lesson.next("event", "chaos")?;
        ensure!(chaos["what"] == what, "{chaos}");
        Ok(lesson)
    }

    /// Returns the next line whose field has this word. The line can be older than a line that the
    /// test has already used.
    fn next(&self, field: &str, word: &str) -> anyhow::Result<Value> {
        let mut passed = self.passed.borrow_mut();
        if let Some(at) = passed.iter().position(|told| told[field] == word) {
            return Ok(passed.remove(at));
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.with_context(|| format!("no {field} {word} behind {passed:?}"))?;
            let told: Value = serde_json::from_str(&line)?;
            if told[field] == word {
                return Ok(told);
            }
            passed.push(told);
        }
    }

    /// Returns how often the destination was called for the next event that is done. Checks that
    /// the destination applied the effect once.
    fn requests(&self) -> anyhow::Result<u64> {
        let seen = self.next("event", "effects")?;
        ensure!(seen["effects"] == 1, "{seen}");
        seen["requests"].as_u64().context("a count")
    }

    /// Returns all events, as the list shows them.
    fn events(&self) -> anyhow::Result<Vec<Value>> {
        let list = self.folder.json(&["inbox", "list", "-n", "100"])?;
        Ok(list["items"].as_array().context("a list")?.clone())
    }
}

#[test]
#[ignore = "takes minutes: make dev-chaos"]
fn an_outage_delays_and_loses_nothing() -> anyhow::Result<()> {
    let lesson = Lesson::begin("outage")?;
    assert_eq!(lesson.next("event", "sent")?["status"], 200);
    let failed = lesson.next("change", "failed")?;
    let detail = failed["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("answered 502"), "{failed}");
    assert!(lesson.requests()? > 3);
    assert_eq!(lesson.events()?[0]["status"], "done");
    Ok(())
}

#[test]
fn a_call_longer_than_its_lease_has_one_effect() -> anyhow::Result<()> {
    let lesson = Lesson::begin("slow")?;
    assert_eq!(lesson.next("event", "sent")?["status"], 200);
    assert_eq!(lesson.next("change", "failed")?["attempt"], 1);
    assert_eq!(lesson.requests()?, 2);
    Ok(())
}

#[test]
#[ignore = "takes minutes: make dev-chaos"]
fn a_crash_after_an_effect_does_not_repeat_the_effect() -> anyhow::Result<()> {
    let lesson = Lesson::begin("crash-after-commit")?;
    lesson.next("event", "crash")?;
    assert_eq!(lesson.requests()?, 2);
    let events = lesson.events()?;
    assert_eq!(
        (&events[0]["status"], &events[0]["attempt_count"]),
        (&"done".into(), &2.into())
    );
    Ok(())
}

#[test]
#[ignore = "takes minutes: make dev-chaos"]
fn a_table_that_refuses_writes_loses_no_acknowledged_event() -> anyhow::Result<()> {
    let lesson = Lesson::begin("throttle")?;
    assert_eq!(lesson.next("event", "sent")?["status"], 200);
    // Each command waits for the row of its event. The drain may first have to move the event to
    // the ledger.
    let send = || lesson.folder.webhookctl(&["send", "github", "-o", "json"]);
    let sent = (0..5).map(|_| send().stdout(Stdio::piped()).spawn());
    let sent: Vec<Child> = sent.collect::<Result<_, _>>()?;
    for sent in sent {
        let output = sent.wait_with_output()?;
        if output.status.success() {
            let told: Value = serde_json::from_slice(&output.stdout)?;
            assert_eq!(told["status"], 200, "{told}");
        }
    }
    // `dev` prints a line for each event, including drained events.
    for _ in 0..6 {
        lesson.requests()?;
    }
    let events = lesson.events()?;
    assert_eq!(events.len(), 6);
    assert!(
        events.iter().all(|event| event["status"] == "done"),
        "{events:?}"
    );
    Ok(())
}

#[test]
fn a_clock_that_is_behind_is_found_out() -> anyhow::Result<()> {
    let lesson = Lesson::begin("clock-skew")?;
    let sent = lesson.next("event", "sent")?;
    assert_eq!(sent["status"], 401, "{sent}");
    let id = sent["quarantined"]
        .as_str()
        .context("the request is quarantined")?;
    let (exit, said) = lesson.folder.refused(&["verify", id])?;
    assert_eq!(exit, Some(5), "{said}");
    for words in [", 10m", " older than receipt (tolerance 5m)"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(lesson.events()?.is_empty());
    Ok(())
}

#[test]
fn a_person_is_told_what_breaks_and_what_to_watch() -> anyhow::Result<()> {
    let folder = Folder::new("words")?;
    let dev = ["dev", "--port", "0", "--chaos", "clock-skew"];
    let mut child = folder.webhookctl(&dev).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("a stdout")?;
    let _dev = Dev(child);
    let mut said = String::new();
    for line in BufReader::new(stdout).lines() {
        said = format!("{said}{}\n", line?);
        if said.contains("401 in ") {
            break;
        }
    }
    for words in [
        "✗ chaos    clock-skew",
        "fault    The provider's clock is 10 minutes behind",
        "watch    The webhook is rejected with 401",
        "Ctrl-C stops it.",
        "  kept in the quarantine: webhookctl verify evt_",
    ] {
        ensure!(said.contains(words), "{words} is not in {said}");
    }
    Ok(())
}
