//! Describes one preset completely, as a JSON document and as lines.

use std::fmt::Write as _;

use serde::Serialize;
use shared::webhook::preset::{Handshake, Preset, Retry, Scheme};

use super::scheme as words;
use super::synced::Synced;
use crate::output::table::{Facts, aligned};

/// A preset for JSON output, and the texts for the page of presets.
#[derive(Serialize)]
pub(crate) struct Description {
    pub(crate) preset: String,
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) docs: String,
    pub(super) checked: String,
    /// The facts that the provider's documentation does not confirm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unconfirmed: Option<String>,
    pub(super) params: Vec<String>,
    pub(super) variants: Vec<Variant>,
    pub(super) dedupe_key: String,
    /// Whether a delivery can contain several events.
    pub(super) batch: bool,
    pub(super) event_type: String,
    pub(super) handshakes: Vec<String>,
    pub(super) ack: String,
    pub(super) retry: String,
    pub(super) syncs: Vec<Synced>,
    /// The reason why the preset has no sync. It is missing if the reason is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_sync: Option<String>,
    /// The lists of objects that a reconciliation can compare.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) objects: Vec<String>,
}

/// A signature scheme of the preset.
#[derive(Serialize)]
pub(super) struct Variant {
    #[serde(rename = "variant")]
    pub(super) name: String,
    pub(super) scheme: String,
    pub(super) header: String,
    pub(super) format: Option<String>,
    pub(super) message: String,
    pub(super) proves: &'static str,
    pub(super) window: String,
    pub(super) secret: &'static str,
    pub(super) key_set: Option<String>,
    /// What the catcher fetches if requests are notices without a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fetched: Option<String>,
    /// The parts of a request that the signature does not cover, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) leaves_open: Vec<String>,
    pub(super) send: String,
    /// The values of `sign` with which a receiver can verify the provider's signature.
    pub(super) forward: String,
}

impl Description {
    pub(crate) fn new(preset: &Preset) -> Self {
        let kinds = preset.event.kind.0.iter().map(words::bare);
        let kinds: Vec<String> = kinds.collect();
        Self {
            preset: preset.id.clone(),
            name: preset.name.clone(),
            aliases: preset.aliases.clone(),
            docs: preset.docs.clone(),
            checked: preset.checked.clone(),
            unconfirmed: preset.unconfirmed.clone(),
            params: preset
                .params
                .iter()
                .map(|(name, value)| format!("{name} = {value:?}"))
                .collect(),
            variants: preset
                .schemes
                .iter()
                .map(|scheme| Variant::new(preset, scheme))
                .collect(),
            dedupe_key: words::dedupe(preset),
            batch: preset.event.batch.is_some(),
            event_type: kinds.join(", else "),
            handshakes: preset.handshakes.iter().map(handshake).collect(),
            ack: ack(preset),
            retry: retry(&preset.retry),
            syncs: preset.syncs.iter().map(Synced::new).collect(),
            no_sync: preset.no_sync.clone(),
            objects: preset
                .objects
                .iter()
                .map(|kind| kind.name.clone())
                .collect(),
        }
    }
}

impl Variant {
    fn new(preset: &Preset, scheme: &Scheme) -> Self {
        Self {
            name: scheme.variant.clone(),
            scheme: words::method(scheme),
            header: words::place(scheme),
            format: words::format(scheme),
            message: words::message(scheme),
            proves: words::proven(scheme),
            window: words::window(scheme),
            leaves_open: [&scheme.ambiguity, &scheme.shared_proof]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            secret: words::secret(scheme),
            key_set: words::key_set(scheme).map(str::to_owned),
            fetched: words::fetched(scheme),
            send: words::sent_with(scheme),
            forward: words::forwarded(preset, scheme),
        }
    }
}

pub(crate) fn text(shown: &Description) -> String {
    let mut facts = Facts::default();
    facts.add("docs", &shown.docs);
    facts.add("checked", &shown.checked);
    facts.maybe("aliases", some(shown.aliases.join(", ")));
    facts.maybe("params", some(shown.params.join(", ")));
    facts.add("dedupe by", &shown.dedupe_key);
    facts.maybe("type", some(shown.event_type.clone()));
    let batch = "a delivery can contain several events; Mitt stores each separately";
    facts.maybe("batch", shown.batch.then_some(batch));
    for handshake in &shown.handshakes {
        facts.add("handshake", handshake);
    }
    facts.add("answer", &shown.ack);
    facts.add("retries", &shown.retry);
    for sync in &shown.syncs {
        let fields = sync.fields.iter().cloned();
        facts.all("sync", std::iter::once(sync.line()).chain(fields));
    }
    let none = shown.no_sync.as_ref().map(|why| format!("none: {why}"));
    facts.maybe("sync", none);
    facts.maybe("reconcile", some(shown.objects.join(", ")));
    let head = vec![shown.preset.clone(), shown.name.clone()];
    let mut text = format!("{}\n{}", aligned(&[head]), facts.text());
    for variant in &shown.variants {
        let _ = write!(text, "\nvariant {}\n{}", variant.name, of(variant).text());
    }
    text
}

fn of(variant: &Variant) -> Facts {
    let mut facts = Facts::default();
    facts.add("scheme", &variant.scheme);
    facts.add("header", &variant.header);
    facts.maybe("written", variant.format.as_ref());
    facts.add("signed", &variant.message);
    facts.add("proves", variant.proves);
    facts.add("window", &variant.window);
    facts.add("secret", variant.secret);
    facts.maybe("key set", variant.key_set.as_ref());
    facts.maybe("fetched", variant.fetched.as_ref());
    facts.add("send", &variant.send);
    facts.add("sign", &variant.forward);
    facts
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Describes the provider's request, the answer, and the condition for the answer.
fn handshake(handshake: &Handshake) -> String {
    let mut text = handshake.to_string();
    if handshake.require_signature {
        text += ", only if its signature is valid";
    }
    if handshake.signs() {
        text += ", answered with a signature";
    }
    if handshake.store_secret_from.is_some() {
        text += ", sets the secret if none is stored";
    } else if handshake.arming_only {
        text += ", only if no secret is stored";
    }
    text
}

fn ack(preset: &Preset) -> String {
    let ack = &preset.ack;
    let mut text = format!("{}, {} to an invalid signature", ack.ok, ack.bad_signature);
    if !ack.body.is_empty() {
        let _ = write!(text, ", body {}", ack.body);
    }
    if let Some(deadline) = ack.deadline_ms {
        let _ = write!(text, ", within {} s", deadline / 1000);
    }
    if let Some(status) = ack.stop_retry_status {
        let _ = write!(text, "; {status} would stop all retries");
    }
    text
}

/// Describes for how long and how often the provider retries.
pub(crate) fn retry(retry: &Retry) -> String {
    let mut facts = Vec::new();
    if let Some(horizon) = &retry.horizon {
        facts.push(match horizon.as_str() {
            "none" => "none".to_owned(),
            horizon => format!("for {horizon}"),
        });
    }
    if let Some(max) = retry.max {
        facts.push(format!("at most {max}"));
    }
    if !retry.schedule.is_empty() {
        facts.push(format!("after {}", retry.schedule.join(", ")));
    }
    if retry.resigned == Some(true) {
        facts.push("each with a new signature".to_owned());
    }
    if retry.ordering.as_deref() == Some("none") {
        facts.push("not in order".to_owned());
    } else if let Some(order) = &retry.ordering {
        facts.push(format!("in order ({order})"));
    }
    if let Some(header) = &retry.attempt_header {
        facts.push(format!("counted in {header}"));
    }
    if let Some(when) = &retry.auto_disable {
        facts.push(format!("disabled: {when}"));
    }
    if facts.is_empty() {
        "not documented".to_owned()
    } else {
        facts.join("; ")
    }
}
