//! Tests the path from the queue to the function: batches, partial failures and dead letters.

use aws_sdk_sqs::types::QueueAttributeName;
use local::Stack;
use serde_json::Value;

use super::{stack, until};

async fn send(stack: &Stack, body: &str) {
    let request = stack
        .clients()
        .sqs
        .send_message()
        .queue_url(stack.queue_url("WorkQueue").unwrap());
    request
        .message_body(body)
        .message_group_id("stripe")
        .send()
        .await
        .unwrap();
}

/// Returns the number of messages in a queue, including messages in flight.
async fn depth(stack: &Stack, id: &str) -> usize {
    let request = stack
        .clients()
        .sqs
        .get_queue_attributes()
        .queue_url(stack.queue_url(id).unwrap());
    let answer = request
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .unwrap();
    let attributes = answer.attributes.unwrap();
    [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ]
    .iter()
    .map(|name| attributes[name].parse::<usize>().unwrap())
    .sum()
}

/// Returns the records that the processor has received so far.
fn records(stack: &Stack) -> Vec<Value> {
    let log = std::fs::read_to_string(stack.log_file("Processor").unwrap()).unwrap_or_default();
    let batches = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    batches
        .flat_map(|batch| batch["Records"].as_array().cloned().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn a_message_reaches_the_processor_and_is_deleted() {
    let stack = stack().await;
    send(&stack, "ok").await;
    until("the processor gets the message", async || {
        records(&stack).pop()
    })
    .await;
    until("the queue is empty", async || {
        (depth(&stack, "WorkQueue").await == 0).then_some(())
    })
    .await;
    let record = records(&stack).pop().unwrap();
    assert_eq!(record["body"], "ok");
    assert_eq!(record["md5OfBody"], "444bcb3a3fcf8389296c49467f27e1d6");
    assert_eq!(record["eventSource"], "aws:sqs");
    assert_eq!(
        record["eventSourceARN"],
        "arn:aws:sqs:us-east-1:000000000000:mitt-WorkQueue"
    );
    assert_eq!(record["awsRegion"], "us-east-1");
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
    assert_eq!(record["attributes"]["MessageGroupId"], "stripe");
    assert!(
        record["attributes"]["SentTimestamp"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    assert!(record["receiptHandle"].is_string() && record["messageAttributes"].is_object());
    stack.stop().await;
}

#[tokio::test]
async fn only_what_failed_comes_back_and_dies_in_the_end() {
    let stack = stack().await;
    for body in ["ok", "fail", "ok", "ok"] {
        send(&stack, body).await;
    }
    until("the failure is a dead letter", async || {
        (depth(&stack, "WorkDeadLetters").await == 1).then_some(())
    })
    .await;
    assert_eq!(depth(&stack, "WorkQueue").await, 0);
    let shown = |body: &str| {
        records(&stack)
            .iter()
            .filter(|record| record["body"] == body)
            .count()
    };
    assert_eq!((shown("fail"), shown("ok")), (2, 3));
    stack.stop().await;
}

#[tokio::test]
async fn errors_crashes_timeouts_and_unknown_ids_bring_the_batch_back() {
    let stack = stack().await;
    for order in ["error", "crash", "hang", "unknown"] {
        send(&stack, order).await;
    }
    until("all messages are dead letters", async || {
        (depth(&stack, "WorkDeadLetters").await == 4).then_some(())
    })
    .await;
    assert_eq!(depth(&stack, "WorkQueue").await, 0);
    stack.stop().await;
}
