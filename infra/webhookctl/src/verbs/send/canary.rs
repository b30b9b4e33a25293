//! Sends one webhook through the public URL of an inbox and waits for its outcome.

use std::time::Duration;

use anyhow::Context as _;
use shared::base::clock::UnixMillis;
use shared::webhook::sign::{Means, means};

use super::post;
use super::target::{Target, as_received, signed_url};
use super::watch::Watch;
use crate::output::CliError;
use crate::samples::{self, Signer};
use crate::target::Deployment;

/// The result of the test webhook.
pub(in crate::verbs) struct Canary {
    pub(in crate::verbs) url: String,
    pub(in crate::verbs) status: u16,
    pub(in crate::verbs) took_ms: u128,
    pub(in crate::verbs) id: Option<String>,
    pub(in crate::verbs) outcome: Option<String>,
}

/// Sends a sample as the provider of `source` would send it, and waits for its outcome.
pub(in crate::verbs) async fn canary(inbox: Deployment, source: &str) -> anyhow::Result<Canary> {
    let url = inbox.names().url.clone();
    let url = url.context(
        CliError::usage(
            "context.no_names",
            "the context does not name the public URL",
        )
        .tip("webhookctl context add NAME --refresh"),
    )?;
    let url = format!("{}/in/{source}", url.trim_end_matches('/'));
    let configured = inbox.config.source(source);
    let configured = configured.context("the source of the canary is not configured")?;
    let verifier = configured.verifier.clone();
    let scheme = verifier.preset.scheme(&verifier.variant);
    let scheme = scheme.context("the preset of the source does not have the source's variant")?;
    let signer = match means(scheme) {
        Means::Nothing => Signer::Unsigned,
        Means::Secret => {
            let secrets = inbox.secrets("ingress")?;
            let live = secrets.live(&configured.secret, UnixMillis::now()).await?;
            let secret = live.first().cloned();
            Signer::Secret(secret.with_context(|| format!("source {source} has no stored secret"))?)
        }
        Means::KeyPair(_) | Means::No(_) => {
            let message = format!("only the provider can sign webhooks of {source}");
            return Err(CliError::usage("doctor.canary", message).into());
        }
    };
    let draft = samples::draft(
        &verifier.preset,
        &verifier.variant,
        None,
        None,
        UnixMillis::now(),
    )?;
    let target = Target {
        signed_url: signed_url(&verifier, || match inbox.local {
            Some(_) => as_received(&url),
            None => url.clone(),
        }),
        url,
        stored: signer.stored(scheme)?,
        verifier,
        signer,
        inbox: Some(inbox),
    };
    let signed = super::sign(&target, &draft, None)?;
    let http = shared::aws::outbound::unguarded(Duration::from_secs(35))?;
    let told = post::post(&http, &target, &draft, &signed, &Watch::silent()).await?;
    Ok(Canary {
        url: told.url,
        status: told.status,
        took_ms: told.took_ms,
        id: told.id,
        outcome: told.outcome,
    })
}
