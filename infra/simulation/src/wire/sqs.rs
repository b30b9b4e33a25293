//! Queues in memory, on the wire protocol of SQS, and as an event source mapping sees them.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::json;

use crate::dice::Dice;

/// A message that was received this often goes to the dead letter queue.
const MOST_RECEIVES: u32 = 10;

/// How long a received message is hidden: `template.yaml` says so.
pub const VISIBILITY_MS: i64 = 360_000;

#[derive(Clone, Debug)]
pub struct Message {
    pub id: u64,
    pub body: String,
    receives: u32,
}

/// A standard queue: it keeps no order, and it may bring a message twice.
#[derive(Debug, Default)]
pub struct Queue {
    /// In no order.
    ready: Vec<Message>,
    /// By the time at which they can be received again.
    hidden: BTreeMap<(i64, u64), Message>,
    /// When each received message is due back.
    in_flight: HashMap<u64, i64>,
    next: u64,
    pub sent: u64,
    pub dead: u64,
    pub bodies_of_dead: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Send {
    #[serde(rename = "QueueUrl")]
    _queue_url: String,
    message_body: String,
    #[serde(default)]
    delay_seconds: i64,
    #[serde(rename = "MessageGroupId")]
    _message_group_id: Option<String>,
}

impl Queue {
    /// Answers a request; `Err` is one that this queue has not been taught.
    pub fn answer(&mut self, operation: &str, body: &[u8], now: i64) -> Result<String, String> {
        match operation {
            "SendMessage" => {
                let send: Send = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                if !(0..=900).contains(&send.delay_seconds) {
                    return Err(format!("a delay of {} s", send.delay_seconds));
                }
                let id = self.send(send.message_body, now + send.delay_seconds * 1000);
                self.sent += 1;
                Ok(json!({ "MessageId": format!("m-{id}") }).to_string())
            }
            "GetQueueAttributes" => {
                let depth = self.depth(now).to_string();
                Ok(json!({ "Attributes": { "ApproximateNumberOfMessages": depth } }).to_string())
            }
            other => Err(format!("the operation {other}")),
        }
    }

    /// Puts a message in that can be received from a time on.
    pub fn send(&mut self, body: String, at: i64) -> u64 {
        self.next += 1;
        let message = Message {
            id: self.next,
            body,
            receives: 0,
        };
        self.hidden.insert((at, message.id), message);
        self.next
    }

    /// Messages that can be received.
    pub fn depth(&mut self, now: i64) -> usize {
        self.surface(now);
        self.ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.hidden.is_empty()
    }

    /// When the next hidden message can be received.
    pub fn next_at(&self) -> Option<i64> {
        self.hidden.keys().next().map(|(at, _)| *at)
    }

    /// Some of the messages, in no order.
    pub fn receive(&mut self, most: usize, now: i64, dice: &mut Dice) -> Vec<Message> {
        self.surface(now);
        let mut received = Vec::new();
        while received.len() < most && !self.ready.is_empty() {
            let index = usize::try_from(dice.below(self.ready.len() as u64)).unwrap_or(0);
            let mut message = self.ready.swap_remove(index);
            message.receives += 1;
            if message.receives > MOST_RECEIVES {
                self.dead += 1;
                self.bodies_of_dead.push(message.body);
                continue;
            }
            let back = now + VISIBILITY_MS;
            self.in_flight.insert(message.id, back);
            self.hidden.insert((back, message.id), message.clone());
            received.push(message);
        }
        received
    }

    /// The message is done with. One that came back meanwhile stays: its receipt is old.
    pub fn delete(&mut self, id: u64) {
        if let Some(back) = self.in_flight.remove(&id) {
            self.hidden.remove(&(back, id));
        }
    }

    /// The last message that was sent never arrives.
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
