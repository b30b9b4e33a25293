//! Providers as data.
//!
//! A preset is one TOML file in `shared/presets/`: how a signature is made, where the event's id
//! and type are, how a handshake is answered, what the acknowledgement is, how missed events are
//! listed. To add a provider, copy a preset and add a real signed payload to the tests.
//!
//! What a preset cannot change is in [`verify`](mod@crate::webhook::verify): comparisons take constant
//! time, a request never chooses the variant, an empty secret never matches.

mod fetch;
mod handshake;
mod joins;
mod jwt;
mod kind;
mod location;
mod objects;
mod order;
mod params;
mod pattern;
mod scheme;
mod signature;
mod sync;
mod template;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::base::json_path::{JsonPath, span};
use crate::webhook::event::Sha;

pub use fetch::{Fetch, FetchAuth, State};
pub(crate) use handshake::Json;
pub use handshake::{Handshake, Reply};
pub use jwt::{Alg, Jwt, KeySource};
pub use kind::{Code, Hash, KeyForm, Kind};
pub use location::{Location, Locations, Place, Unreadable};
pub use objects::{Objects, Pages};
pub use order::{Compare, OrderAt};
pub use pattern::Pattern;
pub use scheme::{BodyHash, Scheme, Shape, Timestamp, Unit, UrlForm};
pub use signature::{Duplicates, Encoding, Format, Signature};
pub use sync::{
    Auth, Field, Mark, Method, Next, Page, Put, Request, Since, Sorted, Sync, SyncKind, TimeAt,
    TimeUnit, fill_item, fill_text,
};
pub use template::{Part, Template};

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// One provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    schema: u32,
    pub id: String,
    pub name: String,
    /// Where the provider documents its webhooks.
    pub docs: String,
    /// When the facts were last compared with `docs`, as `yyyy-mm`.
    pub checked: String,
    /// Other names of it: senders with the very same scheme.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// A scheme and not a provider: the source's own name stands for the provider.
    #[serde(default)]
    pub generic: bool,
    /// Values that a source may set, with their defaults. They stand as `{param:NAME}` in the
    /// file.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    #[serde(rename = "verify")]
    pub schemes: Vec<Scheme>,
    pub event: EventAt,
    #[serde(default, rename = "handshake")]
    pub handshakes: Vec<Handshake>,
    #[serde(default)]
    pub ack: Ack,
    #[serde(default)]
    pub retry: Retry,
    /// Why nothing that happened there can be listed, where somebody looked.
    pub no_sync: Option<String>,
    /// The lists of what happened there; one is the default.
    #[serde(default, rename = "sync")]
    pub syncs: Vec<Sync>,
    #[serde(default)]
    pub order: Option<OrderAt>,
    /// What can be compared with our own state.
    #[serde(default)]
    pub objects: Vec<Objects>,
}

impl Preset {
    /// The embedded preset with this id or alias; `params` replace the defaults of its file. No
    /// other preset is read for it.
    pub fn embedded(id: &str, params: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let alias = format!("{id:?}");
        let is_alias = |line: &str| line.starts_with("aliases = [") && line.contains(&alias);
        let mut presets = EMBEDDED.iter();
        let found = presets
            .find(|(name, _)| *name == id)
            .or_else(|| EMBEDDED.iter().find(|(_, text)| text.lines().any(is_alias)));
        let Some((_, text)) = found else {
            let known: Vec<_> = Self::ids().collect();
            bail!("there is no preset {id:?}; there are {}", known.join(", "));
        };
        Self::parse(text, params).with_context(|| format!("preset {id}"))
    }

    /// The ids of the embedded presets.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(id, _)| *id)
    }

    /// Reads a preset. All that can be wrong with it is found here, not at a request.
    pub fn parse(text: &str, params: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let preset = params::filled(text, params)?;
        ensure!(
            preset.schema == 1,
            "schema {} is not known here; 1 is",
            preset.schema
        );
        for scheme in &preset.schemes {
            scheme
                .check()
                .with_context(|| format!("variant {:?}", scheme.variant))?;
        }
        ensure!(
            preset.scheme("default").is_some(),
            "one [[verify]] must be the default variant"
        );
        for handshake in &preset.handshakes {
            handshake
                .check(&preset.schemes)
                .with_context(|| format!("the handshake {handshake}"))?;
        }
        for sync in &preset.syncs {
            sync.check()
                .with_context(|| format!("sync, variant {:?}", sync.variant))?;
        }
        ensure!(
            preset.syncs.is_empty() || preset.sync("default").is_some(),
            "one [[sync]] must be the default variant"
        );
        ensure!(
            preset.syncs.is_empty() || preset.no_sync.is_none(),
            "no_sync says why there is no [[sync]], and there is one"
        );
        let many = |at: &Locations| at.0.iter().any(|at| matches!(at, Location::Item(_)));
        ensure!(
            preset.event.batch.is_some() || !(many(&preset.event.id) || many(&preset.event.kind)),
            "an item: location goes with event.batch"
        );
        for scheme in &preset.schemes {
            preset
                .check_batch(scheme)
                .with_context(|| format!("variant {:?}", scheme.variant))?;
        }
        ensure!(
            (200..300).contains(&preset.ack.ok),
            "ack.ok must be a 2xx status"
        );
        ensure!(
            (400..500).contains(&preset.ack.bad_signature),
            "ack.bad_signature must be a 4xx status"
        );
        for objects in &preset.objects {
            objects
                .check()
                .with_context(|| format!("objects {:?}", objects.name))?;
        }
        Ok(preset)
    }

    /// Items of a batch are told apart by what is signed of each.
    fn check_batch(&self, scheme: &Scheme) -> anyhow::Result<()> {
        let field = self.event.batch_field.as_deref();
        ensure!(
            self.event.batch.is_none()
                || !scheme.is_signature()
                || scheme.covers_body()
                || scheme.for_each.is_some()
                || field.is_some_and(|field| scheme.covers_field(field)),
            "with event.batch, the signature is over the whole body, over each item, or over \
             batch_field, which then stands in only_fields"
        );
        Ok(())
    }

    /// The way of signing that the operator selected by name.
    pub fn scheme(&self, variant: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.variant == variant)
    }

    /// The list that a source selected by name.
    pub fn sync(&self, variant: &str) -> Option<&Sync> {
        self.syncs.iter().find(|sync| sync.variant == variant)
    }
}

/// Where an event says what it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventAt {
    /// The provider's event id: the first location that has one.
    #[serde(default)]
    pub id: Locations,
    /// Parts that name the event together, where no single value does. With them, `id` is what
    /// people are shown and no more: it may be that of an entity which has many events.
    #[serde(default)]
    pub composite: Vec<Location>,
    #[serde(default, rename = "type")]
    pub kind: Locations,
    /// The id of this delivery, where a provider counts deliveries apart from events.
    #[serde(default)]
    pub delivery: Locations,
    /// When it happened, for people.
    #[serde(default)]
    pub time: Locations,
    /// Whose event it is, where one source hears of many accounts.
    #[serde(default)]
    pub account: Locations,
    /// The items, where a request brings many events: each is an event of its own.
    pub batch: Option<JsonPath>,
    /// The field of an urlencoded body that holds the items; without it they are in the body itself.
    pub batch_field: Option<String>,
    /// Values that change each time an event is delivered, such as a count of attempts. In an item
    /// where there is a batch, else in the body. Without them, the event has to be the same.
    #[serde(default)]
    pub varies: Vec<JsonPath>,
    #[serde(default)]
    pub fallback: Fallback,
}

impl EventAt {
    /// The hash of the parts of an item that are equal in each of its deliveries; `of_all` is the hash
    /// of the whole item, used where no part varies.
    pub(crate) fn content(&self, raw: &[u8], of_all: impl FnOnce() -> Sha) -> Sha {
        let varies = self.varies.iter().filter_map(|path| path.all(raw).ok());
        let mut gaps: Vec<_> = varies
            .flatten()
            .flatten()
            .map(|value| span(raw, value))
            .collect();
        if gaps.is_empty() {
            return of_all();
        }
        gaps.sort_by_key(|gap| gap.start);
        let mut hash = Sha256::new();
        let mut from = 0;
        for gap in gaps {
            hash.update(raw.get(from..gap.start).unwrap_or_default());
            from = from.max(gap.end);
        }
        hash.update(raw.get(from..).unwrap_or_default());
        Sha(hash.finalize().into())
    }
}

/// What names an event that has no id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// The hash of its body.
    #[default]
    BodyHash,
    /// The time of its arrival as well: the same body again means another event.
    Arrival,
}

/// How a provider wants to be answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ack {
    pub ok: u16,
    /// What a request with a wrong signature is answered.
    pub bad_signature: u16,
    /// A status that stops all retries, for people.
    pub stop_retry_status: Option<u16>,
    pub content_type: String,
    pub body: String,
    /// How long the provider waits, in milliseconds.
    pub deadline_ms: Option<u64>,
}

impl Default for Ack {
    fn default() -> Self {
        Self {
            ok: 200,
            bad_signature: 401,
            stop_retry_status: None,
            content_type: "text/plain".to_owned(),
            body: String::new(),
            deadline_ms: None,
        }
    }
}

/// What a provider does when we do not answer, for people and for alerts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// For how long it tries again.
    pub horizon: Option<String>,
    #[serde(default)]
    pub schedule: Vec<String>,
    /// How many times.
    pub max: Option<u32>,
    /// Whether each attempt is signed with a fresh time.
    pub resigned: Option<bool>,
    pub attempt_header: Option<String>,
    pub ordering: Option<String>,
    pub auto_disable: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_preset_can_be_read() {
        let read = |id| match Preset::embedded(id, &BTreeMap::new()) {
            Ok(preset) => (preset.id != id || !preset.docs.starts_with("https://"))
                .then(|| format!("{id}: its id or docs")),
            Err(error) => Some(format!("{error:#}")),
        };
        let wrong: Vec<String> = Preset::ids().filter_map(read).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(Preset::ids().count() > 90);
    }

    #[test]
    fn a_parameter_can_be_set_and_a_wrong_one_is_named() {
        let set = |name: &str, value: &str| {
            Preset::embedded(
                "generic-hmac",
                &BTreeMap::from([(name.into(), value.into())]),
            )
        };
        let preset = set("header", "x-acme-signature").unwrap();
        let from = &preset.scheme("default").unwrap().sig.from;
        assert_eq!(from, &Location::parse("header:x-acme-signature").unwrap());

        let error = format!("{:#}", set("haeder", "x").unwrap_err());
        assert!(
            error.contains("takes no parameter \"haeder\"") && error.contains("header"),
            "{error}"
        );
        let error = format!("{:#}", set("header", "x\"\nid = \"y").unwrap_err());
        assert!(error.contains("printable ASCII"), "{error}");
    }

    #[test]
    fn an_unknown_preset_and_a_typo_are_refused_by_name() {
        let error = format!(
            "{:#}",
            Preset::embedded("strpe", &BTreeMap::new()).unwrap_err()
        );
        assert!(
            error.contains("strpe") && error.contains("stripe"),
            "{error}"
        );

        let text = EMBEDDED.iter().find(|(id, _)| *id == "stripe").unwrap().1;
        let typo = text.replace("message =", "mesage =");
        let error = format!("{:#}", Preset::parse(&typo, &BTreeMap::new()).unwrap_err());
        assert!(error.contains("mesage"), "{error}");
    }
}
