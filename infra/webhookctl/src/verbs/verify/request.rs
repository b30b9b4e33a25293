//! The request that is asked about: given, or as it was kept.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use shared::clock::Millis;
use shared::config::{Config, EMBEDDED};
use shared::envelope::Envelope;
use shared::event::Via;
use shared::ledger::{Ledger, Row};
use shared::preset::Preset;
use shared::secrets::Secret;
use shared::verify::{Other, Trust, Verifier};

use super::secrets::{Secrets, secrets};
use crate::cli::{Global, SecretFrom, VerifyArgs};
use crate::output::error::nearest;
use crate::output::{CliError, Exit};
use crate::place::{Inbox, Local};
use crate::verbs::quarantine::{inspect, reach};

/// Stands for a URL that nobody knows and nothing reads.
const NOWHERE: &str = "https://unknown.invalid/";

/// A header of an event may have been cut from so many bytes on.
const CUT: usize = 509;

/// What is to be explained.
pub(super) struct Question {
    pub(super) verifier: Verifier,
    pub(super) envelope: Envelope,
    pub(super) secrets: Vec<Secret>,
    pub(super) others: Vec<Other>,
}

/// A request, and the source that it came to.
struct Kept {
    source: String,
    envelope: Envelope,
    /// It is an event: less is known of it than of the request that it was.
    event: bool,
}

pub(super) async fn question(
    args: &VerifyArgs,
    global: &Global,
    now: Millis,
) -> anyhow::Result<Question> {
    one_reader_of_stdin(args)?;
    let inbox = inbox(args, global)?;
    let kept = match (&args.id, &inbox) {
        (Some(id), Some(inbox)) => Some(kept(args, global, inbox, id, now).await?),
        _ => None,
    };
    let named = args
        .source
        .as_deref()
        .or(kept.as_ref().map(|kept| kept.source.as_str()));
    let verifier = verifier(args, named, inbox.as_ref())?;
    let envelope = match &kept {
        Some(kept) => again(args, &verifier, kept, now)?,
        None => given(args, &verifier, now)?,
    };
    let needs_secret = verifier
        .preset
        .scheme(&verifier.variant)
        .is_some_and(shared::preset::Scheme::needs_secret);
    let source = named.unwrap_or_default();
    let secrets = match secrets(args, global, inbox.as_ref(), source, now).await? {
        Some(secrets) => secrets,
        None if needs_secret => return Err(no_secret(args).into()),
        None => Secrets {
            live: Vec::new(),
            others: Vec::new(),
        },
    };
    Ok(Question {
        verifier,
        envelope,
        secrets: secrets.live,
        others: secrets.others,
    })
}

fn one_reader_of_stdin(args: &VerifyArgs) -> Result<(), CliError> {
    let secrets = args.secret_from.iter().chain(&args.other_secret_from);
    let stdin = secrets.filter(|from| **from == SecretFrom::Stdin).count();
    let body = usize::from(args.body.as_deref() == Some(Path::new("-")));
    if stdin + body > 1 {
        return Err(
            CliError::usage("verify.stdin", "stdin can be read for one thing only")
                .tip("name files: --body body.json --secret-from file:PATH"),
        );
    }
    Ok(())
}

/// The inbox, where one is needed or named; without it all has to be given.
fn inbox(args: &VerifyArgs, global: &Global) -> anyhow::Result<Option<Inbox>> {
    let named = global.table.is_some() || global.context.is_some();
    let wanted = args.source.is_some() && (named || Local::find()?.is_some());
    if args.id.is_some() || wanted {
        return Inbox::open(global).map(Some);
    }
    Ok(None)
}

fn no_secret(args: &VerifyArgs) -> CliError {
    let error = CliError::usage("verify.no_secret", "a secret is needed to compare with");
    match &args.source {
        Some(_) => error
            .note("no inbox is named and no local stack is running in this folder")
            .tip("--secret-from -, file:PATH or env:NAME; or --table NAME for a deployment"),
        None => error.tip("--secret-from -, file:PATH or env:NAME; or --source NAME"),
    }
}

fn verifier(
    args: &VerifyArgs,
    source: Option<&str>,
    inbox: Option<&Inbox>,
) -> anyhow::Result<Verifier> {
    let built_in;
    let config = if let Some(inbox) = inbox {
        &inbox.config
    } else {
        built_in = Config::parse(EMBEDDED)?;
        &built_in
    };
    let configured = source.and_then(|source| config.source(source));
    let mut verifier = match (&args.preset, source) {
        (Some(preset), _) => Verifier {
            source: source.unwrap_or(preset).to_owned(),
            preset: known_preset(preset, &args.param)?,
            variant: "default".to_owned(),
            trust: configured.map_or_else(Trust::default, |source| source.verifier.trust.clone()),
            config: String::new(),
        },
        (None, Some(name)) => match configured {
            Some(source) => source.verifier.clone(),
            None => return Err(no_source(name, config).into()),
        },
        (None, None) => {
            return Err(CliError::usage(
                "verify.no_preset",
                "say what it is verified by: a preset, a source, or the id of a request that was kept",
            )
            .tip("webhookctl verify --preset stripe --body body.json -H 'Stripe-Signature: …' --secret-from -")
            .into());
        }
    };
    if let Some(variant) = &args.variant {
        verifier.variant.clone_from(variant);
    }
    usable(&verifier)?;
    Ok(verifier)
}

fn usable(verifier: &Verifier) -> Result<(), CliError> {
    let preset = &verifier.preset;
    let Some(scheme) = preset.scheme(&verifier.variant) else {
        let known = preset.schemes.iter().map(|scheme| scheme.variant.as_str());
        let known: Vec<&str> = known.collect();
        let message = format!("preset {} has no variant '{}'", preset.id, verifier.variant);
        return Err(CliError::usage("verify.no_variant", message)
            .tip(format!("one of: {}", known.join(", "))));
    };
    match scheme.unusable(&verifier.trust) {
        Some(reason) => Err(CliError::usage(
            "verify.unusable",
            format!("{}, variant '{}': {reason}", preset.id, verifier.variant),
        )
        .tip("--source NAME takes what its configuration trusts")),
        None => Ok(()),
    }
}

fn known_preset(name: &str, params: &[(String, String)]) -> Result<Preset, CliError> {
    let params: BTreeMap<String, String> = params.iter().cloned().collect();
    Preset::embedded(name, &params).map_err(|error| {
        let known = Preset::embedded(name, &BTreeMap::new()).is_ok();
        if known {
            return CliError::usage("verify.param", format!("{error:#}"));
        }
        let error = CliError::usage("verify.no_preset", format!("there is no preset '{name}'"));
        match nearest(name, Preset::ids()) {
            Some(meant) => error.tip(format!("did you mean '{meant}'?")),
            None => error.tip(format!(
                "one of: {}",
                Preset::ids().collect::<Vec<_>>().join(", ")
            )),
        }
    })
}

fn no_source(name: &str, config: &Config) -> CliError {
    let names: Vec<&str> = config
        .sources()
        .map(|source| source.name.as_str())
        .collect();
    let error = CliError::usage("verify.no_source", format!("there is no source '{name}'"));
    match nearest(name, names.iter().copied()) {
        Some(meant) => error.tip(format!("did you mean '{meant}'? --preset does without one")),
        None => error.tip(format!("one of: {}; or --preset", names.join(", "))),
    }
}

fn given(args: &VerifyArgs, verifier: &Verifier, now: Millis) -> anyhow::Result<Envelope> {
    if args.body.is_none() && args.header.is_empty() {
        return Err(CliError::usage(
            "verify.no_request",
            "there is no request: give its body and its headers, or the id of one that was kept",
        )
        .tip("webhookctl verify --preset stripe --body body.json -H 'Stripe-Signature: …' --secret-from -")
        .into());
    }
    let body = match args.body.as_deref() {
        None => Bytes::new(),
        Some(path) if path == Path::new("-") => {
            let mut body = Vec::new();
            let read = std::io::stdin().read_to_end(&mut body);
            read.context("read the body from stdin")?;
            body.into()
        }
        Some(path) => {
            let read = std::fs::read(path);
            read.with_context(|| format!("read the body from {}", path.display()))?
                .into()
        }
    };
    let url = match &args.url {
        Some(url) => url.clone(),
        None if verifier.reads_url() => {
            let message = format!(
                "{} signs or reads the URL: say which it is",
                verifier.preset.id
            );
            return Err(CliError::usage("verify.no_url", message)
                .tip("--url with the public URL that the provider posted to, query included")
                .into());
        }
        None => NOWHERE.to_owned(),
    };
    Ok(Envelope {
        method: args
            .method
            .as_deref()
            .unwrap_or("POST")
            .to_ascii_uppercase(),
        url,
        headers: args
            .header
            .iter()
            .map(|(name, value)| (name, value.as_str()))
            .collect(),
        body,
        received_at: args.at.map_or(now, |when| Millis(when.millis(now.0))),
    })
}

/// A refused request, or an event, by its id.
async fn kept(
    args: &VerifyArgs,
    global: &Global,
    inbox: &Inbox,
    id: &str,
    now: Millis,
) -> anyhow::Result<Kept> {
    let is_not_found = |error: &anyhow::Error| {
        let ours = error.downcast_ref::<CliError>();
        ours.is_some_and(|error| error.exit == Exit::NotFound && error.details.is_empty())
    };
    match inspect::find(inbox, id, now).await {
        Ok(held) => {
            let damaged =
                || CliError::failed("verify.damaged", "what is stored is not what arrived");
            return Ok(Kept {
                source: held.source.clone(),
                envelope: held.envelope().map_err(|_| damaged())?,
                event: false,
            });
        }
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    let row = match crate::verbs::inbox::find(inbox, id).await {
        Err(error) if is_not_found(&error) => {
            let message = format!(
                "neither a refused request nor an event is '{id}' in {}",
                inbox.name
            );
            return Err(CliError::new("verify.not_found", Exit::NotFound, message)
                .note("looked for an id, or a prefix of one; what is refused is kept for 7 days")
                .tip("webhookctl quarantine list --flat")
                .into());
        }
        found => found?,
    };
    if row.via != Via::Webhook {
        let message = format!(
            "{} was fetched from the provider: it has no signature",
            row.id()
        );
        return Err(CliError::new("verify.not_signed", Exit::No, message).into());
    }
    let body = body(args, global, inbox, &row).await?;
    Ok(Kept {
        source: row.key.source().to_owned(),
        envelope: Envelope {
            method: "POST".to_owned(),
            url: String::new(),
            headers: row
                .headers
                .iter()
                .map(|(name, value)| (name, value.as_str()))
                .collect(),
            body,
            received_at: row.received_at,
        },
        event: true,
    })
}

async fn body(
    args: &VerifyArgs,
    global: &Global,
    inbox: &Inbox,
    row: &Row,
) -> anyhow::Result<Bytes> {
    let with_bucket;
    let ledger = match (&inbox.local, &args.body_bucket, &global.table) {
        (None, Some(bucket), Some(table)) => {
            let aws = reach::aws(global)?;
            let bodies = (aws.s3(), bucket.clone());
            with_bucket = Ledger::new(aws.dynamodb(), table, Some(bodies));
            &with_bucket
        }
        _ => &inbox.ledger,
    };
    let body = ledger.event_body(&row.key).await?;
    let body = body.and_then(Result::ok).map(|body| body.0);
    body.ok_or_else(|| {
        CliError::failed(
            "verify.no_body",
            format!("the body of {} cannot be read", row.id()),
        )
        .note("large bodies are in a bucket; what is damaged is not used")
        .tip("--body-bucket NAME, the output BodyBucket of the stack")
        .into()
    })
}

/// What was kept, as a request again. An event that lacks what decides is not judged.
fn again(
    args: &VerifyArgs,
    verifier: &Verifier,
    kept: &Kept,
    now: Millis,
) -> Result<Envelope, CliError> {
    let mut envelope = kept.envelope.clone();
    if let Some(url) = &args.url {
        envelope.url.clone_from(url);
    }
    if let Some(when) = args.at {
        envelope.received_at = Millis(when.millis(now.0));
    }
    if !kept.event {
        return Ok(envelope);
    }
    let not_kept = |what: &str| {
        CliError::new(
            "verify.not_kept",
            Exit::No,
            format!("an event of {} does not keep {what}", verifier.preset.id),
        )
        .note("it was verified when it arrived; only refused requests are kept as they came")
    };
    if let Some(what) = verifier.never_kept() {
        return Err(not_kept(what));
    }
    let cut = |(name, value): &(&str, &str)| value.len() >= CUT && *name != "user-agent";
    if let Some((name, _)) = envelope.headers.iter().find(cut) {
        return Err(not_kept(&format!("the whole of its header {name}")));
    }
    let absent = verifier.absent_headers(&envelope);
    if !absent.is_empty() {
        return Err(not_kept(&format!("the header {}", absent.join(", "))));
    }
    if envelope.url.is_empty() && verifier.reads_url() {
        return Err(not_kept("the URL, which decides here")
            .tip("--url with the public URL that the provider posts to"));
    }
    if envelope.url.is_empty() {
        NOWHERE.clone_into(&mut envelope.url);
    }
    Ok(envelope)
}
