//! One signature scheme of a provider.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

use super::pattern::Pattern;
use super::{
    Code, Encoding, Fetch, Hash, Jwt, KeyForm, KeySource, Kind, Location, Part, Signature, Template,
};
use crate::base::json_path::JsonPath;
use crate::webhook::event::Proven;

/// A `[[verify]]` table, which is a variant of the preset. The operator selects the variant by
/// name. A request never selects it.
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
    /// The public keys of a signature in a header, if the provider publishes them in a key set.
    pub key_set: Option<PublishedKeys>,
    /// The forms of the URL that the provider may have signed.
    #[serde(default = "as_is")]
    pub url_forms: Vec<UrlForm>,
    /// A digest that must match the body.
    pub body_hash: Option<BodyHash>,
    /// Required headers with their values. A header can contain the value alone or in a
    /// comma-separated list.
    #[serde(default)]
    pub require_header: BTreeMap<String, String>,
    /// Values that must equal the settings of the source, such as the id of the customer if a
    /// provider signs the webhooks of all customers with the same key.
    #[serde(default)]
    pub require_value: Vec<RequiredValue>,
    /// Headers that must be in the sender's list of signed headers.
    #[serde(default)]
    pub require_signed: Vec<String>,
    /// The path of the items, if each item has its own signature. All signatures must be valid, and
    /// the request must contain at least one item.
    pub for_each: Option<JsonPath>,
    /// Patterns that values of the message must match, so that no bytes can move from one part of
    /// the message to the next.
    #[serde(default)]
    pub shapes: Vec<Shape>,
    /// The fields of a URL-encoded body. Each field must occur exactly once, and no other field is
    /// allowed.
    #[serde(default)]
    pub only_fields: Vec<String>,
    /// Whether the body must be exactly one JSON object or array. Such a body has an unambiguous
    /// start and end, so no bytes can move between the body and the other parts of the message.
    #[serde(default)]
    pub json_body: bool,
    /// A sentence that explains which bytes can still move from one part of the message to the
    /// next, and what limits the risk.
    pub ambiguity: Option<String>,
    /// A sentence that states where the provider documents that many requests share one proof. If
    /// this is set, requests with the same proof are different events. Otherwise, they are one
    /// event.
    pub shared_proof: Option<String>,
    /// Verification rejects a message that matches this pattern, even if the signature is valid.
    #[serde(default, deserialize_with = "regex")]
    pub reject_message_regex: Option<Regex>,
    /// How to fetch the object that an unsigned notice names.
    pub fetch: Option<Fetch>,
    #[serde(default = "body")]
    pub proves: Proven,
}

impl Scheme {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.ts.is_some() || !self.message.needs_timestamp(),
            "the message contains {{ts}}, but the table ts is missing; add the table"
        );
        self.sig.check()?;
        let code = matches!(self.kind, Kind::Code(_));
        ensure!(
            code || (self.kind == Kind::Jwt) == self.jwt.is_some(),
            "kind = \"jwt\" needs the table jwt, and other kinds cannot have this table"
        );
        self.check_jwt()?;
        self.check_key_set()?;
        self.check_required_values()?;
        let answers = |part: &Part| {
            matches!(
                part,
                Part::HmacHex(_) | Part::HmacBase64(_) | Part::Sha256Hex(_)
            )
        };
        ensure!(
            !self.message.any(&answers),
            "{{hmac_hex:…}}, {{hmac_b64:…}} and {{sha256_hex:…}} are allowed only in a reply"
        );
        let secret = |part: &Part| *part == Part::Secret;
        ensure!(
            code || (self.kind == Kind::Hash) == self.message.any(&secret),
            "kind = \"hash\" needs {{secret}} in the message, and other kinds cannot use {{secret}}"
        );
        // With `for_each`, verification would read such a value again for every item.
        let body = |part: &Part| {
            let json = |at: &Location| matches!(at, Location::Json(_));
            matches!(part, Part::At(at) | Part::Lower(at) if json(at))
        };
        ensure!(
            self.for_each.is_none() || !self.message.any(&body),
            "with for_each, the message must use {{item:…}} instead of {{json:…}}"
        );
        ensure!(!self.url_forms.is_empty(), "url_forms must not be empty");
        for sentence in [&self.ambiguity, &self.shared_proof].into_iter().flatten() {
            ensure!(
                !sentence.trim().is_empty(),
                "ambiguity and shared_proof must not be empty; write a sentence, or remove the \
                 empty setting"
            );
        }
        if self.signs_message() {
            super::joins::check(self)?;
        }
        self.check_fetch()?;
        if let Some(ts) = &self.ts {
            ensure!(
                ts.past >= 0 && ts.future >= 0,
                "ts.past and ts.future must not be negative"
            );
        }
        Ok(())
    }

    fn check_jwt(&self) -> anyhow::Result<()> {
        let Some(jwt) = &self.jwt else { return Ok(()) };
        jwt.check()?;
        ensure!(
            (jwt.key == KeySource::Pem) == (self.key == KeyForm::Pem),
            "jwt.key = \"pem\" needs key = \"pem\" in the [[verify]] table, and the reverse"
        );
        Ok(())
    }

    fn check_required_values(&self) -> anyhow::Result<()> {
        for required in &self.require_value {
            ensure!(
                !matches!(
                    required.from,
                    Location::Const(_) | Location::Sig(_) | Location::Item(_)
                ),
                "require_value cannot read {}; use a value of the whole request",
                required.from
            );
        }
        Ok(())
    }

    /// Returns whether the signature covers a message that is built from the template. For other
    /// kinds, the sender sends a secret, or the signature needs code.
    fn signs_message(&self) -> bool {
        let message = matches!(
            self.kind,
            Kind::Hmac | Kind::Hash | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256
        );
        message || self.kind == Kind::Code(Code::PayPal)
    }

    fn check_key_set(&self) -> anyhow::Result<()> {
        let Some(set) = &self.key_set else {
            return Ok(());
        };
        ensure!(
            matches!(self.kind, Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256),
            "key_set needs kind = \"ed25519\", \"ecdsa-p256\" or \"rsa-sha256\""
        );
        ensure!(
            set.url.starts_with("https://"),
            "key_set.url must begin with https://"
        );
        ensure!(
            set.kid
                .as_ref()
                .is_none_or(|kid| matches!(kid, Location::Header(_))),
            "key_set.kid must be a header: location"
        );
        Ok(())
    }

    /// Returns whether each request has its own signature. A secret or a token is not a signature,
    /// because it would also prove any other request.
    pub(crate) fn is_signature(&self) -> bool {
        let shown = matches!(
            self.kind,
            Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None
        );
        !shown && self.shared_proof.is_none()
    }

    /// Returns whether the signature covers every byte of the body.
    pub(crate) fn covers_body(&self) -> bool {
        match &self.kind {
            Kind::Code(code) => matches!(code, Code::Adobe | Code::Ebay | Code::Keygen(_)),
            Kind::Jwt => {
                let claim =
                    |jwt: &Jwt| jwt.body_sha256_claim.is_some() || jwt.from == Location::Body;
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

    /// Returns the longest time for which verification accepts copies of a request that it has
    /// accepted once. `None` if there is no limit, or if only the provider knows the limit.
    pub fn accepts_copies_for(&self) -> Option<Duration> {
        let (past, future) = match &self.kind {
            Kind::Hmac | Kind::Hash | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256 => {
                let ts = self.ts.as_ref()?;
                (ts.enforce && self.signs(ts)).then_some((ts.past, ts.future))?
            }
            // The sender chooses `exp`, so only the age of a token is a limit.
            Kind::Jwt => {
                let jwt = self.jwt.as_ref()?;
                let age = jwt.iat_max_age?;
                (age.saturating_add(jwt.leeway), age)
            }
            Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None | Kind::Code(_) => {
                return None;
            }
        };
        // The time in the request can be in the future by the time of receipt.
        let longest = past.saturating_add(future);
        u64::try_from(longest).ok().map(Duration::from_secs)
    }

    /// Returns whether the signature covers the timestamp.
    fn signs(&self, ts: &Timestamp) -> bool {
        let in_body = matches!(ts.from, Location::Json(_)) && self.covers_body();
        self.message.needs_timestamp() || in_body
    }

    /// Returns whether the signature covers a time outside of the body. The body is the same in each
    /// delivery of an event, so only such a time changes when the sender signs the event again.
    pub(crate) fn signs_time_of_delivery(&self) -> bool {
        let outside = |at: &Location| matches!(at, Location::Header(_) | Location::Query(_));
        let Some(ts) = &self.ts else {
            return false;
        };
        let beside = matches!(ts.from, Location::Sig(_)) && outside(&self.sig.from);
        (beside || outside(&ts.from)) && self.message.needs_timestamp()
    }

    /// Returns whether the signature covers this field of a URL-encoded body, and the field occurs
    /// exactly once.
    pub(crate) fn covers_field(&self, name: &str) -> bool {
        let signed = |part: &Part| match part {
            Part::FormSorted => true,
            Part::At(Location::Form(signed) | Location::FormJson(signed, _)) => signed == name,
            _ => false,
        };
        self.only_fields.iter().any(|only| only == name) && self.message.0.iter().any(signed)
    }

    /// Checks that a scheme for unsigned notices has the `fetch` table. Mitt creates the event from
    /// the fetched object.
    fn check_fetch(&self) -> anyhow::Result<()> {
        match (&self.kind, &self.fetch) {
            (Kind::FetchBack, None) => bail!(
                "kind = \"fetch-back\" needs the table fetch, with url, auth, allow, id and type, \
                 because Mitt creates the event from the fetched object"
            ),
            (Kind::FetchBack, Some(fetch)) => {
                ensure!(
                    self.proves == Proven::Origin,
                    "kind = \"fetch-back\" needs proves = \"origin\", because the fetched object \
                     comes from the provider"
                );
                fetch.check()
            }
            (_, Some(_)) => {
                bail!("the table fetch needs kind = \"fetch-back\"")
            }
            (_, None) => Ok(()),
        }
    }

    /// Returns whether verification needs a secret.
    pub fn needs_secret(&self) -> bool {
        match &self.kind {
            Kind::FetchBack | Kind::None | Kind::Code(Code::Adobe | Code::Ebay) => false,
            Kind::Jwt => self.jwt.as_ref().is_some_and(|jwt| jwt.key.is_stored()),
            _ => self.key_set.is_none(),
        }
    }
}

/// A form of the URL in a signed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UrlForm {
    AsIs,
    StripPort,
    AddDefaultPort,
    /// Decodes the twelve escapes that HubSpot lists.
    DecodeSafe,
}

/// The location of a digest of the body.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyHash {
    pub from: Location,
    #[serde(default)]
    pub enc: Encoding,
}

/// A value that must equal a setting of the source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredValue {
    pub from: Location,
    /// The required value, usually `{param:NAME}`. An empty value matches no request.
    pub is: String,
}

/// A JSON Web Key Set with the public keys of signatures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedKeys {
    /// The URL from which backup-sync fetches the set, unless the source configures a set.
    pub url: String,
    /// The header with the `kid` of the key. Without it, verification tries every key of the set.
    pub kid: Option<Location>,
}

/// The pattern that a value must match.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub from: Location,
    pub allow: Pattern,
}

/// The signed timestamp, and its maximum distance from the current time. Both limits are inclusive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    pub from: Location,
    #[serde(default)]
    pub unit: Unit,
    /// The maximum age, in seconds.
    #[serde(default = "five_minutes")]
    pub past: i64,
    /// The maximum time in the future, in seconds.
    #[serde(default = "five_minutes")]
    pub future: i64,
    /// Whether verification checks the window. `false` if the provider documents no window.
    #[serde(default = "yes")]
    pub enforce: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    S,
    Ms,
    /// Milliseconds if the number has 13 or more digits, otherwise seconds. In the wrong unit, the
    /// time would be decades away from the current time.
    Auto,
    Rfc3339,
    /// An HTTP date, such as `Mon, 23 Nov 2026 10:00:00 GMT`, or an RFC 3339 date.
    #[serde(rename = "http-date")]
    HttpDate,
    /// An RFC 3339 time, or such a time without its zone, which is then UTC.
    #[serde(rename = "iso8601-utc")]
    Iso8601Utc,
}

/// Compiles a pattern of a preset.
pub(super) fn compiled(text: &str) -> anyhow::Result<Regex> {
    regex_lite::RegexBuilder::new(text)
        .size_limit(1 << 20)
        .build()
        .with_context(|| format!("invalid pattern {text:?}"))
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

#[cfg(test)]
mod tests {
    use crate::webhook::preset::Preset;

    use super::*;

    fn scheme(preset: &str) -> Scheme {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        preset.scheme("default").unwrap().clone()
    }

    fn changed(preset: &str, change: impl FnOnce(&mut Scheme)) -> Option<u64> {
        let mut scheme = scheme(preset);
        change(&mut scheme);
        scheme.accepts_copies_for().map(|longest| longest.as_secs())
    }

    #[test]
    fn a_signed_time_limits_copies_only_if_it_is_checked() {
        assert_eq!(changed("stripe", |_| ()), Some(600));
        assert_eq!(changed("stripe", |it| it.ts = None), None);
        assert_eq!(changed("stripe", |it| it.kind = Kind::Token), None);
        let unchecked = changed("stripe", |it| it.ts.as_mut().unwrap().enforce = false);
        assert_eq!(unchecked, None);

        let only_body = |from: &str| {
            changed("stripe", |it| {
                it.message = scheme("dwolla").message;
                it.ts.as_mut().unwrap().from = Location::parse(from).unwrap();
            })
        };
        assert_eq!(only_body("header:x-time"), None);
        assert_eq!(only_body("json:created"), Some(600));
    }

    #[test]
    fn the_age_of_a_token_limits_copies_but_its_expiry_does_not() {
        let with_age = |age| changed("vonage", |it| it.jwt.as_mut().unwrap().iat_max_age = age);
        assert_eq!(with_age(Some(300)), Some(600));
        assert_eq!(with_age(None), None);
    }
}
