//! Events while the ledger is unavailable. The catcher acknowledges them if and only if they are
//! durable. They are drained when the ledger is available again, and processed once.

use std::collections::BTreeMap;

use serde_json::json;
use shared::webhook::event::EventKey;

use super::{
    bad_input::noise,
    batches,
    budget::{FAULTS, Fault, Shaky},
    support::{failures, record, s, seconds_from_now, unique, work_message},
};

/// Checks that the processor processes the event, and that a second message has no effect.
async fn is_done_once(shaky: &Shaky, key: &EventKey) {
    for _ in 0..2 {
        let rung = [record("1", &work_message(key))];
        assert_eq!(failures(&shaky.inbox, &rung).await, [""; 0]);
    }
    let row = shaky.inbox.row(key).await;
    assert_eq!(row["st"], s("done"), "{key}");
    assert_eq!(row["att"].as_n().unwrap(), "1", "{key}");
}

#[tokio::test]
async fn a_spilled_event_is_what_it_would_have_been_and_is_done_once() {
    let mut shaky = Shaky::start().await;
    let (direct, _) = shaky.post("healthy, cold", b"body").await;
    for fault in FAULTS {
        shaky.dynamodb.break_down(fault).await;
        let key = shaky
            .expect_spilled(&format!("dynamodb {fault:?}"), b"body")
            .await;
        let (row, other) = (shaky.inbox.row(&key).await, shaky.inbox.row(&direct).await);
        // The attributes that differ between events.
        let own = [
            "pk", "b", "sha", "rcv", "wid", "enq", "gpk", "gsk", "tpk", "tsk", "dlv", "hdr", "spl",
        ];
        let common = |row: &super::support::Item| {
            let attributes = row.clone().into_iter();
            attributes
                .filter(|(name, _)| !own.contains(&name.as_str()))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(common(&row), common(&other), "{fault:?}");
        assert_eq!(row["via"], s("webhook"));
        let received: i64 = row["rcv"].as_n().unwrap().parse().unwrap();
        let drained: i64 = row["spl"].as_n().unwrap().parse().unwrap();
        assert!(received < drained, "{received} {drained}");
        is_done_once(&shaky, &key).await;
        shaky.dynamodb.mend().await;
        shaky.inbox.kill_catcher().await;
    }
}

#[tokio::test]
async fn a_put_that_was_applied_after_all_and_its_spilled_copy_are_one_event() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    let late = std::time::Duration::from_secs(2);
    shaky.dynamodb.break_down(Fault::Late(late)).await;
    // The preset signs the event id, so the first write creates the row.
    let id = format!("evt_{}", unique());
    let body = json!({ "id": id, "type": "invoice.paid" }).to_string();
    let headers = shaky
        .inbox
        .timed("stripe-main", "", &seconds_from_now(0), body.as_bytes());
    let answer = shaky.inbox.post("stripe-main", &headers, body.as_bytes());
    assert_eq!(answer.await.status, 200);
    let key = EventKey::new("stripe-main", &id);
    let row = shaky.inbox.row(&key).await;
    assert_eq!(shaky.waiting().await, 1);
    let report = shaky.drain().await;
    assert_eq!(
        (&report["known"], &report["new"]),
        (&json!(1), &json!(0)),
        "{report}"
    );
    assert_eq!(shaky.inbox.row(&key).await, row);
    is_done_once(&shaky, &key).await;
}

#[tokio::test]
async fn without_both_stores_no_event_is_acknowledged() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    for fault in FAULTS {
        shaky.dynamodb.break_down(fault).await;
        shaky.sqs.break_down(fault).await;
        // More failures than the number that opens the circuit breaker of the ledger.
        for _ in 0..5 {
            shaky
                .expect_another_try(&format!("dynamodb and sqs {fault:?}"), b"")
                .await;
        }
        // Only the ledger is available again. The catcher calls the ledger, although many earlier
        // calls have failed.
        shaky.dynamodb.mend().await;
        shaky.expect_kept(&format!("only sqs {fault:?}"), b"").await;
        shaky.sqs.mend().await;
        // The queue stored the message, although its response was too late.
        shaky.drain().await;
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn a_ledger_that_keeps_failing_is_left_alone_for_a_while() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    shaky.dynamodb.break_down(Fault::Error).await;
    for time in ["first", "second", "third"] {
        let before = shaky.dynamodb.connections();
        shaky.expect_spilled(time, b"").await;
        assert!(shaky.dynamodb.connections() > before, "{time}");
    }
    let before = shaky.dynamodb.connections();
    for _ in 0..5 {
        let (_, answer) = shaky.post("breaker open", b"").await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(shaky.dynamodb.connections(), before);
    assert_eq!(shaky.waiting().await, 5);
    // If the spill queue fails too, the ledger is the only store left.
    shaky.sqs.break_down(Fault::Error).await;
    shaky
        .expect_another_try("breaker open, no queue", b"")
        .await;
    assert!(shaky.dynamodb.connections() > before);
    shaky.sqs.mend().await;
    assert_eq!(shaky.drain().await["new"], 5);
    for _ in 0..3 {
        shaky.expect_spilled("again", b"").await;
    }
    shaky.dynamodb.mend().await;
    let before = shaky.dynamodb.connections();
    let tried = loop {
        let (key, answer) = shaky.post("until it is tried", b"").await;
        assert_eq!(answer.status, 200);
        if shaky.inbox.find(&key).await.is_some() {
            break key;
        }
        assert_eq!(shaky.dynamodb.connections(), before);
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    };
    assert_eq!(shaky.inbox.row(&tried).await.get("spl"), None);
    shaky.expect_kept("it is called again", b"").await;
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn store_faults_lose_no_acknowledged_event() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    let faults = [
        None,
        Some(Fault::Error),
        Some(Fault::Throttled),
        Some(Fault::Late(std::time::Duration::from_secs(2))),
    ];
    let large = noise(100_000);
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for n in 0..50_usize {
        let fault = |pick: usize| faults[pick % faults.len()];
        match fault(n / 3) {
            Some(fault) => shaky.dynamodb.break_down(fault).await,
            None => shaky.dynamodb.mend().await,
        }
        match fault(n / 7 * usize::from(n % 5 == 0)) {
            Some(fault) => shaky.sqs.break_down(fault).await,
            None => shaky.sqs.mend().await,
        }
        let body = if n % 4 == 0 { &large[..] } else { b"" };
        let (key, answer) = shaky.post(&format!("{n}"), body).await;
        match answer.status {
            200 => acknowledged.push(key),
            _ => refused += 1,
        }
        if n % 10 == 9 {
            shaky.drain().await;
        }
    }
    shaky.drain().await;
    assert_eq!(shaky.waiting().await, 0);
    assert!(acknowledged.len() >= 30, "{} of 50", acknowledged.len());
    for key in &acknowledged {
        is_done_once(&shaky, key).await;
    }
    assert!(refused > 0, "the faults had no effect");
    shaky.inbox.tells_nothing();
}

#[tokio::test]
async fn a_batch_is_spilled_whole() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    shaky.dynamodb.break_down(Fault::Error).await;
    let ids: Vec<String> = (0..20).map(|_| format!("EV-{}", unique())).collect();
    let all: Vec<&String> = ids.iter().collect();
    assert_eq!(batches::post(&shaky.inbox, &all).await.status, 200);
    assert_eq!(shaky.waiting().await, 1);
    shaky.sqs.break_down(Fault::Error).await;
    assert!(
        batches::post(&shaky.inbox, &all)
            .await
            .asks_for_another_try()
    );
    let report = shaky.drain().await;
    assert_eq!(
        (&report["messages"], &report["new"]),
        (&json!(1), &json!(20)),
        "{report}"
    );
    for id in &ids {
        let key = EventKey::new("gocardless-main", id);
        assert_eq!(
            shaky.inbox.row(&key).await["bat"]
                .as_s()
                .unwrap()
                .split('|')
                .next(),
            Some("20")
        );
        is_done_once(&shaky, &key).await;
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn a_message_is_deleted_only_when_its_event_is_a_row() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    let sqs = shaky.inbox.stack.clients().sqs;
    let spill = shaky
        .inbox
        .stack
        .queue_url("SpillQueue")
        .unwrap()
        .to_owned();
    let word = shaky.inbox.canary();
    for body in [word.clone(), format!(r#"{{"v":2,"events":["{word}"]}}"#)] {
        let send = sqs.send_message().queue_url(&spill).message_body(body);
        send.send().await.unwrap();
    }
    let report = shaky.drain().await;
    assert_eq!(
        (&report["unreadable"], &report["left"]),
        (&json!(2), &json!(2)),
        "{report}"
    );

    shaky.dynamodb.break_down(Fault::Error).await;
    let (key, answer) = shaky.post("spilled", b"").await;
    assert_eq!(answer.status, 200);
    shaky.workers.break_down(Fault::Error).await;
    let report = shaky.drain().await;
    assert_eq!(
        (&report["failed"], &report["stopped"]),
        (&json!(1), &json!(true)),
        "{report}"
    );
    assert_eq!(shaky.inbox.find(&key).await, None);
    assert_eq!(
        shaky.waiting().await,
        3,
        "the message returns, and so do the unreadable ones"
    );
    // The messages in the queue do not make a sweep fail.
    shaky.workers.mend().await;
    let sweep = shaky
        .inbox
        .invoke("BackupSync", &json!({ "task": "sweep" }))
        .await;
    assert_eq!(sweep.error(), None);
    shaky.inbox.tells_nothing();
}
