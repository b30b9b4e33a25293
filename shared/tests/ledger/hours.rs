//! Tests the counts of the events of an hour. Mitt counts the events from the index, and stores the
//! counts when the hour is over. Newer counts replace older counts.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{ReadLimits, Reading, Settlement, State, Waiting};
use shared::monitoring::hours::Arrived;
use shared::monitoring::hours::{Brief, HourCount};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

use crate::support::{NOW, Table, after, dead, event, is_embedded, n, number, retry_at, s};

const SOURCE: &str = "stripe-main";

fn hour() -> Hour {
    Hour::of(NOW)
}

fn came(id: &str, kind: &str, at: UnixMillis) -> Event {
    Event::fetched(Fetched {
        source: SOURCE,
        provider: "stripe",
        preset: "stripe",
        id,
        kind,
        body: format!("{{\"id\":\"{id}\"}}").into(),
        now: at,
        via: Via::Webhook,
        config: "0123456789ab",
    })
}

fn counted(events: u64, as_of: UnixMillis) -> HourCount {
    let arrived = Arrived {
        events,
        kinds: BTreeMap::from([("invoice.paid".to_owned(), events)]),
        ..Arrived::default()
    };
    HourCount {
        hour: hour(),
        as_of,
        sources: BTreeMap::from([(SOURCE.to_owned(), arrived)]),
    }
}

impl Table {
    async fn kept_hours(&self) -> Vec<HourCount> {
        let (from, to) = (hour().before(2), hour().next());
        self.ledger
            .statistics()
            .hour_counts(from, to)
            .await
            .unwrap()
            .0
    }

    async fn arrived(&self, from: UnixMillis, to: UnixMillis) -> Arrived {
        let span = (from, to);
        self.ledger
            .statistics()
            .arrived(SOURCE, span, 10)
            .await
            .unwrap()
            .0
    }
}

#[tokio::test]
async fn a_count_is_kept_and_only_a_newer_one_takes_its_place() {
    let table = Table::fresh().await;
    assert!(table.kept_hours().await.is_empty());
    let (first, older, newer) = (
        counted(3, after(1000)),
        counted(2, after(999)),
        counted(5, after(1001)),
    );
    assert!(table.ledger.statistics().keep_hour(&first).await.unwrap());
    assert_eq!(table.kept_hours().await, std::slice::from_ref(&first));
    assert!(!table.ledger.statistics().keep_hour(&older).await.unwrap());
    assert_eq!(table.kept_hours().await, [first]);
    assert!(table.ledger.statistics().keep_hour(&newer).await.unwrap());
    assert_eq!(table.kept_hours().await, [newer]);
}

#[tokio::test]
async fn a_count_whose_answer_was_lost_is_kept_and_known_to_be() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", "STAT#");
    assert!(
        ledger
            .statistics()
            .keep_hour(&counted(3, NOW))
            .await
            .unwrap()
    );
    assert_eq!(table.kept_hours().await, [counted(3, NOW)]);
}

#[tokio::test]
async fn a_count_keeps_what_newer_code_wrote_beside_it_and_expires() {
    let table = Table::fresh().await;
    table
        .ledger
        .statistics()
        .keep_hour(&counted(3, NOW))
        .await
        .unwrap();
    let sk = format!("STAT#{}", hour().name());
    let mut item = table.item("SYS", &sk).await.unwrap();
    assert_eq!(number(&item, "ttl"), hour().ends().secs() + 180 * 24 * 3600);
    item.insert("later_code".into(), s("keeps this"));
    item.insert("sv".into(), n(2));
    table.put(item).await;
    let again = counted(4, after(1));
    assert!(table.ledger.statistics().keep_hour(&again).await.unwrap());
    let item = table.item("SYS", &sk).await.unwrap();
    assert_eq!(item.get("later_code"), Some(&s("keeps this")));
    assert_eq!(table.kept_hours().await, [again]);
}

#[tokio::test]
async fn events_are_counted_by_type_and_minute_in_the_span_alone() {
    let table = Table::fresh().await;
    let begin = hour().begins();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    for (id, kind, seconds) in [
        ("evt_1", "invoice.paid", 0),
        ("evt_2", "invoice.paid", 61),
        ("evt_3", "charge.updated", 62),
        ("evt_4", "charge.updated", 3599),
        ("evt_5", "charge.updated", 3600),
    ] {
        let event = came(id, kind, at(seconds));
        table.ledger.receive(&event, at(seconds)).await.unwrap();
    }
    // The same key with another body is quarantined, and is not counted as an event.
    let other = Event::fetched(Fetched {
        source: SOURCE,
        provider: "stripe",
        preset: "stripe",
        id: "evt_1",
        kind: "invoice.paid",
        body: "{}".into(),
        now: at(5),
        via: Via::Webhook,
        config: "0123456789ab",
    });
    table.ledger.receive(&other, at(5)).await.unwrap();

    let whole = table.arrived(begin, UnixMillis(hour().ends().0 - 1)).await;
    assert_eq!((whole.events, whole.or_more), (4, false));
    let kinds = [("charge.updated", 2), ("invoice.paid", 2)];
    assert_eq!(whole.kinds, kinds.map(|(k, n)| (k.to_owned(), n)).into());
    let minute = begin.0 / 60_000;
    assert_eq!(
        whole.minutes,
        BTreeMap::from([(minute, 1), (minute + 1, 2), (minute + 59, 1)])
    );
    // The range includes both ends.
    assert_eq!(table.arrived(at(61), at(62)).await.events, 2);
    assert_eq!(table.arrived(at(63), at(3598)).await.events, 0);
}

/// Returns a table with an event in each of four states, which are open, failed, dead letter and
/// done.
async fn four_states() -> Table {
    let table = Table::fresh().await;
    table.receive(&event("evt_open")).await;
    for (id, settlement) in [
        ("evt_failed", retry_at(after(60_000))),
        ("evt_dead", dead()),
        ("evt_done", Settlement::Done),
    ] {
        let key = table.receive(&event(id)).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, settlement).await;
    }
    table
}

#[tokio::test]
async fn open_events_and_dead_letters_are_told_apart() {
    let table = four_states().await;
    let waiting = async |what| {
        let (mut keys, more, spent) = table
            .ledger
            .statistics()
            .all_waiting(what, 10)
            .await
            .unwrap();
        assert!(!more);
        assert_eq!(spent.calls, u64::from(Waiting::SHARDS));
        keys.sort_by(|a, b| a.id().cmp(b.id()));
        keys
    };
    let key = |id| EventKey::new(SOURCE, id);
    assert_eq!(
        waiting(Waiting::Open).await,
        [key("evt_failed"), key("evt_open")]
    );
    assert_eq!(waiting(Waiting::Dead).await, [key("evt_dead")]);
    let limited = table
        .ledger
        .statistics()
        .all_waiting(Waiting::Open, 1)
        .await
        .unwrap();
    assert!(limited.1 || limited.0.len() == 2, "{limited:?}");
}

#[tokio::test]
async fn an_event_that_is_done_says_how_long_it_took() {
    let table = four_states().await;
    let [open, done, dead, never] =
        ["evt_open", "evt_done", "evt_dead", "evt_never"].map(|id| EventKey::new(SOURCE, id));
    let asked = [open, done.clone(), dead, never];
    let (mut briefs, spent) = table.ledger.statistics().briefs(&asked).await.unwrap();
    assert_eq!(spent.calls, 1);
    assert!(spent.read_units > 0.0 || !is_embedded());
    briefs.sort_by(|a, b| a.key.id().cmp(b.key.id()));
    let said: Vec<(&str, State, Option<UnixMillis>)> = briefs
        .iter()
        .map(|brief: &Brief| (brief.key.id(), brief.state, brief.done_at))
        .collect();
    assert_eq!(
        said,
        [
            ("evt_dead", State::DeadLetter, None),
            ("evt_done", State::Done, Some(after(1_000))),
            ("evt_open", State::Received, None),
        ]
    );
    // A replayed event has no meaningful duration.
    table
        .edit(&done, |row| {
            row.insert("run".into(), n(1));
        })
        .await;
    let (briefs, _) = table.ledger.statistics().briefs(&[done]).await.unwrap();
    assert_eq!(briefs[0].done_at, None);
}

#[tokio::test]
async fn more_events_than_fit_one_request_are_looked_at() {
    let table = Table::fresh().await;
    let mut keys = Vec::new();
    for id in 0..130 {
        keys.push(table.receive(&event(&format!("evt_{id}"))).await);
    }
    let (briefs, spent) = table.ledger.statistics().briefs(&keys).await.unwrap();
    assert_eq!((briefs.len(), spent.calls), (130, 2));
    // Most events are in the partitions of the hour, and the read says so.
    let active = table.ledger.active_hours(hour().begins(), hour().ends());
    let active = active.await.unwrap();
    let span = (hour().begins(), UnixMillis(hour().ends().0 - 1));
    let all = table.ledger.entries(&active, SOURCE, span, 1000).await;
    let all = all.unwrap();
    assert_eq!((all.found.len(), all.or_more), (130, false));
    assert!(all.is_spread);
    let some = table.ledger.entries(&active, SOURCE, span, 20).await;
    assert!(some.unwrap().or_more);
    // A sample of an hour that is counted takes one request.
    let arrived = Arrived {
        has_entries: true,
        is_spread: true,
        ..Arrived::default()
    };
    let counted = BTreeMap::from([(SOURCE.to_owned(), arrived)]);
    let noted = table.ledger.statistics().note_active(hour(), &counted);
    noted.await.unwrap();
    let active = table.ledger.active_hours(hour().begins(), hour().ends());
    let active = active.await.unwrap();
    let sample = table.ledger.sample(&active, SOURCE, span, 100).await;
    let sample = sample.unwrap();
    assert_eq!(sample.cost.calls, 1);
    assert!((8..130).contains(&sample.found.len()), "{sample:?}");
}

#[tokio::test]
async fn an_event_that_enters_a_counted_hour_late_is_found() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let span = (hour().begins(), UnixMillis(hour().ends().0 - 1));
    let none = BTreeMap::from([(SOURCE.to_owned(), Arrived::default())]);
    let counted = ledger.statistics().note_active(hour(), &none);
    counted.await.unwrap();
    let found = async || {
        let active = ledger.active_hours(span.0, span.1).await.unwrap();
        let entries = ledger.entries(&active, SOURCE, span, 100).await.unwrap();
        (active.reading(SOURCE, hour()), entries.found.len())
    };
    assert_eq!(found().await, (Reading::Nothing, 0));
    let late = hour().ends() + Duration::from_secs(7200);
    let event = came("evt_late", "a", hour().begins());
    ledger.receive(&event, late).await.unwrap();
    assert_eq!(found().await, (Reading::All, 1));
}

#[tokio::test]
async fn a_busy_hour_is_found_in_all_its_partitions() {
    let table = Table::fresh().await;
    for id in 0..200 {
        let at = hour().begins() + Duration::from_secs(id);
        let event = came(&format!("evt_{id}"), "a", at);
        table.ledger.receive(&event, at).await.unwrap();
    }
    let now = hour().ends();
    table
        .ledger
        .sweep()
        .begin_sweep_checkpoint(now)
        .await
        .unwrap();
    let active = table.ledger.active_hours(hour().begins(), now).await;
    let active = active.unwrap();
    assert_eq!(active.reading(SOURCE, hour()), Reading::OfDayFirst);
    for (last, expected) in [(9, 10), (63, 64), (64, 65), (199, 200)] {
        let to = hour().begins() + Duration::from_secs(last);
        let span = (hour().begins(), to);
        let entries = table.ledger.entries(&active, SOURCE, span, 1000).await;
        assert_eq!(entries.unwrap().found.len(), expected, "up to {last} s");
    }
}

#[tokio::test]
async fn the_events_after_the_checkpoint_are_read_from_few_partitions() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    for id in 0..200 {
        let at = hour().begins() + Duration::from_secs(id);
        let event = came(&format!("evt_{id}"), "a", at);
        ledger.receive(&event, at).await.unwrap();
    }
    let span = (hour().begins(), UnixMillis(hour().ends().0 - 1));
    let mut checkpoint = ledger.sweep().begin_sweep_checkpoint(span.1).await.unwrap();
    checkpoint.at = hour().begins() + Duration::from_secs(149);
    let arrived = BTreeMap::from([(SOURCE.to_owned(), 150)]);
    checkpoint.add_arrived(hour().begins(), Some(&arrived));
    let stored = ledger.sweep().store_sweep_checkpoint(&checkpoint).await;
    stored.unwrap();
    let read = async |parts| {
        let active = ledger.active_hours(span.0, span.1).await.unwrap();
        let events = 1000;
        let limits = ReadLimits { events, parts };
        let read = ledger.uncounted_entries(&active, &[SOURCE], span, limits);
        let read = read.await.unwrap().remove(0);
        let found = read.found.iter().map(|event| event.received_at);
        let found = found.filter(|at| *at > checkpoint.at).count();
        let seen = active.arrived(SOURCE, hour()).map(|(events, _)| events);
        (seen, found, read.partial.len(), read.cost.calls)
    };
    assert_eq!(read(4).await, (Some(150), 50, 0, 5));
    let (_, some, partial, calls) = read(3).await;
    assert!((1..50).contains(&some), "{some}");
    assert_eq!((partial, calls), (1, 2));
    assert_eq!(read(0).await, (Some(150), 0, 1, 1));
    // Without a count, no event may be left out.
    let late = hour().ends() + Duration::from_secs(7200);
    let event = came("evt_late", "a", hour().begins());
    ledger.receive(&event, late).await.unwrap();
    assert_eq!(read(0).await, (None, 50, 0, 5));
}
