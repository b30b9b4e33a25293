//! The output of read commands in scripts. The outputs of `-o json` and `-o jsonl` are valid JSON,
//! the output has no colours without a terminal, and a reader may close the pipe early.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::ids::ids;
use crate::verbs::{split, table};
use crate::world::World;

/// The commands that print only text on stdout.
const TEXT_ALONE: [&str; 3] = ["sources presets --markdown", "completions", "man"];

/// The commands that print one object after the other.
const STREAMS: [&str; 1] = ["listen"];

#[tokio::test]
async fn every_command_that_reads_answers_in_json_and_without_colours() {
    let world = World::start().await;
    let ids = ids(&world).await;
    let mut tried = 0;
    for line in table().iter().flat_map(|verb| &verb.run) {
        let (before, line) = split(line);
        if !before.is_empty() || STREAMS.iter().any(|stream| line.starts_with(stream)) {
            continue;
        }
        let line = line.trim_end_matches(" -o json");
        let named = ids.iter();
        let line = named.fold(line.to_owned(), |line, (name, id)| line.replace(name, id));
        let words: Vec<&str> = line.split_whitespace().collect();
        let text = world.run(&words).await;
        inert(&line, &text.stdout);
        inert(&line, &text.stderr);
        if TEXT_ALONE.iter().any(|text| line.starts_with(text)) {
            continue;
        }
        let json = world.run(&[&words[..], &["-o", "json"]].concat()).await;
        assert_eq!(json.status, text.status, "{line}: {json:?}");
        inert(&line, &json.stdout);
        let document: Value = serde_json::from_slice(&json.stdout)
            .unwrap_or_else(|error| panic!("{line} -o json: {error}: {json:?}"));
        let schema = document["schema"].as_str().unwrap_or_default();
        assert!(
            schema.starts_with("webhookctl/") && schema.ends_with("/v1"),
            "{line}: {schema:?}"
        );
        let lines = world.run(&[&words[..], &["-o", "jsonl"]].concat()).await;
        for object in String::from_utf8(lines.stdout).unwrap().lines() {
            let object: Value = serde_json::from_str(object).unwrap();
            assert!(object.is_object(), "{line} -o jsonl: {object}");
        }
        tried += 1;
    }
    assert!(tried > 20, "tried only {tried} lines");
    world.end().await;
}

fn inert(line: &str, bytes: &[u8]) {
    assert!(
        !bytes.contains(&0x1b),
        "{line} writes an escape where no terminal is"
    );
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let world = World::start().await;
    for n in 0..60 {
        let id = format!("evt_{n}");
        world.put("acme", &id, "job.completed", world.ago(n)).await;
    }
    for line in [
        &["sources", "presets"][..],
        &["inbox", "list", "-n", "60", "-o", "jsonl"],
        &["inbox", "stats", "--by", "hour"],
        &["help", "output"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_webhookctl"))
            .args(line)
            .current_dir(&world.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The reader closes the pipe before the first byte is written, or soon after.
        drop(child.stdout.take());
        let mut said = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).await.unwrap();
        let status = child.wait().await.unwrap();
        assert_eq!(status.code(), Some(0), "{line:?}: {said}");
        assert!(
            !said.contains("error") && !said.contains("panicked"),
            "{line:?}: {said}"
        );
    }
    world.end().await;
}
