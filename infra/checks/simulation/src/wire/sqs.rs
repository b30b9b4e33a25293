//! In-memory queues with the wire protocol of SQS. The event source mapping uses them too.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::rng::Dice;

/// The number of receives after which a message goes to the dead letter queue.
const MOST_RECEIVES: u32 = 10;

/// The visibility timeout in `template.yaml`.
pub const VISIBILITY_MS: i64 = 365_000;

/// The queues of the stack, by the last part of their URL.
#[derive(Debug)]
pub struct Queues {
    pub work_messages: Queue,
    pub backlog: Queue,
    pub spill: Queue,
}

/// The name of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Work,
    Backlog,
    Spill,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub id: u64,
    pub body: String,
    /// The time of sending, regardless of when the message arrives.
    pub sent_at: i64,
    pub(crate) receives: u32,
}

/// A standard queue: it has no order, and it may deliver a message twice.
#[derive(Debug, Default)]
pub struct Queue {
    /// The messages that can be received, in no order.
    ready: Vec<Message>,
    /// The hidden messages, sorted by the time at which they can be received again.
    hidden: BTreeMap<(i64, u64), Message>,
    /// The time at which each received message becomes visible again.
    in_flight: HashMap<u64, i64>,
    next: u64,
    /// The maximum number of receives. Without a maximum, a message never goes to the dead letter
    /// queue.
    most_receives: Option<u32>,
    pub sent: u64,
    pub dead: u64,
}

/// A request. Each operation reads its own fields, and an unknown field is rejected.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct Request {
    queue_url: String,
    message_body: String,
    delay_seconds: i64,
    #[serde(rename = "MessageGroupId")]
    _message_group_id: Option<String>,
    attribute_names: Vec<String>,
    max_number_of_messages: Option<usize>,
    #[serde(rename = "WaitTimeSeconds")]
    _wait_time_seconds: i64,
    visibility_timeout: Option<i64>,
    receipt_handle: String,
    entries: Vec<Entry>,
}

/// An entry of a batch request.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Entry {
    id: String,
    #[serde(default)]
    message_body: String,
    #[serde(default)]
    delay_seconds: i64,
    #[serde(rename = "MessageGroupId")]
    _message_group_id: Option<String>,
    #[serde(default)]
    receipt_handle: String,
}

/// The queue and the answer of a request.
#[derive(Debug)]
pub struct Done {
    pub queue: Name,
    pub answer: String,
}

impl Default for Queues {
    fn default() -> Self {
        let work_messages = || Queue {
            most_receives: Some(MOST_RECEIVES),
            ..Queue::default()
        };
        Self {
            work_messages: work_messages(),
            backlog: work_messages(),
            spill: Queue::default(),
        }
    }
}

impl Queues {
    pub fn get(&mut self, name: Name) -> &mut Queue {
        match name {
            Name::Work => &mut self.work_messages,
            Name::Backlog => &mut self.backlog,
            Name::Spill => &mut self.spill,
        }
    }

    pub fn are_empty(&self) -> bool {
        self.work_messages.is_empty() && self.backlog.is_empty() && self.spill.is_empty()
    }

    /// Answers a request. An `Err` means that these queues do not support the request.
    pub fn answer(
        &mut self,
        operation: &str,
        body: &[u8],
        now: i64,
        dice: &mut Dice,
    ) -> Result<Done, String> {
        let request: Request = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let queue = Name::of(&request.queue_url)?;
        let answer = self.get(queue).answer(operation, request, now, dice)?;
        let answer = answer.to_string();
        Ok(Done { queue, answer })
    }
}

impl Name {
    fn of(url: &str) -> Result<Self, String> {
        match url.rsplit('/').next() {
            Some("work") => Ok(Self::Work),
            Some("backlog") => Ok(Self::Backlog),
            Some("spill") => Ok(Self::Spill),
            _ => Err(format!("the queue {url:?}")),
        }
    }

    /// Returns the ARN, as in an event source mapping.
    pub fn arn(self) -> String {
        let name = match self {
            Self::Work => "work",
            Self::Backlog => "backlog",
            Self::Spill => "spill",
        };
        format!("arn:aws:sqs:simulated:000000000000:{name}")
    }
}

impl Message {
    /// Returns the receipt handle for deleting the message. Each receive has a new handle.
    fn handle(&self) -> String {
        format!("{}.{}", self.id, self.receives)
    }
}

impl Queue {
    fn answer(
        &mut self,
        operation: &str,
        request: Request,
        now: i64,
        dice: &mut Dice,
    ) -> Result<Json, String> {
        match operation {
            "SendMessage" => {
                if !(0..=900).contains(&request.delay_seconds) {
                    return Err(format!("a delay of {} s", request.delay_seconds));
                }
                let at = now + request.delay_seconds * 1000;
                let id = self.send(request.message_body, now, at);
                self.sent += 1;
                Ok(json!({ "MessageId": format!("m-{id}") }))
            }
            "SendMessageBatch" => {
                let done = request.entries.into_iter().map(|entry| {
                    let id = self.send(entry.message_body, now, now + entry.delay_seconds * 1000);
                    self.sent += 1;
                    json!({ "Id": entry.id, "MessageId": format!("m-{id}"), "MD5OfMessageBody": "" })
                });
                Ok(json!({ "Successful": done.collect::<Vec<_>>(), "Failed": [] }))
            }
            "DeleteMessageBatch" => {
                let done = request.entries.into_iter().map(|entry| {
                    self.delete_by(&entry.receipt_handle);
                    // The drain moves the message to the other queue, so the two sends count as one
                    // message.
                    self.sent = self.sent.saturating_sub(1);
                    json!({ "Id": entry.id })
                });
                Ok(json!({ "Successful": done.collect::<Vec<_>>(), "Failed": [] }))
            }
            "ReceiveMessage" => {
                let most = request.max_number_of_messages.unwrap_or(1);
                let hidden = request
                    .visibility_timeout
                    .map_or(VISIBILITY_MS, |seconds| seconds * 1000);
                let received = self.receive(most, now, hidden, dice);
                let shown = received.iter().map(|message| {
                    json!({
                        "MessageId": format!("m-{}", message.id),
                        "ReceiptHandle": message.handle(),
                        "Body": message.body,
                    })
                });
                Ok(json!({ "Messages": shown.collect::<Vec<_>>() }))
            }
            "DeleteMessage" => {
                self.delete_by(&request.receipt_handle);
                Ok(json!({}))
            }
            "GetQueueAttributes" => self.attributes(&request.attribute_names, now),
            other => Err(format!("the operation {other}")),
        }
    }

    fn attributes(&mut self, names: &[String], now: i64) -> Result<Json, String> {
        let visible = self.depth(now);
        let mut attributes = BTreeMap::new();
        for name in names {
            let number = match name.as_str() {
                "ApproximateNumberOfMessages" => visible,
                "ApproximateNumberOfMessagesNotVisible" => self.in_flight.len(),
                other => return Err(format!("the attribute {other}")),
            };
            attributes.insert(name, number.to_string());
        }
        Ok(json!({ "Attributes": attributes }))
    }

    /// Adds a message that can be received from the time `at`.
    pub fn send(&mut self, body: String, now: i64, at: i64) -> u64 {
        self.next += 1;
        let message = Message {
            id: self.next,
            body,
            sent_at: now,
            receives: 0,
        };
        self.hidden.insert((at, message.id), message);
        self.next
    }

    /// Returns the number of messages that can be received.
    pub fn depth(&mut self, now: i64) -> usize {
        self.surface(now);
        self.ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.hidden.is_empty()
    }

    /// Returns the number of all messages in the queue.
    pub fn len(&self) -> usize {
        self.ready.len() + self.hidden.len()
    }

    /// Returns the time at which the next hidden message can be received.
    pub fn next_at(&self) -> Option<i64> {
        self.hidden.keys().next().map(|(at, _)| *at)
    }

    /// Receives some messages, in no order, and hides them for a time.
    pub fn receive(
        &mut self,
        most: usize,
        now: i64,
        hidden_ms: i64,
        dice: &mut Dice,
    ) -> Vec<Message> {
        self.surface(now);
        let mut received = Vec::new();
        while received.len() < most && !self.ready.is_empty() {
            let index = usize::try_from(dice.below(self.ready.len() as u64)).unwrap_or(0);
            let mut message = self.ready.swap_remove(index);
            message.receives += 1;
            if self
                .most_receives
                .is_some_and(|most| message.receives > most)
            {
                self.dead += 1;
                continue;
            }
            let back = now + hidden_ms;
            self.in_flight.insert(message.id, back);
            self.hidden.insert((back, message.id), message.clone());
            received.push(message);
        }
        received
    }

    /// Deletes a message that was processed.
    pub fn delete(&mut self, message: &Message) {
        self.delete_by(&message.handle());
    }

    /// If a message was received again in the meantime, it stays, because the receipt handle is
    /// outdated.
    fn delete_by(&mut self, handle: &str) {
        let id = handle.split('.').next().and_then(|id| id.parse().ok());
        let Some((id, back)) = id.and_then(|id| Some((id, *self.in_flight.get(&id)?))) else {
            return;
        };
        let held = self.hidden.get(&(back, id));
        if held.is_some_and(|message| message.handle() == handle) {
            self.hidden.remove(&(back, id));
            self.in_flight.remove(&id);
        }
    }

    /// Drops the last message that was sent.
    pub fn lose_last(&mut self) {
        let last = self.next;
        self.hidden.retain(|(_, id), _| *id != last);
    }

    pub fn purge(&mut self) {
        self.ready.clear();
        self.hidden.clear();
        self.in_flight.clear();
    }

    fn surface(&mut self, now: i64) {
        while let Some(entry) = self.hidden.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let message = entry.remove();
            self.in_flight.remove(&message.id);
            self.ready.push(message);
        }
    }
}
