//! Converts AWS errors to errors with a cause and a fix.
//!
//! Reads only codes, messages and our own contexts. The debug form of an SDK error can contain a
//! stored row, so it is never printed.

mod answer;
mod cause;

use std::fmt;

use super::count::{plural, thousands};
use super::error::{CliError, Exit};
use answer::{Answer, THROTTLED, from_answer};
use cause::{Cause, cause_of};

/// The target of the request, as far as it is known. Error messages name it.
#[derive(Debug, Clone, Default)]
pub struct Place {
    pub context: Option<String>,
    pub region: Option<String>,
    pub table: Option<String>,
    pub endpoint_url: Option<String>,
    /// The Region of the context, if the environment or a flag overrides it.
    pub other_region: Option<String>,
}

/// How far a search came before AWS throttled it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoFar {
    pub looked_at: usize,
    pub fit: usize,
    /// The cursor to continue from. It is set only if no event has matched so far.
    pub after: Option<String>,
    /// Whether the command accepts `--after`.
    pub takes_after: bool,
}

impl fmt::Display for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let looked_at = plural(self.looked_at, "event");
        let fit = match self.fit {
            0 => "none matches".to_owned(),
            1 => "1 matches".to_owned(),
            fit => format!("{} match", thousands(fit)),
        };
        write!(f, "{looked_at} scanned, {fit}")
    }
}

/// Converts an error for the operator. Returns a [`CliError`] unchanged, and rewrites any other
/// error.
pub fn rewrite(error: &anyhow::Error, place: &Place) -> CliError {
    let within = || {
        error
            .chain()
            .find_map(|cause| cause.downcast_ref::<CliError>())
    };
    // `downcast_ref` also finds a `CliError` that was added to the error as a context.
    if let Some(ours) = error.downcast_ref::<CliError>().or_else(within) {
        return ours.clone();
    }
    let context = error.to_string();
    let known = match cause_of(error) {
        Some(Cause::Answer { code, message }) => {
            let answer = Answer {
                code: &code,
                message: &message,
                ..Answer::default()
            };
            from_answer(&answer, place)
        }
        Some(Cause::NoCredentials) => Some(no_credentials(place)),
        Some(Cause::NoRegion) => Some(no_region()),
        Some(Cause::Unreachable) => Some(unreachable(place)),
        Some(Cause::Late) => Some(late(place)),
        None => None,
    };
    match (known, error.downcast_ref::<SoFar>()) {
        (Some(known), Some(so_far)) if known.code == THROTTLED => slowed_down(known, so_far),
        (Some(known), _) if known.note.is_none() => {
            known.note(format!("while trying to: {context}"))
        }
        (Some(known), _) => known,
        (None, _) => CliError::failed("failed", format!("{error:#}")),
    }
}

/// Whether AWS throttled the request and all retries failed.
pub fn is_throttled(error: &anyhow::Error) -> bool {
    rewrite(error, &Place::default()).code == THROTTLED
}

fn slowed_down(error: CliError, so_far: &SoFar) -> CliError {
    let error = error.note(format!("{so_far}; nothing was changed"));
    match &so_far.after {
        Some(after) if so_far.takes_after => error.tip(format!(
            "narrow with --since, or continue with --after {after}"
        )),
        _ => error,
    }
}

fn no_credentials(place: &Place) -> CliError {
    let context = place.context.as_deref().unwrap_or("the default");
    CliError::new(
        "auth.none",
        Exit::Denied,
        format!("no AWS credentials for context {context}"),
    )
    .note("checked: the environment, ~/.aws, the role of this machine")
    .tip("run aws sso login, or pass --profile NAME")
}

fn no_region() -> CliError {
    CliError::usage("usage.region", "the AWS Region is not set")
        .tip("pass --region REGION, or set AWS_REGION")
}

fn unreachable(place: &Place) -> CliError {
    let error = CliError::failed(
        "aws.unreachable",
        format!("cannot connect to {}", spot(place)),
    );
    match place.endpoint_url {
        Some(_) => error.tip("check that the local stack is running; `webhookctl dev` starts it"),
        None => error.tip("check the network, the proxy and --region"),
    }
}

fn late(place: &Place) -> CliError {
    CliError::failed(
        "aws.timeout",
        format!("timed out waiting for {}", spot(place)),
    )
    .tip("try again; a change that was not reported as done may or may not have happened")
}

fn spot(place: &Place) -> String {
    match (&place.endpoint_url, &place.region) {
        (Some(url), _) => without_login(url),
        (None, Some(region)) => region.clone(),
        (None, None) => "this region".to_owned(),
    }
}

/// A URL can carry a password before the `@`.
fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};
    use aws_smithy_types::error::metadata::ErrorMetadata;

    use super::super::format::Format;
    use super::*;

    fn place() -> Place {
        Place {
            context: Some("prod".into()),
            region: Some("eu-central-1".into()),
            table: Some("mitt-prod".into()),
            ..Place::default()
        }
    }

    fn shown(error: &anyhow::Error) -> String {
        rewrite(error, &place()).render(Format::Table, false)
    }

    fn answered(code: &str, message: &str) -> anyhow::Error {
        let metadata = ErrorMetadata::builder().code(code).message(message).build();
        anyhow::Error::new(metadata).context("list the newest events")
    }

    #[test]
    fn access_denied_names_the_action_and_who_we_are() {
        let error = answered(
            "AccessDeniedException",
            "User: arn:aws:sts::123456789012:assumed-role/Developer/alice is not authorized to \
             perform: dynamodb:Query on resource: \
             arn:aws:dynamodb:eu-west-1:123456789012:table/mitt-prod/index/time because no \
             identity-based policy allows the dynamodb:Query action",
        );
        assert_eq!(
            shown(&error),
            "error: not allowed: dynamodb:Query on table/mitt-prod/index/time [auth.denied]\n\
             \x20note: you are arn:aws:sts::123456789012:assumed-role/Developer/alice\n\
             \x20 tip: attach infra/policies/viewer.json, or use credentials with this permission; \
             `webhookctl doctor --only iam` lists all missing permissions\n\
             \x20docs: infra/docs/errors.md#authdenied\n"
        );
        assert_eq!(rewrite(&error, &place()).exit, Exit::Denied);
    }

    #[test]
    fn a_missing_table_is_named_with_its_region() {
        let error = anyhow!("ResourceNotFoundException: Requested resource not found")
            .context("service error")
            .context("read the row");
        let error = rewrite(&error, &place());
        assert_eq!(
            error.message,
            "table mitt-prod does not exist in eu-central-1"
        );
        assert_eq!((error.code, error.exit), ("context.no_table", Exit::Failed));
        assert_eq!(error.note.as_deref(), Some("while trying to: read the row"));
    }

    #[test]
    fn a_region_that_won_over_the_context_is_named() {
        let place = Place {
            other_region: Some("eu-west-1".into()),
            ..place()
        };
        let error = rewrite(&anyhow!("ResourceNotFoundException: not found"), &place);
        assert_eq!(error.code, "context.wrong_region");
        assert_eq!(
            error.note.as_deref(),
            Some(
                "context prod has eu-west-1, but --region or AWS_REGION is eu-central-1 and \
                 overrides it"
            )
        );
        let tip = "unset AWS_REGION, or pass --region eu-west-1";
        assert_eq!(error.tip.as_deref(), Some(tip));
    }

    #[test]
    fn missing_credentials_say_where_we_looked() {
        let error = anyhow!("no credentials in the environment").context("list the events");
        let error = rewrite(&error, &place());
        assert_eq!((error.code, error.exit), ("auth.none", Exit::Denied));
        assert_eq!(error.message, "no AWS credentials for context prod");
    }

    #[test]
    fn a_setting_that_is_missing_is_asked_for() {
        let region = rewrite(&anyhow!("AWS_REGION is not set"), &place());
        assert_eq!((region.code, region.exit), ("usage.region", Exit::Usage));
        assert_eq!(
            rewrite(&anyhow!("AWS_ACCESS_KEY_ID is not set"), &place()).code,
            "auth.none"
        );
    }

    #[test]
    fn throttling_and_expired_tokens_are_told_apart() {
        assert!(
            shown(&answered("ThrottlingException", "Rate exceeded")).contains("[aws.throttled]")
        );
        assert!(shown(&answered("ExpiredTokenException", "expired")).contains("[auth.expired]"));
        assert!(
            shown(&anyhow!("unhandled error (InvalidClientTokenId)")).contains("[auth.invalid]")
        );
    }

    #[test]
    fn a_search_that_was_throttled_says_how_far_it_came() {
        let slow = || answered("ThrottlingException", "Rate exceeded");
        assert!(is_throttled(&slow()));
        assert!(!is_throttled(&answered("ExpiredTokenException", "expired")));
        let so_far = SoFar {
            looked_at: 1840,
            fit: 0,
            after: Some("1795.evt_1".into()),
            takes_after: false,
        };
        let mut error = slow().context(so_far).context("plan a replay");
        let told = rewrite(&error, &place());
        assert_eq!(
            told.note.as_deref(),
            Some("1,840 events scanned, none matches; nothing was changed")
        );
        let tip = "try again in a minute, or narrow with --since";
        assert_eq!(told.tip.as_deref(), Some(tip));
        error.downcast_mut::<SoFar>().unwrap().takes_after = true;
        let told = rewrite(&error, &place());
        let tip = "narrow with --since, or continue with --after 1795.evt_1";
        assert_eq!(told.tip.as_deref(), Some(tip));
    }

    #[test]
    fn a_refused_connection_names_the_address_without_its_password() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = anyhow::Error::new(refused).context("dispatch failure");
        let local = Place {
            endpoint_url: Some("http://me:pw@127.0.0.1:8000".into()),
            ..place()
        };
        let error = rewrite(&error, &local);
        assert_eq!(error.message, "cannot connect to http://127.0.0.1:8000");
        assert_eq!(error.code, "aws.unreachable");
    }

    #[test]
    fn the_parts_of_an_answer_do_without_a_message() {
        let answer = Answer {
            service: "sqs",
            operation: "SendMessage",
            code: "AccessDenied",
            message: "",
        };
        let error = from_answer(&answer, &place()).unwrap();
        assert_eq!(error.message, "not allowed: sqs:SendMessage");
        let tip = error.tip.unwrap();
        assert!(
            tip.starts_with("attach infra/policies/operator.json, or "),
            "{tip}"
        );
        // No policy in infra/policies allows this action.
        let answer = Answer {
            service: "kms",
            operation: "Decrypt",
            ..answer
        };
        let tip = from_answer(&answer, &place()).unwrap().tip.unwrap();
        assert!(
            tip.starts_with("add this action to your IAM policy, or "),
            "{tip}"
        );
    }

    #[test]
    fn our_own_errors_pass_as_they_are() {
        let ours = CliError::not_found("inbox.not_found", "no event 'x'");
        let error: anyhow::Error = Err::<(), _>(ours.clone()).context("inspect").unwrap_err();
        assert_eq!(rewrite(&error, &place()), ours);
        let error = anyhow!("no such row").context(ours.clone());
        assert_eq!(rewrite(&error, &place()), ours);
    }

    #[test]
    fn what_we_do_not_know_is_told_as_a_chain() {
        let error = anyhow!("disk is full").context("write the file");
        assert_eq!(
            shown(&error),
            "error: write the file: disk is full [failed]\n docs: infra/docs/errors.md#failed\n"
        );
    }
}
