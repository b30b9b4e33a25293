//! Tests that an erasure deletes the payload of an event, and keeps the record that the event
//! existed.

use shared::base::timing::{KEEP_ROW, LEASE};
use shared::inbox::ledger::{
    AuditAction, BodyAt, By, Claim, EffectState, Erased, MissingBody, Received, Settlement, State,
    Through,
};
use shared::webhook::event::{Event, Via};

use crate::settle::effect;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, noise, number, retry_at, text,
};

const BY: By<'static> = By {
    who: "arn:aws:iam::1:user/anna",
    why: "asked for by the person",
};

async fn erase(table: &Table, event: &Event) -> Erased {
    let erased = table.ledger.erase(event.key(), BY, after(9_000));
    erased.await.unwrap()
}

/// Returns the number of objects in the table's bucket.
async fn objects(table: &Table) -> usize {
    let (s3, bucket) = table.bucket.clone().unwrap();
    let listed = s3.list_objects_v2().bucket(bucket).send().await.unwrap();
    listed.contents().len()
}

#[tokio::test]
async fn nothing_of_the_content_is_left() {
    let table = Table::with_bucket().await;
    for (index, bytes) in [100, 3_000, 40_000].into_iter().enumerate() {
        let id = format!("evt_{index}");
        let event = event_with(&id, Via::Webhook, noise(bytes));
        table.receive(&event).await;
        // A delivery with another body under the same key is quarantined.
        table
            .receive(&event_with(&id, Via::BackupSync, noise(bytes)))
            .await;
        let lease = table.lease(event.key(), NOW).await;
        table.settle(lease, retry_at(NOW)).await;
        let lease = table.lease(event.key(), NOW).await;
        let effects = [("http".to_owned(), effect(EffectState::Done))];
        let done = table.ledger.settle(lease, Settlement::Done, &effects, NOW);
        done.await.unwrap();
        let before = table.row(event.key()).await;

        assert_eq!(erase(&table, &event).await, Erased::Gone);
        let after_it = table.row(event.key()).await;
        for gone in ["hdr", "err", "b"] {
            assert!(!after_it.contains_key(gone), "{gone}");
        }
        for kept in [
            "st", "sha", "wid", "rcv", "ty", "ttl", "tpk", "tsk", "done_at", "run",
        ] {
            assert_eq!(after_it.get(kept), before.get(kept), "{kept}");
        }
        let row = table.ledger.event(event.key()).await.unwrap().unwrap();
        assert_eq!(row.erased_at, Some(after(9_000)));
        assert_eq!(
            (row.effects["http"].note.as_str(), row.effects["http"].state),
            ("", EffectState::Done)
        );
        let told: Vec<_> = row
            .history
            .iter()
            .map(|m| (m.what.as_str(), m.note.as_str()))
            .collect();
        assert_eq!(told, [("failed", ""), ("done", ""), ("erased", BY.why)]);
        assert_eq!(row.history[2].owner, BY.who);
        assert_eq!(table.body(event.key()).await, Err(MissingBody::Gone));
        // The ledger still recognizes a delivery of the event as a duplicate.
        let again = table.ledger.receive(&event, after(9_500)).await.unwrap();
        assert_eq!(again, Received::Settled);
        assert_eq!(erase(&table, &event).await, Erased::Gone);
    }
    let left = table.all().await;
    assert!(left.iter().all(|item| item["sk"].as_s().unwrap() == "M"));
    assert_eq!(objects(&table).await, 0);
}

#[tokio::test]
async fn an_open_event_ends_with_it() {
    let table = Table::fresh().await;
    for attempts in 0..2 {
        let event = event(&format!("evt_{attempts}"));
        table.receive(&event).await;
        if attempts == 1 {
            let lease = table.lease(event.key(), NOW).await;
            table.settle(lease, retry_at(NOW)).await;
        }
        assert_eq!(erase(&table, &event).await, Erased::Gone);
        let row = table.ledger.event(event.key()).await.unwrap().unwrap();
        assert_eq!(
            (row.state, row.reason.as_deref()),
            (State::DeadLetter, Some("erased"))
        );
        assert_eq!(row.due, None);
        let stored = table.row(event.key()).await;
        assert!(stored["gpk"].as_s().unwrap().starts_with("D#"));
        assert_eq!(number(&stored, "ttl"), (after(9_000) + KEEP_ROW).secs());
        let claim = table.claim_of(event.key(), after(9_001), ATTEMPTS).await;
        assert_eq!(claim_word(&claim), "dead_letter");
    }
}

fn claim_word(claim: &Claim) -> &'static str {
    match claim {
        Claim::Settled(state) => state.as_str(),
        _ => "open",
    }
}

#[tokio::test]
async fn what_somebody_is_at_work_on_is_left_alone() {
    let table = Table::fresh().await;
    let event = event_with("evt_1", Via::Webhook, noise(3_000));
    table.receive(&event).await;
    let lease = table.lease(event.key(), NOW).await;
    let before = table.row(event.key()).await;
    assert_eq!(erase(&table, &event).await, Erased::Processing);
    assert_eq!(table.row(event.key()).await, before);
    assert!(table.body_row(&event).await.is_some());
    table.settle(lease, dead()).await;
    assert_eq!(erase(&table, &event).await, Erased::Gone);
    assert!(table.body_row(&event).await.is_none());
    assert_eq!(
        erase(&table, &crate::support::event("other")).await,
        Erased::Missing
    );
}

#[tokio::test]
async fn of_a_worker_and_an_erasure_one_comes_first() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let event = event_with(&format!("evt_{round}"), Via::Webhook, noise(2_000));
        table.receive(&event).await;
        let (erased, claim) = tokio::join!(
            erase(&table, &event),
            table
                .ledger
                .claim(event.key(), "processor", after(9_000), LEASE, ATTEMPTS)
        );
        match (erased, claim.unwrap()) {
            (Erased::Gone, Claim::Settled(State::DeadLetter)) => {
                assert!(table.body_row(&event).await.is_none());
            }
            (Erased::Processing, Claim::Leased(lease)) => {
                let body = table.ledger.leased_body(&lease).await.unwrap();
                assert!(
                    body.is_ok(),
                    "the worker lost the body while it held the lease"
                );
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_a_worker_took_meanwhile_is_looked_at_again() {
    for (settlement, expected, state) in [
        (None, Erased::Processing, "processing"),
        (Some(Settlement::Done), Erased::Gone, "done"),
    ] {
        let table = Table::fresh().await;
        let key = table.receive(&event("evt_1")).await;
        let (proxy, ledger) = table.through_proxy().await;
        let held = proxy.hold("UpdateItem", "erased_at");
        let (erased, ()) = held
            .around(ledger.erase(&key, BY, after(10_000)), async {
                let lease = table.lease(&key, NOW).await;
                if let Some(settlement) = settlement {
                    table.settle(lease, settlement).await;
                }
            })
            .await;
        assert_eq!(erased.unwrap(), expected);
        assert_eq!(text(&table.row(&key).await, "st"), state);
    }
}

#[tokio::test]
async fn a_deletion_that_failed_is_made_up_for() {
    let mut table = Table::with_bucket().await;
    let event = event_with("evt_1", Via::Webhook, noise(40_000));
    table.receive(&event).await;
    assert!(matches!(
        table.body_at(event.key()).await,
        BodyAt::Bucket(_)
    ));
    let whole = table.ledger.clone();
    // The operator did not set the name of the bucket.
    table.ledger = shared::inbox::ledger::Ledger::new(table.db.clone(), &table.name, None);
    let error = table.ledger.erase(event.key(), BY, NOW).await.unwrap_err();
    assert!(format!("{error:#}").contains("no bucket"), "{error:#}");
    assert_eq!(objects(&table).await, 1);
    table.ledger = whole;
    assert_eq!(erase(&table, &event).await, Erased::Gone);
    assert_eq!(objects(&table).await, 0);
}

#[tokio::test]
async fn what_was_kept_apart_goes_by_itself() {
    let table = Table::with_bucket().await;
    let one = event_with("evt_1", Via::Webhook, noise(40_000));
    let mut other = noise(40_000);
    other[0] ^= 1;
    let other = event_with("evt_1", Via::Webhook, other);
    table.receive(&one).await;
    let Received::Conflict(apart) = table.ledger.receive(&other, NOW).await.unwrap() else {
        panic!("expected a conflict: another body under the same id");
    };
    let erased = table.ledger.erase(&apart, BY, after(9_000)).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    assert_eq!(table.body(&apart).await, Err(MissingBody::Gone));
    assert_eq!(table.body(one.key()).await, Ok(one.body().to_vec()));
    assert_eq!(erase(&table, &one).await, Erased::Gone);
    // The body was also stored under the first key before the ledger found the conflict. This copy
    // is deleted too.
    assert_eq!(objects(&table).await, 0);
}

#[tokio::test]
async fn what_was_kept_apart_stays_when_the_first_one_goes() {
    let table = Table::with_bucket().await;
    let [one, other] = [(); 2].map(|()| event_with("evt_1", Via::Webhook, noise(40_000)));
    table.receive(&one).await;
    let Received::Conflict(apart) = table.ledger.receive(&other, NOW).await.unwrap() else {
        panic!("expected a conflict: another body under the same id");
    };
    assert_eq!(erase(&table, &one).await, Erased::Gone);
    assert_eq!(table.body(&apart).await, Ok(other.body().to_vec()));
}

#[tokio::test]
async fn who_erases_is_written_down() {
    let table = Table::fresh().await;
    let deed = AuditAction {
        through: Through::Cli,
        what: "erase",
        who: BY.who.to_owned(),
        why: BY.why.to_owned(),
        selection: "data.customer=cus_1".to_owned(),
        count: 3,
    };
    table.ledger.operations().log(&deed, NOW).await.unwrap();
    table.ledger.operations().log(&deed, NOW).await.unwrap();
    let written = table.all().await;
    assert_eq!(written.len(), 2);
    for entry in written {
        assert_eq!(entry["pk"].as_s().unwrap(), "LOG#203003");
        assert_eq!(entry["who"].as_s().unwrap(), BY.who);
        assert_eq!(entry["why"].as_s().unwrap(), BY.why);
        assert!(!entry.contains_key("ttl"));
    }
}
