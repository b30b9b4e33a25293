//! Makes an event of a request that was proven.

use std::collections::BTreeMap;

use super::Verifier;
use super::prove::Proof;
use crate::envelope::{Envelope, Headers};
use crate::event::{Event, EventKey, Item, Proven, Sha, Via};
use crate::preset::{Fallback, Kind, Location, Part, Place, Scheme};

/// The longest value of a header that is kept with an event.
const LONGEST_HEADER: usize = 512;

/// The longest name of a type, and of a delivery.
const LONGEST_NAME: usize = 128;

/// The most items of a batch that are named.
const MOST_ITEMS: usize = 1000;

impl Verifier {
    pub(super) fn event(&self, scheme: &Scheme, envelope: &Envelope, proof: &Proof) -> Event {
        let at = &self.preset.event;
        let whole = Place {
            claims: proof.claims.as_ref(),
            ..Place::from(envelope)
        };
        let raw = at
            .batch
            .as_ref()
            .and_then(|path| path.all(&envelope.body).ok());
        let raw = raw.unwrap_or_default();
        let mut places: Vec<Place<'_>> = raw
            .into_iter()
            .take(MOST_ITEMS)
            .map(|item| Place { item, ..whole })
            .collect();
        if places.is_empty() {
            places.push(whole);
        }
        let named = |place: &Place<'_>| Item {
            id: at.id.first(*place),
            kind: cut(&at.kind.first(*place).unwrap_or_default(), LONGEST_NAME).to_owned(),
        };
        let items: Vec<Item> = places.iter().map(named).collect();

        let sha = Sha::of(&envelope.body);
        let (id, once_per_body) = self.event_id(scheme, &places, &sha);
        let content_type = envelope.headers.one("content-type").ok().flatten();
        let delivery = at.delivery.first(whole);
        Event {
            key: EventKey::new(&self.source, &id),
            provider: if self.preset.generic {
                self.source.clone()
            } else {
                self.preset.id.clone()
            },
            preset: self.preset.id.clone(),
            kind: items
                .first()
                .map(|item| item.kind.clone())
                .unwrap_or_default(),
            items,
            delivery: delivery.map(|id| cut(&id, LONGEST_NAME).to_owned()),
            content_type: content_type.map(|value| cut(value, LONGEST_NAME).to_owned()),
            headers: self.kept_headers(scheme, &envelope.headers),
            body: envelope.body.clone(),
            sha,
            received_at: envelope.received_at,
            via: Via::Webhook,
            proven: scheme.proves,
            secret: proof.secret.clone(),
            once_per_body,
            config: self.config.clone(),
        }
    }

    /// What names the event, and whether that stands outside the signature.
    ///
    /// A composite goes before an id, which may then be that of an entity. Where there is
    /// neither, or many items have one each, the hash of the body names the event: a constant
    /// would collapse all events into one.
    fn event_id(&self, scheme: &Scheme, places: &[Place<'_>], sha: &Sha) -> (String, bool) {
        let at = &self.preset.event;
        if let [place] = places {
            let parts = at.composite.iter().map(|location| {
                let value = location.find(*place).ok().flatten();
                value.filter(|value| !value.is_empty())
            });
            match parts.collect::<Option<Vec<String>>>() {
                Some(parts) if !parts.is_empty() => {
                    let unsigned = at.composite.iter().any(|at| !covers(scheme, at));
                    return (parts.join("/"), unsigned && scheme.is_signature());
                }
                Some(_) => {
                    if let Some((location, id)) = at.id.named(*place) {
                        return (id, !covers(scheme, location) && scheme.is_signature());
                    }
                }
                None => {}
            }
        }
        let hash = sha.hex();
        match (at.fallback, places) {
            (Fallback::Arrival, [place, ..]) => {
                let at = place.envelope.received_at.0;
                (format!("at:{at}:{}", &hash[..16]), false)
            }
            _ => (format!("sha256:{hash}"), false),
        }
    }

    /// What of the headers is kept: what the preset names, so that a request can be verified
    /// again, and who the sender says it is. Never what is a secret itself.
    fn kept_headers(&self, scheme: &Scheme, headers: &Headers) -> BTreeMap<String, String> {
        let at = &self.preset.event;
        let in_message = scheme.message.0.iter().filter_map(|part| match part {
            Part::At(location) => Some(location),
            _ => None,
        });
        let signature = std::iter::once(&scheme.sig.from).chain(&scheme.sig.also);
        let named = signature
            .filter(|_| scheme.is_signature())
            .chain(scheme.ts.as_ref().map(|ts| &ts.from))
            .chain(in_message)
            .chain(&at.id.0)
            .chain(&at.composite)
            .chain(&at.kind.0)
            .chain(&at.delivery.0);
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
        let mut kept = BTreeMap::new();
        for name in names {
            let values: Vec<&str> = headers.all(&name).collect();
            if !values.is_empty() {
                let value = cut(&values.join(","), LONGEST_HEADER).to_owned();
                kept.insert(name, value);
            }
        }
        if let Ok(Some(agent)) = headers.one("user-agent") {
            kept.insert("user-agent".to_owned(), cut(agent, 64).to_owned());
        }
        kept
    }
}

impl Scheme {
    /// Whether the sender proves itself by a signature, and not by showing a secret or a token
    /// that would prove any other request as well.
    fn is_signature(&self) -> bool {
        let shown = matches!(
            self.kind,
            Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None
        );
        !shown && (self.kind != Kind::Jwt || self.proves == Proven::Body)
    }
}

/// Whether the signature covers what stands at this location.
fn covers(scheme: &Scheme, location: &Location) -> bool {
    let in_body = matches!(
        location,
        Location::Json(_) | Location::Item(_) | Location::Form(_) | Location::BodySha256
    );
    let named = |part: &Part| match (part, location) {
        (Part::Url, Location::Query(_)) => true,
        (Part::At(named) | Part::Lower(named), location) => named == location,
        _ => false,
    };
    let signed_header = match location {
        Location::Header(names) => names
            .iter()
            .all(|name| scheme.require_signed.contains(name)),
        _ => false,
    };
    matches!(location, Location::Jwt(_) | Location::Const(_))
        || in_body && scheme.proves == Proven::Body
        || signed_header
        || scheme.message.any(&named)
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
