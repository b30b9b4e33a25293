//! Tests the versions of the sources: only one of several operators applies the next version.

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, Through};
use shared::inbox::source_versions::{Applied, Consistency, KEPT, NewVersion, SourceVersions};
use shared::sources::Config;

use crate::support::{NOW, Table, after, n, noise, number, s};

/// Returns a sources file with these sources.
pub(crate) fn file(names: &[&str]) -> String {
    let sources = names.iter().map(|name| {
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"github\"\naction = [{{ kind = \"keep\" }}]\n"
        )
    });
    format!("schema = 1\n{}", sources.collect::<String>())
}

pub(crate) async fn apply(table: &Table, text: &str, seen: u64) -> Applied {
    apply_at(table, text, seen, NOW).await.unwrap()
}

async fn apply_at(
    table: &Table,
    text: &str,
    seen: u64,
    now: UnixMillis,
) -> anyhow::Result<Applied> {
    let new = NewVersion {
        text,
        seen,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "alice".to_owned(),
            why: "add the shop".to_owned(),
            selection: format!("version {}", seen + 1),
            count: 0,
        },
    };
    SourceVersions::beside(&table.ledger).apply(&new, now).await
}

async fn in_force(table: &Table) -> Option<u64> {
    let versions = SourceVersions::beside(&table.ledger);
    let current = versions.current(Consistency::Strong).await.unwrap();
    current.map(|facts| facts.version)
}

fn is_overtaken(applied: &Applied, by: u64) -> bool {
    matches!(applied, Applied::Overtaken(Some(facts)) if facts.version == by)
}

#[tokio::test]
async fn a_version_its_pointer_and_its_audit_entry_are_one_write() {
    let table = Table::fresh().await;
    let versions = SourceVersions::beside(&table.ledger);
    assert_eq!(in_force(&table).await, None);
    let (first, second) = (file(&["one"]), file(&["one", "two"]));
    assert_eq!(apply(&table, &first, 0).await, Applied::Version(1));
    let applied = apply_at(&table, &second, 1, after(1_000)).await.unwrap();
    assert_eq!(applied, Applied::Version(2));
    let current = versions.current(Consistency::Strong).await.unwrap();
    let stored = versions.version(2).await.unwrap().unwrap();
    assert_eq!(current, Some(stored.facts.clone()));
    assert_eq!(stored.text, second);
    assert_eq!(stored.facts.hash, Config::hash_of(&second));
    assert_eq!(stored.facts.by, "alice");
    assert_eq!(stored.facts.why, "add the shop");
    assert_eq!(versions.version(1).await.unwrap().unwrap().text, first);
    let all = versions.history(10).await.unwrap();
    let all: Vec<u64> = all.iter().map(|facts| facts.version).collect();
    assert_eq!(all, [2, 1]);
    let log = table.ledger.operations();
    let log = log
        .audit_log(NOW, after(2_000), 10, |_| true)
        .await
        .unwrap();
    let said: Vec<&str> = log.found.iter().map(|it| it.selection.as_str()).collect();
    assert_eq!(said, ["version 2", "version 1"]);
    assert_eq!(log.found[0].what, "sources.apply");
}

#[tokio::test]
async fn one_of_eight_racing_operators_applies_the_next_version() {
    let table = Table::fresh().await;
    for seen in 0..3 {
        let files: Vec<String> = (0..8).map(|n| file(&[&format!("of-{n}")])).collect();
        let racing = files.iter().map(|text| apply(&table, text, seen));
        let results = join_all(racing).await;
        let won = results
            .iter()
            .filter(|it| **it == Applied::Version(seen + 1));
        assert_eq!(won.count(), 1, "{results:?}");
        let lost = results.iter().filter(|it| is_overtaken(it, seen + 1));
        assert_eq!(lost.count(), 7, "{results:?}");
        assert_eq!(in_force(&table).await, Some(seen + 1));
    }
    let log = table.ledger.operations();
    let log = log.audit_log(NOW, NOW, 100, |_| true).await.unwrap();
    assert_eq!(log.found.len(), 3, "only an applied version is logged");
}

/// The pointer alone decides: the item of the next version may have expired.
#[tokio::test]
async fn an_operator_who_has_seen_an_older_version_changes_nothing() {
    let table = Table::fresh().await;
    let text = file(&["one"]);
    apply(&table, &text, 0).await;
    table.delete("CFG", "V#000001").await;
    assert!(is_overtaken(&apply(&table, &text, 0).await, 1));
    apply(&table, &text, 1).await;
    table.delete("CFG", "V#000002").await;
    assert!(is_overtaken(&apply(&table, &text, 1).await, 2));
    assert_eq!(table.item("CFG", "V#000001").await, None);
    assert_eq!(table.item("CFG", "V#000002").await, None);
    assert_eq!(in_force(&table).await, Some(2));
}

#[tokio::test]
async fn a_version_is_never_replaced() {
    let table = Table::fresh().await;
    apply(&table, &file(&["one"]), 0).await;
    let stored = table.item("CFG", "V#000001").await;
    table.delete("CFG", "CURRENT").await;
    let error = apply_at(&table, &file(&["two"]), 0, NOW).await.unwrap_err();
    assert!(error.to_string().contains("V#000001"), "{error:#}");
    assert_eq!(table.item("CFG", "V#000001").await, stored);
    assert_eq!(table.item("CFG", "CURRENT").await, None);
    assert!(is_removed(&apply(&table, &file(&["two"]), 7).await));
}

fn is_removed(applied: &Applied) -> bool {
    *applied == Applied::Overtaken(None)
}

#[tokio::test]
async fn a_lost_response_applies_a_version_once() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("TransactWriteItems", "");
    let (text, versions) = (file(&["one"]), SourceVersions::beside(&ledger));
    let new = NewVersion {
        text: &text,
        seen: 0,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "alice".to_owned(),
            why: "why".to_owned(),
            selection: String::new(),
            count: 0,
        },
    };
    let applied = versions.apply(&new, NOW).await.unwrap();
    assert_eq!(applied, Applied::Version(1));
    assert_eq!(in_force(&table).await, Some(1));
}

#[tokio::test]
async fn only_the_newest_fifty_versions_are_kept() {
    let table = Table::fresh().await;
    let text = file(&["one"]);
    apply(&table, &text, 0).await;
    // The version before the kept ones has an expiry time from now on.
    let mut pointer = table.item("CFG", "CURRENT").await.unwrap();
    pointer.insert("v".to_owned(), n(KEPT));
    table.put(pointer).await;
    assert_eq!(apply(&table, &text, KEPT).await, Applied::Version(KEPT + 1));
    let first = table.item("CFG", "V#000001").await.unwrap();
    assert_eq!(number(&first, "ttl"), NOW.secs());
    let newest = table.item("CFG", "V#000051").await.unwrap();
    assert_eq!(newest.get("ttl"), None);
    // An item that no longer exists is not created.
    assert_eq!(
        apply(&table, &text, KEPT + 1).await,
        Applied::Version(KEPT + 2)
    );
    assert_eq!(table.item("CFG", "V#000002").await, None);
}

#[tokio::test]
async fn a_damaged_item_is_an_error_that_names_the_version() {
    let table = Table::fresh().await;
    let versions = SourceVersions::beside(&table.ledger);
    apply(&table, &file(&["one"]), 0).await;
    let version = table.item("CFG", "V#000001").await.unwrap();
    for (name, value) in [("hash", s("00000000")), ("b", s("text")), ("sv", n(99))] {
        let mut damaged = version.clone();
        damaged.insert(name.to_owned(), value);
        table.put(damaged).await;
        let error = versions.version(1).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("version 1 of the sources"),
            "{name}: {error}"
        );
    }
    for (name, value) in [
        ("v", n(0)),
        ("v", s("x")),
        ("v", n(1_000_000)),
        ("hash", n(1)),
    ] {
        let mut pointer = table.item("CFG", "CURRENT").await.unwrap();
        pointer.insert(name.to_owned(), value);
        table.put(pointer).await;
        let error = versions.current(Consistency::Eventual).await.unwrap_err();
        assert!(
            format!("{error:#}").contains("CFG/CURRENT"),
            "{name}: {error:#}"
        );
    }
}

/// Returns the version in force, and the number of reads that this takes.
async fn read(table: &Table) -> (u64, String, usize) {
    let (proxy, ledger) = table.through_proxy().await;
    let versions = SourceVersions::beside(&ledger);
    let newer = versions.newer(Consistency::Strong, |_| false).await;
    let Some((facts, Some(text))) = newer.unwrap() else {
        panic!("a version is in force");
    };
    (facts.version, text, proxy.count()["GetItem"])
}

#[tokio::test]
async fn a_small_file_is_one_read_and_a_large_one_two() {
    let table = Table::fresh().await;
    let small = file(&["one"]);
    let names: Vec<String> = (0..300).map(|_| hex::encode(noise(20))).collect();
    let large = file(&names.iter().map(String::as_str).collect::<Vec<_>>());
    apply(&table, &small, 0).await;
    let pointer = table.item("CFG", "CURRENT").await.unwrap();
    assert_eq!(read(&table).await, (1, small.clone(), 1));
    apply(&table, &large, 1).await;
    // An eventually consistent read can miss a version that was written a moment ago.
    let (version, text, reads) = read(&table).await;
    assert_eq!((version, text), (2, large.clone()));
    assert!((2..=3).contains(&reads), "{reads}");
    // The text of another version does not count.
    let mut stale = table.item("CFG", "CURRENT").await.unwrap();
    assert_eq!(stale.get("b"), None);
    stale.insert("b".to_owned(), pointer["b"].clone());
    table.put(stale).await;
    let (version, text, _) = read(&table).await;
    assert_eq!(
        (version, text),
        (2, large),
        "the text of version 1 is not used"
    );
    apply(&table, &small, 2).await;
    assert_eq!(read(&table).await, (3, small, 1));
}
