//! An event of a source with no other action than `pull` waits for a worker as soon as it is stored.

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    Claim, FoundBy, Ledger, PARKED_SCHEMA, Received, Settled, Settlement, State,
};
use shared::sources::Config;
use shared::webhook::event::{EventKey, Via};

use super::{QUEUE, available, work};
use crate::matrix::assert_sound;
use crate::support::{NOW, Table, after, event, event_with, number, text};

const SOURCE: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
"#;

/// Returns the ledger of a source with these further settings.
fn ledger(table: &Table, settings: &str) -> Ledger {
    let config = Config::parse(&format!("{SOURCE}{settings}")).unwrap();
    table.ledger.clone().with_sources(&config)
}

fn pulls(more: &str) -> String {
    format!("[[source.action]]\nkind = \"pull\"\nname = \"refund\"\nqueue = \"{QUEUE}\"\n{more}\n")
}

async fn store(ledger: &Ledger, id: &str, now: UnixMillis) -> Received {
    let event = event(id);
    let body = ledger.store_body(&event).await.unwrap();
    let (received, _) = ledger.receive_request(&event, &body, now).await.unwrap();
    received
}

#[tokio::test]
async fn an_event_that_only_workers_take_waits_for_them_from_the_start() {
    let table = Table::fresh().await;
    let ledger = ledger(&table, &pulls(""));
    assert_eq!(store(&ledger, "evt_1", NOW).await, Received::Parked);
    let key = EventKey::new("stripe-main", "evt_1");
    let row = table.row(&key).await;
    assert_eq!(text(&row, "pul"), QUEUE);
    assert_eq!(text(&row, "gpk"), "P#stripe-main");
    for (name, value) in [("sv", i64::from(PARKED_SCHEMA)), ("att", 0), ("gsk", NOW.0)] {
        assert_eq!(number(&row, name), value, "{name}");
    }
    let read = table.ledger.event(&key).await.unwrap().unwrap();
    assert!(read.waits_for_worker() && !read.is_too_new());
    assert_eq!(available(&table, NOW).await, std::slice::from_ref(&key));
    // A message of an earlier configuration changes nothing.
    assert!(matches!(table.claim(&key, NOW).await, Claim::Parked));

    // A second delivery is counted, and needs no message.
    let again = store(&ledger, "evt_1", after(60_000)).await;
    let known = Received::Open {
        silent: false,
        run: 0,
    };
    assert_eq!(again, known);
    assert_eq!(number(&table.row(&key).await, "du"), 1);

    let lease = work(&table, &key, NOW).await;
    assert_eq!((lease.row.epoch, lease.row.attempts), (1, 1));
    let settled = table.ledger.settle(lease, Settlement::Done, &[], NOW);
    assert_eq!(settled.await.unwrap(), Settled::Recorded(Settlement::Done));
    let done = table.row(&key).await;
    assert_sound(&row, &done);
    let read = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(read.state, State::Done);
}

#[tokio::test]
async fn an_event_that_the_processor_decides_about_is_not_parked() {
    let keep = "[[source.action]]\nkind = \"keep\"\nname = \"all\"\n";
    let rule = "[[source.policy]]\nname = \"large\"\namount = { path = \"amount\", above = 5 }\n\
                decide = \"hold\"\n";
    for settings in [
        keep.to_owned(),
        pulls("types = [\"charge.*\"]"),
        pulls("where = [{ path = \"$.a\", equals = \"b\" }]"),
        format!("{}{keep}", pulls("")),
        format!("{}{rule}", pulls("")),
    ] {
        let table = Table::fresh().await;
        let ledger = ledger(&table, &settings);
        assert_eq!(
            store(&ledger, "evt_1", NOW).await,
            Received::New,
            "{settings}"
        );
        let row = table.row(&EventKey::new("stripe-main", "evt_1")).await;
        assert!(!row.contains_key("pul"), "{settings}");
        assert_eq!(number(&row, "sv"), 1, "{settings}");
    }
}

#[tokio::test]
async fn a_rule_about_the_effects_of_workers_leaves_the_processor_nothing_to_decide() {
    let rules = "[[source.policy]]\nname = \"large\"\neffect = \"refund-*\"\ndecide = \"hold\"\n\
                 [[source.policy]]\nname = \"pilot\"\ndecide = \"dry-run\"\n";
    let table = Table::fresh().await;
    let ledger = ledger(&table, &format!("{}{rules}", pulls("")));
    assert_eq!(store(&ledger, "evt_1", NOW).await, Received::Parked);
}

#[tokio::test]
async fn events_that_mitt_fetches_wait_for_workers_too() {
    let table = Table::fresh().await;
    let ledger = ledger(&table, &pulls(""));
    let fetched = event_with("evt_1", Via::BackupSync, r#"{"id":"evt_1"}"#);
    let body = ledger.store_body(&fetched).await.unwrap();
    let received = ledger.receive_stored(&fetched, &body, FoundBy::WorkIndex, NOW);
    assert_eq!(received.await.unwrap(), Received::Parked);
    assert_eq!(available(&table, NOW).await.len(), 1);
}

#[tokio::test]
async fn a_conflicting_event_is_quarantined_and_not_handed_out() {
    let table = Table::fresh().await;
    let ledger = ledger(&table, &pulls(""));
    assert_eq!(store(&ledger, "evt_1", NOW).await, Received::Parked);
    let other = event_with("evt_1", Via::Webhook, r#"{"id":"evt_1","amount":9}"#);
    let body = ledger.store_body(&other).await.unwrap();
    let (received, _) = ledger.receive_request(&other, &body, NOW).await.unwrap();
    let Received::Conflict(key) = received else {
        panic!("another body has the same id: {received:?}");
    };
    let row = table.row(&key).await;
    assert_eq!(text(&row, "st"), "quarantined");
    assert!(!row.contains_key("pul"));
}
