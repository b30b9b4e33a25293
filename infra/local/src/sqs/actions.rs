//! Dispatches SQS actions, and implements those for queues.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Sqs, messages, moves, queue::Queue, refusal::Refusal, send};
use crate::names::arn;

pub(super) type Answer = Result<Value, Refusal>;
pub(super) type Queues = BTreeMap<String, Queue>;

const ATTRIBUTES: [&str; 10] = [
    "DelaySeconds",
    "KmsMasterKeyId",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "Policy",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
];

pub(super) fn act(sqs: &Sqs, action: &str, input: Value, now: i64) -> Answer {
    match action {
        "CreateQueue" => create(sqs, parse(input)?),
        "DeleteQueue" => delete_queue(sqs, &parse(input)?),
        "GetQueueUrl" => queue_url(sqs, &parse(input)?),
        "ListQueues" => Ok(list(sqs, &parse(input)?)),
        "GetQueueAttributes" => attributes(sqs, &parse(input)?, now),
        "SetQueueAttributes" => set_attributes(sqs, parse(input)?),
        "SendMessage" => send::send(sqs, parse(input)?, now),
        "SendMessageBatch" => send::send_batch(sqs, parse(input)?, now),
        "DeleteMessage" => messages::delete(sqs, &parse(input)?),
        "DeleteMessageBatch" => messages::delete_batch(sqs, &parse(input)?),
        "ChangeMessageVisibility" => messages::change_visibility(sqs, &parse(input)?, now),
        "ChangeMessageVisibilityBatch" => {
            messages::change_visibility_batch(sqs, &parse(input)?, now)
        }
        "PurgeQueue" => purge(sqs, &parse(input)?),
        "ListDeadLetterSourceQueues" => moves::dead_letter_sources(sqs, &parse(input)?),
        "StartMessageMoveTask" => moves::start_move(sqs, &parse(input)?, now),
        "ListMessageMoveTasks" => Ok(moves::list_moves(sqs, &parse(input)?)),
        other => Err(Refusal::new(
            "InvalidAction",
            format!("the local SQS does not support the action {other:?}"),
        )),
    }
}

pub(super) fn parse<T: DeserializeOwned>(input: Value) -> Result<T, Refusal> {
    serde_json::from_value(input)
        .map_err(|error| Refusal::new("SerializationException", error.to_string()))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    queue_name: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OnQueue {
    pub(super) queue_url: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    #[serde(default)]
    attribute_names: Vec<String>,
}

pub(super) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

pub(super) fn find<'a>(queues: &'a mut Queues, url: &str) -> Result<&'a mut Queue, Refusal> {
    queues
        .get_mut(name_of(url))
        .ok_or_else(Refusal::no_such_queue)
}

fn create(sqs: &Sqs, request: Named) -> Answer {
    let name = &request.queue_name;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 80 || !name.chars().all(legal) {
        return Err(Refusal::invalid(
            "Can only include alphanumeric characters, hyphens, or underscores. \
             1 to 80 in length (the local SQS does not support FIFO queues)",
        ));
    }
    check_attributes(&request.attributes)?;
    let mut queues = sqs.queues();
    if let Some(queue) = queues.get(name) {
        let differs = |(key, value)| queue.attributes.get(key) != Some(value);
        if request.attributes.iter().any(differs) {
            return Err(Refusal::new(
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute",
            ));
        }
    } else {
        let attributes = request.attributes;
        queues.insert(name.clone(), Queue::new(attributes));
    }
    Ok(json!({ "QueueUrl": sqs.url_of(name) }))
}

fn check_attributes(attributes: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (name, value) in attributes {
        if !ATTRIBUTES.contains(&name.as_str()) {
            return Err(Refusal::new(
                "InvalidAttributeName",
                format!("Unknown Attribute {name}."),
            ));
        }
        let range = match name.as_str() {
            "VisibilityTimeout" => 0..=43_200,
            "DelaySeconds" => 0..=900,
            "MessageRetentionPeriod" => 60..=1_209_600,
            "ReceiveMessageWaitTimeSeconds" => 0..=20,
            "MaximumMessageSize" => 1024..=1_048_576,
            _ => continue,
        };
        if !value
            .parse()
            .is_ok_and(|number: i64| range.contains(&number))
        {
            return Err(Refusal::new(
                "InvalidAttributeValue",
                format!("Invalid value for the parameter {name}."),
            ));
        }
    }
    Ok(())
}

fn delete_queue(sqs: &Sqs, request: &OnQueue) -> Answer {
    let removed = sqs.queues().remove(name_of(&request.queue_url));
    removed
        .map(|_| json!({}))
        .ok_or_else(Refusal::no_such_queue)
}

fn queue_url(sqs: &Sqs, request: &Named) -> Answer {
    if !sqs.queues().contains_key(&request.queue_name) {
        return Err(Refusal::no_such_queue());
    }
    Ok(json!({ "QueueUrl": sqs.url_of(&request.queue_name) }))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    #[serde(default)]
    queue_name_prefix: String,
}

fn list(sqs: &Sqs, request: &Listing) -> Value {
    let queues = sqs.queues();
    let urls: Vec<_> = queues
        .keys()
        .filter(|name| name.starts_with(&request.queue_name_prefix))
        .map(|name| sqs.url_of(name))
        .collect();
    json!({ "QueueUrls": urls })
}

fn attributes(sqs: &Sqs, request: &OnQueue, now: i64) -> Answer {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    let counts = queue.counts(now);
    let mut all: BTreeMap<String, String> = queue.attributes.clone();
    for name in ATTRIBUTES {
        if !matches!(
            name,
            "KmsMasterKeyId"
                | "Policy"
                | "RedriveAllowPolicy"
                | "RedrivePolicy"
                | "SqsManagedSseEnabled"
        ) {
            all.insert(name.to_owned(), queue.number(name).to_string());
        }
    }
    let counted = [
        ("ApproximateNumberOfMessages", counts.visible),
        ("ApproximateNumberOfMessagesNotVisible", counts.in_flight),
        ("ApproximateNumberOfMessagesDelayed", counts.delayed),
    ];
    all.extend(counted.map(|(name, count)| (name.to_owned(), count.to_string())));
    all.insert(
        "QueueArn".to_owned(),
        arn("sqs", name_of(&request.queue_url)),
    );
    let wanted = &request.attribute_names;
    if !wanted.iter().any(|name| name == "All") {
        all.retain(|name, _| wanted.contains(name));
    }
    Ok(json!({ "Attributes": all }))
}

fn set_attributes(sqs: &Sqs, request: OnQueue) -> Answer {
    check_attributes(&request.attributes)?;
    let mut queues = sqs.queues();
    find(&mut queues, &request.queue_url)?
        .attributes
        .extend(request.attributes);
    Ok(json!({}))
}

fn purge(sqs: &Sqs, request: &OnQueue) -> Answer {
    find(&mut sqs.queues(), &request.queue_url)?.purge();
    Ok(json!({}))
}
