//! Read commands send few requests, and only read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use shared::base::calendar::{Day, Hour};

use super::proxy::Proxy;
use super::world::{New, World, dead, stderr};

/// The number of partitions of an hour of a source, and of the `work` index.
const TIME_PARTS: usize = 4;
const WORK_PARTS: usize = 8;

/// The sources in the configuration of the deployment.
const NAMES: [&str; 5] = [
    "fireflies-main",
    "github-main",
    "slack-main",
    "standard-main",
    "stripe-main",
];
const SOURCES: usize = NAMES.len();

async fn counted(name: &str) -> (World, Proxy) {
    let mut world = World::start(name).await;
    let proxy = Proxy::start(&world.dynamodb).await;
    world.dynamodb.clone_from(&proxy.url);
    (world, proxy)
}

/// The newest events are in one of two busy hours, so the list needs only the partitions of that hour.
#[tokio::test]
async fn a_list_opens_one_busy_hour_at_a_time() {
    let (world, proxy) = counted("busy").await;
    let hour = Hour::of(world.ago(0));
    for before in [2, 1] {
        for number in 0..80_u64 {
            let at = hour.before(before).begins() + Duration::from_secs(number);
            let id = format!("evt_{before}_{number}");
            let new = New::of("stripe-main", &id);
            world.put_at(at, new).await;
        }
    }
    let list = world.run(&["inbox", "list", "-n", "20"]).await;
    assert!(stderr(&list).contains("20 newest since"), "{list:?}");
    // The read of the active hours, a partition of each day and source, and those of one hour.
    let days: BTreeSet<Day> = (0..3)
        .map(|before| Day::of(hour.before(before).begins()))
        .collect();
    let first = 1 + days.len() * SOURCES + TIME_PARTS;
    let queries = of(&proxy.operations(), "Query");
    // A partition can need a second page.
    assert!((first..first + TIME_PARTS).contains(&queries), "{queries}");
}

/// The 24 hours of a source are a few partitions, and four more for each busy hour.
#[tokio::test]
async fn a_source_is_shown_without_a_query_for_each_hour() {
    let (world, proxy) = counted("source").await;
    let hour = Hour::of(world.ago(0));
    for (before, count) in [(20, 1), (9, 80), (2, 30)] {
        for number in 0..count {
            let at = hour.before(before).begins() + Duration::from_secs(number);
            let id = format!("evt_{before}_{number}");
            world.put_at(at, New::of("stripe-main", &id)).await;
        }
    }
    let show = world
        .run(&["sources", "show", "stripe-main", "-o", "json"])
        .await;
    let shown: serde_json::Value = serde_json::from_slice(&show.stdout).unwrap();
    assert_eq!(shown["last_24h"]["count"], 111, "{shown}");
    let queries = of(&proxy.operations(), "Query");
    assert!(queries <= 60, "{queries}");
}

/// The sweep has counted the events of the current hour up to its checkpoint. If few sources are busy,
/// the commands also read all events since then. If many are, they read a part of them, and say so.
#[tokio::test]
async fn the_current_hour_of_busy_sources_is_counted_with_few_queries() {
    let (world, proxy) = counted("current-hour").await;
    let begins = Hour::of(world.now).begins();
    let sweep = world.ledger.sweep();
    let mut checkpoint = sweep.begin_sweep_checkpoint(world.now).await.unwrap();
    checkpoint.at = begins + Duration::from_millis(39);
    let mut arrived = BTreeMap::new();
    for source in NAMES {
        for number in 0..100_u64 {
            let id = format!("evt_{source}_{number}");
            let at = begins + Duration::from_millis(number);
            world.put_at(at, New::of(source, &id)).await;
        }
        arrived.insert(source.to_owned(), 40);
    }
    checkpoint.add_arrived(begins, Some(&arrived));
    let stored = sweep.store_sweep_checkpoint(&checkpoint);
    stored.await.unwrap();
    proxy.operations();

    let rows = async |line: &[&str]| {
        let shown = world.json(line).await;
        let operations = proxy.operations();
        (shown["items"].as_array().unwrap().clone(), operations)
    };
    let one = ["inbox", "stats", "-s", NAMES[0]];
    let (items, operations) = rows(&one).await;
    assert_eq!(
        items[0]["received"],
        json!({"count": 100, "or_more": false})
    );
    // The stored counts, the active hours, the partitions of two days, and the `work` index.
    let others = 2 + 2 + 2 * WORK_PARTS;
    assert_eq!(
        of(&operations, "Query"),
        others + TIME_PARTS,
        "{operations:?}"
    );

    let all = ["inbox", "stats"];
    let (items, operations) = rows(&all).await;
    assert_eq!(items.len(), SOURCES);
    for item in &items {
        let received = &item["received"];
        let count = received["count"].as_u64().unwrap();
        assert!((64..=100).contains(&count), "{item}");
        assert_eq!(received["or_more"], true, "{item}");
    }
    let others = 2 + 2 * SOURCES + 2 * WORK_PARTS;
    assert_eq!(of(&operations, "Query"), others + SOURCES, "{operations:?}");

    let (items, _) = rows(&["sources", "list"]).await;
    for item in &items {
        assert_eq!(item["open"]["or_more"], true, "{item}");
        // One of the four partitions has one of the newest events.
        let last = item["last_event_at"].as_str().unwrap();
        let last = last.split_once('.').unwrap().1.trim_end_matches('Z');
        assert!(last.parse::<u64>().unwrap() >= 64, "{item}");
    }

    // The number of each type is not in the checkpoint, so all events are read.
    let by_type = ["inbox", "stats", "--by", "type"];
    let (items, _) = rows(&by_type).await;
    assert_eq!(items.len(), SOURCES);
    for item in &items {
        let all = json!({"count": 100, "or_more": false});
        assert_eq!(item["received"], all, "{item}");
    }
}

/// The sweep has passed the events of a new source that it did not know yet.
#[tokio::test]
async fn an_event_that_the_sweep_has_not_seen_is_counted() {
    let (world, _) = counted("unseen").await;
    let begins = Hour::of(world.now).begins();
    world
        .put_at(begins, New::of("stripe-main", "evt_first"))
        .await;
    let sweep = world.ledger.sweep();
    let mut checkpoint = sweep.begin_sweep_checkpoint(world.now).await.unwrap();
    checkpoint.at = begins + Duration::from_millis(1);
    checkpoint.add_arrived(begins, Some(&BTreeMap::new()));
    let stored = sweep.store_sweep_checkpoint(&checkpoint);
    stored.await.unwrap();
    let stats = world.json(&["inbox", "stats", "-s", "stripe-main"]).await;
    let one = json!({"count": 1, "or_more": false});
    assert_eq!(stats["items"][0]["received"], one, "{stats}");
}

/// The counts of rejected requests tell which days have some. The counts of the oldest two days may
/// have expired before the requests.
#[tokio::test]
async fn a_day_without_rejected_requests_is_not_queried() {
    let (world, proxy) = counted("rejected").await;
    let list = world.run(&["quarantine", "list"]).await;
    assert!(list.status.success(), "{}", stderr(&list));
    let operations = proxy.operations();
    let oldest = 2 * SOURCES * TIME_PARTS;
    assert_eq!(of(&operations, "Query"), oldest, "{operations:?}");
    assert_eq!(
        of(&operations, "BatchGetItem"),
        2 * SOURCES,
        "{operations:?}"
    );
}

fn of(operations: &BTreeMap<String, usize>, name: &str) -> usize {
    operations.get(name).copied().unwrap_or(0)
}

#[tokio::test]
async fn a_list_reads_about_what_it_shows() {
    let (world, proxy) = counted("calls").await;
    // All events are within one hour, at any time of day.
    let hour = world.ago(60).0.div_euclid(3_600_000) * 3_600_000;
    for number in 0..300_u64 {
        let id = format!("evt_{number}");
        let at = shared::base::clock::UnixMillis(hour) + Duration::from_secs(number);
        let end = (number % 3 == 0).then(|| dead("connection refused"));
        let new = New {
            end,
            ..New::of("stripe-main", &id)
        };
        world.put_at(at, new).await;
    }

    let list = world.run(&["inbox", "list", "-n", "20"]).await;
    let footer = stderr(&list);
    assert!(footer.contains("20 newest since"), "{footer}");
    assert!(
        footer.contains("us-east-1 · ") && footer.contains(" read units"),
        "{footer}"
    );
    assert!(!footer.contains(" 0.0 read units"), "{footer}");
    let operations = proxy.operations();
    // The command reads the current hour, which may be empty, and at most the two hours before it.
    assert!(
        of(&operations, "Query") <= 4 * SOURCES * TIME_PARTS,
        "{operations:?}"
    );
    assert_eq!(of(&operations, "BatchGetItem"), 1, "{operations:?}");

    let list = world
        .run(&["inbox", "list", "-n", "20", "--status", "dead_letter"])
        .await;
    assert!(list.status.success(), "{}", stderr(&list));
    let operations = proxy.operations();
    assert_eq!(of(&operations, "Query"), WORK_PARTS, "{operations:?}");
    assert_eq!(
        of(&operations, "BatchGetItem"),
        1,
        "a hundred dead letters: {operations:?}"
    );
    // The command also reads the version of the sources in force.
    assert_eq!(of(&operations, "GetItem"), 1, "{operations:?}");
    assert_eq!(
        operations.values().sum::<usize>(),
        WORK_PARTS + 2,
        "{operations:?}"
    );
}

#[tokio::test]
async fn reading_verbs_only_read() {
    let (world, proxy) = counted("reads").await;
    let end = Some(dead("connection refused"));
    let one = New {
        end,
        ..New::of("stripe-main", "one")
    };
    let two = New::of("stripe-main", "two");
    world.put(one).await;
    world.put(two).await;
    for line in [
        &["inbox", "list"][..],
        &["inbox", "list", "--status", "dead_letter"],
        &["inbox", "list", "--where", "id=one"],
        &["inbox", "list", "--id", "one"],
        &["inbox", "inspect", "one", "--full"],
        &["inbox", "inspect", "one", "--watch"],
        &["inbox", "trace", "one"],
        &["inbox", "body", "one"],
        &["inbox", "diff", "one", "two"],
    ] {
        let output = world.run(line).await;
        let code = output.status.code().unwrap();
        assert!([0, 1, 6].contains(&code), "{line:?}: {}", stderr(&output));
        let operations = proxy.operations();
        let reading = ["Query", "GetItem", "BatchGetItem"];
        assert!(!operations.is_empty(), "{line:?}");
        assert!(
            operations
                .keys()
                .all(|name| reading.contains(&name.as_str())),
            "{line:?}: {operations:?}"
        );
    }
    let mut tail = world
        .command(&["inbox", "tail", "--since", "1h"])
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    tail.kill().await.unwrap();
    let operations = proxy.operations();
    assert!(of(&operations, "Query") > 0);
    let reading = ["Query", "GetItem", "BatchGetItem"];
    assert!(
        operations
            .keys()
            .all(|name| reading.contains(&name.as_str())),
        "{operations:?}"
    );
}

#[tokio::test]
async fn where_only_reading_is_allowed_an_export_is_refused() {
    let (world, proxy) = counted("read-only").await;
    world.put(New::of("stripe-main", "one")).await;
    let line = ["inbox", "export", "-f", "x.jsonl"];
    let mut export = world.command(&line);
    let refused = export
        .env("WEBHOOKCTL_READ_ONLY", "1")
        .output()
        .await
        .unwrap();
    assert_eq!(refused.status.code(), Some(7), "{}", stderr(&refused));
    let operations = proxy.operations();
    let sources = of(&operations, "GetItem");
    assert_eq!((sources, operations.len()), (1, 1), "{operations:?}");
    let mut list = world.command(&["inbox", "list"]);
    let list = list
        .env("WEBHOOKCTL_READ_ONLY", "1")
        .output()
        .await
        .unwrap();
    assert!(list.status.success(), "{}", stderr(&list));
}
