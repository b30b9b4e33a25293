//! Runs the tools, and says what to do with each answer.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Worker;
use super::document::{approved_plan, marked};
use crate::output::{CliError, Exit};
use crate::verbs::mcp::answer::{Answered, answered};
use crate::verbs::mcp::call::document_of;
use crate::verbs::mcp::fence::{Form, fenced, fits};
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

/// Why a tool failed, and what to do.
pub(super) struct Failed {
    error: CliError,
    /// The code of the API.
    reason: Option<String>,
    advice: &'static str,
}

impl Failed {
    pub(super) fn of(error: CliError) -> Self {
        let advice = match error.code {
            "mcp.argument" => "Correct the arguments, and call the tool again.",
            "mcp.bodies" => {
                "Use the structure of the body, or tell a person that values are needed."
            }
            "mcp.holds" => "Call finish_work for the events in holding first.",
            _ if error.exit == Exit::Failed => {
                "Try the same call again in some seconds; a repeat does no harm."
            }
            _ => "Stop, and tell a person.",
        };
        Self {
            error,
            reason: None,
            advice,
        }
    }

    /// An answer of the API that is an error.
    pub(super) fn because(reason: &str, error: CliError) -> Self {
        let advice = match reason {
            "lease_lost" | "stale" => {
                "Stop the work on this event, because another worker can have it. Make no further \
                 call for it. Then call next_work."
            }
            "max_hold" => {
                "The lease ends soon. Call finish_work now, or stop the work on this event."
            }
            "lease_too_short" => "Call extend_work, and then begin_effect again.",
            "effect_in_doubt" => {
                "Search the other system for the key. If you find it, call end_effect with done. If \
                 not, call begin_effect with asked did_not."
            }
            "open_effects" => "Call end_effect for each begun effect, and then finish_work again.",
            "not_begun" => "Call begin_effect before the call, and end_effect after it.",
            "effect_done" => "The effect is done. Do not repeat it, and go on.",
            "effect_of_action" => {
                "Choose another name for the effect. Use the same name in each attempt."
            }
            "too_many_effects" => "Call finish_work with permanent, and tell a person.",
            "invalid_request" => "Correct the arguments, and call the tool again.",
            _ => {
                return Self {
                    reason: Some(reason.to_owned()),
                    ..Self::of(error)
                };
            }
        };
        Self {
            error,
            reason: Some(reason.to_owned()),
            advice,
        }
    }

    pub(super) fn not_held(id: &str) -> Self {
        let message = format!("this server does not hold the event {id}");
        Self {
            error: CliError::not_found("mcp.not_held", message),
            reason: None,
            advice: "If you worked on this event, stop: its lease ended, or its work did. Then call \
                     next_work.",
        }
    }

    fn document(&self) -> Value {
        let mut document = document_of(&self.error);
        if let Some(error) = document["error"].as_object_mut() {
            // These name commands for people.
            for name in ["note", "tip", "docs", "exit"] {
                error.remove(name);
            }
        }
        let mut document = fenced(document);
        let reason = self.reason.as_deref();
        if let Some(reason) = reason.filter(|reason| fits(Form::Word, reason)) {
            document["error"]["reason"] = reason.into();
        }
        document["do"] = self.advice.into();
        document
    }
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

/// Says what to do after the answer of `begin`, and returns whether the lease continues. A field
/// that is not known here is passed on, with the safe advice.
fn after_begin(answer: &Value, keys: &str) -> (&'static str, bool) {
    let has = |name: &str| !matches!(&answer[name], Value::Null | Value::Bool(false));
    if has("go") {
        let go = "Make the call now, with key as its idempotency key, and with a timeout that ends \
                  10 seconds before lease_until. Then call end_effect.";
        return (go, true);
    }
    if has("done") {
        let done = "Skip the call: an earlier attempt made it, and note is what it left. Go on.";
        return (done, true);
    }
    if has("in_doubt") && keys == "ask" {
        let ask = "Wait until ask_from. Then search the other system for key. If you find it, call \
                   end_effect with done. If not, call begin_effect with asked did_not.";
        return (ask, true);
    }
    if has("in_doubt") {
        let unknown = "Make no call: an earlier attempt may have made it. Call finish_work with \
                       unknown, and tell a person.";
        return (unknown, true);
    }
    if has("refused") {
        let refused = "Make no call: the other system refused it. Call finish_work with permanent.";
        return (refused, true);
    }
    if has("held") {
        let held = "Make no call: a person must approve it. The work on this event has ended; a \
                    worker gets it again after the approval. Call next_work, or stop.";
        return (held, false);
    }
    if has("denied") {
        let denied = "Make no call: a rule denies it. Call finish_work with permanent.";
        return (denied, true);
    }
    if has("dry_run") {
        let dry = "Make no call: a rule allows only a dry run. Go on as if the call was made.";
        return (dry, true);
    }
    let other = "Make no call: this answer is not known here. Call finish_work with release, and tell \
                 a person.";
    (other, true)
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
    fn each_answer_of_begin_says_what_to_do() {
        for (answer, keys, words, keeps) in [
            (json!({"go": true}), "honoured", "Make the call now", true),
            (json!({"done": true}), "ask", "Skip the call", true),
            (
                json!({"in_doubt": true}),
                "ask",
                "Wait until ask_from",
                true,
            ),
            (json!({"in_doubt": true}), "ignored", "with unknown", true),
            (json!({"refused": true}), "ask", "with permanent", true),
            (json!({"held": true}), "ask", "must approve", false),
            (json!({"denied": true}), "ask", "denies", true),
            (json!({"dry_run": true}), "ask", "dry run", true),
            (json!({"later": true}), "ask", "not known", true),
            (json!({"go": false}), "ask", "not known", true),
        ] {
            let (advice, lease_continues) = after_begin(&answer, keys);
            assert!(advice.contains(words), "{answer}: {advice}");
            assert_eq!(lease_continues, keeps, "{answer}");
            let calls = answer["go"] == true;
            assert_eq!(advice.starts_with("Make the call now"), calls, "{answer}");
        }
    }

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
    fn the_advice_is_outside_of_the_marks_and_commands_for_people_are_left_out() {
        let error = CliError::not_found("work.lease_lost", "why").tip("webhookctl doctor");
        let document = Failed::because("lease_lost", error).document();
        assert!(
            document["do"]
                .as_str()
                .unwrap()
                .starts_with("Stop the work")
        );
        assert_eq!(document["error"]["code"], "work.lease_lost");
        assert_eq!(document["error"]["reason"], "lease_lost");
        assert_eq!(document["error"]["message"]["untrusted"], "why");
        assert!(!document.to_string().contains("webhookctl"), "{document}");
    }

    #[test]
    fn no_advice_for_a_refusal_says_to_make_the_call() {
        for reason in [
            "lease_lost",
            "stale",
            "max_hold",
            "lease_too_short",
            "effect_in_doubt",
            "open_effects",
            "not_begun",
            "effect_done",
            "effect_of_action",
            "too_many_effects",
            "invalid_request",
            "not_allowed",
            "unknown_queue",
            "",
            "some_later_code",
        ] {
            let error = CliError::refused("work.refused", "why");
            let advice = Failed::because(reason, error).advice;
            assert!(
                !advice.is_empty() && !advice.contains("Make the call"),
                "{reason}"
            );
        }
        let error = CliError::failed("work.unavailable", "why");
        let advice = Failed::because("unavailable", error).advice;
        assert!(advice.starts_with("Try the same call again"), "{advice}");
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
