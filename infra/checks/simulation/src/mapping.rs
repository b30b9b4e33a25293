//! The event source mapping: takes messages from the queue and invokes the processor.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use processor::Processor;

use crate::clock;
use crate::crash_injection::{Ended, Role, at_risk};
use crate::run::Run;
use crate::sandbox::Sandbox;
use crate::wire::fate::Down;
use crate::wire::sqs::{Message, Name, VISIBILITY_MS};

/// The batch size in `template.yaml`.
const BATCH: usize = 10;
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum concurrency in `template.yaml`.
const AT_ONCE: usize = 5;

/// The mapping of the work queue. No function polls the backlog queue.
#[derive(Default)]
pub struct Mapping {
    busy: Cell<usize>,
}

impl Mapping {
    pub fn is_idle(&self) -> bool {
        self.busy.get() == 0
    }
}

/// Invokes the processor whenever the queue has messages. Never returns.
pub async fn map(run: Rc<Run>, mapping: Rc<Mapping>) {
    loop {
        let Some(batch) = next_batch(&run, &mapping) else {
            idle(&run).await;
            continue;
        };
        match run.processor() {
            Ok(sandbox) => {
                mapping.busy.set(mapping.busy.get() + 1);
                let (run, mapping) = (run.clone(), mapping.clone());
                tokio::task::spawn_local(async move {
                    invoke(&run, sandbox, batch).await;
                    mapping.busy.set(mapping.busy.get() - 1);
                });
            }
            Err(error) => return run.fail(error),
        }
    }
}

fn next_batch(run: &Run, mapping: &Mapping) -> Option<Vec<Message>> {
    let mut world = run.world.lock();
    if mapping.busy.get() >= AT_ONCE || world.is_down(Down::Processor) {
        return None;
    }
    let world = &mut *world;
    let now = clock::true_ms();
    let queue = &mut world.queues.work_messages;
    let batch = queue.receive(BATCH, now, VISIBILITY_MS, &mut world.dice);
    // A standard queue delivers some messages twice.
    for message in &batch {
        if world.dice.hits(world.scenario.message_copies) {
            let after = i64::try_from(world.dice.between(0, 90_000)).unwrap_or(0);
            let queue = &mut world.queues.work_messages;
            queue.send(message.body.clone(), message.sent_at, now + after);
        }
    }
    (!batch.is_empty()).then_some(batch)
}

/// Waits until a message may be available.
async fn idle(run: &Run) {
    let (next, rung) = {
        let mut world = run.world.lock();
        let queue = &mut world.queues.work_messages;
        let waiting = queue.depth(clock::true_ms()) > 0;
        let next = if waiting { None } else { queue.next_at() };
        let next = next.map(|next| next - clock::true_ms());
        let default = if waiting { 100 } else { 60_000 };
        (next.unwrap_or(default).max(1), world.rung.clone())
    };
    let next = Duration::from_millis(next.unsigned_abs());
    // A message was sent, or a hidden message became visible. In both cases, check the queue.
    let _ = tokio::time::timeout(next, rung.notified()).await;
}

/// Makes one invocation. A frozen function is abandoned after its timeout. It can wake up later and
/// continue.
async fn invoke(run: &Rc<Run>, sandbox: Rc<Sandbox<Processor>>, batch: Vec<Message>) {
    let records = batch.iter().map(|message| {
        let mut record = SqsMessage::default();
        record.message_id = Some(message.id.to_string());
        record.body = Some(message.body.clone());
        record.event_source_arn = Some(Name::Work.arn());
        let sent = ("SentTimestamp".to_owned(), message.sent_at.to_string());
        record.attributes = HashMap::from([sent]);
        record
    });
    let mut event = SqsEvent::default();
    event.records = records.collect();
    let deadline = clock::skewed(sandbox.skew_ms, clock::read) + FUNCTION_TIMEOUT;
    let at_work = sandbox.clone();
    let work = async move { at_work.function.process_batch(event, deadline).await };
    let work = at_risk(
        Role::Processor,
        work,
        sandbox.skew_ms,
        FUNCTION_TIMEOUT,
        &run.world,
    );
    let invocation = work.invocation();
    let work = tokio::task::spawn_local(Box::pin(work));
    let failed: HashSet<String> = match tokio::time::timeout(FUNCTION_TIMEOUT, work).await {
        Ok(Ok(Ended::Returned { value, was_frozen })) => {
            run.give_back(sandbox);
            let failed = value
                .batch_item_failures
                .into_iter()
                .map(|failure| failure.item_identifier);
            let failed: HashSet<String> = failed.collect();
            let hurt = |message: &Message| was_frozen || failed.contains(&message.id.to_string());
            let mut world = run.world.lock();
            world.witness.ended(invocation, &batch, hurt);
            failed
        }
        Ok(Ok(Ended::Died) | Err(_)) | Err(_) => {
            let mut world = run.world.lock();
            world.witness.ended(invocation, &batch, |_| true);
            return;
        }
    };
    let mut world = run.world.lock();
    for message in batch
        .iter()
        .filter(|message| !failed.contains(&message.id.to_string()))
    {
        world.queues.work_messages.delete(message);
    }
}
