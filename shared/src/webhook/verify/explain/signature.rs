//! The steps for schemes with a signed message.

use std::borrow::Cow;

use super::message::read;
use super::{Compared, Message, Steps, Time, Tried};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Kind, Location, Place, Scheme};
use crate::webhook::secret::Secret;
use crate::webhook::verify::candidates::{Group, candidates};
use crate::webhook::verify::decode::encode;
use crate::webhook::verify::key::key;
use crate::webhook::verify::message::{Context, message};
use crate::webhook::verify::prove::{Key, holds, judge, keys, one, refuse};
use crate::webhook::verify::{Reason, Rejected, joined, mac, unreadable, url, window};

pub(super) fn steps(scheme: &Scheme, envelope: &Envelope, secrets: &[Secret]) -> Steps {
    let place = Place::from(envelope);
    let Some(path) = &scheme.for_each else {
        return at(scheme, place, secrets);
    };
    let nothing = |reason| Steps {
        place: Some(scheme.sig.from.clone()),
        found: Err(reason),
        ..Steps::nothing(secrets)
    };
    let items = match path.all(&envelope.body) {
        Ok(items) => items,
        Err(error) => return nothing(unreadable(error.into()).0),
    };
    let keys = keys(scheme, secrets);
    let in_item = |item| Place { item, ..place };
    let refused = |item: &Option<_>| {
        let place = in_item(*item);
        item.is_none()
            || joined::check(scheme, place).is_err()
            || one(scheme, place, &keys).is_err()
    };
    let index = items.iter().position(refused).unwrap_or(0);
    match items.get(index) {
        Some(Some(item)) => Steps {
            item: Some((index + 1, items.len())),
            ..at(scheme, in_item(Some(*item)), secrets)
        },
        _ => nothing(Reason::MissingField),
    }
}

fn at(scheme: &Scheme, place: Place<'_>, secrets: &[Secret]) -> Steps {
    let from = Some(scheme.sig.from.clone());
    let groups = match candidates(scheme, place) {
        Ok(groups) => groups,
        Err(Rejected(reason)) => {
            return Steps {
                place: from,
                found: Err(reason),
                time: time(scheme, place, None),
                ..Steps::nothing(secrets)
            };
        }
    };
    let keys = keys(scheme, secrets);
    let chosen = deciding(scheme, place, &groups, &keys);
    let Some(group) = groups.get(chosen) else {
        return Steps::nothing(secrets);
    };
    let before: usize = groups.iter().take(chosen).map(|g| g.signatures.len()).sum();
    let form = form(scheme, place, group, &keys);
    let beside = Beside::new(scheme, place, group, form);
    let all = groups.iter().flat_map(|group| &group.signatures);
    let first: &[u8] = keys.first().map_or(&[], |(_, key)| key);
    Steps {
        place: from,
        found: Ok(all.map(|bytes| encode(scheme.sig.enc, bytes)).collect()),
        time: time(scheme, place, Some(group)),
        message: Some(beside.message(first)),
        tried: secrets
            .iter()
            .map(|secret| Tried::new(secret, beside.compared(secret, before)))
            .collect(),
        ..Steps::nothing(&[])
    }
}

/// Returns the index of the group that decides the verdict. A valid group in the time window has
/// priority over another valid group. If no group is valid, returns the index of the first group.
fn deciding(scheme: &Scheme, place: Place<'_>, groups: &[Group], keys: &[Key<'_>]) -> usize {
    let judged: Vec<_> = groups
        .iter()
        .map(|group| judge(scheme, place, group, keys))
        .collect();
    let now = place.envelope.received_at;
    let in_time = |text: &Option<String>| match (&scheme.ts, text) {
        (Some(ts), Some(text)) => window::check(ts, text, now).is_ok(),
        _ => true,
    };
    let holds = |group: &Result<(_, Option<String>), _>| group.is_ok();
    let counts = |group: &Result<(_, Option<String>), _>| {
        group.as_ref().is_ok_and(|(_, text)| in_time(text))
    };
    let found = judged.iter().position(counts);
    found.or_else(|| judged.iter().position(holds)).unwrap_or(0)
}

/// Returns the form of the URL with which a secret proves the message. If no form matches, returns
/// the first form.
fn form(scheme: &Scheme, place: Place<'_>, group: &Group, keys: &[Key<'_>]) -> String {
    let forms = url::forms(scheme, &place.envelope.url);
    let proves = |form: &&String| {
        let beside = Beside::new(scheme, place, group, (*form).clone());
        keys.iter().any(|(_, key)| beside.holds(key))
    };
    let found = forms.iter().find(proves).or(forms.first());
    found.cloned().unwrap_or_default()
}

/// Returns the timestamp as verification reads it. Returns `None` if verification does not check
/// the timestamp and the signature does not cover it.
fn time(scheme: &Scheme, place: Place<'_>, group: Option<&Group>) -> Option<Time> {
    let ts = scheme.ts.as_ref()?;
    let beside = matches!(ts.from, Location::Sig(_));
    if beside && group.is_none() || !ts.enforce && !scheme.message.needs_timestamp() {
        return None;
    }
    let now = place.envelope.received_at;
    let text = window::text(ts, place, group).map_err(|Rejected(reason)| reason);
    let seconds = text.as_ref().ok();
    let seconds = seconds.and_then(|text| window::seconds(ts.unit, text));
    let verdict = match &text {
        Ok(text) => window::check(ts, text, now).map_err(|Rejected(reason)| reason),
        Err(reason) => Err(*reason),
    };
    Some(Time {
        text,
        seconds,
        age: seconds.map(|seconds| now.secs().saturating_sub(seconds)),
        window: (ts.past, ts.future),
        enforced: ts.enforce,
        verdict,
    })
}

/// A group of signatures with all inputs of its message, except the secret.
struct Beside<'b> {
    scheme: &'b Scheme,
    place: Place<'b>,
    group: &'b Group,
    url: String,
    ts: Option<String>,
}

impl<'b> Beside<'b> {
    fn new(scheme: &'b Scheme, place: Place<'b>, group: &'b Group, url: String) -> Self {
        let ts = scheme.ts.as_ref();
        let ts = ts.and_then(|ts| window::text(ts, place, Some(group)).ok());
        Self {
            scheme,
            place,
            group,
            url,
            ts,
        }
    }

    fn context<'c>(&'c self, secret: &'c [u8]) -> Context<'c> {
        Context {
            url: &self.url,
            ts: self.ts.as_deref(),
            secret,
            ..Context::new(self.place).beside(self.group)
        }
    }

    fn message(&self, key: &[u8]) -> Result<Message, Reason> {
        if self.scheme.message.needs_timestamp() && self.ts.is_none() {
            return Err(Reason::MissingField);
        }
        self.hashed(key)
            .and_then(|_| read(self.scheme, &self.context(key)))
            .map_err(|Rejected(reason)| reason)
    }

    /// Returns the message that verification hashes.
    fn hashed<'c>(&'c self, key: &'c [u8]) -> Result<Vec<Cow<'c, [u8]>>, Rejected> {
        let message = message(self.scheme, &self.context(key))?;
        if let Some(regex) = &self.scheme.reject_message_regex {
            refuse(regex, &message)?;
        }
        Ok(message)
    }

    /// Returns the index of the first signature that is valid for this key.
    fn holding(&self, key: &[u8]) -> Option<usize> {
        if self.scheme.message.needs_timestamp() && self.ts.is_none() {
            return None;
        }
        let message = self.hashed(key).ok()?;
        let mut each = self.group.signatures.iter();
        each.position(|one| holds(self.scheme, key, &message, std::slice::from_ref(one)))
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.holding(key).is_some()
    }

    fn compared(&self, secret: &Secret, before: usize) -> Compared {
        let Some(key) = key(self.scheme.key, secret.expose()) else {
            return Compared::Unusable;
        };
        if self.message(&key).is_err() {
            return Compared::Untried;
        }
        let given = self.given(&key);
        match self.holding(&key) {
            Some(index) => Compared::Equals(given, before + index + 1),
            None => Compared::Differs(given),
        }
    }

    /// Returns the signature that a key produces. Returns `None` for a public key.
    fn given(&self, key: &[u8]) -> Option<String> {
        let scheme = self.scheme;
        let message = self.hashed(key).ok()?;
        let bytes = match scheme.kind {
            Kind::Hmac => mac::sign(scheme.hash, key, &message),
            Kind::Hash => mac::digest(scheme.hash, &message),
            _ => return None,
        };
        Some(encode(scheme.sig.enc, &bytes))
    }
}
