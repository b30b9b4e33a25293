//! Starts an execution of a Step Functions state machine with the event as its input, a
//! [document](super::document) with the body as JSON.
//!
//! The idempotency key is the name of the execution. A standard state machine rejects a name until
//! 90 days after the end of its execution, so one execution starts for an event. An express state
//! machine starts an execution for each request, and must skip a key in the input that it has
//! processed.

use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::{Work, document};

/// <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html>
const LARGEST: usize = 256 * 1024;

pub(super) async fn start(work: &Work<'_>, name: &str, state_machine: &str) -> Outcome {
    work.effects
        .keyed(name, async |key: &str| {
            let input = match document::with_json(work, key, LARGEST) {
                Ok(input) if input.len() > LARGEST => {
                    return Effect::NotApplied(Outcome::permanent(format!(
                        "the input has {} bytes; Step Functions accepts at most {LARGEST}",
                        input.len()
                    )));
                }
                Ok(input) => input,
                Err(error) => return Effect::NotApplied(Outcome::permanent(error.to_string())),
            };
            let request = work.clients.step_functions().start_execution().name(key);
            let request = request.state_machine_arn(state_machine).input(input);
            let note = match request.send().await {
                Ok(_) => "started",
                Err(error)
                    if error
                        .as_service_error()
                        .is_some_and(StartExecutionError::is_execution_already_exists) =>
                {
                    "already started"
                }
                Err(error) => return work.refusal("Step Functions", &error),
            };
            work.health.note(CallResult::Success);
            Effect::Done {
                note: note.to_owned(),
            }
        })
        .await
}
