//! The responses of the processor to the queue, and the errors of functions with an invalid
//! configuration.

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;

use super::support::{Inbox, failures, options, record, s, unique, work_message};

async fn state(inbox: &Inbox, key: &EventKey) -> String {
    inbox.row(key).await["st"].as_s().unwrap().clone()
}

#[tokio::test]
async fn a_message_that_names_no_event_is_dropped() {
    let inbox = Inbox::shared().await;
    let word = inbox.canary();
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"v":1,"key":"{}","run":0}}"#, word.repeat(10_000));
    let bodies = [
        "",
        " ",
        "hello",
        "null",
        "1",
        "[]",
        "{}",
        &word,
        &deep,
        &long,
        "\u{0}",
        r#"{"v":1}"#,
        r#"{"v":"1","key":"E#github-main#1","run":0}"#,
        r#"{"v":-1,"key":"E#github-main#1","run":0}"#,
        r#"{"v":1,"key":null,"run":0}"#,
        r#"{"v":1,"key":"","run":0}"#,
        r#"{"v":1,"key":"SYS","run":0}"#,
        r#"{"v":1,"key":"SYNC#github-main","run":0}"#,
        r#"{"v":1,"key":"E#github-main","run":0}"#,
        r#"{"v":1,"key":"E##1","run":0}"#,
        r#"{"v":1,"key":"E#github-main#","run":0}"#,
        r#"{"v":1,"key":"E#github-main#a#b","run":0}"#,
        r#"{"v":1,"key":"E#github-main#1","run":-1}"#,
        r#"{"v":1,"key":"E#github-main#1","run":0.5}"#,
        r#"{"v":1,"key":"E#github-main#1","run":99999999999999999999}"#,
        r#"{"v":1,"key":"E#github-main#1","run":0} and more"#,
    ];
    for body in bodies {
        let failed = failures(&inbox, &[record("1", body)]).await;
        assert!(failed.is_empty(), "{body:.100}");
    }
    for body in [None, Some(Value::Null)] {
        let mut bodiless = record("1", "");
        bodiless.as_object_mut().unwrap().remove("body");
        bodiless
            .as_object_mut()
            .unwrap()
            .extend(body.map(|body| ("body".to_owned(), body)));
        assert_eq!(failures(&inbox, &[bodiless]).await, [""; 0]);
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_message_of_newer_code_returns_to_the_queue() {
    let inbox = Inbox::shared().await;
    let key = inbox.new_event().await;
    for version in [0, 2, 3, u32::MAX] {
        let body = json!({ "v": version, "key": key.pk(), "run": 0, "more": {} }).to_string();
        assert_eq!(
            failures(&inbox, &[record("newer", &body)]).await,
            ["newer"],
            "{version}"
        );
    }
    assert_eq!(state(&inbox, &key).await, "received");
    // Unknown fields are ignored.
    let body = json!({ "v": 1, "key": key.pk(), "run": 0, "more": {} }).to_string();
    assert_eq!(failures(&inbox, &[record("1", &body)]).await, [""; 0]);
    assert_eq!(state(&inbox, &key).await, "done");
    inbox.is_unharmed();
}

#[tokio::test]
async fn one_bad_message_does_not_bring_back_the_nine_good_ones() {
    let inbox = Inbox::shared().await;
    let newer = r#"{"v":2,"key":"E#github-main#1","run":0}"#;
    for (bad, failed) in [(newer, vec!["bad"]), ("hello", vec![])] {
        let mut keys = Vec::new();
        let mut records = Vec::new();
        for n in 0..10 {
            if n == 4 {
                records.push(record("bad", bad));
            } else {
                let key = inbox.new_event().await;
                records.push(record(&n.to_string(), &work_message(&key)));
                keys.push(key);
            }
        }
        assert_eq!(failures(&inbox, &records).await, failed);
        assert_eq!(keys.len(), 9);
        for key in &keys {
            assert_eq!(state(&inbox, key).await, "done", "{key}");
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_failed_message_without_an_id_brings_back_the_whole_batch() {
    let inbox = Inbox::shared().await;
    let without_id = |body: &str| {
        let mut record = record("", body);
        record.as_object_mut().unwrap().remove("messageId");
        record
    };
    let key = inbox.new_event().await;
    let records = [
        record("good", &work_message(&key)),
        without_id(r#"{"v":2,"key":"E#github-main#1","run":0}"#),
    ];
    // If the response contains an id that is not in the batch, the queue treats all records as
    // failed.
    assert_eq!(failures(&inbox, &records).await, [""]);
    assert_eq!(state(&inbox, &key).await, "done");
    let key = inbox.new_event().await;
    assert_eq!(
        failures(&inbox, &[without_id(&work_message(&key))]).await,
        [""; 0]
    );
    assert_eq!(state(&inbox, &key).await, "done");
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_message_for_nothing_and_a_second_one_are_acknowledged() {
    let inbox = Inbox::shared().await;
    let nothing = EventKey::new("github-main", &unique());
    assert_eq!(
        failures(&inbox, &[record("1", &work_message(&nothing))]).await,
        [""; 0]
    );
    assert_eq!(inbox.find(&nothing).await, None, "a message creates no row");

    let key = inbox.new_event().await;
    let same: Vec<_> = (0..10)
        .map(|n| record(&n.to_string(), &work_message(&key)))
        .collect();
    assert_eq!(failures(&inbox, &same).await, [""; 0]);
    let done = inbox.row(&key).await;
    assert_eq!(done["st"], s("done"));
    assert_eq!((&done["att"], &done["epoch"]), (&n(1), &n(1)));
    assert_eq!(failures(&inbox, &same).await, [""; 0]);
    assert_eq!(inbox.row(&key).await, done);
    inbox.is_unharmed();
}

#[tokio::test]
async fn attributes_of_other_code_outlive_the_work() {
    let inbox = Inbox::shared().await;
    for version in [1, 2] {
        let key = inbox.new_event().await;
        let mut row = inbox.row(&key).await;
        let unknown =
            AttributeValue::M([("a".to_owned(), AttributeValue::L(vec![n(1), s("b")]))].into());
        row.insert("sv".to_owned(), n(version));
        row.insert("zz".to_owned(), unknown.clone());
        row.insert("flags".to_owned(), AttributeValue::Ss(vec!["x".to_owned()]));
        inbox.put(row).await;
        assert_eq!(
            failures(&inbox, &[record("1", &work_message(&key))]).await,
            [""; 0]
        );
        let row = inbox.row(&key).await;
        assert_eq!(
            (&row["st"], &row["sv"], &row["zz"]),
            (&s("done"), &n(version), &unknown)
        );
        assert_eq!(row["flags"], AttributeValue::Ss(vec!["x".to_owned()]));
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_row_of_newer_code_is_not_processed() {
    let inbox = Inbox::shared().await;
    for version in [3, 4, 1_000_000] {
        let key = inbox.new_event().await;
        let mut row = inbox.row(&key).await;
        row.insert("sv".to_owned(), n(version));
        inbox.put(row.clone()).await;
        assert_eq!(
            failures(&inbox, &[record("newer", &work_message(&key))]).await,
            ["newer"]
        );
        assert_eq!(inbox.row(&key).await, row);
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_damaged_row_is_its_own_trouble() {
    let inbox = Inbox::shared().await;
    for missing in ["bref", "cr", "rcv", "run"] {
        let (bad, good) = (inbox.new_event().await, inbox.new_event().await);
        let mut row = inbox.row(&bad).await;
        row.remove(missing).unwrap();
        inbox.put(row).await;
        let records = [
            record("bad", &work_message(&bad)),
            record("good", &work_message(&good)),
        ];
        assert_eq!(failures(&inbox, &records).await, ["bad"], "{missing}");
        assert_eq!(state(&inbox, &good).await, "done");
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn an_event_whose_source_is_gone_waits_for_it() {
    let inbox = Inbox::shared().await;
    let known = inbox.new_event().await;
    let gone = EventKey::new("no-longer-there", known.id());
    let mut row = inbox.row(&known).await;
    row.insert("pk".to_owned(), s(gone.pk()));
    inbox.put(row.clone()).await;
    assert_eq!(
        failures(&inbox, &[record("1", &work_message(&gone))]).await,
        [""; 0]
    );
    assert_eq!(inbox.row(&gone).await, row);
    inbox.is_unharmed();
}

#[tokio::test]
async fn an_event_that_is_no_task_is_an_error_and_the_process_survives() {
    let inbox = Inbox::shared().await;
    for (function, event, good) in [
        (
            "Processor",
            json!({ "Records": 1 }),
            json!({ "Records": [] }),
        ),
        (
            "Processor",
            json!({ "Records": [{ "messageId": 1 }] }),
            json!({ "Records": [] }),
        ),
        ("Processor", json!("hello"), json!({ "Records": [] })),
        ("BackupSync", json!({}), json!({ "task": "sweep" })),
        (
            "BackupSync",
            json!({ "task": "dance" }),
            json!({ "task": "sweep" }),
        ),
        (
            "BackupSync",
            json!({ "task": "sync", "source": "unknown" }),
            json!({ "task": "sweep" }),
        ),
        ("BackupSync", json!([]), json!({ "task": "sweep" })),
    ] {
        inbox.invoke(function, &good).await.json().unwrap();
        let before = inbox.stack.function_processes(function).unwrap();
        let error = inbox.error(function, &event).await;
        assert!(!error.contains("panic"), "{event}: {error}");
        inbox.invoke(function, &good).await.json().unwrap();
        assert_eq!(
            inbox.stack.function_processes(function).unwrap(),
            before,
            "{event}: {error}"
        );
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_wrong_file_of_sources_keeps_every_function_from_starting() {
    let good = std::fs::read_to_string(testkit::root().join("infra/testkit/sources.toml")).unwrap();
    let line = 1 + good
        .lines()
        .position(|line| line == r#"preset = "github""#)
        .unwrap();
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("functions-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sources.toml");
    for (from, to, said) in [
        (
            "preset = \"github\"",
            "presett = \"github\"",
            ["presett".to_owned(), format!("line {line}")],
        ),
        (
            "preset = \"github\"",
            "preset = \"github",
            ["invalid".to_owned(), format!("line {line}")],
        ),
        (
            "\"github\"",
            "\"gihtub\"",
            ["gihtub".to_owned(), "source \"github-main\"".to_owned()],
        ),
    ] {
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let options = Options {
            sources_file: Some(path.clone()),
            ..options()
        };
        let inbox = Inbox::start(options).await;
        for function in ["Catcher", "Processor", "BackupSync"] {
            let error = inbox.error(function, &json!({})).await;
            for said in said.iter().chain([&path.display().to_string()]) {
                assert!(
                    error.contains(said),
                    "the error of {function} does not contain {said:?}: {error}"
                );
            }
        }
        inbox.stack.stop().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

#[tokio::test]
async fn what_a_worker_abandoned_is_worked_on_last_and_alone() {
    let inbox = Inbox::shared().await;
    let abandoned = inbox.new_event().await;
    let mut row = inbox.row(&abandoned).await;
    let a_while_ago = AttributeValue::N((UnixMillis::now().0 - 60_000).to_string());
    row.insert("st".into(), s("processing"));
    row.insert("own".into(), s("processor/gone"));
    row.insert("lu".into(), a_while_ago);
    inbox.put(row).await;
    let mut keys = vec![abandoned.clone()];
    for _ in 0..9 {
        keys.push(inbox.new_event().await);
    }
    let records: Vec<_> = keys
        .iter()
        .map(|key| record("1", &work_message(key)))
        .collect();

    assert_eq!(failures(&inbox, &records).await, [""; 0]);

    let mut ended = Vec::new();
    for key in &keys {
        let row = inbox.row(key).await;
        let at: i64 = row["done_at"].as_n().unwrap().parse().unwrap();
        ended.push(at);
    }
    assert!(
        ended.iter().all(|at| *at <= ended[0]),
        "the event ended before others: {ended:?}"
    );
    assert_eq!(inbox.row(&abandoned).await["cr"].as_n().unwrap(), "1");
    inbox.is_unharmed();
}
