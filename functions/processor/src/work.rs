//! The API of workers outside of Lambda: `POST /work/{queue}/{op}`.
//!
//! A worker claims events with `next`, extends its lease with `extend`, declares an effect with
//! `begin` before it causes it, says with `end` what became of it, and ends its work with `finish`.
//! With `approve` and `reject`, another role decides about an event that a rule holds.
//!
//! API Gateway verifies the signature of each request, and IAM checks by the path whether the caller
//! may use the queue. This module then compares the caller with the `workers` of the queue, and with
//! the role that claimed the event. It logs no body, no token and no text of a worker.

mod approval;
mod begin;
mod caller;
mod event;
mod http;
mod leased;
mod next;
mod plan;
mod protocol;
mod token;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use shared::base::clock::UnixMillis;
use shared::sources::{Action, Config, Pull, Source};

use crate::Processor;
use approval::Approver;
use caller::Caller;
pub use http::{Answer, Invocation, Payload, Reply, Request};
use protocol::{Decide, Op, Refusal};

/// A source whose events the caller can take, and the action that leaves them to workers.
#[derive(Clone, Copy)]
struct Member<'c> {
    source: &'c Source,
    action: &'c Action,
    pull: &'c Pull,
}

impl Member<'_> {
    /// Returns whether an action of the source has this name. Its record is not the worker's.
    fn has_action(&self, name: &str) -> bool {
        self.source.actions.iter().any(|it| it.name == name)
    }
}

/// The queue of a request, with the sources that allow the caller.
struct Queue<'c> {
    name: &'c str,
    members: Vec<Member<'c>>,
}

impl Processor {
    /// Processes what Lambda passes to the function.
    pub async fn handle(&self, payload: Payload, deadline: UnixMillis) -> Reply {
        match payload.invocation() {
            Invocation::Batch(batch) => Reply::Batch(self.process_batch(batch, deadline).await),
            Invocation::Request(request) => Reply::Answer(Box::pin(self.answer(&request)).await),
        }
    }

    /// Answers a request of a worker. Every request gets an answer.
    pub async fn answer(&self, request: &Request) -> Answer {
        let responding = AssertUnwindSafe(Box::pin(self.respond(request))).catch_unwind();
        let error = match responding.await {
            Ok(Ok(answered)) => return answered.unwrap_or_else(|refusal| refusal.answer()),
            Ok(Err(error)) => format!("{error:#}"),
            // If this code panics, the lease of an event expires and another worker claims it.
            Err(_) => "a panic occurred".to_owned(),
        };
        tracing::error!(error, "could not answer a request of a worker");
        let message = "the inbox cannot be read or written now; try again in some seconds";
        Refusal::new(503, "unavailable", message).answer()
    }

    async fn respond(&self, request: &Request) -> anyhow::Result<Result<Answer, Refusal>> {
        let now = (self.clock)();
        self.services.sources.refresh(now).await;
        let config = self.services.sources.config();
        let asked = match read(request, &config) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (caller, queue, op) = match asked {
            Asked::Work(work) => *work,
            Asked::Decide(caller, source, decide) => {
                let by = Approver {
                    arn: request.user_arn.as_deref().unwrap_or_default(),
                    caller: &caller,
                };
                let deciding = self.decide(&config, source, &by, &decide);
                return Box::pin(deciding).await;
            }
        };
        let Some(token) = op.token() else {
            let Op::Next(next) = &op else {
                return Ok(Err(Refusal::lease_lost()));
            };
            return Ok(Ok(self.next(&queue, &caller, next).await?));
        };
        let source = token.key.source();
        let of_queue = queue.members.iter().find(|it| it.source.name == source);
        let Some(member) = of_queue.filter(|_| token.is_of(&caller)) else {
            let message = "the lease is of another role or of another queue; use the lease that \
                           next returned for this queue and this role";
            return Ok(Err(Refusal::new(403, "not_allowed", message)));
        };
        self.leased(member, op).await
    }
}

/// What a request asks for, and who sends it.
enum Asked<'c> {
    /// A worker asks about a queue.
    Work(Box<(Caller, Queue<'c>, Op)>),
    /// An approver decides about an event of a source.
    Decide(Caller, &'c str, Decide),
}

fn read<'c>(request: &'c Request, config: &'c Config) -> Result<Asked<'c>, Refusal> {
    let Some((name, op)) = request.place() else {
        let message = "unknown path; use /work/{queue}/{operation}";
        return Err(Refusal::new(404, "unknown_operation", message));
    };
    let caller = request.user_arn.as_deref().and_then(Caller::of);
    let Some(caller) = caller else {
        let message = "the request is not signed by a role or a user of IAM";
        return Err(Refusal::new(403, "not_allowed", message));
    };
    let Some(body) = request.body() else {
        let message = "the body is marked as base64, and is not";
        return Err(Refusal::invalid(message));
    };
    if let Some(decide) = Decide::read(op, &body) {
        return Ok(Asked::Decide(caller, name, decide?));
    }
    let queue = Queue::of(config, name, &caller)?;
    let op = Op::read(op, &body)?;
    Ok(Asked::Work(Box::new((caller, queue, op))))
}

impl<'c> Queue<'c> {
    /// Returns the queue with the sources whose `workers` have the caller. IAM alone is not enough:
    /// a policy for `/work/*` would otherwise open each queue.
    fn of(config: &'c Config, name: &'c str, caller: &Caller) -> Result<Self, Refusal> {
        let sources = config.sources().filter_map(|source| {
            let (action, pull) = source.pull()?;
            (pull.queue == name).then_some(Member {
                source,
                action,
                pull,
            })
        });
        let sources: Vec<_> = sources.collect();
        if sources.is_empty() {
            return Err(unknown_queue(config, caller));
        }
        let allows = |member: &Member| member.pull.workers.iter().any(|arn| caller.is(arn));
        let members: Vec<_> = sources.into_iter().filter(allows).collect();
        if members.is_empty() {
            let arn = caller.arn();
            let message = format!("{arn} is not in the workers of this queue");
            return Err(Refusal::new(403, "not_allowed", message));
        }
        Ok(Self { name, members })
    }
}

/// Returns the refusal for a queue that no source has. It names the queues of the caller, and not
/// those of others.
fn unknown_queue(config: &Config, caller: &Caller) -> Refusal {
    let pulls = config.sources().filter_map(Source::pull);
    let own = pulls.filter(|(_, pull)| pull.workers.iter().any(|arn| caller.is(arn)));
    let own: BTreeSet<&str> = own.map(|(_, pull)| pull.queue.as_str()).collect();
    let own = if own.is_empty() {
        "this role has no queue".to_owned()
    } else {
        let names: Vec<_> = own.into_iter().collect();
        format!("the queues of this role: {}", names.join(", "))
    };
    let message = format!("no source has an action of kind pull with this queue; {own}");
    Refusal::new(404, "unknown_queue", message)
}
