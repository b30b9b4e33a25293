//! `inbox body`, `diff` and `export`.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use shared::inbox::ledger::Item;

use super::world::{New, WHO, World, stderr, stdout};
use crate::support::folder::words;

const BODY: &str = "{\"b\": 1.10, \"a\":{\"email\":\"a@b.test\"}}\n";

fn with_body<'a>(id: &'a str, body: &str) -> New<'a> {
    New {
        body: body.to_owned(),
        ..New::of("stripe-main", id)
    }
}

async fn deeds(world: &World) -> Vec<Item> {
    let month = format!("LOG#{}", &world.now.hour()[..6]);
    let query = world.emulators.clients().dynamodb.query();
    let query = query
        .table_name(&world.table)
        .key_condition_expression("pk = :month");
    let month = aws_sdk_dynamodb::types::AttributeValue::S(month);
    let query = query.expression_attribute_values(":month", month);
    query.send().await.unwrap().items.unwrap()
}

#[tokio::test]
async fn a_body_is_exactly_what_arrived() {
    let world = World::start("body").await;
    world.put(with_body("one", BODY)).await;
    let plain = world.run(&["inbox", "body", "one"]).await;
    assert_eq!(stdout(&plain), BODY);
    let pretty = world.run(&["inbox", "body", "one", "--pretty"]).await;
    let indented = "{\n  \"b\": 1.10,\n  \"a\": {\n    \"email\": \"a@b.test\"\n  }\n}\n";
    assert_eq!(stdout(&pretty), indented);
    let json = world.json(&["inbox", "body", "one"]).await;
    assert_eq!(json["schema"], "webhookctl/inbox.body/v1");
    assert_eq!(json["text"], BODY);

    // The largest possible body is in the bucket.
    let large = format!(
        "\"{}\"",
        hex::encode(vec![7; 600_000]).replace("0707", "07\u{e9}")
    );
    let mut noise = String::from("[");
    for number in 0..60_000_u64 {
        let _ = write!(noise, "{},", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    noise += "0]";
    for (id, body) in [("large", &large), ("noise", &noise)] {
        let key = world.put(with_body(id, body)).await;
        let read = world.run(&["inbox", "body", &key.to_string()]).await;
        assert!(stdout(&read) == *body, "{}", stderr(&read));
    }
    let nowhere = world
        .run(&["inbox", "body", "one", "--pretty", "-o", "csv"])
        .await;
    assert_eq!(nowhere.status.code(), Some(2));
    world.put(with_body("form", "a=1&b=2")).await;
    let form = world.run(&["inbox", "body", "form", "--pretty"]).await;
    assert_eq!(form.status.code(), Some(5), "{}", stderr(&form));
}

#[tokio::test]
async fn a_diff_tells_values_from_their_writing() {
    let world = World::start("diff").await;
    world
        .put(with_body("one", r#"{"status":"open","n":1.10}"#))
        .await;
    world
        .put(with_body("two", r#"{"n":1.1,"status":"paid","paid_at":5}"#))
        .await;
    let diff = world.run(&["inbox", "diff", "one", "two"]).await;
    assert_eq!(diff.status.code(), Some(1));
    assert_eq!(
        stdout(&diff),
        "two events, bodies differ\n  status   \"open\" → \"paid\"\n  paid_at  (absent) → 5\n\
         also: key order differs, 1.10 is written 1.1 (same value)\n"
    );
    let same = world.run(&["inbox", "diff", "one", "one"]).await;
    assert!(same.status.success());
    let json = world
        .run(&["inbox", "diff", "one", "two", "-o", "json"])
        .await;
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["changes"][0]["from"], "\"open\"");
}

#[tokio::test]
async fn an_export_is_redacted_kept_private_and_written_down() {
    let world = World::start("export").await;
    world.put(with_body("one", BODY)).await;
    world
        .put(with_body("two", "{\"email\":\"c@d.test\",\"a\":[]}"))
        .await;
    let line = words("inbox export -f events.jsonl --with-request --redact body.a.email -m audit");
    let done = world.run(&line).await;
    assert!(done.status.success(), "{}", stderr(&done));
    let said = stdout(&done);
    assert!(
        said.starts_with("2 events, ")
            && said.contains(" → events.jsonl   1 path redacted in 1 of them   recorded"),
        "{said}"
    );

    let path = world.folder.path().join("events.jsonl");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 2);
    let one = events
        .iter()
        .find(|event| event["dedupe_key"] == "one")
        .unwrap();
    assert_eq!(one["request"]["body"]["a"]["email"], "[redacted]");
    assert!(text.contains("1.10") && text.contains("c@d.test") && !text.contains("a@b.test"));
    let deed = &deeds(&world).await[0];
    assert_eq!(deed["what"].as_s().unwrap(), "export");
    assert_eq!(deed["who"].as_s().unwrap(), WHO);
    assert_eq!(deed["why"].as_s().unwrap(), "audit");
    assert_eq!(deed["n"].as_n().unwrap(), "2");

    let again = world.run(&line).await;
    assert_eq!(again.status.code(), Some(7), "{}", stderr(&again));
}

#[tokio::test]
async fn an_export_without_events_writes_nothing_down() {
    let world = World::start("export-none").await;
    world.put(with_body("one", BODY)).await;
    world.put(with_body("two", "{\"a\":[]}")).await;
    let none = world
        .run(&["inbox", "export", "-f", "none.csv", "--status", "failed"])
        .await;
    assert!(none.status.success() && !world.folder.path().join("none.csv").exists());
    assert_eq!(deeds(&world).await.len(), 0);
    let odd = world.run(&["inbox", "export", "-f", "events.xml"]).await;
    assert_eq!(odd.status.code(), Some(2));

    let csv = world
        .run(&["inbox", "export", "-f", "-", "-o", "csv"])
        .await;
    let csv = stdout(&csv);
    assert!(csv.starts_with("id,received_at,source,type,status,") && csv.lines().count() == 3);
    assert!(!csv.contains("test"), "without --with-request no body");
}

/// The token of Figma is in the body. A reader of the inbox could otherwise send events.
#[tokio::test]
async fn a_token_in_a_body_is_shown_only_on_request() {
    const TOKEN: &str = "passcode-of-a-webhook";
    let body = format!(r#"{{"passcode":"{TOKEN}","event_type":"PING"}}"#);
    let world = World::start("token").await;
    world
        .put(New {
            body: body.clone(),
            preset: "figma",
            ..New::of("stripe-main", "one")
        })
        .await;
    let masked = body.replace(TOKEN, "***");
    let plain = world.run(&["inbox", "body", "one"]).await;
    assert_eq!(stdout(&plain), masked);
    assert!(
        stderr(&plain).contains("1 token masked; --reveal"),
        "{}",
        stderr(&plain)
    );
    let json = world.json(&["inbox", "body", "one"]).await;
    assert_eq!(
        (&json["text"], &json["masked"]),
        (&masked.clone().into(), &1.into())
    );
    assert_eq!(json["bytes"], body.len());
    let revealed = world.run(&["inbox", "body", "one", "--reveal"]).await;
    assert_eq!(stdout(&revealed), body);
    let export = ["inbox", "export", "-f", "-", "--with-request", "-m", "why"];
    for line in [
        &export[..],
        &["inbox", "inspect", "one", "--full"],
        &["inbox", "diff", "one", "one"],
    ] {
        let shown = world.run(line).await;
        let said = stdout(&shown) + &stderr(&shown);
        assert!(!said.contains(TOKEN), "{line:?}: {said}");
    }
    assert!(stdout(&world.run(&export).await).contains("***"));
}
