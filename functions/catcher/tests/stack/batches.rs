//! Requests with several events, over HTTP. Mitt stores and processes each event once, even if a
//! retry groups the events in another way.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use local::Options;
use serde_json::json;
use shared::webhook::event::EventKey;

use super::support::{ADYEN_KEYS, Answer, DEMO_SECRET, Inbox, headers, hex, mac, options, unique};
use super::support::{failures, record, work_message};

/// Returns a request as `GoCardless` posts it. The request itself has a different id each time.
pub(crate) async fn post(inbox: &Inbox, ids: &[&String]) -> Answer {
    let events: Vec<_> = ids
        .iter()
        .map(|id| json!({ "id": id, "action": "confirmed", "resource_type": "payments" }))
        .collect();
    let body = json!({ "events": events, "meta": { "webhook_id": unique() } }).to_string();
    let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
    inbox.must_not_log(&signature);
    let headers = headers(&[
        ("content-type", "application/json"),
        ("webhook-signature", &signature),
    ]);
    inbox
        .post("gocardless-main", &headers, body.as_bytes())
        .await
}

#[tokio::test]
async fn a_regrouped_redelivery_runs_each_event_once() {
    let inbox = Inbox::shared().await;
    let ids: Vec<String> = (0..4).map(|_| format!("EV-{}", unique())).collect();
    let keys: Vec<_> = ids
        .iter()
        .map(|id| EventKey::new("gocardless-main", id))
        .collect();
    let posts: [&[usize]; 4] = [&[0, 1, 2], &[2, 3], &[1], &[3, 2, 1, 0]];
    for ids_of_post in posts {
        let ids: Vec<&String> = ids_of_post.iter().map(|at| &ids[*at]).collect();
        assert_eq!(post(&inbox, &ids).await.status, 200);
        let known = ids_of_post.iter().map(|at| &keys[*at]);
        let records: Vec<_> = known.map(|key| record("1", &work_message(key))).collect();
        assert_eq!(failures(&inbox, &records).await, [""; 0]);
    }
    for (id, key) in ids.iter().zip(&keys) {
        let row = inbox.row(key).await;
        assert_eq!(row["st"].as_s().unwrap(), "done", "{key}");
        assert_eq!(row["att"].as_n().unwrap(), "1", "{key}");
        let body = inbox.kept(key).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let events = body["events"].as_array().unwrap();
        assert_eq!(
            (events.len(), events[0]["id"].as_str()),
            (1, Some(id.as_str()))
        );
        assert!(body["meta"]["webhook_id"].is_string());
    }
    inbox.is_unharmed();
}

/// Returns an item of Adyen with its own signature.
fn adyen(id: &str, key: &str) -> serde_json::Value {
    let message = format!("{id}::Account:order:1130:EUR:AUTHORISATION:true");
    let key = hex::decode(key).unwrap();
    let signature = STANDARD.encode(mac(&key, &[message.as_bytes()]));
    json!({ "NotificationRequestItem": {
        "pspReference": id, "merchantAccountCode": "Account", "merchantReference": "order",
        "amount": { "value": 1130, "currency": "EUR" }, "eventCode": "AUTHORISATION",
        "success": "true", "additionalData": { "hmacSignature": signature },
    }})
}

#[tokio::test]
async fn what_is_proven_item_by_item_is_kept_item_by_item() {
    let inbox = Inbox::shared().await;
    let ids = [unique(), unique()];
    let body = |items: &[serde_json::Value]| {
        json!({ "live": "false", "notificationItems": items }).to_string()
    };
    let [new, old] = ADYEN_KEYS;
    let good = body(&[adyen(&ids[0], new), adyen(&ids[1], old)]);
    let plain = headers(&[("content-type", "application/json")]);
    let answer = inbox.post("adyen-main", &plain, good.as_bytes()).await;
    assert_eq!((answer.status, answer.text()), (200, "[accepted]"));
    for (id, secret) in ids.iter().zip(["current", "previous"]) {
        let key = EventKey::new("adyen-main", &format!("{id}/AUTHORISATION/true"));
        let row = inbox.row(&key).await;
        assert!(row["kid"].as_s().unwrap().starts_with(secret), "{row:?}");
        assert_eq!(row["prv"].as_s().unwrap(), "fields");
        let kept = inbox.kept(&key).await.unwrap();
        assert!(
            kept.starts_with(br#"{"live":"false","notificationItems":[{"#),
            "{kept:?}"
        );
    }

    // If one item has no valid signature, the catcher rejects the whole request.
    let ids = [unique(), unique()];
    let bad = body(&[adyen(&ids[0], new), adyen(&ids[1], "00")]);
    let answer = inbox.post("adyen-main", &plain, bad.as_bytes()).await;
    assert_eq!(answer.status, 401);
    for id in &ids {
        let key = EventKey::new("adyen-main", &format!("{id}/AUTHORISATION/true"));
        assert!(inbox.find(&key).await.is_none());
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn as_many_events_as_a_batch_may_have_are_kept() {
    // The catcher has only a few seconds for the batch, and the check of permissions takes a part.
    let inbox = Inbox::start(Options {
        rights: None,
        ..options()
    })
    .await;
    let ids: Vec<String> = (0..256).map(|_| format!("EV-{}", unique())).collect();
    let answer = post(&inbox, &ids.iter().collect::<Vec<_>>()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // On a busy machine, the catcher puts into the spill queue what it cannot store in time.
    let drain = inbox
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await;
    let report: serde_json::Value = drain.json().unwrap();
    assert_eq!(report["failed"], 0, "{report}");
    for id in &ids {
        let key = EventKey::new("gocardless-main", id);
        assert!(inbox.find(&key).await.is_some(), "{key} {report}");
    }
    inbox.is_unharmed();
}
