//! Says what to do with each answer. Models follow one exact sentence better than a table of codes.

use serde_json::Value;

use crate::output::{CliError, Exit};
use crate::verbs::mcp::call::document_of;
use crate::verbs::mcp::fence::{Form, fenced, fits};

/// Why a tool failed, and what to do.
pub(super) struct Failed {
    pub(super) error: Box<CliError>,
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
            error: Box::new(error),
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
            error: Box::new(error),
            reason: Some(reason.to_owned()),
            advice,
        }
    }

    pub(super) fn not_held(id: &str) -> Self {
        let message = format!("this server does not hold the event {id}");
        Self {
            error: Box::new(CliError::not_found("mcp.not_held", message)),
            reason: None,
            advice: "If you worked on this event, stop: its lease ended, or its work did. Then call \
                     next_work.",
        }
    }

    /// Returns the document of the answer.
    pub(super) fn document(&self) -> Value {
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

/// Says what to do after the answer of `begin`, and returns whether the lease continues. A field
/// that is not known here is passed on, with the safe advice.
pub(super) fn after_begin(answer: &Value, keys: &str) -> (&'static str, bool) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
