//! Commands that follow the inbox: `inbox tail`, `inspect --watch`, and readers that close the
//! pipe.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Settlement;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use super::world::{New, World, dead, failed, stderr};

const PATIENCE: Duration = Duration::from_secs(20);

struct Tail {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Tail {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let line = [&["inbox", "tail", "-o", "jsonl"], arguments].concat();
        let mut command = world.command(&line);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a line in time").unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    async fn change(&mut self) -> (String, String) {
        let line = self.next().await;
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        (text("type"), text("change"))
    }

    async fn interrupted(self) -> (Option<i32>, String) {
        let pid = self.child.id().unwrap().to_string();
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap();
        let output = timeout(PATIENCE, self.child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        (output.status.code(), stderr(&output))
    }
}

fn is(kind: &str, change: &str) -> (String, String) {
    (kind.to_owned(), change.to_owned())
}

#[tokio::test]
async fn what_arrives_and_changes_is_told_at_once() {
    let world = World::start("tail").await;
    let before = New {
        kind: "before",
        end: Some(failed("GitHub API 502", world.ago(1))),
        minutes_ago: 5,
        ..New::of("stripe-main", "before")
    };
    let before = world.put(before).await;
    world
        .put(New {
            source: "github-main",
            ..New::of("stripe-main", "old")
        })
        .await;
    // The tail starts a second before now, so it prints the next event.
    let mut tail = Tail::start(&world, &["-s", "stripe-main", "--since", "1s"]);
    let mark = New {
        kind: "mark",
        ..New::of("stripe-main", "mark")
    };
    let mark = world.put_at(UnixMillis::now(), mark).await;
    assert_eq!(tail.change().await, is("mark", "stored"));

    world
        .settle(&mark, UnixMillis::now(), Settlement::Done)
        .await;
    assert_eq!(tail.change().await, is("mark", "done"));
    // The tail also follows an event that was open before it started, but does not print its
    // arrival.
    world
        .settle(&before, UnixMillis::now(), dead("GitHub API 502"))
        .await;
    let line = tail.next().await;
    assert_eq!(
        (&line["change"], &line["status"]),
        (&"dead_letter".into(), &"dead_letter".into())
    );
    assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
    let (code, said) = tail.interrupted().await;
    assert_eq!(code, Some(130), "{said}");
    assert!(said.starts_with("2 events, 1 done, 1 dead in "), "{said}");
}

#[tokio::test]
async fn what_had_to_wait_for_the_ledger_is_told_once() {
    let world = World::start("tail-late").await;
    let mut tail = Tail::start(&world, &["--since", "10m"]);
    let of = |id: &'static str| New {
        kind: id,
        end: Some(Settlement::Done),
        ..New::of("stripe-main", id)
    };
    world.put_at(UnixMillis::now(), of("fresh")).await;
    assert_eq!(tail.change().await, is("fresh", "stored"));
    assert_eq!(tail.change().await, is("fresh", "done"));
    // The event arrived minutes ago, waited in the spill queue, and was done before the next poll.
    let five_minutes = Duration::from_secs(300);
    world
        .put_at(UnixMillis::now() - five_minutes, of("late"))
        .await;
    assert_eq!(tail.change().await, is("late", "stored"));
    assert_eq!(tail.change().await, is("late", "done"));
    tokio::time::sleep(Duration::from_secs(17)).await;
    let (_, said) = tail.interrupted().await;
    assert!(said.starts_with("2 events, 2 done in "), "{said}");
}

#[tokio::test]
async fn only_what_was_asked_for_is_told() {
    let world = World::start("tail-only").await;
    let mut tail = Tail::start(
        &world,
        &["--only", "done", "--where", "id=b", "--since", "1s"],
    );
    for id in ["a", "b"] {
        let new = New {
            kind: id,
            end: Some(Settlement::Done),
            ..New::of("stripe-main", id)
        };
        world.put_at(UnixMillis::now(), new).await;
    }
    assert_eq!(tail.change().await, is("b", "done"));
    let (_, said) = tail.interrupted().await;
    assert!(said.starts_with("1 event, 1 done"), "{said}");
    for wrong in [
        &["--until", "1h"][..],
        &["--id", "x"],
        &["--only", "dnoe"],
        &["-o", "csv"],
    ] {
        let output = world.run(&[&["inbox", "tail"], wrong].concat()).await;
        assert_eq!(
            output.status.code(),
            Some(2),
            "{wrong:?}: {}",
            stderr(&output)
        );
    }
}

#[tokio::test]
async fn a_watched_event_is_shown_until_it_ends() {
    let world = World::start("watch").await;
    for (id, end, code) in [("good", Settlement::Done, 0), ("bad", dead("no"), 6)] {
        let key = world.put(New::of("stripe-main", id)).await;
        let line = ["inbox", "inspect", id, "--watch", "-o", "jsonl"];
        let mut command = world.command(&line);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut status = async || {
            let line = timeout(PATIENCE, lines.next_line())
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            serde_json::from_str::<Value>(&line).unwrap()["status"].clone()
        };
        assert_eq!(status().await, "received");
        world.settle(&key, world.now, end.clone()).await;
        let ended = status().await;
        assert_eq!(ended, if code == 0 { "done" } else { "dead_letter" });
        let exit = timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
        assert_eq!(exit.code(), Some(code));
    }
}

#[tokio::test]
async fn a_reader_that_went_away_ends_it_quietly() {
    let world = World::start("closed").await;
    for id in ["a", "b"] {
        world.put(New::of("stripe-main", id)).await;
    }
    for line in [
        &["inbox", "list"][..],
        &["inbox", "list", "-o", "json"],
        &["inbox", "list", "-o", "jsonl"],
        &["inbox", "list", "-o", "csv"],
        &["inbox", "inspect", "a", "--full"],
        &["inbox", "body", "a"],
        &["inbox", "tail", "--since", "1h"],
        &["inbox", "export", "-f", "-"],
    ] {
        let mut command = world.command(line);
        let mut child = command
            .arg("-q")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = timeout(PATIENCE, child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert_eq!(stderr(&output), "", "{line:?}");
    }
}
