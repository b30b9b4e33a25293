//! Finds the cause of an error in its chain.

use std::io;

use aws_smithy_types::error::metadata::ErrorMetadata;

/// A known cause of an error.
pub(super) enum Cause {
    Answer { code: String, message: String },
    NoCredentials,
    NoRegion,
    Unreachable,
    Late,
}

pub(super) fn cause_of(error: &anyhow::Error) -> Option<Cause> {
    // The error of the service is deepest in the chain, so the search starts there.
    let answer = error.chain().find_map(|cause| {
        let metadata = cause.downcast_ref::<ErrorMetadata>()?;
        let (code, message) = (metadata.code()?, metadata.message().unwrap_or_default());
        Some(Cause::Answer {
            code: code.to_owned(),
            message: message.to_owned(),
        })
    });
    answer.or_else(|| error.chain().find_map(from_cause))
}

fn from_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Cause> {
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        return match io.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => Some(Cause::Unreachable),
            io::ErrorKind::TimedOut => Some(Cause::Late),
            _ => None,
        };
    }
    let text = cause.to_string();
    // A modelled error prints as `ResourceNotFoundException: Requested resource not found`. An
    // unknown error prints as `unhandled error (AccessDenied)`.
    let (code, message) = text.split_once(": ").unwrap_or((&text, ""));
    if is_code(code) {
        return Some(Cause::Answer {
            code: code.to_owned(),
            message: message.to_owned(),
        });
    }
    if let Some(code) = text
        .strip_prefix("unhandled error (")
        .and_then(|t| t.strip_suffix(')'))
    {
        return Some(Cause::Answer {
            code: code.to_owned(),
            message: String::new(),
        });
    }
    match text.as_str() {
        "AWS_REGION is not set" => return Some(Cause::NoRegion),
        "AWS_ACCESS_KEY_ID is not set" | "AWS_SECRET_ACCESS_KEY is not set" => {
            return Some(Cause::NoCredentials);
        }
        _ => (),
    }
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&[
        "no credentials",
        "credentials provider was not",
        "no providers in chain",
        "no identity resolver",
    ]) || says(&[
        "credential provider was not enabled",
        "failed to load credentials",
    ]) {
        Some(Cause::NoCredentials)
    } else if says(&["dns error", "connection refused"]) {
        Some(Cause::Unreachable)
    } else if says(&["timeout error", "request has timed out", "timed out"]) {
        Some(Cause::Late)
    } else {
        None
    }
}

fn is_code(text: &str) -> bool {
    text.ends_with("Exception") && text.chars().all(|c| c.is_ascii_alphanumeric())
        || matches!(
            text,
            "QueueDoesNotExist" | "NoSuchBucket" | "RequestLimitExceeded"
        )
}
