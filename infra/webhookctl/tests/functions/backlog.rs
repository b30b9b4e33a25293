//! After an outage the events of now do not wait behind those of then.

use serde_json::{Value, json};
use shared::clock::Millis;
use shared::queue::Doorbell;
use shared::timing::LATE;

use super::answers::{failures, record};
use super::support::{Inbox, options};

/// A doorbell that was sent so long ago.
fn sent(doorbell: &Doorbell, queue: &str, ago: std::time::Duration) -> Value {
    let mut record = record("1", &doorbell.to_message());
    let at = Millis::now() - ago;
    record["attributes"]["SentTimestamp"] = json!(at.0.to_string());
    record["eventSourceARN"] = json!(format!("arn:aws:sqs:us-east-1:000000000000:{queue}"));
    record
}

#[tokio::test]
async fn what_waited_long_goes_behind_what_is_new() {
    let inbox = Inbox::start(options()).await;
    let url = inbox.stack.queue_url("Backlog").unwrap();
    let backlog = url.rsplit('/').next().unwrap();
    let live = inbox.stack.queue_url("Doorbell").unwrap();
    let live = live.rsplit('/').next().unwrap();
    let second = std::time::Duration::from_secs(1);
    let waiting = async || {
        let receive = inbox.stack.clients().sqs.receive_message();
        let answer = receive.queue_url(url).visibility_timeout(0).send().await;
        let messages = answer.unwrap().messages.unwrap_or_default();
        let bodies = messages.into_iter().map(|message| message.body.unwrap());
        bodies.collect::<Vec<_>>()
    };
    let state = async |doorbell: &Doorbell| {
        let row = inbox.row(&doorbell.key).await;
        row["st"].as_s().unwrap().clone()
    };

    let key = inbox.new_event().await;
    let young = Doorbell { key, run: 0 };
    let heard = sent(&young, live, LATE / 2);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&young).await, "done");
    assert!(waiting().await.is_empty());

    let key = inbox.new_event().await;
    let old = Doorbell { key, run: 0 };
    let late = LATE + second;
    let heard = sent(&old, live, late);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&old).await, "received");
    assert_eq!(waiting().await, [old.to_message()]);

    // From there it goes nowhere else.
    let heard = sent(&old, backlog, late);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&old).await, "done");
    inbox.is_unharmed();
}
