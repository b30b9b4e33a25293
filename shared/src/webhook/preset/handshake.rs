//! Handshakes, with which a provider checks the URL, and the replies to them.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::pattern::Pattern;
use super::{Kind, Location, Part, Scheme, Template};
use crate::base::json_path::JsonPath;
use crate::webhook::envelope::Envelope;
use crate::webhook::secret::Secret;

/// A `[[handshake]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handshake {
    when: When,
    /// Whether Mitt replies only to a request with a valid signature. Without this check, the reply
    /// could repeat text of any sender.
    #[serde(default)]
    pub require_signature: bool,
    /// Whether Mitt replies only while the source has no secret.
    #[serde(default)]
    pub arming_only: bool,
    /// Whether a request that meets the conditions is a handshake even if it has a signature. The
    /// provider may sign such a request with a key that does not belong to the account. Without
    /// this setting, Mitt verifies a request with a signature as an event.
    #[serde(default)]
    pub ignores_signature: bool,
    /// The pattern that text of the request must match. A reply repeats or signs only such text.
    pub charset: Option<Pattern>,
    /// The location of the secret for later requests.
    pub store_secret_from: Option<Location>,
    pub(crate) reply: ReplyAt,
}

/// The conditions of a handshake. A request must meet all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    method: String,
    #[serde(default)]
    header: Conditions,
    #[serde(default)]
    query: Conditions,
    #[serde(default)]
    json: Conditions,
    /// The media type of the body, without parameters.
    content_type: Option<String>,
    /// The whole body.
    body: Option<Pattern>,
}

/// A list of names that must be present, or a table of names with their required values.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Conditions {
    There(Vec<String>),
    Are(BTreeMap<String, Condition>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Condition {
    There(bool),
    Is(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyAt {
    #[serde(default = "ok")]
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Option<Template>,
    pub(crate) json: Option<Json>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Template>,
}

/// A JSON reply whose strings are templates.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Json {
    Text(Template),
    Flag(bool),
    Number(i64),
    List(Vec<Json>),
    Table(BTreeMap<String, Json>),
}

/// The reply to a handshake.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    pub body: String,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// A secret that the sender sets with this request. The caller must store it before it sends
    /// the reply.
    pub secret: Option<Secret>,
}

impl Reply {
    /// A reply without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            content_type: "text/plain".to_owned(),
            body: String::new(),
            headers: BTreeMap::new(),
            secret: None,
        }
    }
}

impl Handshake {
    pub(super) fn check(&self, schemes: &[Scheme]) -> anyhow::Result<()> {
        ensure!(
            (200..500).contains(&self.reply.status),
            "the status of a reply must be between 200 and 499"
        );
        ensure!(
            self.reply.body.is_none() || self.reply.json.is_none(),
            "a reply has both body and json; remove one of them"
        );
        ensure!(
            self.store_secret_from.is_none() || self.arming_only,
            "store_secret_from needs arming_only = true"
        );
        ensure!(
            !(self.ignores_signature && self.require_signature),
            "ignores_signature and require_signature cannot be combined"
        );
        let all = [&self.when.header, &self.when.query];
        ensure!(
            all.iter()
                .all(|conditions| conditions.each().all(|(name, _)| !name.is_empty())),
            "a condition has an empty name"
        );
        ensure!(
            self.when
                .json
                .each()
                .all(|(path, _)| JsonPath::parse(path).is_some()),
            "a condition has an invalid path"
        );
        let whole = self.when.body.is_some() || !self.when.json.is_empty();
        ensure!(
            self.require_signature || self.arming_only || self.when.method != "POST" || whole,
            "an unsigned POST handshake needs when.body or when.json; without them, the handshake \
             could match an event"
        );
        if self.signs() {
            for scheme in schemes {
                self.check_signing(scheme)
                    .with_context(|| format!("variant {:?}", scheme.variant))?;
            }
        }
        Ok(())
    }

    /// Checks that a sender cannot use the reply as the signature of an event. A reply signs only
    /// text that matches the charset. A message of the scheme must never match the charset.
    fn check_signing(&self, scheme: &Scheme) -> anyhow::Result<()> {
        let charset = self.charset.as_ref();
        let charset = charset.context("a reply that signs text of the request needs a charset")?;
        let alone = |part: &Part| match part {
            Part::HmacHex(parts) | Part::HmacBase64(parts) => {
                !matches!(parts.as_slice(), [Part::At(_)])
            }
            _ => false,
        };
        let templates = self.reply.templates();
        ensure!(
            !templates.into_iter().any(|template| template.any(&alone)),
            "a signature in a reply must cover exactly one value of the request"
        );
        let allowed = charset.reach().bytes;
        let apart = |part: &Part| matches!(part, Part::Literal(text) if allowed.lack_one_of(text));
        let rejected = scheme.reject_message_regex.as_ref();
        ensure!(
            scheme.kind != Kind::Hmac
                || scheme.message.0.iter().any(apart)
                || rejected.is_some_and(|rejected| rejected.as_str() == charset.as_str()),
            "the reply could be used as the signature of an event: set the scheme's \
             reject_message_regex to the charset of the handshake, or add a literal with a \
             character outside the charset to the message"
        );
        Ok(())
    }

    pub fn matches(&self, envelope: &Envelope) -> bool {
        envelope.method == self.when.method
            && self.when.header.hold(|name| {
                let value = envelope.headers.all(name).next();
                value.map(str::to_owned)
            })
            && self.when.query.hold(|name| envelope.query(name))
            && self.when.content_type.as_ref().is_none_or(|expected| {
                let value = envelope.headers.all("content-type").next();
                let media_type = value.and_then(|value| value.split(';').next());
                media_type.is_some_and(|sent| sent.trim().eq_ignore_ascii_case(expected))
            })
            && self.when.body.as_ref().is_none_or(|pattern| {
                let text = std::str::from_utf8(&envelope.body);
                text.is_ok_and(|text| pattern.is_match(text))
            })
            && (self.when.json.is_empty() || self.when.json.hold(|path| json(envelope, path)))
    }

    /// Returns whether Mitt can reply without a signature check and without the secrets.
    pub(crate) fn is_open(&self) -> bool {
        !(self.require_signature || self.arming_only || self.signs())
    }

    /// Returns whether the reply signs text of the request. Such a reply needs the secret.
    pub fn signs(&self) -> bool {
        let signs = |part: &Part| matches!(part, Part::HmacHex(_) | Part::HmacBase64(_));
        self.reply
            .templates()
            .into_iter()
            .any(|template| template.any(&signs))
    }
}

/// Formats a short description, such as `POST with header x-hook-secret → 200`.
impl fmt::Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let When {
            method,
            header,
            query,
            json,
            content_type,
            body,
        } = &self.when;
        f.write_str(method)?;
        let places = [("header", header), ("query", query), ("body", json)];
        let mut before = " with";
        for (place, conditions) in places {
            for (name, condition) in conditions.each() {
                match condition {
                    Condition::There(true) => write!(f, "{before} {place} {name}")?,
                    Condition::There(false) => write!(f, "{before} no {place} {name}")?,
                    Condition::Is(value) if value.is_empty() => {
                        write!(f, "{before} {place} {name} as configured")?;
                    }
                    Condition::Is(value) => write!(f, "{before} {place} {name} = {value}")?,
                }
                before = " and";
            }
        }
        if let Some(content_type) = content_type {
            write!(f, "{before} content type {content_type}")?;
            before = " and";
        }
        if let Some(body) = body {
            write!(f, "{before} body {}", body.as_str())?;
        }
        write!(f, " → {}", self.reply.status)
    }
}

/// Returns a scalar as text. Returns an empty text for an array or an object. Such a value is
/// present, but does not equal any expected value.
fn json(envelope: &Envelope, path: &str) -> Option<String> {
    let path = JsonPath::parse(path)?;
    let raw = path.raw(&envelope.body).ok().flatten()?;
    match crate::base::json_path::scalar(raw) {
        Ok(text) => text,
        Err(_) => Some(String::new()),
    }
}

impl Conditions {
    fn each(&self) -> Box<dyn Iterator<Item = (&str, &Condition)> + '_> {
        const THERE: Condition = Condition::There(true);
        match self {
            Self::There(names) => Box::new(names.iter().map(|name| (name.as_str(), &THERE))),
            Self::Are(conditions) => Box::new(conditions.iter().map(|(n, c)| (n.as_str(), c))),
        }
    }

    fn is_empty(&self) -> bool {
        self.each().next().is_none()
    }

    /// Returns whether the request meets all conditions. An empty expected value means that the
    /// operator has not configured the value. It matches no request.
    fn hold(&self, find: impl Fn(&str) -> Option<String>) -> bool {
        self.each().all(|(name, condition)| match condition {
            Condition::There(there) => find(name).is_some() == *there,
            Condition::Is(expected) => {
                !expected.is_empty() && find(name).is_some_and(|value| value == *expected)
            }
        })
    }
}

impl Default for Conditions {
    fn default() -> Self {
        Self::There(Vec::new())
    }
}

impl ReplyAt {
    fn templates(&self) -> Vec<&Template> {
        let mut found: Vec<&Template> = self.body.iter().chain(self.headers.values()).collect();
        if let Some(json) = &self.json {
            json.collect(&mut found);
        }
        found
    }
}

impl Json {
    fn collect<'t>(&'t self, found: &mut Vec<&'t Template>) {
        match self {
            Self::Text(template) => found.push(template),
            Self::Flag(_) | Self::Number(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Table(items) => items.values().for_each(|item| item.collect(found)),
        }
    }
}

fn ok() -> u16 {
    200
}
