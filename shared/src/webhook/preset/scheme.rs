//! One way of signing a request.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

use super::pattern::Pattern;
use super::{
    Code, Encoding, Fetch, Hash, Jwt, KeyForm, KeySource, Kind, Location, Part, Signature, Template,
};
use crate::base::json_path::JsonPath;
use crate::webhook::event::Proven;

/// A `[[verify]]` table: a variant that the operator selects by name. The request never does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    #[serde(default = "default_variant")]
    pub variant: String,
    pub kind: Kind,
    #[serde(default)]
    pub hash: Hash,
    #[serde(default)]
    pub key: KeyForm,
    #[serde(default)]
    pub message: Template,
    #[serde(default)]
    pub sig: Signature,
    pub ts: Option<Timestamp>,
    pub jwt: Option<Jwt>,
    /// The ways in which the provider may have written the URL that it signed.
    #[serde(default = "as_is")]
    pub url_forms: Vec<UrlForm>,
    /// A digest that must be that of the body.
    pub body_hash: Option<BodyHash>,
    /// Headers and the value that each must have, alone or in a list with commas.
    #[serde(default)]
    pub require_header: BTreeMap<String, String>,
    /// Headers that must be among those that the sender says it signed.
    #[serde(default)]
    pub require_signed: Vec<String>,
    /// Each of these items is signed by itself. All have to hold, and there has to be one.
    pub for_each: Option<JsonPath>,
    /// What values of the message have to look like, so that no bytes can move from one part of
    /// it to the next.
    #[serde(default)]
    pub shapes: Vec<Shape>,
    /// The fields of an urlencoded body, each of which stands in it once. There is no other.
    #[serde(default)]
    pub only_fields: Vec<String>,
    /// Which bytes can move from one part of the message to the next all the same, and what is
    /// done about it: a sentence.
    pub ambiguity: Option<String>,
    /// That the provider sends one proof with many requests, and where it says so: a sentence.
    /// Requests with one proof are different events then; else they are one.
    pub shared_proof: Option<String>,
    /// A message of this shape is never accepted, however it is signed.
    #[serde(default, deserialize_with = "regex")]
    pub reject_message_regex: Option<Regex>,
    /// What is fetched from the provider, where nothing is signed.
    pub fetch: Option<Fetch>,
    #[serde(default = "body")]
    pub proves: Proven,
}

impl Scheme {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.ts.is_some() || !self.message.needs_timestamp(),
            "the message has a {{ts}}, but there is no ts"
        );
        self.sig.check()?;
        let code = matches!(self.kind, Kind::Code(_));
        ensure!(
            code || (self.kind == Kind::Jwt) == self.jwt.is_some(),
            "kind = \"jwt\" and the table jwt go together"
        );
        if let Some(jwt) = &self.jwt {
            jwt.check()?;
        }
        let answers = |part: &Part| {
            matches!(
                part,
                Part::HmacHex(_) | Part::HmacBase64(_) | Part::Sha256Hex(_)
            )
        };
        ensure!(
            !self.message.any(&answers),
            "only an answer has {{hmac_hex:…}} and its like"
        );
        let secret = |part: &Part| *part == Part::Secret;
        ensure!(
            code || (self.kind == Kind::Hash) == self.message.any(&secret),
            "{{secret}} goes with kind = \"hash\", and only there"
        );
        // It would be read once for every item.
        let body = |part: &Part| {
            let json = |at: &Location| matches!(at, Location::Json(_));
            matches!(part, Part::At(at) | Part::Lower(at) if json(at))
        };
        ensure!(
            self.for_each.is_none() || !self.message.any(&body),
            "with for_each, the message has {{item:…}} and no {{json:…}}"
        );
        ensure!(!self.url_forms.is_empty(), "url_forms is empty");
        for sentence in [&self.ambiguity, &self.shared_proof].into_iter().flatten() {
            ensure!(
                !sentence.trim().is_empty(),
                "ambiguity and shared_proof are sentences; leave out what is not so"
            );
        }
        if self.signs_message() {
            super::joins::check(self)?;
        }
        self.check_fetch()?;
        if let Some(ts) = &self.ts {
            ensure!(
                ts.past >= 0 && ts.future >= 0,
                "a window cannot be negative"
            );
        }
        Ok(())
    }

    /// Whether its message is what is signed. Other kinds show a secret, or are code.
    fn signs_message(&self) -> bool {
        let message = matches!(
            self.kind,
            Kind::Hmac | Kind::Hash | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256
        );
        message || self.kind == Kind::Code(Code::PayPal)
    }

    /// Whether the sender proves each request by a signature of its own, and not by a secret or a
    /// token that would prove any other request as well.
    pub(crate) fn is_signature(&self) -> bool {
        let shown = matches!(
            self.kind,
            Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None
        );
        !shown && self.shared_proof.is_none()
    }

    /// Whether other bytes of the body need another signature.
    pub(crate) fn covers_body(&self) -> bool {
        match &self.kind {
            Kind::Code(code) => matches!(code, Code::Ebay | Code::Keygen(_)),
            Kind::Jwt => {
                let claim = |jwt: &Jwt| jwt.body_sha256_claim.is_some();
                self.jwt.as_ref().is_some_and(claim)
            }
            Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None => false,
            _ => {
                let exact = [Part::Body, Part::BodySha256Hex];
                let whole = self.message.0.iter().any(|part| exact.contains(part));
                self.body_hash.is_some() || self.for_each.is_none() && whole
            }
        }
    }

    /// Whether a field of an urlencoded body is signed so that only one body has it.
    pub(crate) fn covers_field(&self, name: &str) -> bool {
        let signed = |part: &Part| match part {
            Part::FormSorted => true,
            Part::At(Location::Form(signed)) => signed == name,
            _ => false,
        };
        self.only_fields.iter().any(|only| only == name) && self.message.0.iter().any(signed)
    }

    /// A notice without a signature is worth nothing until what it names is fetched.
    fn check_fetch(&self) -> anyhow::Result<()> {
        match (&self.kind, &self.fetch) {
            (Kind::FetchBack, None) => bail!(
                "kind = \"fetch-back\" needs the table fetch, with url, auth, allow, id and type: \
                 the event is made from what is fetched"
            ),
            (Kind::FetchBack, Some(fetch)) => {
                ensure!(
                    self.proves == Proven::Origin,
                    "kind = \"fetch-back\" has proves = \"origin\": what is fetched comes from the \
                     provider"
                );
                fetch.check()
            }
            (_, Some(_)) => {
                bail!("the table fetch goes with kind = \"fetch-back\", and only there")
            }
            (_, None) => Ok(()),
        }
    }

    /// Whether it proves anything with a secret.
    pub fn needs_secret(&self) -> bool {
        match &self.kind {
            Kind::FetchBack | Kind::None | Kind::Code(Code::Ebay) => false,
            Kind::Jwt => self
                .jwt
                .as_ref()
                .is_some_and(|jwt| jwt.key == KeySource::Secret),
            _ => true,
        }
    }
}

/// How a provider may write the URL that it signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UrlForm {
    AsIs,
    StripPort,
    AddDefaultPort,
    /// With the twelve escapes decoded that HubSpot lists.
    DecodeSafe,
}

/// Where a digest of the body stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyHash {
    pub from: Location,
    #[serde(default)]
    pub enc: Encoding,
}

/// What a value has to look like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub from: Location,
    pub allow: Pattern,
}

/// The signed time and how far it may be from ours. Both ends of the window are inside it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    pub from: Location,
    #[serde(default)]
    pub unit: Unit,
    /// Seconds.
    #[serde(default = "five_minutes")]
    pub past: i64,
    /// Seconds.
    #[serde(default = "five_minutes")]
    pub future: i64,
    /// Whether the window counts. Where a provider states none, the time is only signed.
    #[serde(default = "yes")]
    pub enforce: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    S,
    Ms,
    /// Milliseconds from 13 digits on, seconds below: a wrong reading is decades off.
    Auto,
    Rfc3339,
    /// A date of HTTP, such as `Mon, 23 Nov 2026 10:00:00 GMT`, or one of RFC 3339.
    #[serde(rename = "http-date")]
    HttpDate,
}

/// Compiles a pattern of a preset.
pub(super) fn compiled(text: &str) -> anyhow::Result<Regex> {
    regex_lite::RegexBuilder::new(text)
        .size_limit(1 << 20)
        .build()
        .with_context(|| format!("the pattern {text:?}"))
}

pub(super) fn needed_regex<'de, D: Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    compiled(&text).map_err(|error| serde::de::Error::custom(format!("{error:#}")))
}

pub(super) fn regex<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    needed_regex(from).map(Some)
}

fn default_variant() -> String {
    "default".to_owned()
}

fn body() -> Proven {
    Proven::Body
}

fn five_minutes() -> i64 {
    300
}

fn yes() -> bool {
    true
}

fn as_is() -> Vec<UrlForm> {
    vec![UrlForm::AsIs]
}
