//! Tests requests with several events. Each event gets its own row, regardless of how the provider
//! groups the events.

use shared::inbox::Stored;
use shared::inbox::ledger::{Received, Settlement, State};
use shared::webhook::event::{Batch, Event, EventKey, Sha};

use crate::support::{NOW, Table, after, signed};

/// Returns a request in the format of LINE. Each event has an id, and redelivered events have a
/// mark.
fn line(events: &[String]) -> Event {
    let body = format!(r#"{{"destination":"U1","events":[{}]}}"#, events.join(","));
    signed("line", &[], body)
}

fn message(id: &str, text: &str, again: bool) -> String {
    format!(
        r#"{{"type":"message","text":"{text}","webhookEventId":"{id}","deliveryContext":{{"isRedelivery":{again}}}}}"#
    )
}

fn key(id: &str) -> EventKey {
    EventKey::new("line-main", id)
}

async fn keep(table: &Table, event: &Event, ms: u64) -> Vec<Stored> {
    let inbox = table.inbox(table.ledger.clone());
    inbox.store(event, after(ms)).await.unwrap()
}

fn received(kept: &[Stored]) -> Vec<&Received> {
    kept.iter().map(|kept| &kept.received).collect()
}

/// Returns the number of state rows in the table.
async fn rows(table: &Table) -> usize {
    let all = table.all().await;
    let states = all.iter().filter(|item| item["sk"].as_s().unwrap() == "M");
    states.count()
}

async fn body(table: &Table, key: &EventKey) -> String {
    let body = table.ledger.event_body(key).await.unwrap().unwrap();
    String::from_utf8(body.unwrap().0.to_vec()).unwrap()
}

#[tokio::test]
async fn a_regrouped_redelivery_finds_each_event_known() {
    let table = Table::fresh().await;
    let (one, two, three) = ("one", "two", "three");
    let first = line(&[message(one, "a", false), message(two, "b", false)]);
    let kept = keep(&table, &first, 0).await;
    assert_eq!(received(&kept), [&Received::New, &Received::New]);
    for kept in &kept {
        assert!(kept.work_message.is_some());
        let lease = table.lease(&kept.key, after(10)).await;
        table.settle(lease, Settlement::Done).await;
    }

    let regrouped = line(&[message(two, "b", true), message(three, "c", false)]);
    let kept = keep(&table, &regrouped, 20).await;
    assert_eq!(received(&kept), [&Received::Settled, &Received::New]);
    assert!(kept[0].work_message.is_none());
    let alone = line(&[message(one, "a", true)]);
    assert_eq!(
        received(&keep(&table, &alone, 30).await),
        [&Received::Settled]
    );

    assert_eq!(rows(&table).await, 3);
    for id in [one, two] {
        let row = table.ledger.event(&key(id)).await.unwrap().unwrap();
        assert_eq!((row.state, row.attempts), (State::Done, 1), "{id}");
    }
}

#[tokio::test]
async fn an_event_has_one_key_and_one_body_alone_or_with_others() {
    let table = Table::fresh().await;
    let (one, two) = (message("one", "a", false), message("two", "b", false));
    let together = line(&[one.clone(), two]);
    let alone = line(std::slice::from_ref(&one));
    keep(&table, &together, 0).await;
    assert_eq!(alone.key(), &key("one"));
    assert_eq!(
        body(&table, &key("one")).await.as_bytes(),
        &alone.body()[..]
    );

    let row = table.ledger.event(&key("two")).await.unwrap().unwrap();
    let sha = Sha::of(together.body());
    assert_eq!(row.batch, Some(Batch { events: 2, sha }));
    assert_eq!(
        (row.kind.as_str(), row.secret.as_deref()),
        ("message", Some("current.1"))
    );
    let fresh = Table::fresh().await;
    keep(&fresh, &alone, 0).await;
    let row = fresh.ledger.event(&key("one")).await.unwrap().unwrap();
    assert_eq!((row.batch, row.sha), (None, Some(Sha::of(alone.body()))));
}

#[tokio::test]
async fn another_content_under_a_known_id_is_kept_apart_from_the_batch() {
    let table = Table::fresh().await;
    keep(&table, &line(&[message("one", "a", false)]), 0).await;
    let forged = line(&[message("one", "z", false), message("two", "b", false)]);
    let kept = keep(&table, &forged, 10).await;
    let Received::Conflict(apart) = &kept[0].received else {
        panic!("{:?}", kept[0]);
    };
    assert_eq!(kept[1].received, Received::New);
    let row = table.ledger.event(apart).await.unwrap().unwrap();
    assert_eq!(row.state, State::Quarantined);
    assert!(body(&table, apart).await.contains(r#""text":"z""#));
    assert!(body(&table, &key("one")).await.contains(r#""text":"a""#));
    // The same content in another group is a duplicate.
    let again = line(&[message("one", "z", true), message("three", "c", false)]);
    let kept = keep(&table, &again, 20).await;
    assert_eq!(kept[0].received, Received::Repeated(apart.clone()));
    assert_eq!(rows(&table).await, 4);
}

#[tokio::test]
async fn events_without_an_id_are_named_by_their_own_content() {
    let table = Table::fresh().await;
    let nameless = |text: &str| format!(r#"{{"type":"message","text":"{text}"}}"#);
    let kept = keep(&table, &line(&[nameless("a"), nameless("b")]), 0).await;
    assert_ne!(kept[0].key, kept[1].key);
    let kept = keep(&table, &line(&[nameless("c"), nameless("b")]), 10).await;
    assert_eq!(kept[0].received, Received::New);
    assert!(matches!(kept[1].received, Received::Open { .. }));
    let kept = keep(&table, &line(&[nameless("a")]), 20).await;
    assert!(matches!(kept[0].received, Received::Open { .. }));
    assert_eq!(rows(&table).await, 3);
}

#[tokio::test]
async fn a_batch_of_which_one_put_fails_is_not_kept_and_can_be_repeated() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let inbox = table.inbox(ledger);
    let events = ["one", "two", "three"].map(|id| message(id, "a", false));
    let batch = line(&events);
    // The number of conflicts is one more than the number of tries.
    proxy.conflict_on("PutItem", "#three", 4);
    assert!(inbox.store(&batch, NOW).await.is_err());
    assert!(table.ledger.event(&key("three")).await.unwrap().is_none());

    let kept = inbox.store(&batch, after(30_000)).await.unwrap();
    assert_eq!(kept[2].received, Received::New);
    // Events that were stored by the failed request also get their work message now.
    assert!(kept.iter().all(|kept| kept.work_message.is_some()));
    assert_eq!(rows(&table).await, 3);
}

#[tokio::test]
async fn a_batch_beyond_the_bound_is_kept_whole() {
    let table = Table::fresh().await;
    let events: Vec<String> = (0..257)
        .map(|n| message(&n.to_string(), "a", false))
        .collect();
    let kept = keep(&table, &line(&events[..256]), 0).await;
    assert_eq!(kept.len(), 256);
    let kept = keep(&table, &line(&events), 10).await;
    assert_eq!(received(&kept), [&Received::New]);
    assert!(kept[0].key.id().starts_with("sha256:"));
}
