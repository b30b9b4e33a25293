//! Runs the tools.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Worker;
use super::advice::{Failed, after_begin};
use super::document::{approved_plan, marked};
use crate::output::{CliError, Exit};
use crate::verbs::mcp::answer::{Answered, answered};
use crate::verbs::mcp::fence::Form;
use crate::verbs::work::client::Asked;

/// The fields of answers that are our own, in addition to those of the reading server.
const OURS: &[(&str, Form)] = &[
    ("key", Form::Key),
    ("lease_until", Form::Time),
    ("ask_from", Form::Time),
    ("expires", Form::Time),
    ("hold", Form::Word),
    ("rule", Form::Word),
    ("reason", Form::Word),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendArgs {
    id: String,
    lease_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginArgs {
    id: String,
    effect: String,
    keys: String,
    asked: Option<String>,
    plan: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndArgs {
    id: String,
    effect: String,
    result: String,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishArgs {
    id: String,
    outcome: String,
    error: Option<String>,
    after_s: Option<u64>,
    destination_failed: Option<bool>,
}

impl Worker {
    /// Runs a tool. `cancelled` becomes true when the agent no longer waits for the answer.
    pub(super) async fn call(
        self: Arc<Self>,
        tool: &'static str,
        arguments: Map<String, Value>,
        cancelled: watch::Receiver<bool>,
    ) -> Answered {
        let document = match tool {
            "next_work" => match parsed(tool, arguments) {
                Ok(args) => self.next(args, cancelled).await,
                Err(failed) => Err(failed),
            },
            "extend_work" => self.on(parsed(tool, arguments), Self::extend_work).await,
            "begin_effect" => self.on(parsed(tool, arguments), Self::begin_effect).await,
            "end_effect" => self.on(parsed(tool, arguments), Self::end_effect).await,
            _ => self.on(parsed(tool, arguments), Self::finish_work).await,
        };
        match document {
            Ok(document) => answered(tool, document, false),
            Err(failed) => answered(tool, failed.document(), true),
        }
    }

    async fn on<'w, A, F>(
        &'w self,
        args: Result<A, Failed>,
        run: impl FnOnce(&'w Self, A) -> F,
    ) -> Result<Value, Failed>
    where
        F: Future<Output = Result<Value, Failed>>,
    {
        run(self, args?).await
    }

    fn lease(&self, id: &str) -> Result<String, Failed> {
        self.held.lease_of(id).ok_or_else(|| Failed::not_held(id))
    }

    async fn extend_work(&self, args: ExtendArgs) -> Result<Value, Failed> {
        let lease = self.lease(&args.id)?;
        if let Some(length_s) = args.lease_s {
            self.held.wants(&lease, length_s);
        }
        let answer = self.extend(&lease, args.lease_s).await;
        let answer = self.answer(&lease, answer)?;
        Ok(with_advice(&answer, "Go on with the work on this event."))
    }

    async fn begin_effect(&self, args: BeginArgs) -> Result<Value, Failed> {
        let lease = self.lease(&args.id)?;
        let mut body = json!({ "lease": lease, "effect": args.effect, "keys": args.keys });
        set(&mut body, "plan", self.plan(&args));
        set(&mut body, "asked", args.asked);
        // The API can record the effect although its answer is lost.
        let was_open = self.held.begins(&lease, &args.effect);
        let answer = self.client.ask("begin", &body).await;
        let is_open = match &answer {
            Ok(Asked::Answered(answer)) => answer["go"] == true,
            Ok(Asked::Refused { error, .. }) => was_open || error.exit == Exit::Failed,
            Err(_) => true,
        };
        if !is_open {
            self.held.ends(&lease, &args.effect);
        }
        let answer = self.answer(&lease, answer)?;
        let (advice, keeps) = after_begin(&answer, &args.keys);
        if !keeps {
            self.held.remove(&lease);
        }
        Ok(with_advice(&answer, advice))
    }

    /// Returns the plan of the agent, or else the plan that a person approved. An approval is for each
    /// character of a plan, and a model does not write the same plan twice.
    fn plan(&self, args: &BeginArgs) -> Option<Value> {
        if let Some(plan) = &args.plan {
            return Some(plan.clone().into());
        }
        let event = self.held.document(&args.id)?;
        approved_plan(&event, &args.effect).cloned()
    }

    async fn end_effect(&self, args: EndArgs) -> Result<Value, Failed> {
        let lease = self.lease(&args.id)?;
        let mut body = json!({ "lease": lease, "effect": args.effect, "result": args.result });
        set(&mut body, "note", args.note);
        let answer = self.client.ask("end", &body).await;
        let answer = self.answer(&lease, answer)?;
        self.held.ends(&lease, &args.effect);
        let advice = match args.result.as_str() {
            "unknown" => "If you cannot find out what happened, call finish_work with unknown.",
            "refused" => "Call finish_work with permanent, unless other work is left.",
            _ => "Go on with the work, or call finish_work.",
        };
        Ok(with_advice(&answer, advice))
    }

    async fn finish_work(&self, args: FinishArgs) -> Result<Value, Failed> {
        let lease = self.lease(&args.id)?;
        let mut body = json!({ "lease": lease, "outcome": args.outcome });
        set(&mut body, "error", args.error);
        set(&mut body, "after_s", args.after_s);
        set(&mut body, "destination_failed", args.destination_failed);
        let answer = self.client.ask("finish", &body).await;
        let answer = self.answer(&lease, answer)?;
        self.held.remove(&lease);
        Ok(with_advice(
            &answer,
            "The work on this event has ended. Call next_work for the next event, or stop.",
        ))
    }

    /// Returns the answer of the API. An event whose lease is lost is no longer held.
    fn answer(&self, lease: &str, answer: Result<Asked, CliError>) -> Result<Value, Failed> {
        match answer {
            Ok(Asked::Answered(answer)) => Ok(answer),
            Ok(Asked::Refused { reason, error }) => {
                if error.exit == Exit::NotFound {
                    self.held.remove(lease);
                }
                Err(Failed::because(&reason, error))
            }
            Err(error) => Err(Failed::of(error)),
        }
    }
}

fn with_advice(answer: &Value, advice: &str) -> Value {
    let mut fields = answer.clone();
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("v");
    }
    let mut document = marked(&fields, OURS);
    document["do"] = advice.into();
    document
}

fn parsed<A: DeserializeOwned>(tool: &str, arguments: Map<String, Value>) -> Result<A, Failed> {
    let parsed = serde_json::from_value(arguments.into());
    parsed.map_err(|error| {
        let message = format!("invalid arguments of {tool}: {error}");
        Failed::of(CliError::usage("mcp.argument", message))
    })
}

fn set(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_of_begin_is_passed_on_and_marked() {
        let answer = json!({
            "v": 1, "held": true, "hold": "hld_1", "rule": "large-refund",
            "expires": "2026-11-28T10:53:32.787Z", "why": "do as I say", "more": [1],
        });
        let document = with_advice(&answer, "x");
        assert_eq!(document["hold"], "hld_1");
        assert_eq!(document["rule"], "large-refund");
        assert_eq!(document["expires"], answer["expires"]);
        assert_eq!(document["why"]["untrusted"], "do as I say");
        assert_eq!(document["more"], json!([1]));
        assert!(document["v"].is_null());
    }

    #[test]
    fn unknown_arguments_are_refused() {
        let arguments = json!({"id": "evt_1", "approve": true});
        let arguments = arguments.as_object().cloned().unwrap();
        let failed = parsed::<ExtendArgs>("extend_work", arguments)
            .err()
            .unwrap();
        assert!(failed.error.message.contains("unknown field `approve`"));
    }
}
