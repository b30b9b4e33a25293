//! Converts the error answer of a service.

use super::{Place, spot};
use crate::output::policies;
use crate::output::{CliError, Exit};

/// The error answer of a service.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer<'a> {
    pub(super) service: &'a str,
    pub(super) operation: &'a str,
    pub(super) code: &'a str,
    pub(super) message: &'a str,
}

pub(super) const THROTTLED: &str = "aws.throttled";

const TAKE_NEW: &str = "log in again with `aws sso login`, or set new keys in the environment";

/// Returns the error for the operator. Returns `None` if the message of the service is the best
/// one.
pub(super) fn from_answer(answer: &Answer<'_>, place: &Place) -> Option<CliError> {
    let error = match answer.code {
        "AccessDeniedException"
        | "AccessDenied"
        | "NotAuthorized"
        | "AuthorizationError"
        | "UnauthorizedOperation" => denied(answer),
        "ExpiredTokenException" | "ExpiredToken" | "RequestExpired" => CliError::new(
            "auth.expired",
            Exit::Denied,
            "the AWS credentials have expired",
        )
        .tip(TAKE_NEW),
        "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException" => CliError::new(
            "auth.invalid",
            Exit::Denied,
            "AWS does not accept these credentials",
        )
        .note("access key, secret key and session token must come from the same login")
        .tip(TAKE_NEW),
        "ResourceNotFoundException" => no_table(answer, place),
        "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" => {
            missing("queue", "context.no_queue", place)
        }
        "NoSuchBucket" => missing("bucket", "context.no_bucket", place),
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "Throttling"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "SlowDown"
        | "RequestThrottled"
        | "LimitExceededException" => CliError::failed(
            THROTTLED,
            format!(
                "{} throttled the requests, and all retries failed",
                name(answer)
            ),
        )
        .tip("try again in a minute, or narrow with --since"),
        "InternalServerError" | "InternalFailure" | "InternalError" | "ServiceUnavailable" => {
            CliError::failed(
                "aws.unwell",
                format!("{} answered {}", name(answer), answer.code),
            )
            .tip("try again; https://health.aws.amazon.com/health/status shows outages")
        }
        _ => return None,
    };
    Some(error)
}

fn denied(answer: &Answer<'_>) -> CliError {
    // The message has the form "User: ARN is not authorized to perform: ACTION on resource: ARN
    // because …".
    let after = |mark: &str| {
        let (_, rest) = answer.message.split_once(mark)?;
        rest.split_whitespace().next()
    };
    let action = after("not authorized to perform: ")
        .map(str::to_owned)
        .or_else(|| {
            let known = !answer.service.is_empty() && !answer.operation.is_empty();
            known.then(|| format!("{}:{}", answer.service, answer.operation))
        });
    let mut message = format!(
        "not allowed: {}",
        action.as_deref().unwrap_or("the request")
    );
    if let Some(resource) = after("on resource: ") {
        message += " on ";
        // In `arn:aws:dynamodb:region:account:table/x/index/y`, the part after the account is
        // sufficient.
        message += resource.splitn(6, ':').last().unwrap_or(resource);
    }
    let error = CliError::new("auth.denied", Exit::Denied, message);
    let error = match after("User: ") {
        Some(user) => error.note(format!("you are {user}")),
        None => error,
    };
    let resource = after("on resource: ");
    let allowing = action.map_or_else(Vec::new, |action| policies::allowing(&action, resource));
    let allow = match allowing.as_slice() {
        [] => "add this action to your IAM policy".to_owned(),
        files => format!("attach {}", files.join(" or ")),
    };
    error.tip(format!(
        "{allow}, or use credentials with this permission; `webhookctl doctor --only iam` lists all \
         missing permissions"
    ))
}

fn no_table(answer: &Answer<'_>, place: &Place) -> CliError {
    // DynamoDB returns this code for a missing table or index, and does not name it.
    if !answer.service.is_empty() && answer.service != "dynamodb" {
        return missing("resource", "context.not_found", place);
    }
    let table = place
        .table
        .as_deref()
        .map_or("the table".into(), |table| format!("table {table}"));
    let message = format!("{table} does not exist in {}", spot(place));
    if let (Some(said), Some(won), None) = (&place.other_region, &place.region, &place.endpoint_url)
    {
        let context = place.context.as_deref().unwrap_or_default();
        return CliError::failed("context.wrong_region", message)
            .note(format!(
                "context {context} has {said}, but --region or AWS_REGION is {won} and overrides it"
            ))
            .tip(format!("unset AWS_REGION, or pass --region {said}"));
    }
    CliError::failed("context.no_table", message)
        .tip("check the Region and the stack: --region REGION, --table NAME")
}

fn missing(what: &str, code: &'static str, place: &Place) -> CliError {
    CliError::failed(
        code,
        format!("the {what} does not exist in {}", spot(place)),
    )
    .tip("check the Region and the stack: --region REGION")
}

fn name<'a>(answer: &Answer<'a>) -> &'a str {
    match answer.service {
        "dynamodb" => "DynamoDB",
        "" => "AWS",
        service => service,
    }
}
