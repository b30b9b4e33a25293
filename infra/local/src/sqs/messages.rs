//! Receives messages, and deletes them or changes their visibility by receipt handle.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Sqs,
    actions::{Answer, find, name_of, parse},
    batch::{self, Batch, Results},
    queue::{Message, Queue, Visibility},
    refusal::Refusal,
    send::md5_of,
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Receiving {
    queue_url: String,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    #[serde(default)]
    attribute_names: Vec<String>,
    #[serde(default)]
    message_system_attribute_names: Vec<String>,
    #[serde(default)]
    message_attribute_names: Vec<String>,
}

/// A valid request for messages.
pub(super) struct ReceiveRequest {
    url: String,
    max: usize,
    visibility: Option<i64>,
    system_attributes: Vec<String>,
    attributes: Vec<String>,
    pub(super) wait: Duration,
}

pub(super) fn receive_request(sqs: &Sqs, input: Value) -> Result<ReceiveRequest, Refusal> {
    let request: Receiving = parse(input)?;
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    let max = request.max_number_of_messages.unwrap_or(1);
    if !(1..=10).contains(&max) {
        return Err(Refusal::invalid(format!(
            "Value {max} for parameter MaxNumberOfMessages is invalid. \
             Reason: Must be between 1 and 10, if provided."
        )));
    }
    let wait = request
        .wait_time_seconds
        .unwrap_or_else(|| queue.number("ReceiveMessageWaitTimeSeconds"));
    if !(0..=20).contains(&wait) {
        return Err(Refusal::invalid(format!(
            "Value {wait} for parameter WaitTimeSeconds is invalid. \
             Reason: Must be >= 0 and <= 20, if provided."
        )));
    }
    check_visibility(request.visibility_timeout.unwrap_or(0))?;
    let mut system_attributes = request.attribute_names;
    system_attributes.extend(request.message_system_attribute_names);
    Ok(ReceiveRequest {
        system_attributes,
        attributes: request.message_attribute_names,
        url: request.queue_url,
        max: usize::try_from(max).unwrap_or(1),
        visibility: request.visibility_timeout,
        wait: Duration::from_secs(wait.unsigned_abs()),
    })
}

fn check_visibility(seconds: i64) -> Result<(), Refusal> {
    if (0..=43_200).contains(&seconds) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "Value {seconds} for parameter VisibilityTimeout is invalid. \
         Reason: Must be between 0 and 43200."
    )))
}

/// Returns the available messages, and the time at which the next message becomes visible.
pub(super) fn receive(
    sqs: &Sqs,
    request: &ReceiveRequest,
    now: i64,
) -> Result<(Vec<Value>, Option<i64>), Refusal> {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.url)?;
    let (received, dead) = queue.receive(request.max, request.visibility, now);
    let (redrive, next) = (queue.redrive(), queue.next_visible_ms());
    if !dead.is_empty() {
        let origin = name_of(&request.url).to_owned();
        let target = redrive.and_then(|(target, _)| target.rsplit(':').next().map(str::to_owned));
        // If the dead-letter queue is missing, the messages stay in the queue. AWS would reject
        // such a policy.
        let queue = queues
            .get_mut(target.as_deref().unwrap_or(&origin))
            .ok_or_else(Refusal::no_such_queue)?;
        for message in dead {
            queue.push(
                Message {
                    origin: Some(origin.clone()),
                    ..message
                },
                0,
                now,
            );
        }
        sqs.rang.notify_waiters();
    }
    Ok((
        received
            .iter()
            .map(|message| shown(message, request))
            .collect(),
        next,
    ))
}

/// Returns a message in the response format, with the requested attributes.
fn shown(message: &Message, request: &ReceiveRequest) -> Value {
    let mut shown = json!({
        "MessageId": message.id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": md5_of(&message.body),
        "Body": message.body,
    });
    let first_receive = message.first_receive_ms.unwrap_or_default();
    let mut system = Map::new();
    system.insert("SenderId".into(), json!("AIDALOCAL"));
    system.insert("SentTimestamp".into(), json!(message.sent_ms.to_string()));
    system.insert(
        "ApproximateReceiveCount".into(),
        json!(message.receives.to_string()),
    );
    system.insert(
        "ApproximateFirstReceiveTimestamp".into(),
        json!(first_receive.to_string()),
    );
    if let Some(group) = &message.group {
        system.insert("MessageGroupId".into(), json!(group));
    }
    system.retain(|name, _| is_wanted(&request.system_attributes, name));
    if !system.is_empty() {
        shown["Attributes"] = Value::Object(system);
    }
    let mut own = message.attributes.clone().unwrap_or_default();
    own.retain(|name, _| is_wanted(&request.attributes, name));
    if !own.is_empty() {
        shown["MessageAttributes"] = Value::Object(own);
    }
    shown
}

/// Returns whether a request wants an attribute. It can contain names, `All`, or prefixes such as
/// `trace.*`.
fn is_wanted(wanted: &[String], name: &str) -> bool {
    wanted.iter().any(|wanted| {
        wanted == "All"
            || wanted == name
            || wanted
                .strip_suffix(".*")
                .is_some_and(|start| name.starts_with(start))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Handled {
    #[serde(default)]
    queue_url: String,
    #[serde(default)]
    id: String,
    receipt_handle: String,
    #[serde(default)]
    visibility_timeout: i64,
}

pub(super) fn delete(sqs: &Sqs, request: &Handled) -> Answer {
    let mut queues = sqs.queues();
    delete_one(find(&mut queues, &request.queue_url)?, request)
}

fn delete_one(queue: &mut Queue, request: &Handled) -> Answer {
    let handle = &request.receipt_handle;
    queue
        .delete(handle)
        .map(|()| json!({}))
        .ok_or_else(|| Refusal::bad_handle(handle))
}

pub(super) fn delete_batch(sqs: &Sqs, request: &Batch<Handled>) -> Answer {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    batch::check(request.entries.iter().map(|entry| entry.id.as_str()))?;
    let mut results = Results::default();
    for entry in &request.entries {
        results.add(&entry.id, delete_one(queue, entry));
    }
    Ok(results.answer())
}

pub(super) fn change_visibility(sqs: &Sqs, request: &Handled, now: i64) -> Answer {
    let mut queues = sqs.queues();
    let answer = change_one(find(&mut queues, &request.queue_url)?, request, now);
    sqs.rang.notify_waiters();
    answer
}

fn change_one(queue: &mut Queue, request: &Handled, now: i64) -> Answer {
    check_visibility(request.visibility_timeout)?;
    let handle = &request.receipt_handle;
    match queue.change_visibility(handle, request.visibility_timeout, now) {
        None => Err(Refusal::bad_handle(handle)),
        Some(Visibility::Changed) => Ok(json!({})),
        Some(Visibility::NotInFlight) => Err(Refusal::new(
            "AWS.SimpleQueueService.MessageNotInflight",
            "The specified message isn't in flight.",
        )),
    }
}

pub(super) fn change_visibility_batch(sqs: &Sqs, request: &Batch<Handled>, now: i64) -> Answer {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    batch::check(request.entries.iter().map(|entry| entry.id.as_str()))?;
    let mut results = Results::default();
    for entry in &request.entries {
        results.add(&entry.id, change_one(queue, entry, now));
    }
    sqs.rang.notify_waiters();
    Ok(results.answer())
}
