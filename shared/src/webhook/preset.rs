//! Presets, which define providers as data.
//!
//! A preset is one TOML file in `shared/presets/`. It describes how the provider signs requests,
//! and where a request contains the event's id and type. It also describes the replies to
//! handshakes, the acknowledgement, and the request that lists past events. To add a provider, copy
//! a preset and add a real signed payload to the tests.
//!
//! A preset cannot change the following rules of [`verify`](mod@crate::webhook::verify).
//! Comparisons take constant time. A request never selects the variant. An empty secret never
//! matches.

mod account;
mod fetch;
mod handshake;
mod joins;
mod jwt;
mod kind;
mod location;
mod mask;
mod objects;
mod order;
mod params;
mod pattern;
mod receiver;
mod retry;
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
use crate::webhook::missing::PathUse;

pub use account::{AccountAt, FetchedAccount, RequestSettings};
pub use fetch::{Fetch, FetchAuth, State};
pub(crate) use handshake::Json;
pub use handshake::{Handshake, Reply};
pub use jwt::{Alg, Jwt, KeySource};
pub use kind::{Code, Hash, KeyForm, Kind};
pub(crate) use location::multipart_field;
pub use location::{Location, Locations, Place, Unreadable};
pub use objects::{Objects, Pages};
pub use order::{Compare, OrderAt};
pub use pattern::Pattern;
pub use receiver::Receiver;
pub use retry::Retry;
pub use scheme::{BodyHash, PublishedKeys, RequiredValue, Scheme, Shape, Timestamp, Unit, UrlForm};
pub use signature::{Duplicates, Encoding, Format, Signature};
pub use sync::{
    Auth, Field, Mark, Method, Next, Page, Put, Request, Since, Sorted, Sync, SyncKind, TimeAt,
    TimeUnit, fill_item, fill_text,
};
pub use template::{Part, Template};

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// The preset of one provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    schema: u32,
    pub id: String,
    pub name: String,
    /// The provider's documentation of its webhooks.
    pub docs: String,
    /// The month of the last comparison of the preset with `docs`, as `yyyy-mm`.
    pub checked: String,
    /// A sentence that lists the facts of the file that `docs` does not confirm.
    pub unconfirmed: Option<String>,
    /// Other names of the preset. Each name belongs to a provider with the same scheme.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Whether the preset describes a scheme instead of a provider. Events of such a preset have
    /// the name of the source as their provider.
    #[serde(default)]
    pub generic: bool,
    /// Values that a source can set, with their defaults. The file refers to a value as
    /// `{param:NAME}`.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    #[serde(rename = "verify")]
    pub schemes: Vec<Scheme>,
    /// The headers with a signature that no variant verifies, such as an older form. The names are in
    /// lower case.
    #[serde(default)]
    pub signature_headers: Vec<String>,
    #[serde(default)]
    pub receiver: Receiver,
    pub event: EventAt,
    #[serde(default, rename = "handshake")]
    pub handshakes: Vec<Handshake>,
    #[serde(default)]
    pub ack: Ack,
    #[serde(default)]
    pub retry: Retry,
    /// The reason why the provider's API cannot list past events, if this is known.
    pub no_sync: Option<String>,
    /// The provider's lists of past events. One list has the variant `default`.
    #[serde(default, rename = "sync")]
    pub syncs: Vec<Sync>,
    #[serde(default)]
    pub order: Option<OrderAt>,
    /// The provider's objects that can be compared with local state.
    #[serde(default)]
    pub objects: Vec<Objects>,
    #[serde(skip)]
    pub settings: RequestSettings,
}

/// A preset that is a part of the program.
struct Embedded {
    id: &'static str,
    aliases: &'static [&'static str],
    /// The parameters with their defaults.
    params: &'static [(&'static str, &'static str)],
    /// The preset as JSON.
    json: &'static str,
}

impl Preset {
    /// Returns the embedded preset with this id or alias. `params` replace the defaults in the
    /// file. Does not parse other presets.
    pub fn embedded(id: &str, params: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let mut presets = EMBEDDED.iter();
        let found = presets.find(|preset| preset.id == id).or_else(|| {
            let mut presets = EMBEDDED.iter();
            presets.find(|preset| preset.aliases.contains(&id))
        });
        let Some(embedded) = found else {
            let known: Vec<_> = Self::ids().collect();
            bail!("unknown preset {id:?}; known presets: {}", known.join(", "));
        };
        let preset = params::filled_embedded(embedded, params);
        let preset = preset.and_then(|preset| preset.checked(params));
        preset.with_context(|| format!("preset {id}"))
    }

    /// The ids of the embedded presets.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|preset| preset.id)
    }

    /// The ids of the embedded presets, then their aliases. [`embedded`](Self::embedded) accepts each
    /// of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let aliases = EMBEDDED.iter().flat_map(|preset| preset.aliases);
        Self::ids().chain(aliases.copied())
    }

    /// Returns whether this is the id or an alias of the preset.
    pub fn is_named(&self, name: &str) -> bool {
        self.id == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Parses and validates the whole preset, so that an error does not first occur while Mitt
    /// handles a request.
    pub fn parse(text: &str, params: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        params::filled(text, params)?.checked(params)
    }

    fn checked(self, params: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let mut preset = self;
        preset.relax_defaults(params);
        ensure!(
            preset.schema == 1,
            "schema {} is not supported; set schema = 1",
            preset.schema
        );
        for scheme in &preset.schemes {
            scheme
                .check()
                .with_context(|| format!("variant {:?}", scheme.variant))?;
        }
        ensure!(
            preset.scheme("default").is_some(),
            "one [[verify]] must have the variant \"default\""
        );
        for handshake in &preset.handshakes {
            handshake
                .check(&preset.schemes)
                .with_context(|| format!("handshake {handshake}"))?;
        }
        for sync in &preset.syncs {
            sync.check()
                .with_context(|| format!("sync, variant {:?}", sync.variant))?;
        }
        ensure!(
            preset.syncs.is_empty() || preset.sync("default").is_some(),
            "one [[sync]] must have the variant \"default\""
        );
        ensure!(
            preset.syncs.is_empty() || preset.no_sync.is_none(),
            "the preset has both no_sync and [[sync]]; remove one of them"
        );
        let many = |at: &Location| matches!(at, Location::Item(_) | Location::ItemSha256);
        let at = &preset.event;
        let named = at.id.0.iter().chain(&at.kind.0).chain(&at.composite);
        ensure!(
            preset.event.batch.is_some() || !named.into_iter().any(many),
            "an item: location needs event.batch; set event.batch to the path of the items"
        );
        for scheme in &preset.schemes {
            preset
                .check_batch(scheme)
                .with_context(|| format!("variant {:?}", scheme.variant))?;
        }
        ensure!(
            (200..300).contains(&preset.ack.ok),
            "ack.ok must be a status from 200 to 299"
        );
        ensure!(
            (400..500).contains(&preset.ack.bad_signature),
            "ack.bad_signature must be a status from 400 to 499"
        );
        for objects in &preset.objects {
            objects
                .check()
                .with_context(|| format!("objects {:?}", objects.name))?;
        }
        Ok(preset)
    }

    /// Replaces the locations of the order. With them, verification stores the headers that contain
    /// the entity and the version. `own` says whether the source itself names a location, so that
    /// each event should have a value there.
    pub(crate) fn set_order(&mut self, order: Option<OrderAt>, own: bool) {
        self.order = order;
        if own {
            let optional = &mut self.event.optional;
            optional.retain(|used_for| *used_for != PathUse::Order);
        }
    }

    /// Makes the id and the type of a generic preset optional, unless the source sets their locations.
    /// The default locations are only a convention.
    fn relax_defaults(&mut self, given: &BTreeMap<String, String>) {
        let defaults = [("id", PathUse::Id), ("type", PathUse::Type)].into_iter();
        let defaults = defaults.filter(|(name, _)| {
            self.generic && self.params.contains_key(*name) && !given.contains_key(*name)
        });
        let optional: Vec<PathUse> = defaults.map(|(_, used_for)| used_for).collect();
        self.event.optional.extend(optional);
    }

    /// Checks that the signature covers the content that distinguishes the items of a batch.
    fn check_batch(&self, scheme: &Scheme) -> anyhow::Result<()> {
        let field = self.event.batch_field.as_deref();
        ensure!(
            self.event.batch.is_none()
                || !scheme.is_signature()
                || scheme.covers_body()
                || scheme.for_each.is_some()
                || field.is_some_and(|field| scheme.covers_field(field)),
            "with event.batch, the signature must cover the whole body, each item, or a \
             batch_field that only_fields lists"
        );
        Ok(())
    }

    /// The scheme of a variant. The operator selects the variant by name.
    pub fn scheme(&self, variant: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.variant == variant)
    }

    /// The list of a variant. A source selects the variant by name.
    pub fn sync(&self, variant: &str) -> Option<&Sync> {
        self.syncs.iter().find(|sync| sync.variant == variant)
    }
}

/// The locations of the event's id, type and other attributes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventAt {
    /// The locations of the provider's event id. Mitt uses the first location with a value.
    #[serde(default)]
    pub id: Locations,
    /// The parts that together identify the event, if no single value does. If `composite` is set,
    /// Mitt only displays `id`, because `id` can be the id of an entity with many events.
    #[serde(default)]
    pub composite: Vec<Location>,
    /// Values of the composite that are replaced in the key, because the provider has another name
    /// for the same value.
    #[serde(default)]
    pub key_values: BTreeMap<String, String>,
    #[serde(default, rename = "type")]
    pub kind: Locations,
    /// The id of this delivery, if the provider has separate ids for deliveries and events.
    #[serde(default)]
    pub delivery: Locations,
    /// When the event happened. Only `webhookctl` uses this, to create sample requests.
    #[serde(default)]
    pub time: Locations,
    /// The account of the event, if one source receives events of many accounts.
    #[serde(default)]
    pub account: Locations,
    /// The path of the items in a request with several events. Each item becomes a separate event.
    pub batch: Option<JsonPath>,
    /// The field of a URL-encoded body that contains the items. Without it, the items are in the
    /// body itself.
    pub batch_field: Option<String>,
    /// Values that change with each delivery of an event, such as a count of attempts. In a batch,
    /// the paths start at the item. In other requests, they start at the body. All other bytes must
    /// be the same in every delivery.
    #[serde(default)]
    pub varies: Vec<JsonPath>,
    #[serde(default)]
    pub fallback: Fallback,
    /// The values that only some of the provider's events have. Mitt does not report that an event
    /// lacks such a value.
    #[serde(default)]
    pub optional: Vec<PathUse>,
}

impl EventAt {
    /// Returns whether only some events have this value.
    pub fn is_optional(&self, used_for: PathUse) -> bool {
        self.optional.contains(&used_for)
    }

    /// Returns the hash of the bytes of an item that are the same in every delivery. `of_all`
    /// returns the hash of the whole item, for an item without varying values.
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

/// How Mitt identifies an event without an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// The hash of the body.
    #[default]
    BodyHash,
    /// The hash of the body and the time of receipt. If the same body arrives again, it is another
    /// event.
    Arrival,
}

/// The response that a provider expects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ack {
    pub ok: u16,
    /// The status of the response to a request with an invalid signature.
    pub bad_signature: u16,
    /// The response status that makes the provider stop all retries. Mitt only displays it.
    pub stop_retry_status: Option<u16>,
    pub content_type: String,
    pub body: String,
    /// The provider's timeout, in milliseconds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_preset_can_be_read() {
        let read = |id| match Preset::embedded(id, &BTreeMap::new()) {
            Ok(preset) => (preset.id != id || !preset.docs.starts_with("https://"))
                .then(|| format!("{id}: wrong id or docs")),
            Err(error) => Some(format!("{error:#}")),
        };
        let wrong: Vec<String> = Preset::ids().filter_map(read).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(Preset::ids().count(), 190);
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
            error.contains("unknown parameter \"haeder\"") && error.contains("header"),
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

        let text = include_str!("../../presets/stripe.toml");
        let typo = text.replace("message =", "mesage =");
        let error = format!("{:#}", Preset::parse(&typo, &BTreeMap::new()).unwrap_err());
        assert!(error.contains("mesage"), "{error}");
    }
}
