//! Redrives dead letters: moves them back to their queues.

use std::sync::PoisonError;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Sqs,
    actions::{Answer, OnQueue, Queues, find, name_of},
    queue::Message,
    refusal::Refusal,
};
use crate::names::{arn, random_id};

/// Returns the names of the queues whose dead letters go to `target`.
fn sources_of(queues: &Queues, target: &str) -> Vec<String> {
    let arn = arn("sqs", target);
    queues
        .iter()
        .filter(|(_, queue)| queue.redrive().is_some_and(|(dead, _)| dead == arn))
        .map(|(name, _)| name.clone())
        .collect()
}

pub(super) fn dead_letter_sources(sqs: &Sqs, request: &OnQueue) -> Answer {
    let mut queues = sqs.queues();
    find(&mut queues, &request.queue_url)?;
    let sources = sources_of(&queues, name_of(&request.queue_url));
    let urls: Vec<_> = sources.iter().map(|name| sqs.url_of(name)).collect();
    Ok(json!({ "queueUrls": urls }))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Moving {
    source_arn: String,
    destination_arn: Option<String>,
}

/// Moves all dead letters that are not in flight in one step, and records a completed task.
pub(super) fn start_move(sqs: &Sqs, request: &Moving, now: i64) -> Answer {
    let last = |arn: &str| arn.rsplit(':').next().unwrap_or(arn).to_owned();
    let source = last(&request.source_arn);
    let missing = |name: &str| {
        Refusal::new(
            "ResourceNotFoundException",
            format!("The resource that you specified doesn't exist: {name}"),
        )
    };
    let mut queues = sqs.queues();
    let sources = sources_of(&queues, &source);
    if sources.is_empty() {
        return Err(Refusal::invalid(
            "Source queue must be configured as a Dead Letter Queue.",
        ));
    }
    let destination = request.destination_arn.as_deref().map(last);
    if let Some(name) = destination.iter().find(|name| !queues.contains_key(*name)) {
        return Err(missing(name));
    }
    let letters = queues
        .get_mut(&source)
        .ok_or_else(|| missing(&source))?
        .take_visible(now);
    let moved = letters.len();
    for letter in letters {
        let target = destination
            .as_ref()
            .or(letter.origin.as_ref())
            .unwrap_or(&sources[0]);
        let target = queues.get_mut(target).ok_or_else(|| missing(target))?;
        // A moved message is a new message: it has a new id, a new age and no receives.
        let fresh = Message {
            id: random_id(),
            body: letter.body,
            attributes: letter.attributes,
            group: letter.group,
            sent_ms: now,
            ..Message::default()
        };
        target.push(fresh, 0, now);
    }
    drop(queues);
    sqs.rang.notify_waiters();
    let task = random_id();
    let mut tasks = sqs.moves.lock().unwrap_or_else(PoisonError::into_inner);
    tasks.push(json!({
        "TaskHandle": task,
        "Status": "COMPLETED",
        "SourceArn": request.source_arn,
        "DestinationArn": request.destination_arn,
        "ApproximateNumberOfMessagesMoved": moved,
        "ApproximateNumberOfMessagesToMove": moved,
        "StartedTimestamp": now,
    }));
    Ok(json!({ "TaskHandle": task }))
}

pub(super) fn list_moves(sqs: &Sqs, request: &Moving) -> Value {
    let moves = sqs.moves.lock().unwrap_or_else(PoisonError::into_inner);
    let results: Vec<_> = moves
        .iter()
        .rev()
        .filter(|entry| entry["SourceArn"] == json!(request.source_arn))
        .take(10)
        .collect();
    json!({ "Results": results })
}
