//! Reads stored requests. A rejected request is complete, but an event lacks parts of its request.

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Content, Row};
use shared::webhook::context::RequestContext;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::event::Via;
use shared::webhook::verify::Verifier;

use super::request::NOWHERE;
use crate::cli::VerifyArgs;
use crate::output::{CliError, Exit};
use crate::target::Deployment;
use crate::verbs::quarantine::inspect;

/// The length in bytes from which a stored header of an event may be truncated.
const CUT: usize = 509;

/// A stored request, and the source to which it was sent.
pub(super) struct Kept {
    pub(super) source: String,
    envelope: Envelope,
    /// Whether the request is from an event, which lacks parts of its request.
    event: bool,
    /// The request as the event stores it. Its headers are complete.
    context: Option<RequestContext>,
}

/// Finds a rejected request or an event by its id.
pub(super) async fn kept(
    args: &VerifyArgs,
    inbox: &Deployment,
    id: &str,
    now: UnixMillis,
) -> anyhow::Result<Kept> {
    let is_not_found = |error: &anyhow::Error| {
        let ours = error.downcast_ref::<CliError>();
        ours.is_some_and(|error| error.exit == Exit::NotFound && error.details.is_empty())
    };
    match inspect::find(inbox, id, now).await {
        Ok(held) => {
            let damaged = || {
                CliError::failed(
                    "verify.damaged",
                    "the stored body differs from the received body",
                )
            };
            return Ok(Kept {
                source: held.source.clone(),
                envelope: held.envelope().map_err(|_| damaged())?,
                event: false,
                context: None,
            });
        }
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    let row = match crate::verbs::inbox::find(inbox, id).await {
        Err(error) if is_not_found(&error) => {
            let message = format!("no rejected request and no event '{id}' in {}", inbox.name);
            return Err(CliError::not_found("verify.not_found", message)
                .note("no id starts with this text; the quarantine keeps rejected requests for 7 days")
                .tip("webhookctl quarantine list --flat")
                .into());
        }
        found => found?,
    };
    if row.via != Via::Webhook {
        let message = format!(
            "Mitt fetched {} from the provider, so the event has no signature",
            row.id()
        );
        return Err(CliError::new("verify.not_signed", Exit::No, message).into());
    }
    let content = content(args, inbox, &row).await?;
    let context = content.request.map(|request| request.context);
    Ok(Kept {
        source: row.key.source().to_owned(),
        envelope: Envelope {
            method: context
                .as_ref()
                .map(|context| context.method.clone())
                .filter(|method| !method.is_empty())
                .unwrap_or_else(|| "POST".to_owned()),
            url: String::new(),
            headers: all_headers(&row, context.as_ref()),
            body: content.body,
            received_at: row.received_at,
        },
        event: true,
        context,
    })
}

/// Returns the headers of the stored request, and those that only the row has.
fn all_headers(row: &Row, context: Option<&RequestContext>) -> Headers {
    let of_request = context
        .into_iter()
        .flat_map(|context| context.headers.iter());
    let is_known =
        |name: &str| context.is_some_and(|context| context.headers.all(name).next().is_some());
    let of_row = row.headers.iter();
    let of_row = of_row.map(|(name, value)| (name.as_str(), value.as_str()));
    of_request
        .chain(of_row.filter(|(name, _)| !is_known(name)))
        .collect()
}

/// Returns the URL that the provider called, as far as it is known: the host is not stored.
fn url_of(verifier: &Verifier, context: &RequestContext) -> Option<String> {
    let public = verifier.trust.public_url.as_deref()?;
    let (scheme, rest) = public.split_once("://")?;
    let host = rest.split('/').next()?;
    let query = context.query.iter().map(|query| format!("?{query}"));
    let query: String = query.collect();
    (!context.path.is_empty()).then(|| format!("{scheme}://{host}{}{query}", context.path))
}

async fn content(args: &VerifyArgs, inbox: &Deployment, row: &Row) -> anyhow::Result<Content> {
    let ledger = args.bodies_at.ledger(inbox)?;
    let content = ledger.event_content(&row.key).await?;
    let content = content.and_then(|(_, content)| content.ok());
    content.ok_or_else(|| {
        CliError::failed(
            "verify.no_body",
            format!("the body of {} cannot be read", row.id()),
        )
        .note("large bodies are in a bucket; damaged bodies are not used")
        .tip("pass --body-bucket NAME, the output BodyBucket of the stack")
        .into()
    })
}

/// Rebuilds the request from its stored parts. Returns an error if an event lacks a part that the
/// verification needs.
pub(super) fn again(
    args: &VerifyArgs,
    verifier: &Verifier,
    kept: &Kept,
    now: UnixMillis,
) -> Result<Envelope, CliError> {
    let mut envelope = kept.envelope.clone();
    match &args.url {
        Some(url) => envelope.url.clone_from(url),
        None if !kept.event => envelope = verifier.at_public_url(envelope),
        None => {
            let known = kept.context.as_ref();
            let known = known.and_then(|context| url_of(verifier, context));
            envelope.url = known.unwrap_or_default();
        }
    }
    if let Some(when) = args.at {
        envelope.received_at = UnixMillis(when.millis(now.0));
    }
    if !kept.event {
        return Ok(envelope);
    }
    let not_kept = |what: &str| {
        CliError::new(
            "verify.not_kept",
            Exit::No,
            format!("an event of {} does not contain {what}", verifier.preset.id),
        )
        .note("the event was verified when it arrived; only rejected requests are stored unchanged")
    };
    if let Some(what) = verifier.never_kept() {
        return Err(not_kept(what));
    }
    let is_whole = |name: &str| {
        let context = kept.context.as_ref();
        context.is_some_and(|context| context.headers.all(name).next().is_some())
    };
    let cut = |(name, value): &(&str, &str)| {
        value.len() >= CUT && *name != "user-agent" && !is_whole(name)
    };
    if let Some((name, _)) = envelope.headers.iter().find(cut) {
        return Err(not_kept(&format!("its complete header {name}")));
    }
    let absent = verifier.absent_headers(&envelope);
    if !absent.is_empty() {
        return Err(not_kept(&format!("the header {}", absent.join(", "))));
    }
    if envelope.url.is_empty() && verifier.reads_url() {
        let public = verifier.trust.public_url.as_deref();
        let public = public.unwrap_or("the public URL to which the provider posts");
        return Err(not_kept("the URL, which the signature covers").tip(format!(
            "pass --url with {public}, and the query if there was one"
        )));
    }
    if envelope.url.is_empty() {
        NOWHERE.clone_into(&mut envelope.url);
    }
    Ok(envelope)
}
