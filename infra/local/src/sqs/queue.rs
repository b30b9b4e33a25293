//! A standard queue as plain data. The current time is an argument, and no function waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

/// A message with its state in the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) body: String,
    pub(crate) attributes: Option<Map<String, Value>>,
    pub(crate) group: Option<String>,
    pub(crate) sent_ms: i64,
    pub(crate) first_receive_ms: Option<i64>,
    pub(crate) receives: u32,
    /// The queue from which a dead letter was moved.
    pub(crate) origin: Option<String>,
    /// The newest receipt handle. Older ones are not valid.
    pub(crate) handle: Option<String>,
    pub(super) visible_ms: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) attributes: BTreeMap<String, String>,
    messages: HashMap<u64, Message>,
    /// The messages, ordered by the time at which each can be received.
    order: BTreeSet<(i64, u64)>,
    last: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) visible: usize,
    pub(crate) in_flight: usize,
    pub(crate) delayed: usize,
}

/// The result of a change of visibility.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Changed,
    NotInFlight,
}

impl Queue {
    pub(crate) fn new(attributes: BTreeMap<String, String>) -> Self {
        Self {
            attributes,
            ..Self::default()
        }
    }

    /// Returns an attribute of the queue that is a whole number, or its default.
    pub(crate) fn number(&self, name: &str) -> i64 {
        let default = match name {
            "VisibilityTimeout" => 30,
            "MessageRetentionPeriod" => 345_600,
            "MaximumMessageSize" => 1_048_576,
            _ => 0,
        };
        self.attributes
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    }

    /// Returns the ARN of the dead-letter queue, and the number of receives after which a message
    /// moves there.
    pub(crate) fn redrive(&self) -> Option<(String, u32)> {
        let policy: Value = serde_json::from_str(self.attributes.get("RedrivePolicy")?).ok()?;
        let target = policy.get("deadLetterTargetArn")?.as_str()?.to_owned();
        let max = policy.get("maxReceiveCount")?;
        // AWS also accepts the number as a string.
        let max = max
            .as_u64()
            .or_else(|| max.as_str().and_then(|text| text.parse().ok()))?;
        Some((target, u32::try_from(max).ok()?))
    }

    pub(crate) fn push(&mut self, message: Message, delay_s: i64, now: i64) {
        self.last += 1;
        let visible_ms = now + delay_s * 1000;
        self.order.insert((visible_ms, self.last));
        self.messages.insert(
            self.last,
            Message {
                visible_ms,
                ..message
            },
        );
    }

    /// Returns up to `max` messages. Returns separately the messages that were received too often.
    pub(crate) fn receive(
        &mut self,
        max: usize,
        visibility_s: Option<i64>,
        now: i64,
    ) -> (Vec<Message>, Vec<Message>) {
        let hidden_until =
            now + 1000 * visibility_s.unwrap_or_else(|| self.number("VisibilityTimeout"));
        let max_receives = self.redrive().map_or(u32::MAX, |(_, max)| max);
        let oldest = now - 1000 * self.number("MessageRetentionPeriod");
        let (mut received, mut dead) = (Vec::new(), Vec::new());
        while received.len() < max {
            let Some(&(visible, number)) = self.order.first() else {
                break;
            };
            if visible > now {
                break;
            }
            self.order.pop_first();
            let Some(mut message) = self.messages.remove(&number) else {
                continue;
            };
            if message.sent_ms < oldest {
                continue;
            }
            if message.receives >= max_receives {
                dead.push(Message {
                    handle: None,
                    ..message
                });
                continue;
            }
            message.receives += 1;
            message.first_receive_ms.get_or_insert(now);
            message.handle = Some(handle(number, message.receives, &message.id));
            message.visible_ms = hidden_until;
            received.push((number, message));
        }
        // The messages are inserted after the loop. Otherwise, a visibility timeout of 0 would
        // return the same message without end.
        for (number, message) in &received {
            self.order.insert((message.visible_ms, *number));
            self.messages.insert(*number, message.clone());
        }
        (
            received.into_iter().map(|(_, message)| message).collect(),
            dead,
        )
    }

    /// Returns the time at which the next message can be received, or `None` for an empty queue.
    pub(crate) fn next_visible_ms(&self) -> Option<i64> {
        self.order.first().map(|(visible, _)| *visible)
    }

    /// Deletes a message by its newest handle. With an older handle, the call succeeds and deletes
    /// nothing. AWS allows several behaviours, and this is the strictest. Returns `None` if the
    /// handle is invalid.
    pub(crate) fn delete(&mut self, handle: &str) -> Option<()> {
        let number = number_of(handle)?;
        if self.current(number, handle).is_some()
            && let Some(message) = self.messages.remove(&number)
        {
            self.order.remove(&(message.visible_ms, number));
        }
        Some(())
    }

    pub(crate) fn change_visibility(
        &mut self,
        handle: &str,
        seconds: i64,
        now: i64,
    ) -> Option<Visibility> {
        let number = number_of(handle)?;
        let in_flight = self
            .current(number, handle)
            .is_some_and(|message| message.visible_ms > now);
        if !in_flight {
            return Some(Visibility::NotInFlight);
        }
        let message = self.messages.get_mut(&number)?;
        self.order.remove(&(message.visible_ms, number));
        message.visible_ms = now + seconds * 1000;
        self.order.insert((message.visible_ms, number));
        Some(Visibility::Changed)
    }

    pub(crate) fn purge(&mut self) {
        self.messages.clear();
        self.order.clear();
    }

    /// Removes all messages that are not in flight, for a move to another queue.
    pub(crate) fn take_visible(&mut self, now: i64) -> Vec<Message> {
        let mut taken = Vec::new();
        while let Some(&(visible, number)) = self.order.first() {
            if visible > now {
                break;
            }
            self.order.pop_first();
            taken.extend(self.messages.remove(&number));
        }
        taken
    }

    pub(crate) fn counts(&mut self, now: i64) -> Counts {
        let oldest = now - 1000 * self.number("MessageRetentionPeriod");
        let order = &mut self.order;
        self.messages.retain(|number, message| {
            let keep = message.sent_ms >= oldest;
            if !keep {
                order.remove(&(message.visible_ms, *number));
            }
            keep
        });
        let hidden = |message: &&Message| message.visible_ms > now;
        let hidden_count = self.messages.values().filter(hidden).count();
        let in_flight = self
            .messages
            .values()
            .filter(hidden)
            .filter(|message| message.handle.is_some())
            .count();
        Counts {
            visible: self.messages.len() - hidden_count,
            in_flight,
            delayed: hidden_count - in_flight,
        }
    }

    fn current(&self, number: u64, handle: &str) -> Option<&Message> {
        self.messages
            .get(&number)
            .filter(|message| message.handle.as_deref() == Some(handle))
    }
}

fn handle(number: u64, receives: u32, id: &str) -> String {
    format!("rh.{number}.{receives}.{id}")
}

fn number_of(handle: &str) -> Option<u64> {
    handle.strip_prefix("rh.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(attributes: &[(&str, &str)]) -> Queue {
        let attributes = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Queue::new(attributes)
    }

    fn message(body: &str) -> Message {
        Message {
            id: body.to_owned(),
            body: body.to_owned(),
            ..Message::default()
        }
    }

    #[test]
    fn a_received_message_is_hidden_and_comes_back() {
        let mut queue = queue(&[("VisibilityTimeout", "10")]);
        queue.push(message("a"), 0, 0);
        let first = queue.receive(10, None, 0).0;
        assert_eq!(first[0].receives, 1);
        assert!(queue.receive(10, None, 9_999).0.is_empty());
        assert_eq!(
            queue.counts(9_999),
            Counts {
                visible: 0,
                in_flight: 1,
                delayed: 0
            }
        );
        assert_eq!(
            queue.counts(10_000),
            Counts {
                visible: 1,
                in_flight: 0,
                delayed: 0
            }
        );
        let second = queue.receive(10, None, 10_000).0;
        assert_eq!(second[0].receives, 2);
        assert_ne!(first[0].handle, second[0].handle);
    }

    #[test]
    fn only_the_newest_handle_deletes() {
        let mut queue = queue(&[]);
        queue.push(message("a"), 0, 0);
        let old = queue.receive(1, Some(0), 0).0.remove(0).handle.unwrap();
        let new = queue.receive(1, Some(0), 0).0.remove(0).handle.unwrap();
        assert_eq!(queue.delete(&old), Some(()));
        assert_eq!(queue.counts(0).visible, 1);
        assert_eq!(queue.delete(&new), Some(()));
        assert_eq!(queue.counts(0).visible, 0);
        assert_eq!(queue.delete("nonsense"), None);
    }

    #[test]
    fn a_delayed_message_is_counted_apart() {
        let mut queue = queue(&[]);
        queue.push(message("a"), 60, 0);
        assert_eq!(
            queue.counts(0),
            Counts {
                visible: 0,
                in_flight: 0,
                delayed: 1
            }
        );
        assert!(queue.receive(1, None, 59_999).0.is_empty());
        assert_eq!(queue.receive(1, None, 60_000).0.len(), 1);
    }

    #[test]
    fn the_receive_after_the_last_allowed_one_makes_a_dead_letter() {
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:r:a:dead","maxReceiveCount":2}"#;
        let mut queue = queue(&[("RedrivePolicy", policy)]);
        queue.push(message("a"), 0, 0);
        assert_eq!(queue.receive(1, Some(0), 0).0.len(), 1);
        assert_eq!(queue.receive(1, Some(0), 0).0.len(), 1);
        let (received, dead) = queue.receive(1, Some(0), 0);
        assert!(received.is_empty());
        assert_eq!(dead[0].body, "a");
    }

    #[test]
    fn a_message_past_its_retention_is_gone() {
        let mut queue = queue(&[("MessageRetentionPeriod", "60")]);
        queue.push(message("a"), 0, 0);
        assert!(queue.receive(1, None, 60_001).0.is_empty());
        queue.push(message("b"), 0, 0);
        assert_eq!(queue.counts(60_001).visible, 0);
        assert_eq!(queue.next_visible_ms(), None);
    }

    #[test]
    fn visibility_can_only_be_changed_in_flight() {
        let mut queue = queue(&[]);
        queue.push(message("a"), 0, 0);
        let handle = queue.receive(1, Some(10), 0).0.remove(0).handle.unwrap();
        assert_eq!(
            queue.change_visibility(&handle, 0, 5_000),
            Some(Visibility::Changed)
        );
        assert_eq!(
            queue.change_visibility(&handle, 9, 5_000),
            Some(Visibility::NotInFlight)
        );
        assert_eq!(queue.counts(5_000).visible, 1);
    }
}
