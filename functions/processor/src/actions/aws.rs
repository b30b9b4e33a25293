//! Calls AWS services as destinations.

use std::sync::OnceLock;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use shared::aws::{Aws, CallPolicy};
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::Work;

/// The AWS clients. Each client is created at its first use, because most sources need none of
/// them.
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
    /// Converts an error of a service to an effect, and records the health of the destination.
    pub(super) fn refusal<E: ProvideErrorMetadata>(
        &self,
        what: &str,
        error: &SdkError<E, HttpResponse>,
    ) -> Effect {
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        let code = error.as_service_error().and_then(|error| error.code());
        let (effect, heard) = match (status, code) {
            (Some(status), code) if error.as_service_error().is_some() => {
                refused(what, status, code.unwrap_or("an error without a code"))
            }
            _ => unanswered(what, error),
        };
        self.health.note(heard);
        effect
    }
}

/// Converts an error code to an effect. The error text contains only the code, because a message
/// can quote the payload.
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
        let failed = Effect::Failed {
            error,
            replayed: false,
            after: None,
        };
        return (failed, CallResult::Failure);
    }
    if status == 413 || will_never_fit(code) {
        return (
            Effect::NotApplied(Outcome::permanent(error)),
            CallResult::Success,
        );
    }
    // A permission or a resource is missing. The retries give the operator time to add it.
    (
        Effect::NotApplied(Outcome::retry(error)),
        CallResult::Success,
    )
}

/// Returns whether the error code rejects the input, so that a retry cannot succeed.
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

/// Converts an error without a response. All attempts use the same idempotency key, so a retry is
/// safe.
fn unanswered<E, R>(what: &str, error: &SdkError<E, R>) -> (Effect, CallResult) {
    let cause = match error {
        SdkError::ConstructionFailure(_) => {
            let error = format!("{what} was not called: invalid request");
            return (
                Effect::NotApplied(Outcome::permanent(error)),
                CallResult::NotCalled,
            );
        }
        SdkError::TimeoutError(_) => "request timed out",
        SdkError::DispatchFailure(_) => "connection failed",
        _ => "invalid response",
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
