//! The work queue. A message contains the key of an event, and none of its content. A lost message
//! only delays the event. A duplicate message has no effect, because the event is done or claimed.
//!
//! There are two queues. Messages for old events go to the backlog queue, which no function polls.
//! While few messages wait in the work queue, backup-sync moves messages from the backlog queue to
//! the work queue. So new events do not wait behind old events after an outage. An idle inbox pays
//! for the polling of only one queue.
//!
//! A stack with long actions has a third queue, which the function for long actions polls. All
//! messages go to the work queue first. The processor sends a message of a source with a long action
//! on, so no other function has to know which sources have one.

mod backlog;

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use serde::{Deserialize, Serialize};

use crate::aws::{QueueClient, Reply};
use crate::base::clock::UnixMillis;
use crate::base::timing::{LATE, LONGEST_DELAY, OLD};
use crate::webhook::event::EventKey;

pub use backlog::{Old, Passed};

/// The maximum number of messages in one request to SQS.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
const MOST_AT_ONCE: usize = 10;

/// The message version that this code writes.
const VERSION: u32 = 1;

/// The content of a message in the work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkMessage {
    pub key: EventKey,
    /// The run of the event. A message for an earlier run has no effect.
    pub run: u64,
}

#[derive(Serialize, Deserialize)]
struct Message {
    v: u32,
    key: String,
    run: u64,
}

/// The field that every message version has.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

/// The reason why a message is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidMessage {
    NoJson,
    /// Newer code wrote the message.
    UnknownVersion(u32),
    NoKey,
}

impl WorkMessage {
    pub fn to_message(&self) -> String {
        let message = Message {
            v: VERSION,
            key: self.key.pk(),
            run: self.run,
        };
        serde_json::to_string(&message).expect("strings and numbers serialize to JSON")
    }

    /// Parses a message. Any principal that may send to the queue can write a message, so the
    /// content of a message is not trusted.
    pub fn from_message(text: &str) -> Result<Self, InvalidMessage> {
        let Versioned { v } = serde_json::from_str(text).map_err(|_| InvalidMessage::NoJson)?;
        if v != VERSION {
            return Err(InvalidMessage::UnknownVersion(v));
        }
        let message: Message = serde_json::from_str(text).map_err(|_| InvalidMessage::NoJson)?;
        let key = EventKey::from_pk(&message.key).ok_or(InvalidMessage::NoKey)?;
        Ok(Self {
            key,
            run: message.run,
        })
    }
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueName {
    Main,
    Backlog,
}

impl QueueName {
    /// Returns the queue for an event that was received at `received_at`.
    pub fn of(received_at: UnixMillis, now: UnixMillis) -> Self {
        if now.since(received_at) > OLD {
            Self::Backlog
        } else {
            Self::Main
        }
    }
}

/// A message to send, as in the JSON of SQS.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NewMessage<'a> {
    pub(super) queue_url: &'a str,
    pub(super) message_body: &'a str,
    pub(super) message_group_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay_seconds: Option<i32>,
}

/// The answer of SQS to a message that it has stored.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sent {
    message_id: String,
}

impl Sent {
    /// Returns `None` if the answer is not one of SQS. A proxy can answer with 200, too.
    fn read(reply: &Reply) -> Option<Self> {
        let body = (reply.status == 200).then_some(&reply.body)?;
        let sent: Self = serde_json::from_slice(body).ok()?;
        (!sent.message_id.is_empty()).then_some(sent)
    }
}

impl NewMessage<'_> {
    /// Sends the message: first directly, then with the SDK.
    pub(super) async fn send(&self, sqs: &QueueClient) -> Result<(), SdkError<SendMessageError>> {
        if let Some(direct) = sqs.direct()
            && let Ok(message) = serde_json::to_vec(self)
        {
            let sent = direct.send("SendMessage", message, Sent::read);
            if Box::pin(sent).await.is_some() {
                return Ok(());
            }
        }
        let request = sqs
            .rest()
            .send_message()
            .queue_url(self.queue_url)
            .message_body(self.message_body)
            .message_group_id(self.message_group_id)
            .set_delay_seconds(self.delay_seconds);
        Box::pin(request.send()).await.map(|_| ())
    }
}

/// The queues between the functions that store events and the workers that process them.
#[derive(Clone, Debug)]
pub struct Queue {
    sqs: QueueClient,
    url: String,
    /// If `None`, all messages go to the work queue.
    backlog: Option<String>,
    /// The queue for long actions. The function that reads it does not have this setting.
    long: Option<String>,
}

impl Queue {
    pub fn new(sqs: impl Into<QueueClient>, url: impl Into<String>) -> Self {
        Self {
            sqs: sqs.into(),
            url: url.into(),
            backlog: None,
            long: None,
        }
    }

    /// Adds the backlog queue, for old events.
    #[must_use]
    pub fn with_backlog(self, url: Option<String>) -> Self {
        Self {
            backlog: url,
            ..self
        }
    }

    /// Adds the queue for long actions.
    #[must_use]
    pub fn with_long(self, url: Option<String>) -> Self {
        Self { long: url, ..self }
    }

    /// Returns whether there is a queue for long actions.
    pub fn has_long(&self) -> bool {
        self.long.is_some()
    }

    /// Sends a message on to the queue for long actions. Returns `false` if there is no such queue.
    pub async fn send_to_long(&self, work_message: &WorkMessage) -> anyhow::Result<bool> {
        let Some(url) = &self.long else {
            return Ok(false);
        };
        self.send_to_url(url, work_message, Duration::ZERO).await?;
        Ok(true)
    }

    /// Returns whether a message in the queue with this ARN is so old that it should move to the
    /// backlog queue. `sent` is the time when SQS received the message.
    pub fn is_late(&self, arn: &str, sent: UnixMillis, now: UnixMillis) -> bool {
        let Some(backlog) = &self.backlog else {
            return false;
        };
        let name = |path: &str, separator| path.rsplit(separator).next().map(str::to_owned);
        name(arn, ':') != name(backlog, '/') && now.since(sent) > LATE
    }

    /// Sends a message for an event to the work queue. SQS limits the delivery delay to 900
    /// seconds. `delay` is rounded up to whole seconds.
    ///
    /// The source is the message group. On a standard queue, message groups prevent a busy source
    /// from delaying other sources.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html>
    pub async fn send(&self, work_message: &WorkMessage, delay: Duration) -> anyhow::Result<()> {
        self.send_to(QueueName::Main, work_message, delay).await
    }

    /// Sends a message for an event to the given queue.
    pub async fn send_to(
        &self,
        lane: QueueName,
        work_message: &WorkMessage,
        delay: Duration,
    ) -> anyhow::Result<()> {
        self.send_to_url(self.url(lane), work_message, delay).await
    }

    async fn send_to_url(
        &self,
        url: &str,
        work_message: &WorkMessage,
        delay: Duration,
    ) -> anyhow::Result<()> {
        let message = NewMessage {
            queue_url: url,
            message_body: &work_message.to_message(),
            message_group_id: work_message.key.source(),
            delay_seconds: delay_seconds(delay),
        };
        let sent = message.send(&self.sqs).await;
        sent.context("send a message for an event")
    }

    /// Sends messages to one queue, with up to ten messages in a request. Returns, in the order of
    /// the input, whether SQS accepted each message.
    pub async fn send_all(
        &self,
        lane: QueueName,
        work_messages: &[(WorkMessage, Duration)],
    ) -> anyhow::Result<Vec<bool>> {
        let mut took = Vec::with_capacity(work_messages.len());
        for ten in work_messages.chunks(MOST_AT_ONCE) {
            if let [(work_message, delay)] = ten {
                self.send_to(lane, work_message, *delay).await?;
                took.push(true);
                continue;
            }
            let entries = ten.iter().enumerate().map(|(id, (work_message, delay))| {
                SendMessageBatchRequestEntry::builder()
                    .id(id.to_string())
                    .message_body(work_message.to_message())
                    .message_group_id(work_message.key.source())
                    .set_delay_seconds(delay_seconds(*delay))
                    .build()
            });
            let answer = self
                .sqs
                .send_message_batch()
                .queue_url(self.url(lane))
                .set_entries(Some(entries.collect::<Result<_, _>>()?))
                .send()
                .await
                .context("send messages for events")?;
            let taken: Vec<&str> = answer
                .successful
                .iter()
                .map(|one| one.id.as_str())
                .collect();
            took.extend((0..ten.len()).map(|id| taken.contains(&id.to_string().as_str())));
        }
        Ok(took)
    }

    fn url(&self, lane: QueueName) -> &str {
        match (lane, &self.backlog) {
            (QueueName::Backlog, Some(url)) => url,
            _ => &self.url,
        }
    }

    /// Returns the approximate number of messages that are ready to be received.
    pub async fn depth(&self, lane: QueueName) -> anyhow::Result<u64> {
        let visible = QueueAttributeName::ApproximateNumberOfMessages;
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(self.url(lane))
            .attribute_names(visible.clone())
            .send()
            .await
            .context("get the depth of the queue")?;
        let depth = answer
            .attributes()
            .and_then(|attributes| attributes.get(&visible));
        depth
            .and_then(|text| text.parse().ok())
            .context("SQS did not return the depth of the queue as a number")
    }
}

/// Returns the delay for SQS in whole seconds, rounded up, or `None` if there is no delay.
fn delay_seconds(delay: Duration) -> Option<i32> {
    let delay = delay.min(LONGEST_DELAY);
    let secs = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    (secs > 0).then_some(i32::try_from(secs).unwrap_or(900).min(900))
}

#[cfg(test)]
mod tests {
    use aws_credential_types::Credentials;
    use local::names::{ACCESS_KEY, REGION, SECRET_KEY};

    use super::*;
    use crate::aws::{Aws, CallPolicy};

    #[test]
    fn a_message_is_read_back() {
        let message = WorkMessage {
            key: EventKey::new("stripe-main", "evt_1"),
            run: 3,
        };
        assert_eq!(
            message.to_message(),
            r#"{"v":1,"key":"E#stripe-main#evt_1","run":3}"#
        );
        assert_eq!(
            WorkMessage::from_message(&message.to_message()),
            Ok(message)
        );
    }

    #[test]
    fn only_sqs_confirms_a_message() {
        let read = |status, body: &'static str| {
            let body = body.into();
            Sent::read(&Reply { status, body }).is_some()
        };
        let stored =
            r#"{"MD5OfMessageBody":"9bb58f26192e4ba00f01e2e7b136bbd8","MessageId":"5fea7756"}"#;
        assert!(read(200, stored));
        for (status, body) in [
            (500, stored),
            (204, ""),
            (200, ""),
            (200, "{}"),
            (200, r#"{"MessageId":""}"#),
            (200, "<html>Sign in</html>"),
        ] {
            assert!(!read(status, body), "{status} {body}");
        }
    }

    #[test]
    fn only_what_waited_in_the_first_queue_is_late() {
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .build();
        let queue = Queue::new(
            aws_sdk_sqs::Client::from_conf(sqs),
            "https://sqs/1/mitt-WorkQueue",
        );
        let (sent, now) = (
            UnixMillis(0),
            UnixMillis(0) + LATE + Duration::from_millis(1),
        );
        let live = "arn:aws:sqs:eu-central-1:1:mitt-WorkQueue";
        assert!(!queue.is_late(live, sent, now), "there is no backlog queue");
        let queue = queue.with_backlog(Some("https://sqs/1/mitt-BacklogQueue".into()));
        assert!(queue.is_late(live, sent, now));
        assert!(!queue.is_late(live, sent, UnixMillis(0) + LATE));
        let backlog = "arn:aws:sqs:eu-central-1:1:mitt-BacklogQueue";
        assert!(!queue.is_late(backlog, sent, now));
        assert_eq!(
            QueueName::of(UnixMillis(0), UnixMillis(0) + OLD),
            QueueName::Main
        );
        assert_eq!(QueueName::of(UnixMillis(0), now), QueueName::Backlog);
    }

    #[tokio::test]
    async fn a_message_is_sent_without_the_sdk() {
        let emulators = local::Emulators::start(None).unwrap();
        let sqs = emulators.clients().sqs;
        let made = sqs.create_queue().queue_name("work").send().await;
        let url = made.unwrap().queue_url.unwrap();
        let aws = |url: &str| {
            let credentials = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
            let endpoint = Some(url.to_owned());
            Aws::new(REGION.to_owned(), credentials, endpoint, CallPolicy::SHORT)
        };
        let nowhere = aws("http://127.0.0.1:9").later(Aws::sqs);
        let direct = aws(&emulators.endpoints().sqs).queues().with_rest(nowhere);
        let message = WorkMessage {
            key: EventKey::new("a", "\"\u{1}ä"),
            run: 1,
        };
        let queue = Queue::new(direct, &url);
        queue.send(&message, Duration::ZERO).await.unwrap();
        let received = sqs.receive_message().queue_url(&url).send().await.unwrap();
        let body = received.messages()[0].body().unwrap();
        assert_eq!(WorkMessage::from_message(body), Ok(message));
    }

    #[test]
    fn an_invalid_message_is_refused() {
        for (text, why) in [
            ("", InvalidMessage::NoJson),
            ("hello", InvalidMessage::NoJson),
            ("{}", InvalidMessage::NoJson),
            (
                r#"{"v":2,"key":"E#a#b","run":0}"#,
                InvalidMessage::UnknownVersion(2),
            ),
            (r#"{"v":2,"about":{}}"#, InvalidMessage::UnknownVersion(2)),
            (r#"{"v":1,"key":"SYS","run":0}"#, InvalidMessage::NoKey),
            (r#"{"v":1,"key":"E#a#b","run":-1}"#, InvalidMessage::NoJson),
        ] {
            assert_eq!(WorkMessage::from_message(text), Err(why), "{text}");
        }
    }
}
