//! Tests the lock and the version check of an entity, and the queue of its events in strict order.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, KEEP_ORDER, KEEP_ROW, LEASE, ORDER_ENTRY_GRACE};
use shared::inbox::ledger::transition::order::WAITS;
use shared::inbox::ledger::{
    EntityLock, FoundBy, Ledger, OrderEntry, Predecessor, Received, Settlement, State, VersionCheck,
};
use shared::sources::Config;
use shared::sources::ordering::{Entity, Place, Version};
use shared::webhook::event::EventKey;
use shared::webhook::preset::Compare;

use crate::proxy::Proxy;
use crate::support::{
    NOW, Table, after, dead, event, event_with, lease_end, lease_over, noise, number, retry_at, s,
    text,
};

const STRICT: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep" }]
order = { mode = "strict", entity = "json:e", version = "json:v", compare = "number" }
"#;

fn entity() -> Entity {
    Entity::new("stripe-main", "in_1")
}

fn version(number: u32) -> Version {
    Version::read(number.to_string(), Compare::Number).unwrap()
}

fn key(id: &str) -> EventKey {
    EventKey::new("stripe-main", id)
}

fn pointer(id: &str, number: u32) -> OrderEntry {
    OrderEntry::new(entity(), &version(number), &key(id))
}

fn strict(ledger: &Ledger) -> Ledger {
    ledger.clone().with_sources(&Config::parse(STRICT).unwrap())
}

fn versioned(id: &str, number: u32) -> shared::webhook::event::Event {
    let body = format!(r#"{{"id":"{id}","e":"in_1","v":{number}}}"#);
    event_with(id, shared::webhook::event::Via::Webhook, body)
}

impl Table {
    async fn lock(&self, owner: &str, now: UnixMillis) -> Option<EntityLock> {
        let ledger = &self.ledger;
        ledger
            .entities()
            .lock_entity(&entity(), owner, now, LEASE)
            .await
            .unwrap()
    }

    async fn raise(&self, id: &str, number: u32) -> VersionCheck {
        let ledger = &self.ledger;
        ledger
            .entities()
            .advance_version(&entity(), &version(number), &key(id), NOW)
            .await
            .unwrap()
    }

    async fn ahead(&self, id: &str, number: u32, now: UnixMillis) -> Option<Predecessor> {
        let ledger = &self.ledger;
        ledger
            .entities()
            .predecessor(&pointer(id, number), now)
            .await
            .unwrap()
    }

    async fn ahead_event(&self, id: &str, number: u32, now: UnixMillis) -> Option<EventKey> {
        self.ahead(id, number, now).await?.event
    }

    /// Returns the events of the entity, in order.
    async fn line(&self) -> Vec<String> {
        let all = self.all().await;
        let mut line: Vec<_> = all
            .iter()
            .filter(|item| text(item, "sk").starts_with("P#"))
            .map(|item| (text(item, "sk"), text(item, "ek")))
            .collect();
        line.sort();
        let ids = line.iter().map(|(_, ek)| EventKey::from_pk(ek).unwrap());
        ids.map(|key| key.id().to_owned()).collect()
    }

    async fn receive_strict(&self, id: &str, number: u32) -> EventKey {
        let ledger = strict(&self.ledger);
        let received = ledger.receive(&versioned(id, number), NOW).await.unwrap();
        assert_eq!(received, Received::New);
        key(id)
    }
}

#[tokio::test]
async fn of_sixteen_workers_one_gets_the_lock() {
    let table = Table::fresh().await;
    for round in 0..10 {
        let now = after(round * 60_000);
        let owners: Vec<_> = (0..16).map(|n| format!("worker/{round}-{n}")).collect();
        let locks = join_all(owners.iter().map(|owner| table.lock(owner, now))).await;
        assert_eq!(locks.iter().flatten().count(), 1);
    }
    let lock = table.item("O#stripe-main#in_1", "L").await.unwrap();
    assert_eq!(number(&lock, "epoch"), 10);
}

#[tokio::test]
async fn a_lock_is_held_until_five_seconds_after_its_lease_and_a_zombie_cannot_free_it() {
    let table = Table::fresh().await;
    let zombie = table.lock("one", NOW).await.unwrap();
    for now in [NOW, lease_end(), lease_end() + CLOCK_MARGIN] {
        assert!(table.lock("two", now).await.is_none(), "{now}");
    }
    let lock = table.lock("two", lease_over()).await.unwrap();
    let taken = table.item("O#stripe-main#in_1", "L").await.unwrap();
    assert!(!table.ledger.entities().unlock_entity(zombie).await.unwrap());
    assert_eq!(table.item("O#stripe-main#in_1", "L").await.unwrap(), taken);
    assert!(table.lock("three", lease_over()).await.is_none());

    // A released lock is free immediately, and its epoch increases.
    assert!(table.ledger.entities().unlock_entity(lock).await.unwrap());
    table.lock("three", lease_over()).await.unwrap();
    let lock = table.item("O#stripe-main#in_1", "L").await.unwrap();
    assert_eq!(
        (number(&lock, "epoch"), text(&lock, "own").as_str()),
        (3, "three")
    );
}

#[tokio::test]
async fn a_lock_with_another_epoch_or_owner_is_not_given_back() {
    let table = Table::fresh().await;
    for (name, value) in [("own", s("other")), ("epoch", crate::support::n(9))] {
        let lock = table.lock("one", NOW).await.unwrap();
        let mut item = table.item("O#stripe-main#in_1", "L").await.unwrap();
        item.insert(name.into(), value);
        table.put(item.clone()).await;
        assert!(
            !table.ledger.entities().unlock_entity(lock).await.unwrap(),
            "{name}"
        );
        assert_eq!(table.item("O#stripe-main#in_1", "L").await.unwrap(), item);
        table.delete("O#stripe-main#in_1", "L").await;
    }
}

#[tokio::test]
async fn the_guard_only_rises() {
    let table = Table::fresh().await;
    assert_eq!(table.raise("evt_9", 9).await, VersionCheck::Newest);
    // The ledger compares versions as numbers, so 10 is greater than 9.
    assert_eq!(table.raise("evt_10", 10).await, VersionCheck::Newest);
    assert_eq!(table.raise("evt_9", 9).await, VersionCheck::Stale);
    // The same event arrives again, and another event has the same version.
    assert_eq!(table.raise("evt_10", 10).await, VersionCheck::Newest);
    assert_eq!(table.raise("evt_10b", 10).await, VersionCheck::Newest);
    let guard = table.item("O#stripe-main#in_1", "V").await.unwrap();
    assert_eq!(text(&guard, "was"), "10");
    assert_eq!(number(&guard, "ttl"), (NOW + KEEP_ORDER).secs());
    assert!(KEEP_ORDER > KEEP_ROW);
}

#[tokio::test]
async fn of_racing_versions_the_greatest_stays() {
    let table = Table::fresh().await;
    join_all((0..32).map(|n| {
        let number = n * 7 % 32;
        let table = &table;
        async move { table.raise(&format!("evt_{number}"), number).await }
    }))
    .await;
    let guard = table.item("O#stripe-main#in_1", "V").await.unwrap();
    assert_eq!(
        (text(&guard, "was").as_str(), text(&guard, "ek").as_str()),
        ("31", "E#stripe-main#evt_31")
    );
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_known_to_be_ours() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":over");
    let lock = ledger
        .entities()
        .lock_entity(&entity(), "one", NOW, LEASE)
        .await
        .unwrap();
    let lock = lock.unwrap();
    assert_eq!(updates(&proxy), 2);
    proxy.lose_answer("UpdateItem", ":ver");
    let raised = ledger
        .entities()
        .advance_version(&entity(), &version(1), &key("evt_1"), NOW)
        .await;
    assert_eq!(raised.unwrap(), VersionCheck::Newest);
    assert_eq!(updates(&proxy), 4);
    proxy.lose_answer("UpdateItem", "REMOVE own");
    assert!(ledger.entities().unlock_entity(lock).await.unwrap());
    assert_eq!(updates(&proxy), 6);
    proxy.lose_answer("PutItem", "P#");
    let received = strict(&ledger).receive(&versioned("evt_1", 1), NOW).await;
    assert_eq!(received.unwrap(), Received::New);
    assert_eq!(table.line().await, ["evt_1"]);
}

fn updates(proxy: &Proxy) -> usize {
    proxy.count().get("UpdateItem").copied().unwrap_or_default()
}

#[tokio::test]
async fn an_event_stands_in_line_before_it_is_acknowledged() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("PutItem", "\"wid\"");
    let ledger = strict(&ledger);
    let event = versioned("evt_2", 2);
    let receive = ledger.receive(&event, NOW);
    let (received, seen) = held
        .around(receive, async {
            // The row of the event is not stored yet, but the event already precedes a later event.
            let ahead = table.ahead("evt_3", 3, NOW).await.unwrap();
            (table.line().await, ahead)
        })
        .await;
    assert_eq!(received.unwrap(), Received::New);
    assert_eq!(seen.0, ["evt_2", "evt_3"]);
    assert_eq!(seen.1.event, None);
    assert!(seen.1.until > NOW);
    assert_eq!(table.ahead_event("evt_3", 3, NOW).await, Some(key("evt_2")));
}

#[tokio::test]
async fn what_comes_out_of_the_spill_queue_without_its_body_stands_in_line() {
    let table = Table::with_bucket().await;
    let filler = hex::encode(noise(40_000));
    let body = format!(r#"{{"id":"evt_1","e":"in_1","v":1,"filler":"{filler}"}}"#);
    let event = event_with("evt_1", shared::webhook::event::Via::Webhook, body);
    let placed = table.ledger.store_body(&event).await.unwrap();
    let spilled = table.spilled(event, placed).await;
    let (event, placed) = (spilled.event(), spilled.placed().unwrap());
    assert!(event.body().is_empty(), "the body is in the bucket");
    let ledger = strict(&table.ledger);
    let received = ledger
        .receive_stored(event, placed, FoundBy::WorkIndex, after(1))
        .await;
    assert_eq!(received.unwrap(), Received::New);
    assert_eq!(table.line().await, ["evt_1"]);
}

#[tokio::test]
async fn only_the_lowest_open_event_goes_on() {
    let table = Table::fresh().await;
    for number in [3, 1, 2] {
        table.receive_strict(&format!("evt_{number}"), number).await;
    }
    assert_eq!(table.line().await, ["evt_1", "evt_2", "evt_3"]);
    assert_eq!(table.ahead("evt_1", 1, NOW).await, None);
    assert_eq!(table.ahead_event("evt_2", 2, NOW).await, Some(key("evt_1")));
    assert_eq!(table.ahead_event("evt_3", 3, NOW).await, Some(key("evt_1")));

    // An event with a retry blocks the events behind it until the retry is due.
    let lease = table.lease(&key("evt_1"), NOW).await;
    table.settle(lease, retry_at(after(60_000))).await;
    let ahead = table.ahead("evt_2", 2, NOW).await.unwrap();
    assert_eq!(ahead.until, after(61_000));

    // A dead letter does not block, even if its order entry was not removed.
    let lease = table.lease(&key("evt_1"), after(60_000)).await;
    table.settle(lease, dead()).await;
    assert_eq!(table.ahead("evt_2", 2, NOW).await, None);
    assert_eq!(table.line().await, ["evt_2", "evt_3"]);
    assert_eq!(table.ahead_event("evt_3", 3, NOW).await, Some(key("evt_2")));
    table
        .ledger
        .entities()
        .leave_order(&pointer("evt_2", 2))
        .await
        .unwrap();
    assert_eq!(table.ahead("evt_3", 3, NOW).await, None);
}

#[tokio::test]
async fn who_waits_comes_back_one_after_the_other() {
    let table = Table::fresh().await;
    for number in 1..=4 {
        table.receive_strict(&format!("evt_{number}"), number).await;
    }
    for (number, again) in [(2, 5_000), (3, 65_000), (4, 125_000)] {
        let ahead = table.ahead(&format!("evt_{number}"), number, NOW).await;
        assert_eq!(ahead.unwrap().until, after(again), "evt_{number}");
    }
    // An event that follows an event with a retry waits in the same way.
    let lease = table.lease(&key("evt_1"), NOW).await;
    table.settle(lease, retry_at(after(60_000))).await;
    let ahead = table.ahead("evt_4", 4, NOW).await.unwrap();
    assert_eq!(ahead.until, after(181_000));
}

#[tokio::test]
async fn no_pointer_stands_in_the_way_for_ever() {
    let table = Table::fresh().await;
    // Adds forty order entries whose rows were never stored.
    for number in 0..40 {
        let lost = pointer(&format!("lost_{number}"), number);
        table
            .ledger
            .entities()
            .enter_order(&lost, NOW)
            .await
            .unwrap();
    }
    table.receive_strict("evt_99", 99).await;
    let then = NOW + ORDER_ENTRY_GRACE;
    assert!(table.ahead("evt_99", 99, NOW).await.is_some());
    assert_eq!(table.line().await.len(), 41);
    assert_eq!(table.ahead("evt_99", 99, then).await, None);
    assert_eq!(table.line().await, ["evt_99"]);
}

#[tokio::test]
async fn a_place_in_line_outlives_its_event() {
    let table = Table::fresh().await;
    table.receive_strict("evt_1", 1).await;
    let all = table.all().await;
    let mut places = all.iter().filter(|item| text(item, "sk").starts_with("P#"));
    let expires = places.next().map(|place| number(place, "ttl"));
    assert_eq!(expires, Some((NOW + KEEP_ORDER).secs()));
}

#[tokio::test]
async fn what_one_attempt_cannot_clean_up_is_left_to_the_next() {
    let table = Table::fresh().await;
    // Adds as many entries as one read covers.
    for number in 0..500 {
        let lost = pointer(&format!("lost_{number}"), number);
        table
            .ledger
            .entities()
            .enter_order(&lost, NOW)
            .await
            .unwrap();
    }
    table.receive_strict("evt_999", 999).await;
    let then = NOW + ORDER_ENTRY_GRACE;
    let again = Predecessor {
        event: None,
        until: then + Duration::from_secs(5),
    };
    assert_eq!(table.ahead("evt_999", 999, then).await, Some(again));
    assert_eq!(table.ahead("evt_999", 999, then).await, None);
    assert_eq!(table.line().await, ["evt_999"]);
}

#[tokio::test]
async fn an_event_that_could_not_be_read_just_now_is_not_taken_for_a_damaged_one() {
    let table = Table::fresh().await;
    for number in [1, 2] {
        table.receive_strict(&format!("evt_{number}"), number).await;
    }
    let (proxy, ledger) = table.through_proxy().await;
    proxy.conflict("GetItem", 1);
    let ahead = ledger
        .entities()
        .predecessor(&pointer("evt_2", 2), NOW)
        .await;
    let error = format!("{:#}", ahead.unwrap_err());
    assert!(error.contains("read an item of the ledger"), "{error}");
    assert_eq!(table.line().await, ["evt_1", "evt_2"]);
}

#[tokio::test]
async fn who_stands_behind_a_damaged_event_looks_again_soon() {
    let table = Table::fresh().await;
    let damaged = table.receive_strict("evt_1", 1).await;
    table.edit(&damaged, |row| drop(row.remove("bref"))).await;
    table.receive_strict("evt_2", 2).await;
    let ahead = table.ahead("evt_2", 2, NOW).await.unwrap();
    assert_eq!(ahead.event, None);
    assert_eq!(ahead.until, after(5_000));
}

#[tokio::test]
async fn an_event_without_a_pointer_gets_its_place() {
    let table = Table::fresh().await;
    // The event is replayed, or it arrived before the source had strict order.
    table
        .ledger
        .receive(&versioned("evt_1", 1), NOW)
        .await
        .unwrap();
    assert_eq!(table.line().await, [] as [&str; 0]);
    assert_eq!(table.ahead("evt_1", 1, NOW).await, None);
    assert_eq!(table.line().await, ["evt_1"]);
    table.receive_strict("evt_2", 2).await;
    assert_eq!(table.ahead_event("evt_2", 2, NOW).await, Some(key("evt_1")));
    // This event must also wait.
    table
        .ledger
        .receive(&versioned("evt_3", 3), NOW)
        .await
        .unwrap();
    assert_eq!(table.ahead_event("evt_3", 3, NOW).await, Some(key("evt_1")));
    assert_eq!(table.line().await, ["evt_1", "evt_2", "evt_3"]);
}

#[tokio::test]
async fn an_event_does_not_wait_for_itself() {
    let table = Table::fresh().await;
    table.receive_strict("evt_1", 5).await;
    // A quarantined event with the same id has an earlier version.
    let ledger = strict(&table.ledger);
    let received = ledger.receive(&versioned("evt_1", 2), NOW).await.unwrap();
    assert!(matches!(received, Received::Conflict(_)), "{received:?}");
    assert_eq!(table.line().await, ["evt_1", "evt_1"]);
    assert_eq!(table.ahead("evt_1", 5, NOW).await, None);
    assert_eq!(table.line().await, ["evt_1"]);
}

#[tokio::test]
async fn who_waits_is_called_up_and_nobody_else() {
    let table = Table::fresh().await;
    let later = after(3_600_000);
    let waiting = |why: &str| Settlement::Deferred {
        why: why.into(),
        due: later,
        resend_after: None,
        in_line: false,
        first: None,
    };
    let due = async |id: &str| table.ledger.event(&key(id)).await.unwrap().unwrap().due;
    for (id, settlement, called) in [
        ("evt_1", waiting(WAITS), Some(after(1))),
        ("evt_2", waiting("the destination is down"), Some(later)),
        ("evt_3", retry_at(later), Some(later)),
    ] {
        table.receive_strict(id, 1).await;
        let lease = table.lease(&key(id), NOW).await;
        table.settle(lease, settlement).await;
        let next = table.ledger.entities().wake_next(&entity(), after(1)).await;
        assert_eq!(next.unwrap(), Some(key(id)));
        assert_eq!(due(id).await, called, "{id}");
        table
            .ledger
            .entities()
            .leave_order(&pointer(id, 1))
            .await
            .unwrap();
    }
    assert_eq!(
        table
            .ledger
            .entities()
            .wake_next(&entity(), NOW)
            .await
            .unwrap(),
        None
    );
    // The event is in the index, so that the sweep finds it if the worker that woke it crashes.
    let row = table.ledger.event(&key("evt_1")).await.unwrap().unwrap();
    assert_eq!((row.state, row.next_look), (State::Failed, Some(after(1))));
    table.lease(&key("evt_1"), after(1)).await;
}

#[tokio::test]
async fn who_is_due_or_at_work_is_not_called_up() {
    let table = Table::fresh().await;
    let due = after(10_000);
    let event = table.receive_strict("evt_1", 1).await;
    let lease = table.lease(&event, NOW).await;
    let waiting = Settlement::Deferred {
        why: WAITS.into(),
        due,
        resend_after: None,
        in_line: false,
        first: None,
    };
    table.settle(lease, waiting).await;
    let before = table.row(&event).await;
    let called = table
        .ledger
        .entities()
        .wake_next(&entity(), after(20_000))
        .await;
    assert_eq!(called.unwrap(), Some(key("evt_1")));
    assert_eq!(table.row(&event).await, before);
    // The clock of this worker is ahead.
    table.lease(&event, due).await;
    let before = table.row(&event).await;
    table
        .ledger
        .entities()
        .wake_next(&entity(), after(1))
        .await
        .unwrap();
    assert_eq!(table.row(&event).await, before);
}

#[tokio::test]
async fn a_remark_stands_in_the_history() {
    let table = Table::fresh().await;
    for (id, settlement, note) in [
        ("evt_1", Settlement::Done, "skipped_stale"),
        ("evt_2", dead(), "permanent, skipped_stale"),
    ] {
        let key = table.receive(&event(id)).await;
        let mut lease = table.lease(&key, NOW).await;
        lease.annotate("skipped_stale");
        table.settle(lease, settlement).await;
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.history.len(), 1);
        assert_eq!(row.history[0].note, note);
    }
}

#[tokio::test]
async fn order_costs_a_few_small_requests() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let ledger = strict(&ledger);
    ledger.receive(&versioned("evt_1", 1), NOW).await.unwrap();
    let lock = ledger
        .entities()
        .lock_entity(&entity(), "one", NOW, LEASE)
        .await
        .unwrap();
    let mine = pointer("evt_1", 1);
    assert_eq!(
        ledger.entities().predecessor(&mine, NOW).await.unwrap(),
        None
    );
    ledger
        .entities()
        .advance_version(&entity(), &version(1), &key("evt_1"), NOW)
        .await
        .unwrap();
    ledger.entities().leave_order(&mine).await.unwrap();
    ledger
        .entities()
        .unlock_entity(lock.unwrap())
        .await
        .unwrap();
    assert_eq!(
        ledger.entities().wake_next(&entity(), NOW).await.unwrap(),
        None
    );
    // In addition to the put of the event, Mitt writes its order entry, lock and version check. It
    // also makes one read before and one read after.
    let count = proxy.count();
    let counted: Vec<_> = count.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(
        counted,
        [
            ("DeleteItem", 1),
            ("PutItem", 2),
            ("Query", 2),
            ("UpdateItem", 3)
        ]
    );
    // Sources without order have none of this cost.
    let (proxy, ledger) = table.through_proxy().await;
    ledger.receive(&event("evt_2"), NOW).await.unwrap();
    assert_eq!(proxy.count().get("PutItem"), Some(&1));
}

#[tokio::test]
async fn what_a_newer_one_has_overtaken_is_told() {
    let table = Table::fresh().await;
    let overtaken = async |version: Option<Version>| {
        let place = Place {
            entity: entity(),
            version,
        };
        table.ledger.entities().is_overtaken(&place).await.unwrap()
    };
    assert!(
        !overtaken(Some(version(9))).await,
        "no version was recorded"
    );
    table.raise("evt_10", 10).await;
    assert!(overtaken(Some(version(9))).await);
    assert!(!overtaken(Some(version(10))).await);
    assert!(!overtaken(Some(version(11))).await);
    assert!(!overtaken(None).await);
}
