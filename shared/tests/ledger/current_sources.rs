//! Tests how a process follows the applied versions of the sources.

use std::collections::BTreeSet;

use shared::aws::secrets::Managed;
use shared::inbox::current_sources::{CurrentSources, Lookup};
use shared::inbox::ledger::Ledger;
use shared::inbox::source_versions::SourceVersions;
use shared::sources::{Bounds, Config};

use crate::source_versions::{apply, file};
use crate::support::{NOW, Table, after, n, s};

/// Returns the sources of a process whose built-in file has the source `one`.
fn process(ledger: &Ledger) -> CurrentSources {
    let built_in = Config::parse(&file(&["one"])).unwrap();
    let bounds = Bounds::new("", &built_in);
    let versions = SourceVersions::beside(ledger);
    CurrentSources::fixed(built_in).following(versions, bounds, ledger.clone(), Managed::default())
}

fn has(name: &str) -> impl Fn(&Config) -> bool + '_ {
    move |config| config.source(name).is_some()
}

fn names(sources: &CurrentSources) -> BTreeSet<String> {
    let config = sources.config();
    config.sources().map(|source| source.name.clone()).collect()
}

#[tokio::test]
async fn an_empty_table_means_the_built_in_file() {
    let table = Table::fresh().await;
    let sources = process(&table.ledger);
    assert!(sources.is_unread());
    sources.refresh(NOW).await;
    assert!(!sources.is_unread());
    assert_eq!(names(&sources), ["one".to_owned()].into());
    assert!(!sources.report().failed);
    assert!(matches!(
        sources.find(has("two"), NOW).await,
        Lookup::Unknown
    ));
}

#[tokio::test]
async fn a_process_reads_the_pointer_once_a_minute() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let reads = || proxy.count().get("GetItem").copied().unwrap_or(0);
    apply(&table, &file(&["two"]), 0).await;
    let sources = process(&ledger);
    sources.refresh(NOW).await;
    assert_eq!(reads(), 1, "the pointer has the text");
    assert_eq!(names(&sources), ["two".to_owned()].into());
    for ms in [1, 30_000, 59_999] {
        assert!(!sources.is_due(after(ms)));
        sources.refresh(after(ms)).await;
        assert!(matches!(
            sources.find(has("two"), after(ms)).await,
            Lookup::Found(_)
        ));
    }
    assert_eq!(reads(), 1);
    assert!(sources.is_due(after(60_000)));
    sources.refresh(after(60_000)).await;
    assert_eq!(reads(), 2, "the version is known");
    apply(&table, &file(&["three"]), 1).await;
    sources.refresh(after(120_000)).await;
    assert_eq!(reads(), 3);
    assert_eq!(names(&sources), ["three".to_owned()].into());
    assert_eq!(sources.report().version, Some(2));
}

/// A version with the text of the built-in file needs no second read.
#[tokio::test]
async fn the_built_in_text_is_not_read_again() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    apply(&table, &file(&["one"]), 0).await;
    let sources = process(&ledger);
    sources.refresh(NOW).await;
    assert_eq!(proxy.count()["GetItem"], 1);
    assert_eq!(sources.report().version, Some(1));
}

#[tokio::test]
async fn an_unknown_source_causes_one_read_in_ten_seconds() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let reads = || proxy.count().get("GetItem").copied().unwrap_or(0);
    let sources = process(&ledger);
    sources.refresh(NOW).await;
    apply(&table, &file(&["one", "two"]), 0).await;
    assert!(matches!(
        sources.find(has("two"), after(1)).await,
        Lookup::Found(_)
    ));
    assert_eq!(reads(), 2, "the pointer has the text");
    for (ms, name) in [(2, "a"), (5_000, "b"), (10_000, "a")] {
        assert!(matches!(
            sources.find(has(name), after(ms)).await,
            Lookup::Unknown
        ));
    }
    assert_eq!(reads(), 2);
    assert!(matches!(
        sources.find(has("a"), after(10_001)).await,
        Lookup::Unknown
    ));
    assert_eq!(reads(), 3);
    // This read counts for the minute too.
    assert!(!sources.is_due(after(70_000)));
}

#[tokio::test]
async fn while_the_table_cannot_be_read_no_source_is_unknown() {
    let table = Table::fresh().await;
    let sources = process(&table.ledger);
    let mut pointer = shared::inbox::ledger::Item::new();
    pointer.insert("pk".to_owned(), s("CFG"));
    pointer.insert("sk".to_owned(), s("CURRENT"));
    table.put(pointer).await;
    sources.refresh(NOW).await;
    assert_eq!(names(&sources), ["one".to_owned()].into());
    assert!(matches!(
        sources.find(has("one"), NOW).await,
        Lookup::Found(_)
    ));
    for ms in [1, 2, 5_000] {
        let found = sources.find(has("two"), after(ms)).await;
        assert!(matches!(found, Lookup::Unreadable), "{found:?}");
    }
    table.delete("CFG", "CURRENT").await;
    assert!(matches!(
        sources.find(has("two"), after(10_001)).await,
        Lookup::Unknown
    ));
}

#[tokio::test]
async fn a_version_that_cannot_be_used_changes_nothing() {
    let table = Table::fresh().await;
    let sources = process(&table.ledger);
    apply(&table, &file(&["two"]), 0).await;
    sources.refresh(NOW).await;
    let newer = file(&["three"]).replace("schema = 1", "schema = 2");
    let elsewhere = format!(
        "{}[forward]\nallow_hosts = [\"evil.example\"]\n",
        file(&["four"])
    );
    let mut at = 0;
    for (seen, text) in [(1, newer), (2, "no toml".to_owned()), (3, elsewhere)] {
        apply(&table, &text, seen).await;
        at += 60_000;
        sources.refresh(after(at)).await;
        assert_eq!(names(&sources), ["two".to_owned()].into(), "{text}");
        let report = sources.report();
        assert_eq!((report.version, report.failed), (Some(1), true), "{text}");
        assert!(matches!(
            sources.find(has("two"), after(at)).await,
            Lookup::Found(_)
        ));
        assert!(matches!(
            sources.find(has("three"), after(at)).await,
            Lookup::Unreadable
        ));
    }
    apply(&table, &file(&["five"]), 4).await;
    sources.refresh(after(at + 60_000)).await;
    assert_eq!(names(&sources), ["five".to_owned()].into());
    assert!(!sources.report().failed);
}

/// A replica that is behind, or an item that an operator deleted, must not undo a version.
#[tokio::test]
async fn an_older_or_missing_pointer_is_ignored() {
    let table = Table::fresh().await;
    let sources = process(&table.ledger);
    apply(&table, &file(&["two"]), 0).await;
    apply(&table, &file(&["three"]), 1).await;
    sources.refresh(NOW).await;
    let mut pointer = table.item("CFG", "CURRENT").await.unwrap();
    pointer.insert("v".to_owned(), n(1));
    table.put(pointer).await;
    sources.refresh(after(60_000)).await;
    assert_eq!(names(&sources), ["three".to_owned()].into());
    assert!(!sources.report().failed);
    table.delete("CFG", "CURRENT").await;
    sources.refresh(after(120_000)).await;
    assert_eq!(names(&sources), ["three".to_owned()].into());
    assert!(sources.report().failed);
}

#[tokio::test]
async fn a_read_that_does_not_end_counts_as_failed() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let sources = process(&ledger);
    let held = proxy.hold("GetItem", "CURRENT");
    let (refresh, arrived) = (sources.refresh(NOW), held.arrived);
    tokio::select! {
        () = refresh => panic!("the read has ended"),
        arrived = arrived => arrived.unwrap(),
    }
    assert!(sources.report().failed);
    assert!(
        !sources.is_due(after(1)),
        "a dropped read counts for the minute"
    );
    assert!(matches!(
        sources.find(has("one"), after(1)).await,
        Lookup::Found(_)
    ));
}

#[tokio::test]
async fn the_ledger_follows_the_version() {
    let table = Table::fresh().await;
    let sources = process(&table.ledger);
    let clone = table.ledger.clone();
    let days = "retention = { bodies = \"7d\" }";
    let text = file(&["one"]).replace("action =", &format!("{days}\naction ="));
    apply(&table, &text, 0).await;
    sources.refresh(NOW).await;
    let event = crate::support::event_of("one", "evt_1", crate::support::noise(2_000));
    let placed = clone.store_body(&event).await.unwrap();
    clone
        .receive_stored(
            &event,
            &placed,
            shared::inbox::ledger::FoundBy::TimeIndex,
            NOW,
        )
        .await
        .unwrap();
    let all = table.all().await;
    let ttl = all.iter().find_map(|item| {
        let is_body = item["sk"].as_s().is_ok_and(|sk| sk.starts_with("B#"));
        is_body.then(|| crate::support::number(item, "ttl"))
    });
    assert_eq!(ttl, Some(NOW.secs() + 7 * 24 * 3600));
}

#[tokio::test]
async fn the_heartbeat_describes_the_sources() {
    let table = Table::fresh().await;
    let operations = table.ledger.operations();
    operations.beat("drain", NOW).await.unwrap();
    assert_eq!(operations.sources_report().await.unwrap(), None);
    let sources = process(&table.ledger);
    apply(&table, &file(&["two"]), 0).await;
    sources.refresh(NOW).await;
    let report = sources.report();
    assert!(report.from_table);
    assert_eq!(report.schema, shared::sources::SCHEMA);
    operations
        .beat_about("sweep", Some(&report), after(1))
        .await
        .unwrap();
    let built_in = CurrentSources::fixed(Config::parse(&file(&["one"])).unwrap()).report();
    operations
        .beat_about("sync", Some(&built_in), NOW)
        .await
        .unwrap();
    let newest = operations.sources_report().await.unwrap();
    assert_eq!(newest, Some((after(1), report)));
}
