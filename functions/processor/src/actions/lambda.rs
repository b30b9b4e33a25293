//! Invokes a Lambda function with the event as a [document](super::document).
//!
//! Lambda does not support idempotency keys: a function can be invoked twice for an event. An
//! `Event` invocation can run twice even if Mitt requested it once. The document contains the key,
//! and the function must skip a key that it has processed.

use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::operation::invoke::InvokeOutput;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use serde_json::{Map, Value};
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::Invocation;

use super::{Work, document};

/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
const LARGEST: usize = 6 * 1024 * 1024;
const LARGEST_EVENT: usize = 1024 * 1024;

pub(super) async fn invoke(
    work: &Work<'_>,
    name: &str,
    function: &str,
    invocation: Invocation,
) -> Outcome {
    let (kind, most) = match invocation {
        Invocation::RequestResponse => (InvocationType::RequestResponse, LARGEST),
        Invocation::Event => (InvocationType::Event, LARGEST_EVENT),
    };
    work.effects
        .keyed(name, async |key: &str| {
            let payload = match document::with_text(work, key, most) {
                Ok(payload) if payload.len() > most => {
                    return Effect::NotApplied(Outcome::permanent(format!(
                        "the payload has {} bytes; Lambda accepts at most {most}",
                        payload.len()
                    )));
                }
                Ok(payload) => payload,
                Err(error) => return Effect::NotApplied(Outcome::permanent(error.to_string())),
            };
            let request = work.clients.lambda().invoke().function_name(function);
            let request = request.invocation_type(kind);
            let request = request.payload(Blob::new(payload)).customize();
            match request.config_override(timeout(work)).send().await {
                Ok(answer) => ran(work, &answer),
                Err(error) => work.refusal("Lambda", &error),
            }
        })
        .await
}

/// Lets a call take as long as the timeout of the action. A function that Mitt waits for sends no
/// byte before it ends.
fn timeout(work: &Work<'_>) -> aws_sdk_lambda::config::Builder {
    let timeout = TimeoutConfig::builder()
        .read_timeout(work.timeout)
        .operation_attempt_timeout(work.timeout)
        .operation_timeout(work.timeout);
    aws_sdk_lambda::config::Builder::new().timeout_config(timeout.build())
}

fn ran(work: &Work<'_>, answer: &InvokeOutput) -> Effect {
    if let Some(kind) = answer.function_error() {
        let thrown = error_type(answer);
        if let Some(thrown) = thrown.filter(|thrown| work.rules.is_permanent_error(thrown)) {
            work.health.note(CallResult::Success);
            let error = format!("the function failed with {thrown}");
            return Effect::NotApplied(Outcome::permanent(error));
        }
        // It is unknown how much the function did before it failed.
        work.health.note(CallResult::Failure);
        return Effect::Failed {
            error: format!("the function failed: {kind}"),
            replayed: false,
            after: None,
        };
    }
    work.health.note(CallResult::Success);
    Effect::Done {
        note: answer.status_code().to_string(),
    }
}

/// Returns the type of the error that the function threw.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-retries.html>
fn error_type(answer: &InvokeOutput) -> Option<String> {
    let thrown: Map<String, Value> = serde_json::from_slice(answer.payload()?.as_ref()).ok()?;
    Some(thrown.get("errorType")?.as_str()?.to_owned())
}
