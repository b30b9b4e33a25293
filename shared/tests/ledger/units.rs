//! Measures the cost of each transition in write units, as DynamoDB reports it.
//!
//! An update of an index key is a delete and a put in the index, so it costs two units.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes>

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsInput, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{
    Again, By, EffectState, FoundBy, Ledger, Received, Replayed, Settlement, SweepResult,
    WorkClaim, WorkPlan,
};
use shared::monitoring::coverage::Comparison;
use shared::monitoring::coverage::{Counts, Gap, MOST_GAPS, Piece};
use shared::monitoring::silence::{ArrivalGaps, REMEMBERED};
use shared::webhook::event::{EventKey, Via};

use crate::settle::effect;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, is_embedded, lease_over, leased, noise,
    number, retry_at, signed_at,
};

/// Requests the cost of each write, and adds up the reported units.
#[derive(Clone, Debug, Default)]
struct Meter(Arc<Mutex<(f64, f64)>>);

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let ask = Some(ReturnConsumedCapacity::Indexes);
        let input = context.input_mut();
        if let Some(update) = input.downcast_mut::<UpdateItemInput>() {
            update.return_consumed_capacity = ask;
        } else if let Some(put) = input.downcast_mut::<PutItemInput>() {
            put.return_consumed_capacity = ask;
        } else if let Some(writes) = input.downcast_mut::<TransactWriteItemsInput>() {
            writes.return_consumed_capacity = ask;
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Ok(output) = context.output_or_error() {
            let told = if let Some(update) = output.downcast_ref::<UpdateItemOutput>() {
                update.consumed_capacity()
            } else if let Some(put) = output.downcast_ref::<PutItemOutput>() {
                put.consumed_capacity()
            } else if let Some(writes) = output.downcast_ref::<TransactWriteItemsOutput>() {
                let [told] = writes.consumed_capacity() else {
                    panic!("a transaction on one table reports its cost once");
                };
                if !is_embedded() && told.table().is_none() {
                    // The emulator reports only the sum.
                    return Ok(());
                }
                Some(told)
            } else {
                // The request is a read.
                return Ok(());
            };
            self.add(told.expect("a write reports its cost"));
        }
        Ok(())
    }
}

impl Meter {
    fn add(&self, told: &ConsumedCapacity) {
        let units = |capacity: &aws_sdk_dynamodb::types::Capacity| {
            capacity
                .write_capacity_units()
                .or(capacity.capacity_units())
                .unwrap_or_default()
        };
        let table = told
            .table()
            .map(units)
            .expect("the cost includes the table's share");
        let indexes = told.global_secondary_indexes().into_iter().flatten();
        let indexes: f64 = indexes.map(|(_, capacity)| units(capacity)).sum();
        let mut sum = self.0.lock().unwrap();
        sum.0 += table;
        sum.1 += indexes;
    }

    /// Returns the units of the table and of its indexes since the last call.
    fn read(&self) -> (f64, f64) {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Metered {
    table: Table,
    ledger: Ledger,
    meter: Meter,
}

impl Metered {
    async fn fresh() -> Self {
        let table = Table::fresh().await;
        let meter = Meter::default();
        let config = table.db.config().to_builder().interceptor(meter.clone());
        let db = aws_sdk_dynamodb::Client::from_conf(config.build());
        let ledger = Ledger::new(db, &table.name, None);
        Self {
            table,
            ledger,
            meter,
        }
    }

    /// Stores a new event. Its cost is not counted.
    async fn open(&self, id: &str) -> EventKey {
        self.table.receive(&event(id)).await
    }

    async fn look(&self, key: &EventKey) -> UnixMillis {
        UnixMillis(number(&self.table.row(key).await, "gsk"))
    }
}

#[tokio::test]
async fn what_is_watched_by_the_index_costs_six_units() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let small = event("evt_1");
    ledger.receive(&small, NOW).await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "receive");
    let claim = ledger.claim(small.key(), "processor", NOW, LEASE, ATTEMPTS);
    let lease = leased(claim.await.unwrap());
    assert_eq!(meter.read(), (1.0, 0.0), "claim");
    let done = ledger.settle(lease, Settlement::Done, &[], NOW);
    done.await.unwrap();
    assert_eq!(meter.read(), (1.0, 1.0), "done");
}

#[tokio::test]
async fn what_is_watched_by_its_time_costs_four() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let small = event("evt_1");
    let placed = ledger.store_body(&small).await.unwrap();
    let received = ledger.receive_stored(&small, &placed, FoundBy::TimeIndex, NOW);
    received.await.unwrap();
    assert_eq!(meter.read(), (1.0, 1.0), "receive");
    let claim = ledger.claim(small.key(), "processor", NOW, LEASE, ATTEMPTS);
    let lease = leased(claim.await.unwrap());
    assert_eq!(meter.read(), (1.0, 0.0), "claim");
    let done = ledger.settle(lease, Settlement::Done, &[], NOW);
    done.await.unwrap();
    assert_eq!(meter.read(), (1.0, 0.0), "done");
}

#[tokio::test]
async fn a_body_costs_what_it_is_large_and_nothing_later() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let large = event_with("evt_1", Via::Webhook, noise(2_000));
    ledger.receive(&large, NOW).await.unwrap();
    assert_eq!(meter.read(), (1.0 + 3.0, 2.0), "receive");
    let claim = ledger.claim(large.key(), "processor", NOW, LEASE, ATTEMPTS);
    let lease = leased(claim.await.unwrap());
    let done = ledger.settle(lease, Settlement::Done, &[], NOW);
    done.await.unwrap();
    assert_eq!(meter.read(), (2.0, 1.0), "claim and done");
}

#[tokio::test]
async fn each_way_that_an_attempt_ends_has_its_cost() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let put_off = Settlement::Deferred {
        why: "it is full".into(),
        due: after(60_000),
        resend_after: None,
        in_line: false,
        first: None,
    };
    for (index, (settlement, cost)) in [
        (retry_at(after(60_000)), (1.0, 2.0)),
        (put_off, (1.0, 2.0)),
        (dead(), (1.0, 2.0)),
    ]
    .into_iter()
    .enumerate()
    {
        let key = metered.open(&format!("evt_{index}")).await;
        let lease = metered.table.lease(&key, NOW).await;
        let effects = [("http".to_owned(), effect(EffectState::Done))];
        let said = format!("{settlement:?}");
        let settled = ledger.settle(lease, settlement, &effects, NOW);
        settled.await.unwrap();
        assert_eq!(meter.read(), cost, "{said}");
    }
}

#[tokio::test]
async fn each_change_of_an_event_in_a_queue_has_its_cost() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let small = event("evt_1");
    let placed = ledger.store_body(&small).await.unwrap();
    let received = ledger.receive_stored(&small, &placed, FoundBy::TimeIndex, NOW);
    received.await.unwrap();
    let lease = metered.table.lease(small.key(), NOW).await;
    meter.read();
    let queue = "triage".to_owned();
    let parked = ledger.settle(lease, Settlement::Parked { queue }, &[], NOW);
    parked.await.unwrap();
    assert_eq!(meter.read(), (1.0, 1.0), "park");
    let claim = async |now| {
        let until = now + Duration::from_secs(120);
        let claim = ledger.claim_work(small.key(), "triage", "w:1", now, until, ATTEMPTS);
        match claim.await.unwrap() {
            WorkClaim::Leased(lease) => *lease,
            other => panic!("{other:?}"),
        }
    };
    let first = claim(NOW).await;
    assert_eq!(meter.read(), (1.0, 2.0), "claim");
    let later = after(60_000);
    assert!(
        ledger
            .extend_work(&first, later, later + LEASE)
            .await
            .unwrap()
    );
    assert_eq!(meter.read(), (1.0, 2.0), "extend");
    let lease = claim(after(1_000_000)).await;
    assert_eq!(meter.read(), (1.0, 2.0), "take over");
    let intent = effect(EffectState::Intent);
    ledger
        .begin_effect(&lease, "ticket", &intent)
        .await
        .unwrap();
    assert_eq!(meter.read(), (1.0, 0.0), "begin");
    let effects = [("ticket".to_owned(), effect(EffectState::Done))];
    let due = after(2_000_000);
    let retry = ledger.settle(lease, retry_at(due), &effects, after(1_000_001));
    retry.await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "retry");
    let lease = claim(due).await;
    meter.read();
    let done = ledger.settle(lease, Settlement::Done, &effects, due);
    done.await.unwrap();
    assert_eq!(meter.read(), (1.0, 1.0), "done");
}

#[tokio::test]
async fn a_hold_of_a_workers_effect_costs_its_plan_and_three_units() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let small = event("evt_1");
    let placed = ledger.store_body(&small).await.unwrap();
    let received = ledger.receive_stored(&small, &placed, FoundBy::TimeIndex, NOW);
    received.await.unwrap();
    let queue = "triage".to_owned();
    let lease = metered.table.lease(small.key(), NOW).await;
    let parked = ledger.settle(lease, Settlement::Parked { queue }, &[], NOW);
    parked.await.unwrap();
    for (full, units) in [("x".repeat(100), 1.0), ("x".repeat(8 * 1024), 9.0)] {
        let until = NOW + Duration::from_secs(120);
        let claim = ledger.claim_work(small.key(), "triage", "w:1", NOW, until, ATTEMPTS);
        let WorkClaim::Leased(lease) = claim.await.unwrap() else {
            panic!("the event is available");
        };
        meter.read();
        let plan = WorkPlan {
            full: Some(full),
            ..WorkPlan::default()
        };
        let hold = crate::matrix::hold("h1");
        let kept = ledger.keep_work_plan(&lease.row, &plan, &hold, NOW);
        kept.await.unwrap();
        assert_eq!(meter.read(), (units, 0.0), "plan");
        let held = Settlement::Held(Box::new(hold));
        let held = ledger.settle(*lease, held, &[], NOW);
        held.await.unwrap();
        assert_eq!(meter.read(), (1.0, 2.0), "hold");
        let (who, why) = ("anna", "the customer called");
        let approved = ledger.approve(small.key(), "h1", By { who, why }, NOW);
        approved.await.unwrap();
        assert_eq!(meter.read(), (1.0, 2.0), "approve");
    }
}

#[tokio::test]
async fn an_event_without_effects_costs_one_write_after_it_is_stored() {
    let metered = Metered::fresh().await;
    let (ledger, event) = (&metered.ledger, event("evt_1"));
    let placed = ledger.store_body(&event).await.unwrap();
    let received = ledger.receive_stored(&event, &placed, FoundBy::TimeIndex, NOW);
    received.await.unwrap();
    metered.meter.read();
    let kept = ledger.keep(event.key(), "worker", NOW, LEASE);
    assert!(kept.await.unwrap().is_some());
    assert_eq!(metered.meter.read(), (1.0, 0.0));
}

#[tokio::test]
async fn a_poll_of_what_came_by_webhook_writes_nothing_and_the_other_order_once() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    // Each refused put costs a unit, which DynamoDB does not report. A sync does not send these
    // puts.
    let poll = |id: &str| event_with(id, Via::BackupSync, "{}");
    metered.open("evt_1").await;
    assert!(ledger.seen(event("evt_1").key()).await.unwrap().is_some());
    ledger.receive(&poll("evt_1"), NOW).await.unwrap();
    assert_eq!(meter.read(), (0.0, 0.0), "the ordinary order");
    ledger.receive(&poll("evt_2"), NOW).await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "found by the sync");
    for cost in [1.0, 0.0, 0.0] {
        ledger.receive(&event("evt_2"), NOW).await.unwrap();
        assert_eq!(meter.read(), (cost, 0.0), "the webhook, and again");
    }
}

#[tokio::test]
async fn a_duplicate_costs_one_write_more_and_a_signed_time_nothing() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let body = r#"{"id":"evt_1","type":"invoice.paid"}"#;
    for (request, cost) in [
        (signed_at(NOW, "stripe", &[], body), (1.0, 1.0)),
        // Each refused put costs a unit, which DynamoDB does not report.
        (signed_at(NOW, "stripe", &[], body), (1.0, 0.0)),
        (signed_at(after(60_000), "stripe", &[], body), (1.0, 0.0)),
    ] {
        let placed = ledger.store_body(&request).await.unwrap();
        let received = ledger.receive_request(&request, &placed, NOW);
        received.await.unwrap();
        assert_eq!(meter.read(), cost);
    }
}

#[tokio::test]
async fn what_a_run_counts_costs_a_few_units_whatever_it_counts() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let day = Day::of(NOW);
    let count = async |missed: u64, minute: u64| {
        let gap = |n: u64| Gap {
            happened: NOW,
            found: NOW,
            kind: "invoice.paid".into(),
            id: format!("evt_1NG8Du2eZvKYlo2CUI79{n:04}"),
        };
        let counts = Counts {
            both: 100,
            sync: missed,
            gaps: (0..missed).map(gap).collect(),
            ..Counts::default()
        };
        let piece = Piece {
            day,
            from: day.begins() + Duration::from_secs(minute * 60),
            to: day.begins() + Duration::from_secs(minute * 60 + 900),
            counts,
        };
        let add = async |_| Some((piece.clone(), Comparison { done: true }));
        ledger
            .statistics()
            .count_day("stripe-main", day, add)
            .await
            .unwrap();
        meter.read()
    };
    assert_eq!(count(0, 0).await, (1.0, 0.0), "the ordinary run");
    let most = u64::try_from(MOST_GAPS).unwrap();
    let (full, indexes) = count(most, 15).await;
    assert!(full <= 6.0 && indexes == 0.0, "{full} of the table");
    assert_eq!(
        count(10_000, 30).await,
        (full, 0.0),
        "the cost does not increase further"
    );
    let rhythm = ArrivalGaps {
        last: Some(NOW),
        looked: Some(NOW),
        gaps: vec![100_000; REMEMBERED],
    };
    ledger
        .statistics()
        .keep_rhythm("stripe-main", None, &rhythm)
        .await
        .unwrap();
    let (rhythm, _) = meter.read();
    assert!(rhythm <= 2.0, "{rhythm}");
}

#[tokio::test]
async fn a_take_over_an_intent_and_a_refusal_cost_one_unit_each() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let key = metered.open("evt_1").await;
    metered.table.lease(&key, NOW).await;
    let taken = ledger.claim(&key, "processor", lease_over(), LEASE, ATTEMPTS);
    let lease = leased(taken.await.unwrap());
    // The refused claim before the takeover costs another unit, which DynamoDB does not report.
    assert_eq!(meter.read(), (1.0, 0.0), "take over");
    let intent = effect(EffectState::Intent);
    assert!(ledger.intend(&lease, "http", &intent).await.unwrap());
    assert_eq!(meter.read(), (1.0, 0.0), "intent");
}

#[tokio::test]
async fn the_sweep_pays_for_moving_a_row_in_its_index() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let key = metered.open("evt_1").await;
    let look = metered.look(&key).await;
    let rung = ledger
        .sweep()
        .sweep_one(&key, look, ATTEMPTS, true, look)
        .await
        .unwrap();
    assert!(matches!(rung, SweepResult::Send(..)), "{rung:?}");
    assert_eq!(meter.read(), (1.0, 2.0), "ring");

    let look = metered.look(&key).await;
    let later = look + Duration::from_secs(60);
    assert!(
        ledger
            .sweep()
            .postpone(&key, look, later, look)
            .await
            .unwrap()
    );
    assert_eq!(meter.read(), (1.0, 2.0), "spare");

    let look = metered.look(&key).await;
    let held = metered.table.lease(&key, look).await;
    ledger
        .sweep()
        .sweep_one(&key, look, ATTEMPTS, true, look)
        .await
        .unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "wait for a lease");

    let look = metered.look(&key).await;
    let late = look + LEASE * 3;
    let swept = ledger
        .sweep()
        .sweep_one(&key, look, 1, true, late)
        .await
        .unwrap();
    assert_eq!(swept, SweepResult::Exhausted);
    assert_eq!(meter.read(), (1.0, 2.0), "exhaust");
    drop(held);
}

#[tokio::test]
async fn an_erasure_costs_one_unit_and_its_place_in_the_index() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let by = By {
        who: "anna",
        why: "asked for",
    };
    let open = metered.open("evt_1").await;
    ledger.erase(&open, by, after(9)).await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "an open event");
    let done = metered.open("evt_2").await;
    let lease = metered.table.lease(&done, NOW).await;
    metered.table.settle(lease, Settlement::Done).await;
    ledger.erase(&done, by, after(9)).await.unwrap();
    assert_eq!(meter.read(), (1.0, 0.0), "an event that is done");
}

#[tokio::test]
async fn a_decision_over_what_is_kept_apart_moves_it_in_the_index() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let by = By {
        who: "anna",
        why: "both are genuine",
    };
    let mut keys = Vec::new();
    for id in ["evt_1", "evt_2"] {
        metered.open(id).await;
        let other = event_with(id, Via::Webhook, "{\"other\":1}");
        match metered.table.ledger.receive(&other, NOW).await.unwrap() {
            Received::Conflict(key) => keys.push(key),
            received => panic!("{received:?}"),
        }
    }
    ledger.release(&keys[0], by, after(9)).await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "release");
    ledger.discard(&keys[1], by, after(9)).await.unwrap();
    assert_eq!(meter.read(), (1.0, 2.0), "discard");
}

#[tokio::test]
async fn a_cursor_costs_one_unit_a_step() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let lease = ledger
        .sync()
        .sync_lease("stripe-main", "a", NOW, LEASE)
        .await;
    let lease = lease.unwrap().expect("the lease is free");
    assert_eq!(meter.read(), (1.0, 0.0), "lease");
    ledger.sync().sync_advance(lease, NOW, NOW).await.unwrap();
    assert_eq!(meter.read(), (1.0, 0.0), "advance");
}

#[tokio::test]
async fn a_replay_costs_two_units_for_each_of_its_writes() {
    let metered = Metered::fresh().await;
    let (ledger, meter) = (&metered.ledger, &metered.meter);
    let ends = [
        (Settlement::Done, (4.0, 1.0), "an event that is done"),
        (dead(), (4.0, 2.0), "a dead letter"),
        (retry_at(after(60_000)), (4.0, 2.0), "an event that waits"),
    ];
    for (index, (settlement, cost, which)) in ends.into_iter().enumerate() {
        let key = metered.open(&format!("evt_{index}")).await;
        let lease = metered.table.lease(&key, NOW).await;
        metered.table.settle(lease, settlement).await;
        let events = [(key.clone(), 1)];
        let plan = "rpl_7KQ2M4";
        ledger
            .plans()
            .plan_events(plan, &events, after(9))
            .await
            .unwrap();
        let again = Again {
            plan,
            seen: 1,
            new_effects: false,
        };
        let replayed = ledger.plans().replay(&key, &again, after(9)).await.unwrap();
        assert_eq!(replayed, Replayed::Again);
        let spent = meter.read();
        assert!(spent == cost || !is_embedded(), "{which}: {spent:?}");
    }
}
