//! The changes that the page can make with `--write`. Each is a command with a reason.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::inbox::ledger::Through;

use super::api::{json, respond};
use super::refusal::Refusal;
use super::server::{Console, no_page};
use crate::output::format::json_line;
use crate::output::{CliError, Exit};
use crate::reads::{Answer, Question, Reader, pairs};
use crate::target::{Caller, Run};

/// The number of attempts whose answers are kept.
const MOST_ATTEMPTS: usize = 1000;

/// The body of a request.
#[derive(Deserialize)]
struct Wanted {
    /// A random id. A second request with the same id gets the first answer, so that a double click
    /// is one change.
    attempt: String,
    reason: String,
    /// The number that the operator typed.
    confirm: Option<u64>,
    #[serde(default)]
    flags: Map<String, Value>,
}

/// The answers of the last attempts, and the replays that run in this process.
#[derive(Default)]
pub(super) struct Writes(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    attempts: HashMap<String, Shared<BoxFuture<'static, Arc<Answer>>>>,
    order: VecDeque<String>,
    runs: HashMap<String, Arc<Run>>,
}

pub(super) async fn write(
    console: &Arc<Console>,
    path: &str,
    body: Body,
) -> Result<Response, Refusal> {
    let mut wanted: Wanted = json(body).await?;
    wanted.check()?;
    let parts: Vec<&str> = path.split('/').collect();
    let (name, plan) = match parts.as_slice() {
        ["plan"] => ("replay.plan", None),
        ["plan", id, "apply"] => ("replay.apply", Some(*id)),
        ["plan", id, "cancel"] => ("replay.cancel", Some(*id)),
        ["plan", id, "stop"] => return console.writes.stop(id),
        [name] if !name.starts_with("replay.") => (*name, None),
        _ => return Err(no_page(path)),
    };
    if let Some(plan) = plan {
        wanted.flags.insert("plan".to_owned(), plan.into());
    }
    let question = Question::write(name, &pairs(&wanted.flags)?, wanted.more(name))?;
    let command = question.command(&console.reader.target());
    let attempt = format!("{path} {}", wanted.attempt);
    let reader = console.reader.clone();
    let answer = if let ("replay.apply", Some(plan)) = (name, plan) {
        let (writes, plan) = (Writes(Arc::clone(&console.writes.0)), plan.to_owned());
        let apply = async move { writes.apply(reader, question, plan).await };
        console.writes.once(attempt, apply.boxed())
    } else {
        let reader = reader.for_caller(Caller::new(Through::Console));
        let run = async move { reader.run(question.line("json")).await };
        console.writes.once(attempt, run.boxed())
    };
    let answer = answer.await;
    // The page reads again, and must see the change.
    console.answers.forget();
    Ok(respond(&answer, &command))
}

impl Wanted {
    fn check(&self) -> Result<(), CliError> {
        if !(8..=100).contains(&self.attempt.len()) {
            return Err(CliError::usage("console.body", "the attempt has no id"));
        }
        if self.reason.trim().is_empty() {
            let error = CliError::usage("console.reason", "a change needs a reason");
            return Err(error.note("the audit log records it; nothing was changed"));
        }
        Ok(())
    }

    /// Returns whether the command changes nothing. Other values of the flag do not count, because
    /// only a dry run needs no reason and no number.
    fn is_dry(&self) -> bool {
        match self.flags.get("dry-run") {
            Some(Value::Bool(is_dry)) => *is_dry,
            Some(Value::String(text)) => text.is_empty() || text == "true",
            _ => false,
        }
    }

    /// Returns the flags that this process adds.
    fn more(&self, name: &str) -> Vec<String> {
        let reason = self.reason.trim();
        let is_dry = self.is_dry();
        let mut more = match name {
            "quarantine.reverify" if is_dry => Vec::new(),
            "quarantine.reverify" => vec![format!("--message={reason}")],
            _ => vec![format!("--reason={reason}")],
        };
        let has_count = name == "replay.apply" || name == "quarantine.reverify" && !is_dry;
        if has_count {
            // Without a number, the command says which number it needs.
            more.extend(self.confirm.map(|count| format!("--confirm={count}")));
        }
        more
    }
}

impl Writes {
    pub(super) fn is_busy(&self) -> bool {
        !self.lock().runs.is_empty()
    }

    /// Runs an attempt, or returns the answer of the same attempt. The command goes on if the page
    /// is closed.
    fn once(
        &self,
        attempt: String,
        run: BoxFuture<'static, Answer>,
    ) -> Shared<BoxFuture<'static, Arc<Answer>>> {
        let mut state = self.lock();
        if let Some(known) = state.attempts.get(&attempt) {
            return known.clone();
        }
        let task = tokio::spawn(run);
        let answer = async move { Arc::new(task.await.unwrap_or_else(|_| failed())) };
        let answer = answer.boxed().shared();
        if state.order.len() == MOST_ATTEMPTS
            && let Some(oldest) = state.order.pop_front()
        {
            state.attempts.remove(&oldest);
        }
        state.order.push_back(attempt.clone());
        state.attempts.insert(attempt, answer.clone());
        answer
    }

    /// Starts to apply a plan. Returns when the replay runs, or when it was refused.
    async fn apply(&self, reader: Reader, question: Question, plan: String) -> Answer {
        let run = Arc::new(Run::default());
        let mut progress = run.progress.subscribe();
        let reader = reader.for_caller(Caller {
            through: Through::Console,
            run: Some(Arc::clone(&run)),
        });
        let (state, name) = (Arc::clone(&self.0), plan.clone());
        let mut task = tokio::spawn(async move {
            lock(&state).runs.insert(name.clone(), Arc::clone(&run));
            let answer = reader.run(question.line("json")).await;
            let mut state = lock(&state);
            if state
                .runs
                .get(&name)
                .is_some_and(|it| Arc::ptr_eq(it, &run))
            {
                state.runs.remove(&name);
            }
            answer
        });
        tokio::select! {
            ended = &mut task => ended.unwrap_or_else(|_| failed()),
            // A run that ends before its start drops the sender.
            Ok(()) = progress.changed() => {
                let of = (*progress.borrow()).map(|progress| progress.of);
                document(&json!({
                    "schema": "webhookctl/console.apply/v1",
                    "plan": plan,
                    "running": true,
                    "events": of,
                }))
            }
        }
    }

    /// Stops a replay of this process at the next point from which it can be resumed.
    fn stop(&self, plan: &str) -> Result<Response, Refusal> {
        let run = self.lock().runs.get(plan).cloned();
        let run = run.ok_or_else(|| {
            let message = format!("this console does not run plan {plan}");
            CliError::refused("console.not_running", message)
                .tip("cancel the plan, or stop it where it runs")
        })?;
        run.interrupt.set();
        let answer = document(&json!({
            "schema": "webhookctl/console.stop/v1",
            "plan": plan,
            "stopping": true,
        }));
        let mut response = respond(&answer, "");
        *response.status_mut() = StatusCode::ACCEPTED;
        Ok(response)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn document(document: &Value) -> Answer {
    Answer {
        body: json_line(document).unwrap_or_default().into(),
        exit: Exit::Done,
        error: None,
    }
}

fn failed() -> Answer {
    Answer::failed(CliError::failed(
        "console.stopped",
        "the command was stopped",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dry_run_needs_no_reason_and_no_number() {
        let more = |dry: Value| {
            let wanted: Wanted = serde_json::from_value(json!({
                "attempt": "12345678",
                "reason": "why",
                "confirm": 3,
                "flags": {"dry-run": dry},
            }))
            .unwrap();
            wanted.more("quarantine.reverify")
        };
        assert!(more(true.into()).is_empty() && more("".into()).is_empty());
        for dry in [false.into(), "false".into(), Value::Null, json!(["false"])] {
            assert_eq!(more(dry), ["--message=why", "--confirm=3"]);
        }
    }
}
