//! The rule for the parts of a request that are stored.
//!
//! Headers of the transport, of the front door and with credentials are left out; everything else
//! is kept, because a list of wanted names for each provider would soon be outdated. A value that
//! does not fit is left out whole: a part of a value is a wrong value.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{KeptRequest, RequestContext};
use crate::webhook::envelope::{Envelope, Headers, form_decode, is_credential};

/// The most headers that are kept.
const MOST_HEADERS: usize = 48;

/// The longest value of a header, in bytes.
const LONGEST_VALUE: usize = 1024;

/// The longest name of a header, in bytes.
const LONGEST_NAME: usize = 64;

/// The longest path, and the longest query, in bytes.
const LONGEST_PATH: usize = 1024;
const LONGEST_QUERY: usize = 2048;

/// The size of everything that is kept, in bytes.
const MOST_BYTES: usize = 4096;

/// Headers of a connection, by name. They describe the transport and not the webhook.
const TRANSPORT: [&str; 14] = [
    "accept",
    "cache-control",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "pragma",
    "priority",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const TRANSPORT_PREFIXES: [&str; 4] = ["accept-", "if-", "proxy-", "sec-"];

/// Headers that a proxy, a CDN or a load balancer adds.
const FRONT_DOOR: [&str; 6] = [
    "cdn-loop",
    "forwarded",
    "true-client-ip",
    "via",
    "x-real-ip",
    "x-request-start",
];

const FRONT_DOOR_PREFIXES: [&str; 5] = ["cf-", "cloudfront-", "x-amz-", "x-amzn-", "x-forwarded-"];

/// Characters that a path or a query of a stored request does not contain. Each would end the line.
const UNSTORED: &AsciiSet = &CONTROLS.add(b' ');

/// `[source.context]`: what a source keeps of its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextPolicy {
    pub keep: Keep,
    /// Names that the rule would leave out.
    pub also: Vec<String>,
    pub never: Vec<NamePattern>,
    pub without_query: bool,
}

impl ContextPolicy {
    /// Whether a header of this name can be stored.
    pub fn can_keep(&self, name: &str) -> bool {
        let also = self.also.iter().any(|also| also == name);
        let never = self.never.iter().any(|never| never.matches(name));
        self.keep != Keep::None && !never && !is_transport(name) && (also || !is_secret(name))
    }

    /// Whether a query parameter of this name can be stored.
    pub fn can_keep_parameter(&self, name: &str) -> bool {
        self.keep != Keep::None && !self.without_query && !is_secret_parameter(name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// All headers that the provider sent, by the rule of this module.
    #[default]
    Provider,
    /// The headers that the preset names.
    Named,
    /// Nothing: the request is not stored.
    None,
}

/// The name of a header. A trailing `*` matches any suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NamePattern {
    /// `None` if the text is not a name in lower case, with an optional `*` at the end.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let fits = text == "*" || is_name(name);
        fits.then(|| Self(text.to_owned()))
    }

    fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(head) => name.starts_with(head),
            None => name == self.0,
        }
    }
}

/// The choice of a source for one request.
pub struct Selection<'s> {
    pub policy: &'s ContextPolicy,
    /// Whether the preset or the source names the header. Such headers are kept first.
    pub is_named: &'s dyn Fn(&str) -> bool,
    /// The headers in which the scheme reads a secret.
    pub secret_headers: &'s [&'s str],
    /// The query parameters in which the scheme reads a secret.
    pub secret_parameters: &'s [&'s str],
}

impl Selection<'_> {
    /// What is stored of the request; `None` if the source stores no requests.
    pub fn of(&self, envelope: &Envelope) -> Option<KeptRequest> {
        if self.policy.keep == Keep::None {
            return None;
        }
        let target = envelope.path();
        let (path, query) = target
            .split_once('?')
            .map_or((target, None), |(path, query)| (path, Some(query)));
        let mut room = Room::default();
        let path = room.text(storable(path), LONGEST_PATH).unwrap_or_default();
        let mut headers = self.headers(&envelope.headers, true, &mut room);
        let query = query.filter(|_| !self.policy.without_query);
        let query = query.and_then(|query| self.query(query));
        let query = query.and_then(|query| room.text(storable(&query), LONGEST_QUERY));
        headers.extend(self.headers(&envelope.headers, false, &mut room));
        // The order in which they are read back.
        headers.sort_by_key(|(name, _)| *name);
        let is_method = |method: &str| {
            method.len() <= LONGEST_NAME && method.bytes().all(|b| b.is_ascii_uppercase())
        };
        Some(KeptRequest {
            context: RequestContext {
                method: Some(envelope.method.clone())
                    .filter(|method| is_method(method))
                    .unwrap_or_default(),
                path,
                query,
                headers: headers.into_iter().collect(),
            },
            dropped: room.dropped,
        })
    }

    /// The headers that are named, or the others, as far as there is room for them.
    fn headers<'h>(
        &self,
        headers: &'h Headers,
        named: bool,
        room: &mut Room,
    ) -> Vec<(&'h str, &'h str)> {
        let mut kept = Vec::new();
        for (name, value) in headers.iter() {
            let also = self.policy.also.iter().any(|also| also == name);
            let is_named = also || name == "content-type" || (self.is_named)(name);
            if is_named != named || !self.wants(name, also, is_named) {
                continue;
            }
            let value = value.trim();
            let fits = is_name(name)
                && value.len() <= LONGEST_VALUE
                && !value.chars().any(char::is_control);
            if fits && room.header(name.len() + value.len()) {
                kept.push((name, value));
            } else {
                room.dropped += 1;
            }
        }
        kept
    }

    fn wants(&self, name: &str, also: bool, is_named: bool) -> bool {
        let hidden = self.secret_headers.contains(&name)
            || self.policy.never.iter().any(|never| never.matches(name))
            || is_transport(name);
        !hidden
            && (is_named || self.policy.keep == Keep::Provider)
            && (is_named || !is_front_door(name))
            && (also || !is_secret(name))
    }

    /// The query without its credentials, otherwise as received. `None` if nothing is left.
    fn query(&self, query: &str) -> Option<String> {
        let is_open = |pair: &&str| {
            let name = form_decode(pair.split('=').next().unwrap_or_default());
            let hidden = self.secret_parameters.contains(&name.as_str());
            !hidden && !is_secret_parameter(&name)
        };
        let open: Vec<&str> = query.split('&').filter(is_open).collect();
        Some(open.join("&")).filter(|query| !query.is_empty())
    }
}

/// The space that is left, and what did not fit.
struct Room {
    bytes: usize,
    headers: usize,
    dropped: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes: MOST_BYTES,
            headers: MOST_HEADERS,
            dropped: 0,
        }
    }
}

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes;
        if fits {
            self.bytes -= bytes;
        }
        fits
    }

    fn header(&mut self, bytes: usize) -> bool {
        let fits = self.headers > 0 && self.take(bytes);
        self.headers -= usize::from(fits);
        fits
    }

    fn text(&mut self, text: Cow<'_, str>, longest: usize) -> Option<String> {
        if text.len() <= longest && self.take(text.len()) {
            return Some(text.into_owned());
        }
        self.dropped += 1;
        None
    }
}

/// Whether the header belongs to a connection, so that it says nothing about the webhook.
pub fn is_transport(name: &str) -> bool {
    TRANSPORT.contains(&name) || begins_with(name, &TRANSPORT_PREFIXES)
}

fn is_front_door(name: &str) -> bool {
    FRONT_DOOR.contains(&name) || begins_with(name, &FRONT_DOOR_PREFIXES)
}

/// Whether a header or a query parameter of this name contains a credential.
fn is_secret(name: &str) -> bool {
    is_credential(name) || name.to_ascii_lowercase().contains("session")
}

fn is_secret_parameter(name: &str) -> bool {
    is_secret(&name.replace('_', "-"))
}

fn begins_with(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the text is the name of a header, in lower case.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(plain)
}

fn storable(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, UNSTORED).into()
}

#[cfg(test)]
mod tests;
