//! Realistic webhooks of the providers, for `send`, the demo and the tests.
//!
//! The bodies have the shape that the providers document, with made-up values. `{id}`, `{unix}`,
//! `{rfc3339}` and `{hex40}` are filled in for each event, so that no two are the same.

use std::collections::BTreeMap;

use anyhow::Context;
use bytes::Bytes;
use shared::clock::Millis;
use shared::envelope::Envelope;
use shared::preset::Preset;
use shared::secrets::Secret;
use shared::sign::sign;

/// One kind of event of one provider.
#[derive(Debug)]
pub struct Sample {
    pub preset: &'static str,
    /// The provider's name of the event.
    pub kind: &'static str,
    text: &'static str,
    /// Headers beside those of the signature; `{id}` is the event's id.
    headers: &'static [(&'static str, &'static str)],
    /// What the provider's ids look like, before a part that is different each time.
    id_prefix: &'static str,
}

macro_rules! sample {
    ($preset:literal, $kind:literal, $file:literal, $id:literal, [$($header:literal: $value:literal),*]) => {
        Sample {
            preset: $preset,
            kind: $kind,
            text: include_str!(concat!("../samples/", $file)),
            headers: &[("content-type", "application/json"), $(($header, $value)),*],
            id_prefix: $id,
        }
    };
}

/// The first sample of a preset is the one that is sent when no type is asked for.
pub static SAMPLES: &[Sample] = &[
    sample!("stripe", "payment_intent.succeeded", "stripe.payment_intent.succeeded.json", "evt_", ["user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)"]),
    sample!("stripe", "charge.refunded", "stripe.charge.refunded.json", "evt_", ["user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)"]),
    sample!("github", "issues", "github.issues.json", "", ["user-agent": "GitHub-Hookshot/044aadd", "x-github-event": "issues", "x-github-delivery": "{id}", "x-github-hook-id": "292430182"]),
    sample!("github", "push", "github.push.json", "", ["user-agent": "GitHub-Hookshot/044aadd", "x-github-event": "push", "x-github-delivery": "{id}", "x-github-hook-id": "292430182"]),
    sample!("slack", "app_mention", "slack.app_mention.json", "Ev", ["user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)"]),
    sample!("slack", "url_verification", "slack.url_verification.json", "", ["user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)"]),
    sample!(
        "fireflies",
        "Transcription completed",
        "fireflies.transcription-completed.json",
        "",
        []
    ),
    sample!("standard-webhooks", "contact.created", "standard-webhooks.contact.created.json", "msg_", ["webhook-id": "{id}"]),
    sample!("generic-hmac", "job.completed", "generic-hmac.job.completed.json", "job-", ["x-event-id": "{id}", "x-event-type": "job.completed"]),
];

/// A webhook before it is signed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The provider's id of the event.
    pub id: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// A webhook as the provider would send it.
#[derive(Clone, Debug)]
pub struct Signed {
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Sample {
    /// The sample of a preset and, where one is asked for, a type.
    pub fn find(preset: &str, kind: Option<&str>) -> Option<&'static Self> {
        SAMPLES
            .iter()
            .find(|sample| sample.preset == preset && kind.is_none_or(|kind| kind == sample.kind))
    }

    /// The types of a preset that there are samples of.
    pub fn kinds(preset: &str) -> Vec<&'static str> {
        SAMPLES
            .iter()
            .filter(|sample| sample.preset == preset)
            .map(|sample| sample.kind)
            .collect()
    }

    /// Fills the sample in; `id` or a new one.
    pub fn draft(&self, id: Option<&str>, now: Millis) -> anyhow::Result<Draft> {
        let id = match id {
            Some(id) => id.to_owned(),
            None if self.preset == "github" => uuid()?,
            None => format!("{}{}", self.id_prefix, random_hex(12)?),
        };
        let hex40 = random_hex(20)?;
        let (unix, rfc3339) = (now.secs().to_string(), now.rfc3339());
        let fill = |text: &str| {
            text.replace("{id}", &id)
                .replace("{unix}", &unix)
                .replace("{rfc3339}", &rfc3339)
                .replace("{hex40}", &hex40)
        };
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), fill(value)))
            .collect();
        let body = Bytes::from(fill(self.text.trim_end()));
        Ok(Draft { id, headers, body })
    }
}

impl Draft {
    /// Signs as the source's provider does, at the given time.
    pub fn sign(
        &self,
        preset: &Preset,
        variant: &str,
        secret: &Secret,
        url: &str,
        at: Millis,
    ) -> anyhow::Result<Signed> {
        let scheme = preset
            .scheme(variant)
            .with_context(|| format!("no variant {variant:?}"))?;
        let envelope = envelope(url, &self.headers, &self.body, at);
        let mut headers = self.headers.clone();
        headers.extend(sign(scheme, secret, &envelope, at)?);
        Ok(Signed {
            headers,
            body: self.body.clone(),
        })
    }
}

impl Signed {
    /// The request as it will arrive.
    pub fn envelope(&self, url: &str, at: Millis) -> Envelope {
        envelope(url, &self.headers, &self.body, at)
    }
}

fn envelope(
    url: &str,
    headers: &[(String, String)],
    body: &Bytes,
    received_at: Millis,
) -> Envelope {
    Envelope {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| (name, value.as_str()))
            .collect(),
        body: body.clone(),
        received_at,
    }
}

/// The presets that can be sent, with what is signed and where.
pub fn presets() -> anyhow::Result<Vec<Preset>> {
    let known: Vec<&str> = SAMPLES.iter().map(|sample| sample.preset).collect();
    Preset::ids()
        .filter(|id| known.contains(id))
        .map(|id| Preset::embedded(id, &BTreeMap::new()))
        .collect()
}

fn uuid() -> anyhow::Result<String> {
    let hex = random_hex(16)?;
    Ok(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}

/// Random bytes in hex.
pub fn random_hex(bytes: usize) -> anyhow::Result<String> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(hex::encode(buffer))
}

#[cfg(test)]
mod tests {
    use shared::verify::{Arrival, Trust, Verifier};

    use super::*;

    #[test]
    fn every_sample_is_one_that_its_preset_accepts_and_names() {
        let now = Millis(1_795_169_681_000);
        for sample in SAMPLES {
            let preset = Preset::embedded(sample.preset, &BTreeMap::new()).unwrap();
            let verifier = Verifier {
                source: "s".into(),
                preset: preset.clone(),
                variant: "default".into(),
                trust: Trust::default(),
                config: "c".into(),
            };
            let secret = Secret::new("current", "whsec_l4i9h/X/cKTZd5/NKsxmnDU0YMuhxDfR");
            let draft = sample.draft(None, now).unwrap();
            let signed = draft
                .sign(&preset, "default", &secret, "https://x.test/in/s", now)
                .unwrap();
            let envelope = signed.envelope("https://x.test/in/s", now);
            match verifier.verify(&envelope, &[secret]).unwrap() {
                Arrival::Event(event) => {
                    assert_eq!(event.kind(), sample.kind);
                    assert!(
                        event.key().id().contains(&draft.id) || event.key().id().starts_with("h:"),
                        "{}",
                        event.key()
                    );
                    assert!(serde_json::from_slice::<serde_json::Value>(event.body()).is_ok());
                }
                Arrival::Handshake(_) => assert_eq!(sample.kind, "url_verification"),
            }
        }
    }

    #[test]
    fn no_two_drafts_are_the_same() {
        for sample in SAMPLES {
            let draft = || sample.draft(None, Millis(0)).unwrap().body;
            assert_ne!(draft(), draft(), "{}", sample.kind);
        }
    }
}
