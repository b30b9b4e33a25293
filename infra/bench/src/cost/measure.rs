//! Measures an inbox that receives events, and an inbox without events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use serde_json::{Map, Value, json};
use shared::base::clock::UnixMillis;

use super::deployed::{Deployed, Filter};
use super::rows::Rows;
use super::stand::{Inputs, Stand};
use super::tally::Tally;
use crate::webhook::{SOURCE, Shape, Webhook};

/// The events to send, and how the inbox processes them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The size of a body in bytes.
    pub(crate) size: usize,
    pub(crate) shape: Shape,
    /// Number of messages in a batch of the processor.
    pub(crate) batch: usize,
    /// Whether the events are forwarded to a destination over HTTP. If not, the inbox only stores
    /// them.
    pub(crate) forwards: bool,
    pub(crate) events: u32,
}

/// The counts of a case.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) case: Case,
    /// The counts of the first delivery of each event.
    pub(crate) caught: Tally,
    /// The counts of a second delivery of some events, after they were done.
    pub(crate) again: Tally,
    pub(crate) worked: Tally,
    /// The sweep that checks all events in order of receipt.
    pub(crate) looked: Tally,
    /// The first invocation of a process, including its start.
    pub(crate) cold_catcher: Tally,
    pub(crate) cold_processor: Tally,
    /// Receives and deletes of the event source mapping.
    pub(crate) mapping_requests: u32,
    pub(crate) rows: Rows,
    /// Bytes of all answers to senders, and of all requests of senders.
    pub(crate) answered: u64,
    pub(crate) asked: u64,
    /// Bytes sent to destinations.
    pub(crate) forwarded: u64,
}

const CATCHER: &str = "Catcher";
const PROCESSOR: &str = "Processor";
const SWEEPER: &str = "BackupSync";

pub(crate) async fn count(inputs: &Inputs<'_>, case: &Case) -> anyhow::Result<Counted> {
    let stand = Stand::start(inputs, case.forwards).await?;
    let sender = Sender::new(&stand, case)?;
    let (_, mut cold_catcher) = stand.counted(CATCHER, sender.send(0)).await?;
    let (_, mut cold_processor) = stand.counted(PROCESSOR, work(&stand, 1, 1)).await?;
    (cold_catcher.invocations, cold_processor.invocations) = (1, 1);
    stand.outside.take_bytes();

    let (sent, mut caught) = stand
        .counted(CATCHER, sender.send_all(1..=case.events))
        .await?;
    caught.invocations = u64::from(case.events);
    let (worked_on, mut worked) = stand
        .counted(PROCESSOR, work(&stand, case.events, case.batch))
        .await?;
    worked.invocations = u64::from(worked_on.invocations);
    let forwarded = stand.outside.take_bytes();

    let again = again_of(case.events, inputs.prices.assumed.duplicate_share.value);
    let (_, mut second) = stand.counted(CATCHER, sender.send_all(1..=again)).await?;
    second.invocations = u64::from(again);

    let ((), looked) = stand.counted(SWEEPER, stand.look_over()).await?;

    let overhead = inputs.prices.assumed.row_overhead_bytes.value;
    let rows = stand.rows(UnixMillis::now(), overhead).await?;
    let expected = case.events + 1;
    ensure!(
        rows.done == expected,
        "{} of {expected} events are done",
        rows.done
    );
    stand.end().await;
    Ok(Counted {
        case: case.clone(),
        caught,
        again: second,
        worked,
        looked,
        cold_catcher,
        cold_processor,
        mapping_requests: worked_on.requests,
        rows,
        answered: sent.answered,
        asked: sent.asked,
        forwarded,
    })
}

/// Returns the number of duplicates. It is at least one, so that the cost can be measured.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of events"
)]
fn again_of(events: u32, share: f64) -> u32 {
    ((f64::from(events) * share).ceil() as u32).clamp(1, events)
}

/// The counts of the runs of the schedules. The first run includes hourly work and the start of the
/// process. The later runs do not.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) first: BTreeMap<String, Tally>,
    pub(crate) later: BTreeMap<String, Tally>,
    /// How many times in an hour the additional work of the first run recurs. A value below one is
    /// the recurring share of this work.
    pub(crate) hourly: BTreeMap<String, f64>,
    /// Custom metrics that the log lines of an idle inbox create.
    pub(crate) metrics: BTreeSet<String>,
}

/// The number of later runs over which the cost is averaged.
const RUNS: u32 = 5;

pub(crate) async fn rest(inputs: &Inputs<'_>, deployed: &Deployed) -> anyhow::Result<Rest> {
    let stand = Stand::start(inputs, false).await?;
    let (mut first, mut later) = (BTreeMap::new(), BTreeMap::new());
    let mut hourly = BTreeMap::new();
    for schedule in &deployed.schedules {
        let run = || stand.invoke(&schedule.function, &schedule.input);
        let (report, mut once) = stand.counted(&schedule.function, run()).await?;
        once.invocations = 1;
        hourly.insert(schedule.id.clone(), hourly_share(&report));
        first.insert(schedule.id.clone(), once);
        // A sweep checks the health of the inbox, unless the last check was less than five minutes
        // ago. So the sweep to measure is the next sweep of a process that has not swept yet.
        let runs = if report["task"] == "sweep" {
            let function = &schedule.function;
            stand.stack.kill_function_processes(function).await?;
            stand.invoke(function, &json!({ "task": "keys" })).await?;
            1
        } else {
            RUNS
        };
        let again = async {
            for _ in 0..runs {
                run().await?;
            }
            anyhow::Ok(())
        };
        let ((), mut rest) = stand.counted(&schedule.function, again).await?;
        rest.invocations = u64::from(runs);
        later.insert(schedule.id.clone(), rest);
    }
    let mut metrics = BTreeSet::new();
    for (function, machine) in &deployed.functions {
        let of = |filter: &&Filter| filter.log_group == machine.log_group;
        let lines = stand.lines(function)?;
        for filter in deployed.filters.iter().filter(of) {
            if lines.iter().any(|line| filter.takes(line)) {
                metrics.extend(filter.metrics.iter().cloned());
            }
        }
    }
    stand.end().await;
    Ok(Rest {
        first,
        later,
        hourly,
        metrics,
    })
}

/// Returns how much of the first run's additional work recurs in an hour. The first run of the
/// hourly count counts all uncounted hours. A later run counts two hours: the newest one and, for
/// the last time, the hour of a day ago. A process records the end of a drain every ten minutes. It
/// also records the end of a sweep, but the later sweep is measured in a process that has not yet
/// recorded the end of a sweep.
fn hourly_share(report: &Value) -> f64 {
    if report["task"] == "drain" {
        return 6.0;
    }
    let hours = report["hours"]
        .as_u64()
        .and_then(|hours| u32::try_from(hours).ok());
    hours.map_or(1.0, |hours| 2.0 / f64::from(hours.max(2)))
}

struct Sender {
    http: reqwest::Client,
    url: String,
    size: usize,
    shape: Shape,
}

#[derive(Default)]
struct Sent {
    answered: u64,
    asked: u64,
}

impl Sender {
    fn new(stand: &Stand, case: &Case) -> anyhow::Result<Self> {
        let url = format!("{}/in/{SOURCE}", stand.stack.front_url());
        Ok(Self {
            http: shared::aws::outbound::to_this_machine(&url, Duration::from_secs(30))?,
            url,
            size: case.size,
            shape: case.shape,
        })
    }

    async fn send_all(&self, numbers: impl IntoIterator<Item = u32>) -> anyhow::Result<Sent> {
        let mut sum = Sent::default();
        for number in numbers {
            let sent = self.send(number).await?;
            sum.answered += sent.answered;
            sum.asked += sent.asked;
        }
        Ok(sum)
    }

    async fn send(&self, number: u32) -> anyhow::Result<Sent> {
        let webhook = Webhook::new(u64::from(number), self.size, self.shape);
        let request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json; charset=utf-8")
            .header(
                "user-agent",
                "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
            )
            .header("stripe-signature", webhook.signature()?)
            .body(webhook.body.clone())
            .build()?;
        let asked = head(request.headers()) + webhook.body.len();
        let answer = self.http.execute(request).await.context("send a webhook")?;
        let status = answer.status();
        let answered = head(answer.headers());
        let body = answer.bytes().await.context("read the answer")?;
        ensure!(status.is_success(), "a webhook was answered {status}");
        Ok(Sent {
            answered: (answered + body.len()) as u64,
            asked: asked as u64,
        })
    }
}

/// Returns the size of a message head. The first line is about as long for requests as for answers.
fn head(headers: &reqwest::header::HeaderMap) -> usize {
    let lines = headers.iter();
    let lines = lines.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    "HTTP/1.1 200 OK\r\n\r\n".len() + lines.sum::<usize>()
}

struct WorkedOn {
    invocations: u32,
    requests: u32,
}

/// Does the work of the event source mapping, in batches, until all events are done.
async fn work(stand: &Stand, events: u32, batch: usize) -> anyhow::Result<WorkedOn> {
    let sqs = stand.stack.clients().sqs;
    let queue = stand.stack.template().queue("WorkQueue")?;
    let url = &queue.url;
    let mut on = WorkedOn {
        invocations: 0,
        requests: 0,
    };
    let mut done = 0;
    while done < events {
        let receive = sqs.receive_message().queue_url(url).wait_time_seconds(1);
        let receive = receive.max_number_of_messages(i32::try_from(batch.min(10))?);
        let receive = receive.message_system_attribute_names(MessageSystemAttributeName::All);
        let messages = receive.send().await.context("receive messages")?;
        let messages = messages.messages.unwrap_or_default();
        on.requests += 1;
        if messages.is_empty() {
            bail!("only {done} of {events} messages were received");
        }
        let records = messages.iter().map(|message| record(message, &queue.arn));
        let records: Vec<Value> = records.collect();
        let answer = stand
            .invoke(PROCESSOR, &json!({ "Records": records }))
            .await?;
        let failed = answer["batchItemFailures"].as_array();
        ensure!(
            failed.is_none_or(Vec::is_empty),
            "messages of a batch failed: {answer}"
        );
        on.invocations += 1;
        let delete = sqs.delete_message_batch().queue_url(url);
        let delete = delete.set_entries(Some(entries(&messages)?));
        delete.send().await.context("delete messages")?;
        on.requests += 1;
        done += u32::try_from(messages.len())?;
    }
    Ok(on)
}

fn entries(messages: &[Message]) -> anyhow::Result<Vec<DeleteMessageBatchRequestEntry>> {
    let entries = messages.iter().enumerate().map(|(at, message)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(at.to_string());
        entry
            .set_receipt_handle(message.receipt_handle.clone())
            .build()
    });
    entries
        .collect::<Result<_, _>>()
        .context("build the entries of the delete request")
}

/// Returns a message in the format of Lambda, with the fields that the processor reads.
fn record(message: &Message, queue: &str) -> Value {
    let attributes = message.attributes.iter().flatten();
    let attributes: Map<String, Value> = attributes
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": message.md5_of_body,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue,
        "awsRegion": local::names::REGION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_first_run_does_more_comes_again_as_often_as_its_task_says() {
        let shares = [
            json!({"task": "count", "hours": 48}),
            json!({"task": "count", "hours": 1}),
            json!({"task": "drain"}),
            json!({"task": "sweep", "sent": 3}),
        ];
        let shares = shares.map(|report| hourly_share(&report).to_string());
        let two_of_48 = (2.0_f64 / 48.0).to_string();
        assert_eq!(shares, [two_of_48.as_str(), "1", "6", "1"]);
    }

    #[test]
    fn a_share_of_the_events_comes_again_and_one_at_least() {
        assert_eq!(again_of(500, 0.02), 10);
        assert_eq!(again_of(500, 0.0), 1);
        assert_eq!(again_of(3, 2.0), 3);
    }
}
