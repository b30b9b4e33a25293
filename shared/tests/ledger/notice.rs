//! Tests operator flags. Only one flag of a kind can be set at a time. When it is cleared, the
//! deferred events are woken gradually.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::delivery::pause::Pauses;
use shared::inbox::ledger::{FlagKind, FlagResult, Ledger, OperatorFlag, Settlement};
use shared::webhook::event::EventKey;

use crate::support::{NOW, Table, after, event, lease_over, number, retry_at};

const SHOP: FlagKind<'_> = FlagKind::Pause("shop");

fn notice(who: &str) -> OperatorFlag {
    OperatorFlag::new(who, "a bad release", "{}", NOW).unwrap()
}

async fn put_up(ledger: &Ledger, about: FlagKind<'_>, notice: &OperatorFlag) -> FlagResult {
    ledger.operations().set_flag(about, notice).await.unwrap()
}

#[tokio::test]
async fn of_two_operators_the_second_is_told_of_the_first() {
    let table = Table::fresh().await;
    let (anna, ben) = (notice("anna"), notice("ben"));
    assert_eq!(put_up(&table.ledger, SHOP, &anna).await, FlagResult::Set);
    let told = put_up(&table.ledger, SHOP, &ben).await;
    assert_eq!(told, FlagResult::AlreadySet(anna.clone()));
    assert_eq!(
        table.ledger.operations().flag(SHOP).await.unwrap(),
        Some(anna.clone())
    );
    // A flag for another subject is a separate flag.
    for other in [FlagKind::Pause("shop-eu"), FlagKind::Rotation("shop")] {
        assert_eq!(table.ledger.operations().flag(other).await.unwrap(), None);
        assert_eq!(put_up(&table.ledger, other, &ben).await, FlagResult::Set);
    }
    // The same write sets the flag again, because the first response was lost.
    assert_eq!(put_up(&table.ledger, SHOP, &anna).await, FlagResult::Set);
}

#[tokio::test]
async fn only_the_notice_that_was_read_is_taken_down() {
    let table = Table::fresh().await;
    let (old, new) = (notice("anna"), notice("ben"));
    put_up(&table.ledger, SHOP, &old).await;
    assert!(
        table
            .ledger
            .operations()
            .clear_flag(SHOP, &old)
            .await
            .unwrap()
    );
    assert_eq!(table.ledger.operations().flag(SHOP).await.unwrap(), None);
    assert!(
        table
            .ledger
            .operations()
            .clear_flag(SHOP, &old)
            .await
            .unwrap(),
        "the flag is cleared"
    );
    assert_eq!(put_up(&table.ledger, SHOP, &new).await, FlagResult::Set);
    assert!(
        !table
            .ledger
            .operations()
            .clear_flag(SHOP, &old)
            .await
            .unwrap()
    );
    assert_eq!(
        table.ledger.operations().flag(SHOP).await.unwrap(),
        Some(new)
    );
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_our_own() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let notice = notice("anna");
    proxy.lose_answer("UpdateItem", "PAUSE#shop");
    assert_eq!(put_up(&ledger, SHOP, &notice).await, FlagResult::Set);
    assert_eq!(proxy.count()["UpdateItem"], 2);
    proxy.lose_answer("UpdateItem", "PAUSE#shop");
    assert!(ledger.operations().clear_flag(SHOP, &notice).await.unwrap());
    assert_eq!(proxy.count()["UpdateItem"], 4);
    assert_eq!(table.ledger.operations().flag(SHOP).await.unwrap(), None);
}

impl Table {
    async fn next_look_of(&self, key: &EventKey) -> UnixMillis {
        UnixMillis(number(&self.row(key).await, "gsk"))
    }

    /// Returns whether the next sweep visits the event, according to the index.
    async fn look_now(&self, key: &EventKey, now: UnixMillis) -> bool {
        let seen = self.next_look_of(key).await;
        let called = self
            .ledger
            .operations()
            .look_now(key, seen, now)
            .await
            .unwrap();
        assert_eq!(called, self.next_look_of(key).await == now);
        called
    }
}

#[tokio::test]
async fn what_waits_for_nothing_but_a_look_is_called_up() {
    let table = Table::fresh().await;
    let received = table.receive(&event("evt_received")).await;
    assert!(table.look_now(&received, after(1)).await);

    let due = table.receive(&event("evt_due")).await;
    let lease = table.lease(&due, NOW).await;
    table.settle(lease, retry_at(after(5_000))).await;
    assert!(
        !table.look_now(&due, after(4_999)).await,
        "its retry is not due"
    );
    assert!(table.look_now(&due, after(5_000)).await);

    // A claim does not change the due time in the index. The sweep handles an event with an expired
    // lease.
    let lease = table.lease(&due, after(6_000)).await;
    assert!(
        !table.look_now(&due, after(7_000)).await,
        "a worker holds the lease"
    );
    assert!(
        !table
            .look_now(&due, lease_over() + Duration::from_secs(60))
            .await
    );
    table.settle(lease, Settlement::Done).await;
    let called = table
        .ledger
        .operations()
        .look_now(&due, after(5_000), after(8_000))
        .await;
    assert!(!called.unwrap(), "the event is done");
}

#[tokio::test]
async fn what_a_sweep_has_looked_at_since_is_not_rung_for_twice() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let seen = table.next_look_of(&key).await;
    let next = seen + Duration::from_secs(60);
    assert!(
        table
            .ledger
            .sweep()
            .postpone(&key, seen, next, NOW)
            .await
            .unwrap()
    );
    assert!(
        !table
            .ledger
            .operations()
            .look_now(&key, seen, after(1))
            .await
            .unwrap()
    );
    assert_eq!(table.next_look_of(&key).await, next);
}

#[tokio::test]
async fn a_pause_is_known_within_five_seconds_and_read_no_more_often() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let pauses = Pauses::new(ledger);
    let paused = async |ms| pauses.is_paused("shop", after(ms)).await;
    assert!(!paused(0).await.unwrap());
    let pause = notice("anna");
    put_up(&table.ledger, SHOP, &pause).await;
    assert!(
        !paused(5_000).await.unwrap(),
        "the flag was read a moment ago"
    );
    assert!(paused(5_001).await.unwrap());

    // If the table cannot be read, the last value is used for one minute. After that the read
    // fails.
    proxy.conflict("GetItem", 4);
    assert!(paused(12_000).await.unwrap());
    assert!(
        paused(16_000).await.unwrap(),
        "the failed read was a moment ago"
    );
    assert!(paused(65_000).await.unwrap());
    assert!(paused(65_002).await.is_err());
    let unknown = pauses.is_paused("other", after(65_002)).await;
    assert!(unknown.is_err(), "a source without a cached value");
    table
        .ledger
        .operations()
        .clear_flag(SHOP, &pause)
        .await
        .unwrap();
    assert!(!paused(66_000).await.unwrap());
    assert_eq!(proxy.count()["GetItem"], 7);
}
