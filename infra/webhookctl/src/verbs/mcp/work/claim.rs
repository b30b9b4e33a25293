//! `next_work`: claims an event, and waits for one.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Worker;
use super::advice::Failed;
use super::document::{approved_plan, event_document, marked};
use super::held::MOST;
use crate::output::CliError;
use crate::verbs::mcp::fence::Form;
use crate::verbs::work::client::Asked;

/// The longest wait of a call. Many clients of the protocol end a call after a minute.
pub(super) const LONGEST_WAIT_S: u64 = 50;

/// The wait between two requests, if the answer names none.
const EMPTY: Duration = Duration::from_secs(5);

const WORK: &str = "Work on this event. Call begin_effect before each call that changes another \
                    system, and finish_work at the end.";
const TAKEN_OVER: &str = "An earlier worker did not return. Call begin_effect before each call that \
                          changes another system; it says what already happened. Then call \
                          finish_work.";
const APPROVED: &str = "A person approved the plan in effects. Do exactly what it says: call \
                        begin_effect for this effect without plan, and then make the call.";
const NOTHING: &str = "No event is available. Stop, or call next_work again later.";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextArgs {
    id: Option<String>,
    #[serde(default)]
    paths: Option<Vec<String>>,
    #[serde(default)]
    wait_s: u64,
}

/// What a claim found.
enum Claimed {
    Event(Value),
    /// No event, and the answer that says why.
    Nothing(Value),
}

impl Worker {
    /// `cancelled` becomes true when the agent no longer waits for the answer.
    pub(super) async fn next(
        self: &Arc<Self>,
        args: NextArgs,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Value, Failed> {
        if let Some(id) = &args.id {
            let event = self.held.document(id).ok_or_else(|| Failed::not_held(id))?;
            return self.handed_out(&event, args.paths.as_deref());
        }
        if let Some(event) = self.held.not_handed_out() {
            return self.handed_out(&event, args.paths.as_deref());
        }
        let until = Instant::now() + Duration::from_secs(args.wait_s.min(LONGEST_WAIT_S));
        let mut ended = self.ended.clone();
        loop {
            let answer = match self.claim(&cancelled).await? {
                Claimed::Event(event) => return self.handed_out(&event, args.paths.as_deref()),
                Claimed::Nothing(answer) => answer,
            };
            let pause = answer["retry_after_ms"].as_u64();
            let pause = pause.map_or(EMPTY, Duration::from_millis);
            if Instant::now() + pause > until || *cancelled.borrow() || *ended.borrow() {
                return Ok(self.nothing(&answer));
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = cancelled.wait_for(|is| *is) => {}
                _ = ended.wait_for(|is| *is) => {}
            }
        }
    }

    /// Claims one event. From then on its lease is extended.
    async fn claim(self: &Arc<Self>, cancelled: &watch::Receiver<bool>) -> Result<Claimed, Failed> {
        let _one = self.claims.lock().await;
        if self.held.is_closed() {
            return Ok(Claimed::Nothing(json!({ "reason": "stopped" })));
        }
        if self.held.ids(Instant::now()).len() >= MOST {
            let message = format!("this server holds {MOST} events already");
            return Err(Failed::of(CliError::refused("mcp.holds", message)));
        }
        let mut body = json!({ "max": 1 });
        if let Some(name) = &self.name {
            body["worker"] = name.as_str().into();
        }
        let asked = Instant::now();
        let answer = match self.client.ask("next", &body).await {
            Ok(Asked::Answered(answer)) => answer,
            Ok(Asked::Refused { reason, error }) => return Err(Failed::because(&reason, error)),
            Err(error) => return Err(Failed::of(error)),
        };
        let Some(event) = answer["events"].get(0) else {
            return Ok(Claimed::Nothing(answer));
        };
        let lease = self.held.add(event, asked, !*cancelled.borrow());
        tokio::spawn(Arc::clone(self).keep(lease));
        Ok(Claimed::Event(event.clone()))
    }

    fn handed_out(&self, event: &Value, paths: Option<&[String]>) -> Result<Value, Failed> {
        let document = event_document(event, paths, self.reads_bodies).map_err(Failed::of)?;
        let mut effects = event["effects"].as_object().into_iter().flatten();
        let advice = if effects.any(|(name, _)| approved_plan(event, name).is_some()) {
            APPROVED
        } else if event["takeover"] == true {
            TAKEN_OVER
        } else {
            WORK
        };
        Ok(json!({
            "do": advice,
            "event": document,
            "holding": self.held.ids(Instant::now()),
        }))
    }

    fn nothing(&self, answer: &Value) -> Value {
        let fields = json!({
            "reason": answer["reason"],
            "retry_after_ms": answer["retry_after_ms"],
        });
        let mut document = marked(&fields, &[("reason", Form::Word)]);
        document["do"] = NOTHING.into();
        document["holding"] = self.held.ids(Instant::now()).into();
        document
    }
}
