//! Tests that the ledger stores each event once.

use std::time::Duration;

use futures::future::join_all;
use shared::base::timing::{FIRST_LOOK, KEEP_ROW};
use shared::inbox::ledger::{BodyAt, FoundBy, Received, State};
use shared::webhook::event::{Event, EventKey, Fetched, Sha, Via};

use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, github, lease_over, ms, n, noise, number,
    signed, text,
};

const SILENT: Received = Received::Open {
    silent: true,
    run: 0,
};

const RUNG: Received = Received::Open {
    silent: false,
    run: 0,
};

#[tokio::test]
async fn a_new_event_is_received_and_waits_for_its_first_look() {
    let table = Table::fresh().await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "Stripe/1.0"),
    ];
    let event = signed(
        "stripe",
        &headers,
        r#"{"id":"evt_1","type":"invoice.paid"}"#,
    );
    let now = after(40);
    assert_eq!(
        table.ledger.receive(&event, now).await.unwrap(),
        Received::New
    );

    let row = table.ledger.event(event.key()).await.unwrap().unwrap();
    assert_eq!(row.key, EventKey::new("stripe-main", "evt_1"));
    assert_eq!((row.state, row.schema), (State::Received, 1));
    assert_eq!((row.epoch, row.run, row.generation), (0, 0, 0));
    assert_eq!((row.attempts, row.crashes, row.sends), (0, 0, 0));
    assert_eq!((row.received_at, row.sent_at), (NOW, Some(now)));
    assert_eq!(row.next_look, Some(now + FIRST_LOOK));
    assert_eq!(
        (row.owner.as_ref(), row.lease_until, row.due),
        (None, None, None)
    );
    assert_eq!(
        (row.kind.as_str(), row.provider.as_str()),
        ("invoice.paid", "stripe")
    );
    assert_eq!((row.preset.as_str(), row.via), ("stripe", Via::Webhook));
    assert_eq!(row.secret.as_deref(), Some("current.1"));
    assert_eq!(row.content_type.as_deref(), Some("application/json"));
    assert_eq!(row.headers["user-agent"], "Stripe/1.0");
    assert!(row.headers.contains_key("stripe-signature"));
    assert_eq!(
        (row.sha, row.body_at),
        (Some(Sha::of(event.body())), BodyAt::Inline)
    );
    assert_eq!(row.body_len, event.body().len() as u64);
    assert_eq!(row.write_id.len(), 18);

    let stored = table.row(event.key()).await;
    assert_eq!(text(&stored, "gpk")[..2], *"W#");
    assert_eq!(text(&stored, "tsk"), format!("{}#invoice.paid", NOW.0));
    assert!(!stored.contains_key("ttl"));
}

#[tokio::test]
async fn a_second_delivery_is_silent_when_nobody_rang_for_five_seconds() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    let key = table.receive(&event).await;
    let before = table.row(&key).await;
    for (ms, answer) in [
        (0, RUNG),
        (5_000, RUNG),
        (5_001, SILENT),
        (3_600_000, SILENT),
    ] {
        assert_eq!(
            table.ledger.receive(&event, after(ms)).await.unwrap(),
            answer,
            "{ms}"
        );
    }
    assert_eq!(table.row(&key).await, before);

    // The sweep sent a message an hour later, for the third run.
    table
        .edit(&key, |row| {
            row.insert("enq".into(), ms(after(3_600_000)));
            row.insert("run".into(), n(3));
        })
        .await;
    let rung = Received::Open {
        silent: false,
        run: 3,
    };
    assert_eq!(
        table
            .ledger
            .receive(&event, after(3_605_000))
            .await
            .unwrap(),
        rung
    );
    // If a row has no time of the last message, the time of receipt counts.
    table.edit(&key, |row| drop(row.remove("enq"))).await;
    let silent = Received::Open {
        silent: true,
        run: 3,
    };
    assert_eq!(
        table.ledger.receive(&event, after(5_001)).await.unwrap(),
        silent
    );
}

#[tokio::test]
async fn a_settled_event_stays_settled_also_past_its_keeping() {
    let table = Table::fresh().await;
    let (done, dead_letter) = (event("evt_1"), event("evt_2"));
    let key = table.receive(&done).await;
    let lease = table.lease(&key, NOW).await;
    table
        .settle(lease, shared::inbox::ledger::Settlement::Done)
        .await;
    let other = table.receive(&dead_letter).await;
    let lease = table.lease(&other, NOW).await;
    table.settle(lease, dead()).await;

    let before = (table.row(&key).await, table.row(&other).await);
    // DynamoDB deletes expired items within days, and not immediately.
    for now in [after(0), NOW + KEEP_ROW + Duration::from_secs(86_400)] {
        for event in [&done, &dead_letter] {
            assert_eq!(
                table.ledger.receive(event, now).await.unwrap(),
                Received::Settled
            );
        }
    }
    assert_eq!((table.row(&key).await, table.row(&other).await), before);
}

#[tokio::test]
async fn another_body_under_a_known_id_is_kept_apart() {
    let table = Table::fresh().await;
    let first = event_with("evt_1", Via::Webhook, "one");
    let second = event_with("evt_1", Via::Webhook, "two");
    let key = table.receive(&first).await;
    let before = table.row(&key).await;

    let apart = EventKey::from_pk(&format!("{}~{}", key.pk(), &Sha::of(b"two").hex()[..8]));
    let apart = apart.unwrap();
    let conflict = Received::Conflict(apart.clone());
    assert_eq!(
        table.ledger.receive(&second, after(1)).await.unwrap(),
        conflict
    );
    let row = table.ledger.event(&apart).await.unwrap().unwrap();
    assert_eq!(row.state, State::Quarantined);
    assert_eq!(row.reason.as_deref(), Some("another body under a known id"));
    let stored = table.row(&apart).await;
    for absent in ["ttl", "enq"] {
        assert!(!stored.contains_key(absent), "{absent}");
    }
    assert!(text(&stored, "gpk").starts_with("Q#"));

    // The third delivery changes nothing and sends no message.
    assert_eq!(
        table.ledger.receive(&second, after(9_000)).await.unwrap(),
        Received::Repeated(apart.clone())
    );
    table.claim(&apart, after(9_000)).await;
    assert_eq!(table.row(&apart).await, stored);
    assert_eq!(table.row(&key).await, before);
    for (key, body) in [(&key, "one"), (&apart, "two")] {
        let kept = table
            .ledger
            .event_body(key)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(kept.0, body);
    }
}

#[tokio::test]
async fn what_comes_out_of_the_spill_queue_without_its_body_is_kept_apart_with_it() {
    let table = Table::with_bucket().await;
    let [first, second] = [(); 2].map(|()| event_with("evt_1", Via::Webhook, noise(40_000)));
    table.receive(&first).await;
    let placed = table.ledger.store_body(&second).await.unwrap();
    let spilled = table.spilled(second.clone(), placed).await;
    let (event, placed) = (spilled.event(), spilled.placed().unwrap());
    assert!(event.body().is_empty(), "the body is in the bucket");
    let received = table
        .ledger
        .receive_stored(event, placed, FoundBy::WorkIndex, after(1))
        .await;
    let Received::Conflict(apart) = received.unwrap() else {
        panic!("expected a conflict: another body under the same id");
    };
    assert_eq!(table.body(&apart).await, Ok(second.body().to_vec()));
}

#[tokio::test]
async fn spilled_and_repaired_events_must_have_the_body_that_was_posted() {
    let table = Table::fresh().await;
    for (index, via) in [Via::Webhook, Via::Spill, Via::Recon]
        .into_iter()
        .enumerate()
    {
        let id = format!("evt_{index}");
        table.receive(&event_with(&id, Via::Webhook, "one")).await;
        let same = event_with(&id, via, "one");
        assert_eq!(
            table.ledger.receive(&same, after(1)).await.unwrap(),
            RUNG,
            "{via}"
        );
        let other = event_with(&id, via, "two");
        let answer = table.ledger.receive(&other, after(1)).await.unwrap();
        assert!(matches!(answer, Received::Conflict(_)), "{via}: {answer:?}");
    }
}

#[tokio::test]
async fn what_the_api_lists_is_the_event_that_was_posted_whatever_its_bytes() {
    let table = Table::fresh().await;
    let both = [Via::Webhook, Via::BackupSync];
    for (first, second) in [(both[0], both[1]), (both[1], both[0]), (both[1], both[1])] {
        let id = format!("evt_{first}_{second}");
        let key = table.receive(&event_with(&id, first, "{\"a\":1}")).await;
        let before = table.row(&key).await;
        let other = event_with(&id, second, "{ \"a\": 1 }");
        assert_eq!(
            table.ledger.receive(&other, after(9_000)).await.unwrap(),
            SILENT,
            "{id}"
        );
        let mut row = table.row(&key).await;
        row.remove("also_webhook");
        assert_eq!(row, before);
    }
    assert_eq!(table.all().await.len(), 3);
}

#[tokio::test]
async fn an_unsigned_id_is_believed_once_for_each_body() {
    let table = Table::fresh().await;
    let first = github("72d3162e-0001", r#"{"ref":"refs/heads/main"}"#);
    assert_eq!(
        table.ledger.receive(&first, NOW).await.unwrap(),
        Received::New
    );
    let sha = Sha::of(first.body()).hex();
    let marker = table
        .item(&format!("E#github-main#~{sha}"), "S")
        .await
        .unwrap();
    assert_eq!(text(&marker, "ek"), "E#github-main#72d3162e-0001");
    assert_eq!(number(&marker, "ttl"), (NOW + KEEP_ROW).secs());

    // The same delivery is a duplicate.
    assert_eq!(table.ledger.receive(&first, after(1)).await.unwrap(), RUNG);
    // A captured request does not become a new event if the attacker changes the id.
    let forged = github("72d3162e-0002", r#"{"ref":"refs/heads/main"}"#);
    let Received::Conflict(apart) = table.ledger.receive(&forged, after(1)).await.unwrap() else {
        panic!("the captured request was accepted twice");
    };
    assert_eq!(apart.id(), format!("72d3162e-0002~{}", &sha[..8]));
    assert!(table.ledger.event(forged.key()).await.unwrap().is_none());
    let row = table.ledger.event(&apart).await.unwrap().unwrap();
    assert_eq!(row.state, State::Quarantined);
    assert_eq!(row.reason.as_deref(), Some("a known body under another id"));
    // A request with another body is another event.
    let other = github("72d3162e-0003", r#"{"ref":"refs/heads/next"}"#);
    assert_eq!(
        table.ledger.receive(&other, after(1)).await.unwrap(),
        Received::New
    );
}

#[tokio::test]
async fn other_bytes_under_one_signature_are_quarantined() {
    let table = Table::fresh().await;
    let of = |body: &str| signed("twilio", &[], body.to_owned());
    let first = of("CallSid=CA123&CallStatus=ringing&From=%2B1555");
    assert_eq!(
        table.ledger.receive(&first, NOW).await.unwrap(),
        Received::New
    );
    // The same request again is a duplicate. The same signature over other bytes is not an event.
    assert_eq!(table.ledger.receive(&first, after(1)).await.unwrap(), RUNG);
    for spelled in [
        "From=%2B1555&CallStatus=ringing&CallSid=CA123",
        "CallSid=%43A123&CallStatus=ringing&From=%2B1555",
        "CallSid=CA123&CallStatus=ringingFrom%2B1555",
        "CallSid=CA123&CallStatusringing=From%2B1555",
    ] {
        let again = of(spelled);
        assert_ne!(again.key(), first.key(), "{spelled}");
        let answer = table.ledger.receive(&again, after(2)).await.unwrap();
        let Received::Conflict(quarantined) = answer else {
            panic!("{spelled}: {answer:?}");
        };
        assert!(table.ledger.event(again.key()).await.unwrap().is_none());
        let row = table.ledger.event(&quarantined).await.unwrap().unwrap();
        assert_eq!(row.state, State::Quarantined, "{spelled}");
        let why = row.reason.as_deref();
        assert_eq!(why, Some("other bytes under a known signature"));
    }
    // A request with other fields has another signature.
    let other = of("CallSid=CA123&CallStatus=completed&From=%2B1555");
    assert_eq!(
        table.ledger.receive(&other, after(3)).await.unwrap(),
        Received::New
    );
}

#[tokio::test]
async fn a_catcher_that_dies_behind_the_marker_leaves_the_way_open_for_its_own_event() {
    let table = Table::fresh().await;
    let event = github("72d3162e-0001", "{}");
    table.ledger.receive(&event, NOW).await.unwrap();
    table.delete(&event.key().pk(), "M").await;
    let forged = github("72d3162e-0002", "{}");
    let answer = table.ledger.receive(&forged, after(1)).await.unwrap();
    assert!(matches!(answer, Received::Conflict(_)), "{answer:?}");
    assert_eq!(
        table.ledger.receive(&event, after(2)).await.unwrap(),
        Received::New
    );
}

#[tokio::test]
async fn a_signed_id_needs_no_marker() {
    let table = Table::fresh().await;
    table
        .receive(&signed("stripe", &[], r#"{"id":"evt_1"}"#))
        .await;
    let again = signed("stripe", &[], r#"{"id":"evt_2"}"#);
    assert_eq!(
        table.ledger.receive(&again, NOW).await.unwrap(),
        Received::New
    );
    assert_eq!(table.all().await.len(), 2);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_durable_all_the_same() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    let key = table.receive(&event).await;
    let before = table.edit(&key, |row| drop(row.remove("st"))).await;
    assert_eq!(
        table.ledger.receive(&event, after(1)).await.unwrap(),
        SILENT
    );
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn only_one_of_sixteen_parallel_deliveries_is_new() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let event = event(&format!("evt_{round}"));
        let answers = join_all((0..16).map(|_| table.ledger.receive(&event, NOW))).await;
        let answers: Vec<Received> = answers.into_iter().map(Result::unwrap).collect();
        let new = answers
            .iter()
            .filter(|answer| **answer == Received::New)
            .count();
        let open = answers.iter().filter(|answer| **answer == RUNG).count();
        assert_eq!((new, open), (1, 15), "round {round}: {answers:?}");
    }
    assert_eq!(table.all().await.len(), 50);
}

#[tokio::test]
async fn of_two_bodies_at_once_one_is_the_event_and_one_is_kept_apart() {
    let table = Table::fresh().await;
    for round in 0..25 {
        let id = format!("evt_{round}");
        let bodies = [
            event_with(&id, Via::Webhook, "one"),
            event_with(&id, Via::Webhook, "two"),
        ];
        let racers = (0..16).map(|racer| table.ledger.receive(&bodies[racer % 2], NOW));
        let answers: Vec<_> = join_all(racers)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let count = |answer: fn(&Received) -> bool| answers.iter().filter(|a| answer(a)).count();
        assert_eq!(count(|answer| *answer == Received::New), 1, "{answers:?}");
        assert_eq!(
            count(|answer| matches!(answer, Received::Conflict(_) | Received::Repeated(_))),
            8,
            "{answers:?}"
        );
    }
    let rows = table.all().await;
    let rows = rows.iter().filter(|item| text(item, "sk") == "M");
    assert_eq!(rows.count(), 50);
}

#[tokio::test]
async fn of_sixteen_ids_with_one_body_one_is_new() {
    let table = Table::fresh().await;
    for round in 0..25 {
        let body = format!("{{\"round\":{round}}}");
        let events: Vec<_> = (0..16)
            .map(|id| github(&format!("{round}-{id}"), &body))
            .collect();
        let answers = join_all(events.iter().map(|event| table.ledger.receive(event, NOW))).await;
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let new = answers
            .iter()
            .filter(|answer| **answer == Received::New)
            .count();
        assert_eq!(new, 1, "round {round}: {answers:?}");
    }
}

#[tokio::test]
async fn a_transaction_on_the_row_is_waited_for_three_times() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.conflict("PutItem", 3);
    assert_eq!(
        ledger.receive(&event("evt_1"), NOW).await.unwrap(),
        Received::New
    );
    proxy.conflict("PutItem", 4);
    let error = ledger.receive(&event("evt_2"), NOW).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("put an event into the ledger"), "{error}");
    assert!(error.contains("TransactionConflictException"), "{error}");

    proxy.conflict("UpdateItem", 3);
    let key = event("evt_1").key().clone();
    let claim = ledger.claim(&key, "worker", lease_over(), FIRST_LOOK, ATTEMPTS);
    crate::support::leased(claim.await.unwrap());
}

/// DynamoDB limits an index key to 1,024 bytes, and the type is a part of an index key.
#[tokio::test]
async fn an_event_with_the_longest_type_is_kept() {
    let table = Table::fresh().await;
    let event = Event::fetched(Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id: "evt_1",
        kind: &"t".repeat(1024),
        body: "{}".into(),
        now: NOW,
        via: Via::BackupSync,
        config: "0123456789ab",
    });
    let received = table.ledger.receive(&event, NOW).await.unwrap();
    assert_eq!(received, Received::New);
    let item = table.item(&event.key().pk(), "M").await.unwrap();
    assert!(text(&item, "tsk").len() <= 1024);
    assert_eq!(text(&item, "ty"), "t".repeat(128));
}
