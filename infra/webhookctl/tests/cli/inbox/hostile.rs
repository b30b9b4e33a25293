//! Every command shows texts that a sender chose, in every format. The texts must not have any
//! other effect.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::inbox::ledger::Item;
use shared::webhook::event::EventKey;

use super::world::{New, World, stderr};

/// Texts that attackers have put, or could put, into a field of a webhook.
fn corpus() -> Vec<String> {
    let mut corpus: Vec<String> = [
        "\x1b]0;owned\x07",
        "\x1b[2J\x1b[1;1Hroot# ",
        "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
        "\x1b]52;c;cm0gLXJmIH4=\x07",
        "\u{9b}31m C1 \u{9d}0;x\u{9c}",
        "invoice\u{202e}dip.\u{202c}paid",
        "\u{2066}isolate\u{2069}\u{061c}",
        "zero\u{200b}width\u{200d}\u{feff}",
        "tag\u{e0001}\u{e0041}\u{e007f}",
        "NUL\0in it",
        "two\nlines\r\nand\ttab",
        "\u{2028}line\u{2029}paragraph",
        "\u{7f}\u{8}\u{8}\u{8}back",
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1+1",
        "a;=1+1",
        "quote\"comma,",
        "$(touch owned) `touch owned`; touch owned",
    ]
    .map(String::from)
    .into();
    corpus.push("\u{301}".repeat(400));
    corpus
}

/// Checks the text with different code than the program, so that the check does not repeat an error
/// of the program.
fn is_inert(line: &str) -> bool {
    !line.chars().any(|c| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{e0000}'..='\u{e01ef}' | '\u{61c}' | '\u{feff}' | '\u{ad}')
    })
}

#[track_caller]
fn inert(what: &[&str], bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{what:?}: no UTF-8"));
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        assert!(is_inert(line), "{what:?}: {line:?}");
    }
    text
}

/// Stores one event for each text. The event has the text as type, id, error, header and body. The
/// body of the last event has one megabyte.
async fn hostile_events(world: &World) -> Vec<EventKey> {
    let mut keys = Vec::new();
    for (number, text) in corpus().iter().enumerate() {
        let id = format!("{text}{number}");
        let new = New {
            kind: text,
            body: if number % 2 == 0 {
                text.clone()
            } else {
                json!({ "x": text }).to_string()
            },
            ..New::of("stripe-main", &id)
        };
        let key = world.put(new).await;
        let hostile = AttributeValue::S(text.clone());
        world
            .edit(&key, |row: &mut Item| {
                for name in ["pvd", "err", "kid", "ct", "own", "reason"] {
                    row.insert(name.into(), hostile.clone());
                }
                let headers = Item::from([
                    ("user-agent".to_owned(), hostile.clone()),
                    (text.clone(), hostile.clone()),
                ]);
                row.insert("hdr".into(), AttributeValue::M(headers));
                let entry = format!("{}|failed|1|0|{text}|{text}", world.now.0);
                row.insert(
                    "h".into(),
                    AttributeValue::L(vec![AttributeValue::S(entry)]),
                );
            })
            .await;
        keys.push(key);
    }
    let megabyte = New {
        body: "\x1b[5m".repeat(1 << 18),
        ..New::of("stripe-main", "megabyte")
    };
    keys.push(world.put(megabyte).await);
    keys
}

#[tokio::test]
async fn it_is_inert_in_every_format_of_every_verb() {
    let world = World::start("hostile").await;
    let keys = hostile_events(&world).await;
    for format in ["table", "wide", "json", "jsonl", "csv", "ids"] {
        let line = ["inbox", "list", "-n", "100", "-o", format];
        let output = world.run(&line).await;
        assert!(output.status.success(), "{line:?}: {}", stderr(&output));
        let text = inert(&line, &output.stdout);
        inert(&line, &output.stderr);
        match format {
            "json" => {
                let list: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(list["items"].as_array().unwrap().len(), keys.len());
            }
            "jsonl" => {
                assert_eq!(text.lines().count(), keys.len());
                assert!(
                    text.lines()
                        .all(|line| serde_json::from_str::<Value>(line).is_ok())
                );
            }
            "csv" => {
                assert_eq!(text.matches("\r\n").count(), keys.len() + 1);
                for start in [",=", ",+", ",@", ",\"=", ",\"+", ",\"@"] {
                    assert!(!text.contains(start), "{start} in {text}");
                }
            }
            "ids" => assert!(
                text.lines()
                    .all(|id| id.len() == 30 && id.starts_with("evt_"))
            ),
            _ => assert_eq!(text.lines().count(), keys.len() + 1),
        }
        assert!(text.len() < 200_000);
    }
    for key in &keys {
        let id = key.to_string();
        for line in [
            &["inbox", "inspect", &id][..],
            &["inbox", "inspect", &id, "--full"],
            &["inbox", "inspect", &id, "-o", "json"],
            &["inbox", "body", &id, "-o", "json"],
            &["inbox", "diff", &id, "stripe-main:megabyte"],
            &["inbox", "diff", &id, "stripe-main:megabyte", "-o", "json"],
        ] {
            let output = world.run(line).await;
            assert!(
                output.status.code().unwrap() < 2,
                "{line:?}: {}",
                stderr(&output)
            );
            let text = inert(line, &output.stdout);
            inert(line, &output.stderr);
            if line.contains(&"json") {
                serde_json::from_str::<Value>(&text).unwrap();
            }
        }
    }
    let seven = world.run(&["inbox", "inspect", &keys[1].to_string()]).await;
    assert_eq!(String::from_utf8(seven.stdout).unwrap().lines().count(), 7);
}

#[tokio::test]
async fn it_is_inert_in_an_export_and_in_what_is_followed() {
    let world = World::start("hostile-export").await;
    let keys = hostile_events(&world).await;
    for file in ["events.jsonl", "events.csv"] {
        let line = ["inbox", "export", "--with-request", "-f", file];
        let output = world.run(&line).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let text = inert(
            &line,
            &std::fs::read(world.folder.path().join(file)).unwrap(),
        );
        let lines = text.trim_end().lines().count();
        if file.ends_with("csv") {
            assert_eq!(lines, keys.len() + 1);
            for start in [",=", ",+", ",@", ",\"=", ",\"+", ",\"@"] {
                assert!(!text.contains(start), "{start}");
            }
        } else {
            assert_eq!(lines, keys.len());
            assert!(
                text.lines()
                    .all(|line| serde_json::from_str::<Value>(line).is_ok())
            );
        }
    }
    for format in ["table", "jsonl"] {
        let line = ["inbox", "tail", "--since", "1h", "-o", format];
        let mut tail = world.command(&line);
        let mut tail = tail.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdout = tokio::io::BufReader::new(tail.stdout.take().unwrap());
        let mut text = String::new();
        while text.lines().count() < keys.len() {
            let read = tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut text);
            let read = tokio::time::timeout(std::time::Duration::from_secs(20), read).await;
            assert!(read.unwrap().unwrap() > 0);
        }
        tail.kill().await.unwrap();
        let text = inert(&line, text.as_bytes());
        if format == "jsonl" {
            assert!(
                text.lines()
                    .all(|line| serde_json::from_str::<Value>(line).is_ok())
            );
        }
    }
}

#[tokio::test]
async fn an_argument_that_is_hostile_is_shown_inert_too() {
    let world = World::start("hostile-argument").await;
    for text in corpus().iter().filter(|text| !text.contains('\0')) {
        for line in [
            &["inbox", "inspect", "--", text][..],
            &["inbox", "list", &format!("--source={text}")],
            &["inbox", "list", &format!("--where={text}=1")],
            &["inbox", "list", &format!("--query={text}")],
            &["inbox", "list", &format!("--type={text}")],
        ] {
            let output = world.run(line).await;
            inert(line, &output.stderr);
            inert(line, &output.stdout);
        }
    }
}
