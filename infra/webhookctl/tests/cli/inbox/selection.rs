//! Tests every flag of the selection with `inbox list`.

use std::time::Duration;

use shared::inbox::ledger::Settlement;
use shared::webhook::event::Via;

use super::world::{New, World, dead, failed, keys, stderr, stdout};
use crate::support::folder::words;

const THREE_DAYS: u64 = 3 * 24 * 60;

/// Stores six events. `a` is done, `b` failed, `c` is a dead letter and `d` is new. They are ten
/// minutes apart. `e` is done and `f` is a dead letter, both from three days ago.
async fn six_events(name: &str) -> World {
    let world = World::start(name).await;
    let retry = failed(
        "GitHub API 502 during issue creation",
        world.now + Duration::from_secs(600),
    );
    for new in [
        New {
            minutes_ago: 10,
            end: Some(Settlement::Done),
            ..New::of("stripe-main", "a")
        },
        New {
            kind: "invoice.failed",
            minutes_ago: 20,
            end: Some(retry),
            ..New::of("stripe-main", "b")
        },
        New {
            kind: "issues.opened",
            minutes_ago: 30,
            end: Some(dead("422 it exists already")),
            ..New::of("github-main", "c")
        },
        New {
            kind: "push",
            via: Via::BackupSync,
            minutes_ago: 40,
            ..New::of("github-main", "d")
        },
        New {
            kind: "charge.updated",
            minutes_ago: THREE_DAYS,
            end: Some(Settlement::Done),
            ..New::of("stripe-main", "e")
        },
        New {
            minutes_ago: THREE_DAYS + 1,
            end: Some(dead("connection refused")),
            ..New::of("stripe-main", "f")
        },
    ] {
        world.put(new).await;
    }
    world
}

#[tokio::test]
async fn each_flag_chooses_what_it_says() {
    let world = six_events("flags").await;
    let failed = world.json(&["inbox", "list", "--status", "failed"]).await;
    let fingerprint = failed["items"][0]["error_fingerprint"]
        .as_str()
        .unwrap()
        .to_owned();
    let id_of_a = world.json(&["inbox", "inspect", "stripe-main:a"]).await;
    let id_of_a = id_of_a["id"].as_str().unwrap().to_owned();
    let cases: [(&[&str], &str); 29] = [
        (&[], "abcd"),
        (&["--reverse"], "dcba"),
        (&["-s", "stripe-main"], "ab"),
        (&["--source", "strip*"], "ab"),
        (&["-s", "stripe-main", "-s", "github-main"], "abcd"),
        (&["-t", "invoice.*"], "ab"),
        (&["-t", "invoice.paid", "-t", "push"], "ad"),
        (&["-t", "invoice"], ""),
        (&["--status", "failed"], "b"),
        (&["--status", "received"], "d"),
        // The command finds open events of any age.
        (&["--status", "dead_letter"], "cf"),
        (&["--status", "dead_letter", "--reverse"], "fc"),
        (&["--status", "dead_letter", "--since", "1d"], "c"),
        (&["--status", "dead_letter", "--until", "1d"], "f"),
        (&["--status", "failed", "--status", "dead_letter"], "bcf"),
        (&["--status", "done"], "a"),
        (&["--status", "done", "--since", "7d"], "ae"),
        (&["--status", "done", "--status", "failed"], "ab"),
        (&["--since", "25m"], "ab"),
        (&["--until", "15m"], "bcd"),
        (&["--since", "7d", "--until", "1d"], "ef"),
        (&["--error", &fingerprint], "b"),
        (&["--error", "permanent"], "c"),
        (&["--via", "backup_sync"], "d"),
        (&["--attempts", "1"], "abc"),
        (
            &["--id", &id_of_a, "--id", "github-main:c", "--id", "f"],
            "acf",
        ),
        (&["--id", &id_of_a[..20], "--status", "failed"], ""),
        (&["--where", "data.object.customer=cus_b"], "b"),
        (
            &words("--where data.object.customer=cus_f --status dead_letter"),
            "f",
        ),
    ];
    for (flags, expected) in cases {
        assert_eq!(world.listed(flags).await.concat(), expected, "{flags:?}");
    }
}

#[tokio::test]
async fn a_list_goes_on_where_it_stopped() {
    let world = six_events("cursor").await;
    for (flags, expected) in [
        (&["--since", "7d"][..], ["ab", "cd", "ef"]),
        (&["--since", "7d", "--reverse"], ["fe", "dc", "ba"]),
        (
            &words("--status failed --status dead_letter --status received"),
            ["bc", "df", ""],
        ),
    ] {
        let mut after: Option<String> = None;
        for page in expected.iter().filter(|page| !page.is_empty()) {
            let mut line = [&["inbox", "list", "-n", "2"], flags].concat();
            if let Some(after) = &after {
                line.extend(["--after", after]);
            }
            let list = world.json(&line).await;
            let (mut found, mut wanted) = (keys(&list), vec![]);
            wanted.extend(page.chars().map(String::from));
            if found.len() == 2
                && list["items"][0]["received_at"] == list["items"][1]["received_at"]
            {
                found.sort();
                wanted.sort();
            }
            assert_eq!(found, wanted, "{flags:?} after {after:?}");
            after = list["next_cursor"].as_str().map(str::to_owned);
            assert_eq!(list["truncated"], after.is_some());
        }
        assert_eq!(after, None, "the last page has no cursor");
    }
}

#[tokio::test]
async fn ids_that_a_list_printed_are_read_back() {
    let world = World::start("ids").await;
    let begin = world.ago(120);
    for number in 0..7 {
        let id = format!("evt_{number}");
        let at = begin + Duration::from_secs(number);
        world.put_at(at, New::of("stripe-main", &id)).await;
    }
    let printed = stdout(&world.run(&["inbox", "list", "-o", "ids"]).await);
    assert_eq!(printed.lines().count(), 7);
    let line = ["inbox", "list", "--id", "-", "-o", "ids"];
    let back = world
        .run_with(&line, &format!("{printed}\n{printed}"))
        .await;
    assert_eq!(stdout(&back), printed, "{}", stderr(&back));
    let nothing = world.run_with(&line, "\n").await;
    assert_eq!(nothing.status.code(), Some(2));
    let unknown = world
        .run_with(&line, &format!("{printed}evt_nobody\n"))
        .await;
    assert_eq!(unknown.status.code(), Some(3));
    assert!(stderr(&unknown).contains("evt_nobody"));
}

#[tokio::test]
async fn events_of_one_millisecond_are_all_listed_once() {
    let world = World::start("same-time").await;
    for number in 0..30 {
        let kinds = ["a", "b", "c"];
        let id = format!("evt_{number}");
        let new = New {
            kind: kinds[number % 3],
            ..New::of("stripe-main", &id)
        };
        world.put_at(world.ago(5), new).await;
    }
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut line = vec!["inbox", "list", "-n", "7"];
        if let Some(after) = &after {
            line.extend(["--after", after]);
        }
        let list = world.json(&line).await;
        seen.extend(keys(&list));
        after = list["next_cursor"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 30);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 30);
}

#[tokio::test]
async fn bodies_are_announced_before_they_are_read() {
    let world = six_events("where").await;
    let line = ["inbox", "list", "--where", "data.object.customer=cus_b"];
    let list = world.run(&line).await;
    assert!(
        stderr(&list).contains("--where reads up to 4 bodies since"),
        "{}",
        stderr(&list)
    );
    let quiet = world.run(&[&line[..], &["-q"]].concat()).await;
    assert_eq!(stderr(&quiet), "");
}

#[tokio::test]
async fn what_cannot_be_meant_is_answered() {
    let world = six_events("wrong").await;
    for (flags, exit, said) in [
        (&["-s", "strip-main"][..], 2, "did you mean 'stripe-main'?"),
        (&["-s", "unknown*"], 2, "unknown source 'unknown*'"),
        (&["--where", "a..b=1"], 2, "invalid path 'a..b'"),
        (&["--after", "x"], 2, "invalid cursor 'x'"),
        (&["--id", "evt_none"], 3, "no event 'evt_none'"),
        (&["--since", "90d"], 2, "at most 31 days"),
        (&["--status", "dead"], 2, "did you mean 'dead_letter'?"),
        (&["--via", "sync"], 2, "unknown --via value 'sync'"),
        (
            &["--columns", "id,stat"],
            2,
            "unknown or repeated column 'stat'",
        ),
        (&["--query", "items["], 2, "is not a JMESPath expression"),
    ] {
        let output = world.run(&[&["inbox", "list"], flags].concat()).await;
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{flags:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(said),
            "{flags:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty());
    }
    let none = world
        .run(&["inbox", "list", "--status", "processing"])
        .await;
    assert!(none.status.success() && none.stdout.is_empty());
    let said = "No events match (source=any, status=processing, since=any).";
    assert!(stderr(&none).contains(said), "{}", stderr(&none));
}

#[tokio::test]
async fn a_list_shows_the_columns_that_were_named() {
    let world = six_events("columns").await;
    let line = words("inbox list -o csv --columns dedupe_key,status");
    let csv = stdout(&world.run(&line).await);
    assert_eq!(
        csv,
        "dedupe_key,status\r\na,done\r\nb,failed\r\nc,dead_letter\r\nd,received\r\n"
    );
    let table = stdout(
        &world
            .run(&["inbox", "list", "--columns", "status,dedupe_key"])
            .await,
    );
    assert!(
        table.starts_with("STATUS       DEDUPE KEY\ndone         a\n"),
        "{table}"
    );
}

#[tokio::test]
async fn a_query_takes_a_part_of_the_document() {
    let world = six_events("query").await;
    let query = "items[?status=='failed'].{key: dedupe_key, next: next_action.code}";
    let output = world.run(&["inbox", "list", "--query", query]).await;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        found,
        serde_json::json!([{"key": "b", "next": "auto_retry"}])
    );
}
