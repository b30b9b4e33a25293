//! Destinations that are services of AWS.

use std::sync::OnceLock;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use shared::aws::{Aws, CallPolicy};
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::Work;

/// Clients of the services, each made when it is first used: most sources need none.
pub(crate) struct Clients {
    aws: Aws,
    lambda: OnceLock<aws_sdk_lambda::Client>,
    sqs: OnceLock<aws_sdk_sqs::Client>,
    eventbridge: OnceLock<aws_sdk_eventbridge::Client>,
    step_functions: OnceLock<aws_sdk_sfn::Client>,
}

impl Clients {
    pub(crate) fn new(aws: &Aws) -> Self {
        Self {
            aws: aws.with_patience(CallPolicy::ONCE),
            lambda: OnceLock::new(),
            sqs: OnceLock::new(),
            eventbridge: OnceLock::new(),
            step_functions: OnceLock::new(),
        }
    }

    pub(super) fn lambda(&self) -> &aws_sdk_lambda::Client {
        self.lambda
            .get_or_init(|| aws_sdk_lambda::Client::new(&self.aws.sdk_config("LAMBDA")))
    }

    pub(super) fn sqs(&self) -> &aws_sdk_sqs::Client {
        self.sqs.get_or_init(|| self.aws.sqs())
    }

    pub(super) fn eventbridge(&self) -> &aws_sdk_eventbridge::Client {
        self.eventbridge
            .get_or_init(|| aws_sdk_eventbridge::Client::new(&self.aws.sdk_config("EVENTBRIDGE")))
    }

    pub(super) fn step_functions(&self) -> &aws_sdk_sfn::Client {
        self.step_functions
            .get_or_init(|| aws_sdk_sfn::Client::new(&self.aws.sdk_config("SFN")))
    }
}

impl Work<'_> {
    /// What an error of a service says of the effect, and of the destination.
    pub(super) fn refusal<E: ProvideErrorMetadata>(
        &self,
        what: &str,
        error: &SdkError<E, HttpResponse>,
    ) -> Effect {
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        let code = error.as_service_error().and_then(|error| error.code());
        let (effect, heard) = match (status, code) {
            (Some(status), code) if error.as_service_error().is_some() => {
                refused(what, status, code.unwrap_or("an error without a name"))
            }
            _ => unanswered(what, error),
        };
        self.pulse.note(heard);
        effect
    }
}

/// The text is the code alone: a message may quote what was sent.
pub(super) fn refused(what: &str, status: u16, code: &str) -> (Effect, CallResult) {
    let error = format!("{what} answered {code}");
    let code = code.rsplit('.').next().unwrap_or(code);
    let throttled = status == 429 || code.contains("Throttl") || code.contains("TooManyRequests");
    if throttled || code == "ExecutionLimitExceeded" {
        return (
            Effect::NotApplied(Outcome::retry(error)),
            CallResult::Failure,
        );
    }
    if status >= 500 || code.starts_with("Internal") {
        let replayed = false;
        return (Effect::Failed { error, replayed }, CallResult::Failure);
    }
    if status == 413 || will_never_fit(code) {
        return (
            Effect::NotApplied(Outcome::permanent(error)),
            CallResult::Success,
        );
    }
    // A right or a resource is missing, which an operator mends: the attempts give them the time.
    (
        Effect::NotApplied(Outcome::retry(error)),
        CallResult::Success,
    )
}

/// What is said of an input that will not get better.
fn will_never_fit(code: &str) -> bool {
    matches!(
        code,
        "RequestTooLargeException"
            | "SerializedRequestEntityTooLargeException"
            | "RequestEntityTooLargeException"
            | "UnsupportedMediaTypeException"
            | "InvalidRequestContentException"
            | "RecursiveInvocationException"
            | "InvalidMessageContents"
            | "InvalidParameterValue"
            | "InvalidParameterValueException"
            | "InvalidExecutionInput"
            | "InvalidName"
            | "ValidationException"
            | "ValidationError"
            | "MalformedDetail"
            | "InvalidArgument"
    )
}

/// All of these are called under one key, so that it may be called again.
fn unanswered<E, R>(what: &str, error: &SdkError<E, R>) -> (Effect, CallResult) {
    let cause = match error {
        SdkError::ConstructionFailure(_) => {
            let error = format!("{what} cannot be asked: the request is not one that it takes");
            return (
                Effect::NotApplied(Outcome::permanent(error)),
                CallResult::NotCalled,
            );
        }
        SdkError::TimeoutError(_) => "there was no answer in time",
        SdkError::DispatchFailure(_) => "it cannot be reached",
        _ => "its answer cannot be read",
    };
    let error = format!("{what}: {cause}");
    (Effect::Unknown { error }, CallResult::Failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_to_try_again_and_whose_fault_it_is() {
        let of = |status, code| {
            let (effect, heard) = refused("the queue", status, code);
            let word = match effect {
                Effect::NotApplied(Outcome::Permanent { .. }) => "never",
                Effect::NotApplied(Outcome::Retry { .. }) => "again",
                Effect::Failed {
                    replayed: false, ..
                } => "who knows",
                other => panic!("{other:?}"),
            };
            (word, heard)
        };
        for (status, code, expected) in [
            (
                429,
                "TooManyRequestsException",
                ("again", CallResult::Failure),
            ),
            (400, "ThrottlingException", ("again", CallResult::Failure)),
            (403, "RequestThrottled", ("again", CallResult::Failure)),
            (500, "ServiceException", ("who knows", CallResult::Failure)),
            (
                503,
                "ServiceUnavailable",
                ("who knows", CallResult::Failure),
            ),
            (
                413,
                "RequestTooLargeException",
                ("never", CallResult::Success),
            ),
            (400, "InvalidExecutionInput", ("never", CallResult::Success)),
            (403, "AccessDeniedException", ("again", CallResult::Success)),
            (
                404,
                "ResourceNotFoundException",
                ("again", CallResult::Success),
            ),
            (
                400,
                "AWS.SimpleQueueService.NonExistentQueue",
                ("again", CallResult::Success),
            ),
        ] {
            assert_eq!(of(status, code), expected, "{code}");
        }
    }
}
