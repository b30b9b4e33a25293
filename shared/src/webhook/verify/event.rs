//! Creates an event from a verified request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use super::prove::Proof;
use super::{Verifier, code, missing};
use crate::base::json_path::Alone;
use crate::webhook::context::Account;
use crate::webhook::envelope::{Envelope, Headers, form_fields};
use crate::webhook::event::{
    DeliveredBy, Event, EventKey, Item, LONGEST_NAME, LONGEST_STORED_HEADER, Part, Sha, Via, cut,
};
use crate::webhook::missing::MissingPath;
use crate::webhook::preset::{
    self, Code, EventAt, Fallback, Kind, Location, OrderAt, Place, Scheme,
};

/// The limits for splitting a batch: the number of items, and the total size of their bodies in
/// bytes. Each body includes the document around the item. Mitt stores a batch that exceeds a limit
/// as one event.
const MOST_ITEMS: usize = 256;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Returns the type of the first item. A batch has this type.
fn first_kind(items: &[Item]) -> String {
    let first = items.first().map(|item| item.kind.clone());
    first.unwrap_or_default()
}

impl Verifier {
    pub(super) fn event(&self, scheme: &Scheme, envelope: &Envelope, proof: &Proof) -> Event {
        let at = &self.preset.event;
        let whole = Place {
            claims: proof.claims.as_ref(),
            ..Place::from(envelope)
        };
        let document = batch(at, &envelope.body);
        let alone = items(at, &document);
        let sha = Sha::of(&envelope.body);
        let things = if alone.is_empty() {
            let content = at.content(&envelope.body, || sha);
            vec![self.thing(scheme, whole, content, all_of(&proof.marks))]
        } else {
            self.things_of_items(scheme, whole, &alone, proof)
        };
        let (key, content, once) = match things.as_slice() {
            [thing] => (thing.key.clone(), thing.content, thing.once),
            // This key identifies the request. No row has this key.
            _ => (self.key(&format!("sha256:{}", sha.hex())), sha, None),
        };
        let parts = if things.len() > 1 {
            let bodies = alone.iter().map(|alone| alone.document(&document));
            parts(&things, bodies.map(|body| rewritten(at, body)), proof)
        } else {
            Vec::new()
        };
        let items: Vec<Item> = things.iter().map(|thing| self.item(thing.place)).collect();
        let content_type = envelope.headers.one("content-type").ok().flatten();
        let delivery = at.delivery.first(whole);
        let headers = self.kept_headers(scheme, &envelope.headers);
        let request = self.kept_request(scheme, envelope, &headers);
        Event {
            key,
            provider: if self.preset.generic {
                self.source.clone()
            } else {
                self.preset.id.clone()
            },
            preset: self.preset.id.clone(),
            kind: first_kind(&items),
            missing: self.missing(&things, &items),
            items,
            parts,
            of: None,
            delivery: delivery.map(|id| cut(&id, LONGEST_NAME).to_owned()),
            content_type: content_type.map(|value| cut(value, LONGEST_NAME).to_owned()),
            headers,
            account: things.first().and_then(|thing| thing.account.clone()),
            request: request.map(Arc::new),
            body: envelope.body.clone(),
            sha,
            content,
            received_at: envelope.received_at,
            via: Via::Webhook,
            proven: scheme.proves,
            secret: proof.secret.clone(),
            once,
            config: self.config.clone(),
            signed_at: proof.signed_at,
            drained_at: None,
            delivered_by: DeliveredBy::Mitt,
        }
    }

    /// Returns the locations of the id and the type that should have a value.
    fn missing(&self, things: &[Thing<'_>], items: &[Item]) -> Vec<MissingPath> {
        let named = things.iter().zip(items);
        let named = named.map(|(thing, item)| (thing.place, thing.by_content, item));
        missing::missing(&self.preset.event, named)
    }

    /// Returns one event for each item of a batch.
    fn things_of_items<'p>(
        &self,
        scheme: &Scheme,
        whole: Place<'p>,
        items: &[Alone<'p>],
        proof: &Proof,
    ) -> Vec<Thing<'p>> {
        let things = items.iter().enumerate().map(|(index, alone)| {
            let item = Some(alone.value);
            let raw = alone.value.get().as_bytes();
            let content = self.preset.event.content(raw, || Sha::of(raw));
            let mark = proof.marks.get(index).copied();
            self.thing(scheme, Place { item, ..whole }, content, mark)
        });
        things.collect()
    }

    fn item(&self, place: Place<'_>) -> Item {
        let at = &self.preset.event;
        Item {
            id: self.id(place).map(|(_, id)| id),
            kind: cut(&at.kind.first(place).unwrap_or_default(), LONGEST_NAME).to_owned(),
        }
    }

    /// Returns the provider's id and its location. An id of the whole request does not identify an
    /// item.
    fn id(&self, place: Place<'_>) -> Option<(&Location, String)> {
        let of_item = |at: &&Location| matches!(at, Location::Item(_) | Location::ItemSha256);
        let locations = self.preset.event.id.0.iter();
        let mut locations = locations.filter(|at| place.item.is_none() || of_item(at));
        locations.find_map(|at| {
            let value = at.find(place).ok().flatten();
            Some((at, value.filter(|value| !value.is_empty())?))
        })
    }

    fn key(&self, id: &str) -> EventKey {
        EventKey::new(&self.source, id)
    }

    /// Determines the key of an event, and whether the signature covers the key.
    ///
    /// A composite has priority over an id, because the id can be the id of an entity. If a part of
    /// the composite is missing, or if there is no id, the fallback of the preset becomes the id.
    /// The fallback contains a hash of the content, because with a constant id, all events would
    /// become one event.
    ///
    /// If a part of the key is unsigned, Mitt accepts a signature only once. The mark of the signed
    /// message identifies the signature. If the signature covers the whole body, the hash of the
    /// content identifies it.
    fn thing<'p>(
        &self,
        scheme: &Scheme,
        place: Place<'p>,
        content: Sha,
        mark: Option<Sha>,
    ) -> Thing<'p> {
        let at = &self.preset.event;
        let named = |key: EventKey, unsigned: bool| Thing {
            place,
            key,
            content,
            by_content: false,
            account: self.account(scheme, place),
            once: mark
                .or(scheme.covers_body().then_some(content))
                .filter(|_| unsigned && scheme.is_signature()),
        };
        let parts = at.composite.iter().map(|location| {
            let value = location.find(place).ok().flatten();
            let value = value.filter(|value| !value.is_empty())?;
            Some(at.key_values.get(&value).cloned().unwrap_or(value))
        });
        match parts.collect::<Option<Vec<String>>>() {
            Some(parts) if !parts.is_empty() => {
                let unsigned = at.composite.iter().any(|at| !self.covers(scheme, at));
                return named(self.key(&parts.join("/")), unsigned);
            }
            Some(_) => {
                if let Some((location, id)) = self.id(place) {
                    return named(self.key(&id), !self.covers(scheme, location));
                }
            }
            None => {}
        }
        let hash = content.hex();
        let id = match at.fallback {
            Fallback::Arrival => {
                format!("at:{}:{}", place.envelope.received_at.0, &hash[..16])
            }
            Fallback::BodyHash => format!("sha256:{hash}"),
        };
        let field = at.batch_field.as_deref();
        let signed_item =
            place.item.is_some() && field.is_some_and(|field| scheme.covers_field(field));
        // An attacker can remove an unsigned id from a captured request.
        let mut names = at.composite.iter().chain(&at.id.0);
        let removable = names.any(|at| !self.covers(scheme, at));
        let unsigned = removable || !(scheme.covers_body() || signed_item);
        Thing {
            by_content: true,
            ..named(self.key(&id), unsigned)
        }
    }

    /// Returns the headers to store: the headers that the preset names, and the user agent of the
    /// sender. With these headers, Mitt can verify a request again. Never returns a header that
    /// contains a secret.
    fn kept_headers(&self, scheme: &Scheme, headers: &Headers) -> BTreeMap<String, String> {
        let at = &self.preset.event;
        let in_message = scheme.message.0.iter().filter_map(|part| match part {
            preset::Part::At(location) => Some(location),
            _ => None,
        });
        let signature = std::iter::once(&scheme.sig.from).chain(&scheme.sig.also);
        let named = signature
            .filter(|_| scheme.is_signature())
            .chain(scheme.ts.as_ref().map(|ts| &ts.from))
            .chain(in_message)
            .chain(scheme.key_set.iter().filter_map(|set| set.kid.as_ref()))
            .chain(scheme.require_value.iter().map(|required| &required.from))
            .chain(&at.id.0)
            .chain(&at.composite)
            .chain(&at.kind.0)
            .chain(&at.delivery.0)
            .chain(self.preset.order.iter().flat_map(OrderAt::locations));
        let mut names: Vec<String> = Vec::new();
        for location in named {
            match location {
                Location::Header(all) => names.extend_from_slice(all),
                Location::HeaderNumbered(prefix) => {
                    names.extend((1..=scheme.sig.max).map(|number| format!("{prefix}{number}")));
                }
                _ => {}
            }
        }
        names.extend(scheme.require_header.keys().cloned());
        if scheme.kind == Kind::Code(Code::Adobe) {
            names.extend(code::adobe::KEY_PATHS.map(str::to_owned));
        }
        let mut kept = BTreeMap::new();
        for name in names {
            let values: Vec<&str> = headers.all(&name).collect();
            if !values.is_empty() {
                let value = cut(&values.join(","), LONGEST_STORED_HEADER).to_owned();
                kept.insert(name, value);
            }
        }
        if let Ok(Some(agent)) = headers.one("user-agent") {
            kept.insert("user-agent".to_owned(), cut(agent, 64).to_owned());
        }
        kept
    }
}

impl Verifier {
    /// Returns whether the signature covers the value at this location.
    pub(super) fn covers(&self, scheme: &Scheme, location: &Location) -> bool {
        if let Location::First(parts) = location {
            return parts.iter().all(|part| self.covers(scheme, part));
        }
        let named = |part: &preset::Part| match (part, location) {
            (preset::Part::Url, Location::Query(_)) => true,
            (preset::Part::At(named) | preset::Part::Lower(named), location) => named == location,
            _ => false,
        };
        let covered = match location {
            Location::Json(_)
            | Location::Body
            | Location::BodySha256
            | Location::MultipartJson(..) => scheme.covers_body(),
            Location::Form(field) | Location::FormXml(field, _) | Location::FormJson(field, _) => {
                scheme.covers_body() || scheme.covers_field(field)
            }
            Location::Item(_) | Location::ItemSha256 => {
                let field = self.preset.event.batch_field.as_deref();
                scheme.covers_body() || field.is_some_and(|field| scheme.covers_field(field))
            }
            Location::Header(names) => names
                .iter()
                .all(|name| scheme.require_signed.contains(name)),
            Location::Jwt(_) | Location::JwtJson(..) | Location::Const(_) => true,
            Location::HeaderNumbered(_)
            | Location::Sig(_)
            | Location::Query(_)
            | Location::First(_) => false,
        };
        covered || scheme.message.any(&named)
    }
}

/// Combines the marks of several signatures into one mark.
fn all_of(marks: &[Sha]) -> Option<Sha> {
    match marks {
        [] => None,
        [mark] => Some(*mark),
        marks => Some(Sha::of(
            &marks.iter().flat_map(|mark| mark.0).collect::<Vec<u8>>(),
        )),
    }
}

/// One event of a request.
struct Thing<'p> {
    place: Place<'p>,
    key: EventKey,
    content: Sha,
    /// Whether the key is made of the content, because the id is missing.
    by_content: bool,
    account: Option<Account>,
    once: Option<Sha>,
}

/// The parts of a batch, each with its own body.
fn parts(things: &[Thing<'_>], bodies: impl Iterator<Item = Bytes>, proof: &Proof) -> Vec<Part> {
    let parts = things.iter().zip(bodies).enumerate();
    let parts = parts.map(|(index, (thing, body))| Part {
        key: thing.key.clone(),
        content: thing.content,
        account: thing.account.clone(),
        secret: proof.items.get(index).or(proof.secret.as_ref()).cloned(),
        once: thing.once,
        body,
    });
    parts.collect()
}

/// The document that contains the items: the body, or a field of it.
fn batch<'b>(at: &EventAt, body: &'b [u8]) -> Cow<'b, [u8]> {
    let Some(name) = &at.batch_field else {
        return Cow::Borrowed(body);
    };
    let mut fields = form_fields(body).into_iter();
    let field = fields.find(|(key, _)| key == name.as_bytes());
    Cow::Owned(field.map(|(_, value)| value).unwrap_or_default())
}

/// The body that contains this document.
fn rewritten(at: &EventAt, document: Vec<u8>) -> Bytes {
    match &at.batch_field {
        Some(name) => format!("{name}={}", percent_encode(&document, NON_ALPHANUMERIC)).into(),
        None => document.into(),
    }
}

/// The items of a batch. Empty if the request is not a batch, or is stored as one event.
fn items<'b>(at: &EventAt, document: &'b [u8]) -> Vec<Alone<'b>> {
    let path = at.batch.as_ref();
    let items = path.map(|path| path.each_alone(document, MOST_ITEMS));
    let Some(Ok(Some(items))) = items else {
        return Vec::new();
    };
    let fits = items.iter().map(Alone::len).sum::<usize>() <= MOST_BYTES;
    if fits { items } else { Vec::new() }
}
