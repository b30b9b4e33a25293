//! After an outage, new events do not wait behind old ones.

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::base::timing::LATE;
use shared::inbox::queue::WorkMessage;

use super::support::{Inbox, options};
use super::support::{failures, record};

/// Returns a message that was sent this long ago.
fn sent(work_message: &WorkMessage, queue: &str, ago: std::time::Duration) -> Value {
    let mut record = record("1", &work_message.to_message());
    let at = UnixMillis::now() - ago;
    record["attributes"]["SentTimestamp"] = json!(at.0.to_string());
    record["eventSourceARN"] = json!(format!("arn:aws:sqs:us-east-1:000000000000:{queue}"));
    record
}

#[tokio::test]
async fn what_waited_long_goes_behind_what_is_new() {
    let inbox = Inbox::start(options()).await;
    let url = inbox.stack.queue_url("BacklogQueue").unwrap();
    let backlog = url.rsplit('/').next().unwrap();
    let first = inbox.stack.queue_url("WorkQueue").unwrap();
    let live = first.rsplit('/').next().unwrap();
    let second = std::time::Duration::from_secs(1);
    let waiting = async |url: &str| {
        let receive = inbox.stack.clients().sqs.receive_message();
        let answer = receive.queue_url(url).visibility_timeout(0).send().await;
        let messages = answer.unwrap().messages.unwrap_or_default();
        let bodies = messages.into_iter().map(|message| message.body.unwrap());
        bodies.collect::<Vec<_>>()
    };
    let state = async |work_message: &WorkMessage| {
        let row = inbox.row(&work_message.key).await;
        row["st"].as_s().unwrap().clone()
    };

    let key = inbox.new_event().await;
    let young = WorkMessage { key, run: 0 };
    let heard = sent(&young, live, LATE / 2);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&young).await, "done");
    assert!(waiting(url).await.is_empty());

    let key = inbox.new_event().await;
    let old = WorkMessage { key, run: 0 };
    let late = LATE + second;
    let heard = sent(&old, live, late);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&old).await, "received");
    assert_eq!(waiting(url).await, [old.to_message()]);

    // In an older stack, another consumer receives the messages of this queue. It processes the
    // message.
    let heard = sent(&old, backlog, late);
    assert!(failures(&inbox, &[heard]).await.is_empty());
    assert_eq!(state(&old).await, "done");

    // The drain moves the messages to the work queue, which is empty then.
    let purge = inbox.stack.clients().sqs.purge_queue().queue_url(first);
    purge.send().await.unwrap();
    let task = json!({ "task": "drain" });
    let drained = inbox.invoke("BackupSync", &task).await.json().unwrap();
    assert_eq!(drained["promoted"], 1, "{drained}");
    assert!(waiting(url).await.is_empty());
    assert_eq!(waiting(first).await, [old.to_message()]);
    inbox.is_unharmed();
}
