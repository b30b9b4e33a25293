//! Realistic webhooks of the providers, for `send`, the demo and the tests.
//!
//! The bodies have the structure that the providers document, with invented values. A sample
//! replaces `{id}`, `{unix}`, `{rfc3339}` and `{hex40}` for each event, so that each event is
//! unique. If a preset has no sample, this module builds a draft from the preset file and from
//! `samples/drafts.toml`.

mod build;
mod draft;
mod fill;
mod request_builder;
mod values;

use anyhow::{Context, bail};
use bytes::Bytes;
use shared::base::clock::UnixMillis;
use shared::webhook::preset::{Preset, Scheme};

pub(crate) use draft::{Draft, Signed, Signer};
use fill::Filler;
pub(crate) use fill::random_hex;

/// One kind of event of one provider.
#[derive(Debug)]
pub(crate) struct Sample {
    pub preset: &'static str,
    /// The provider's event type.
    pub kind: &'static str,
    text: &'static str,
    /// The headers except those of the signature. `{id}` is the event id.
    headers: &'static [(&'static str, &'static str)],
    /// The format of the provider's ids.
    id: &'static str,
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

macro_rules! sample {
    ($preset:literal, $kind:literal, $file:literal, $id:literal, [$($header:literal: $value:expr),*]) => {
        Sample {
            preset: $preset,
            kind: $kind,
            text: include_str!(concat!("../samples/", $file)),
            headers: &[$(($header, $value)),*],
            id: $id,
        }
    };
}

/// The samples. The first sample of a preset is its default.
pub(crate) static SAMPLES: &[Sample] = &[
    sample!("stripe", "payment_intent.succeeded", "stripe.payment_intent.succeeded.json", "evt_{hex24}", ["content-type": JSON, "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)"]),
    sample!("stripe", "charge.refunded", "stripe.charge.refunded.json", "evt_{hex24}", ["content-type": JSON, "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)"]),
    sample!("github", "issues", "github.issues.json", "{uuid}", ["content-type": JSON, "user-agent": "GitHub-Hookshot/044aadd", "x-github-event": "issues", "x-github-delivery": "{id}", "x-github-hook-id": "292430182"]),
    sample!("github", "push", "github.push.json", "{uuid}", ["content-type": JSON, "user-agent": "GitHub-Hookshot/044aadd", "x-github-event": "push", "x-github-delivery": "{id}", "x-github-hook-id": "292430182"]),
    sample!("slack", "app_mention", "slack.app_mention.json", "Ev{hex24}", ["content-type": JSON, "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)"]),
    sample!("slack", "url_verification", "slack.url_verification.json", "{hex24}", ["content-type": JSON, "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)"]),
    sample!("slack", "/weather", "slack.command.txt", "{digits}.{hex24}", ["content-type": FORM, "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)"]),
    sample!("fireflies", "Transcription completed", "fireflies.transcription-completed.json", "{hex24}", ["content-type": JSON]),
    sample!("fireflies", "meeting.transcribed", "fireflies.meeting.transcribed.json", "{hex24}", ["content-type": JSON]),
    sample!("standard-webhooks", "contact.created", "standard-webhooks.contact.created.json", "msg_{hex24}", ["content-type": JSON, "webhook-id": "{id}"]),
    sample!("standard-webhooks", "refund.requested", "standard-webhooks.refund.requested.json", "msg_{hex24}", ["content-type": JSON, "webhook-id": "{id}"]),
    sample!("generic-hmac", "job.completed", "generic-hmac.job.completed.json", "job-{hex24}", ["content-type": JSON, "x-event-id": "{id}", "x-event-type": "job.completed"]),
];

impl Sample {
    /// Returns the sample of a preset and a type. Without a type, returns the first sample of the
    /// preset.
    pub(crate) fn find(preset: &str, kind: Option<&str>) -> Option<&'static Self> {
        SAMPLES
            .iter()
            .find(|sample| sample.preset == preset && kind.is_none_or(|kind| kind == sample.kind))
    }

    /// Returns the event types that have a sample.
    pub(crate) fn kinds(preset: &str) -> Vec<&'static str> {
        SAMPLES
            .iter()
            .filter(|sample| sample.preset == preset)
            .map(|sample| sample.kind)
            .collect()
    }

    /// Fills in the sample, with the given id or a new id.
    pub(crate) fn draft(&self, id: Option<&str>, now: UnixMillis) -> anyhow::Result<Draft> {
        let id = match id {
            Some(id) => id.to_owned(),
            None => Filler::new(now)?.fill(self.id),
        };
        let filler = Filler::new(now)?.with(&id, self.kind);
        let headers = self.headers.iter();
        Ok(Draft {
            preset: self.preset.to_owned(),
            kind: self.kind.to_owned(),
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), filler.fill(value)))
                .collect(),
            query: Vec::new(),
            body: Bytes::from(filler.fill(self.text.trim_end())),
            id,
        })
    }

    fn is_form(&self) -> bool {
        self.headers.iter().any(|(_, value)| *value == FORM)
    }
}

/// Creates a draft for any preset, from its sample or, without a sample, from its preset file.
pub(crate) fn draft(
    preset: &Preset,
    variant: &str,
    kind: Option<&str>,
    id: Option<&str>,
    now: UnixMillis,
) -> anyhow::Result<Draft> {
    let scheme = preset
        .scheme(variant)
        .with_context(|| format!("the preset has no variant {variant:?}"))?;
    if let Some(id) = id {
        check_id(preset, scheme, id)?;
    }
    match Sample::find(&preset.id, kind) {
        Some(sample) if sample.is_form() == build::is_form(scheme) || kind.is_some() => {
            sample.draft(id, now)
        }
        _ => build::build(preset, scheme, id, kind, now),
    }
}

/// Checks the format of an id. The receiver rejects other formats.
fn check_id(preset: &Preset, scheme: &Scheme, id: &str) -> anyhow::Result<()> {
    let at = preset.event.id.0.iter().chain(&preset.event.composite);
    for location in at {
        let shape = scheme.shapes.iter().find(|shape| shape.from == *location);
        if let Some(shape) = shape
            && !shape.allow.is_match(id)
        {
            bail!(
                "invalid id {id:?} for preset {}: {location} has to match {}",
                preset.id,
                shape.allow.as_str()
            );
        }
    }
    Ok(())
}

/// Returns the event types of a preset's samples. Without samples, returns its default type.
pub(crate) fn types(preset: &Preset) -> anyhow::Result<Vec<String>> {
    let kinds = Sample::kinds(&preset.id);
    if kinds.is_empty() {
        return Ok(build::usual_type(preset)?.into_iter().collect());
    }
    Ok(kinds.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
