//! Reads the request to explain. It is given by arguments, or stored.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::sources::{Config, EMBEDDED};
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Other, Trust, Verifier};

use super::kept::{again, kept};
use super::secrets::{Secrets, secrets};
use crate::cli::{Global, SecretFrom, VerifyArgs};
use crate::files;
use crate::output::CliError;
use crate::output::error::nearest;
use crate::target::{Chosen, Deployment, Local};

/// A placeholder for an unknown URL, if the scheme does not read the URL.
pub(super) const NOWHERE: &str = "https://unknown.invalid/";

/// The inputs of the verification.
pub(super) struct Question {
    pub(super) verifier: Verifier,
    pub(super) envelope: Envelope,
    pub(super) secrets: Vec<Secret>,
    pub(super) others: Vec<Other>,
}

pub(super) async fn question(
    args: &VerifyArgs,
    global: &Global,
    now: UnixMillis,
) -> anyhow::Result<Question> {
    one_reader_of_stdin(args)?;
    let inbox = inbox(args, global).await?;
    let kept = match (&args.id, &inbox) {
        (Some(id), Some(inbox)) => Some(kept(args, inbox, id, now).await?),
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
        .is_some_and(shared::webhook::preset::Scheme::needs_secret);
    let source = named.unwrap_or_default();
    let secrets = match secrets(args, global, inbox.as_ref(), source).await? {
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
            CliError::usage("verify.stdin", "stdin can be used for one input only")
                .tip("read the other inputs from files: --body body.json --secret-from file:PATH"),
        );
    }
    Ok(())
}

/// Opens the inbox if the command needs one or names one. Without an inbox, the arguments must give
/// all inputs.
async fn inbox(args: &VerifyArgs, global: &Global) -> anyhow::Result<Option<Deployment>> {
    let named = Chosen::is_named(&global.target)?;
    let wanted = args.source.is_some() && (named || Local::find()?.is_some());
    if args.id.is_some() || wanted {
        return Deployment::open(&global.target).await.map(Some);
    }
    Ok(None)
}

fn no_secret(args: &VerifyArgs) -> CliError {
    let error = CliError::usage("verify.no_secret", "the verification needs a secret");
    match &args.source {
        Some(_) => error
            .note("no inbox is named and no local stack is running in this folder")
            .tip("pass --secret-from with - (stdin), file:PATH or env:NAME, or --table NAME"),
        None => {
            error.tip("pass --secret-from with - (stdin), file:PATH or env:NAME, or --source NAME")
        }
    }
}

fn verifier(
    args: &VerifyArgs,
    source: Option<&str>,
    inbox: Option<&Deployment>,
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
                "name a preset, a source, or the id of a stored request",
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
    match verifier.trust.unusable(scheme) {
        Some(reason) => Err(CliError::usage(
            "verify.unusable",
            format!("{}, variant '{}': {reason}", preset.id, verifier.variant),
        )
        .tip("--source NAME uses the keys that the source trusts")),
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
        CliError::usage("verify.no_preset", format!("unknown preset '{name}'"))
            .one_of(name, &Preset::names().collect::<Vec<_>>())
    })
}

fn no_source(name: &str, config: &Config) -> CliError {
    let names: Vec<&str> = config
        .sources()
        .map(|source| source.name.as_str())
        .collect();
    let error = CliError::usage("verify.no_source", format!("unknown source '{name}'"));
    match nearest(name, names.iter().copied()) {
        Some(meant) => error.tip(format!(
            "did you mean '{meant}'? --preset works without a source"
        )),
        None => error.tip(format!("one of: {}; or --preset", names.join(", "))),
    }
}

fn given(args: &VerifyArgs, verifier: &Verifier, now: UnixMillis) -> anyhow::Result<Envelope> {
    if args.body.is_none() && args.header.is_empty() {
        return Err(CliError::usage(
            "verify.no_request",
            "the request is missing: pass its body and headers, or the id of a stored request",
        )
        .tip("webhookctl verify --preset stripe --body body.json -H 'Stripe-Signature: …' --secret-from -")
        .into());
    }
    let body = match args.body.as_deref() {
        None => Bytes::new(),
        Some(path) => files::read(path, "the body")?.into(),
    };
    let url = match args.url.as_ref().or(verifier.trust.public_url.as_ref()) {
        Some(url) => url.clone(),
        None if verifier.reads_url() => {
            let message = format!(
                "the verification of {} needs the URL of the request",
                verifier.preset.id
            );
            return Err(CliError::usage("verify.no_url", message)
                .tip("pass --url with the public URL of the webhook, including the query")
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
        received_at: args.at.map_or(now, |when| UnixMillis(when.millis(now.0))),
    })
}
