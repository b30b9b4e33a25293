//! The actions of an event.
//!
//! To add your own action, copy `open_issue.rs`, add its name to `run_code` below, and use the name
//! in `infra/sources.toml`: `kind = "rust"`, `name = "open-issue"`. Each change that it makes
//! outside Mitt goes through [`Effects::once`] or [`Effects::keyed`] under a name of its own. With
//! `destination = "tracker"`, the circuit breaker and the rate limit of that destination apply.

mod answer;
mod aws;
mod confirm;
mod document;
mod eventbridge;
mod http;
mod lambda;
mod open_issue;
mod plan;
mod request;
mod sqs;
mod step_functions;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::{Answer, Outbound, SendError};
use shared::aws::secrets::{Secret, Secrets};
use shared::base::backoff::jitter;
use shared::base::clock::Clock;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::{Effect, Effects};
use shared::inbox::ledger::Row;
use shared::inbox::outcome::Outcome;
use shared::sources::{Action, ActionKind, AnswerRules, Source};
use shared::webhook::context::RequestContext;

use crate::answers::LastAnswer;
use crate::order::EntityHeaders;
pub(crate) use aws::Clients;
pub(crate) use plan::{Plan, Planned};

/// A leased event, and the services that an action can use.
pub(crate) struct Work<'w> {
    /// The row of the event.
    pub(crate) row: &'w Row,
    /// The exact bytes of the event, or the current state of its entity if the source fetches it.
    pub(crate) body: &'w Bytes,
    /// The request of the event. `None` if it was not kept, or if Mitt fetched the event.
    pub(crate) request: Option<&'w RequestContext>,
    /// The source of the event, if it is still configured.
    pub(crate) source: Option<&'w Source>,
    /// The entity that the body is about, if the source orders its events.
    pub(crate) entity: Option<&'w EntityHeaders>,
    pub(crate) effects: &'w Effects<'w>,
    pub(crate) outbound: &'w Outbound,
    pub(crate) clients: &'w Clients,
    pub(crate) secrets: &'w Secrets,
    pub(crate) clock: Clock,
    pub(crate) health: &'w DestinationHealth,
    /// What the answers of the destination mean.
    pub(crate) rules: &'w AnswerRules,
    /// The timeout of a call to the destination.
    pub(crate) timeout: Duration,
}

/// The result of an action's last call, which shows whether the destination is healthy, and what it
/// answered.
#[derive(Debug, Default)]
pub(crate) struct DestinationHealth {
    heard: Mutex<Option<CallResult>>,
    answer: Mutex<Option<LastAnswer>>,
}

impl Work<'_> {
    /// Runs an action. AWS calls are boxed, because otherwise the future of every action would be
    /// as large as that of the largest action.
    pub(crate) async fn run(&self, action: &Action) -> Outcome {
        let name = &action.name;
        match &action.kind {
            // A worker takes the event after all other actions are done.
            ActionKind::Keep | ActionKind::Pull(_) => Outcome::Done,
            ActionKind::Http { url, signing, keys } => {
                http::forward(self, name, url, signing, *keys).await
            }
            ActionKind::Lambda {
                function,
                invocation,
            } => Box::pin(lambda::invoke(self, name, function, *invocation)).await,
            ActionKind::Sqs { url, group } => {
                Box::pin(sqs::send(self, name, url, group.as_ref())).await
            }
            ActionKind::EventBridge {
                bus,
                source,
                detail_type,
            } => {
                let detail_type = detail_type.as_deref();
                Box::pin(eventbridge::put(self, name, bus, source, detail_type)).await
            }
            ActionKind::StepFunctions { state_machine } => {
                Box::pin(step_functions::start(self, name, state_machine)).await
            }
            ActionKind::Rust { code, params } => self.run_code(code, params).await,
        }
    }

    async fn run_code(&self, code: &str, params: &BTreeMap<String, String>) -> Outcome {
        match code {
            "open-issue" => open_issue::open_issue(self, params).await,
            // When its attempts are used up, the event is a dead letter. An operator can replay it
            // after the code is deployed.
            _ => Outcome::retry(format!(
                "this processor has no Rust action {code:?}; deploy a processor with this action, or correct its `name`"
            )),
        }
    }

    /// Returns the newest live value of a secret.
    pub(crate) async fn secret(&self, name: &str) -> anyhow::Result<Secret> {
        let live = self.secrets.live(name, (self.clock)()).await?;
        live.first()
            .cloned()
            .with_context(|| format!("secret {name:?} not found"))
    }

    /// Converts a response to an effect, and records the health of the destination.
    pub(crate) fn effect(&self, answer: Result<Answer, SendError>) -> Effect {
        let (rules, row) = (self.rules, self.row);
        if !answer
            .as_ref()
            .is_ok_and(|answer| rules.is_success(answer.status))
        {
            self.health
                .note_answer(LastAnswer::of(&answer, rules.keep_text));
        }
        self.health.note(answer::heard(&answer, rules, &row.key));
        let call = answer::Call {
            rules,
            now: (self.clock)(),
            first: row.first_attempt(),
            jitter: jitter(),
        };
        answer::effect(answer, &call)
    }
}

impl DestinationHealth {
    pub(crate) fn note(&self, heard: CallResult) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(heard);
    }

    fn note_answer(&self, answer: LastAnswer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// Returns the answer to the last call, unless the call succeeded.
    pub(crate) fn take_answer(&self) -> Option<LastAnswer> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.take()
    }

    pub(crate) fn heard(&self) -> CallResult {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.unwrap_or(CallResult::NotCalled)
    }
}
