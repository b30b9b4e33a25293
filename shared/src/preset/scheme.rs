//! One way of signing a request.

use anyhow::ensure;
use serde::Deserialize;

use super::{Location, Template};
use crate::event::Proven;

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
    pub message: Template,
    pub sig: Signature,
    pub ts: Option<Timestamp>,
    #[serde(default = "body")]
    pub proves: Proven,
}

impl Scheme {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.ts.is_some() || !self.message.needs_timestamp(),
            "the message has a {{ts}}, but there is no ts"
        );
        ensure!(
            matches!(self.sig.from, Location::Header(_)),
            "sig.from must be a header"
        );
        let listed = !matches!(self.sig.format, Format::Plain);
        ensure!(
            listed != self.sig.take.is_empty(),
            "sig.take goes with a list format, and only there"
        );
        if let Some(ts) = &self.ts {
            ensure!(
                ts.past >= 0 && ts.future >= 0,
                "a window cannot be negative"
            );
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A keyed hash over the message.
    Hmac,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    Sha1,
    #[default]
    Sha256,
    Sha512,
}

/// How the secret that the operator pasted becomes a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// Its bytes as they are, prefixes included.
    #[default]
    Utf8,
    Base64,
    Hex,
    /// Base64 after an optional `whsec_`.
    Whsec,
    /// Base64 after `whsec_`; its bytes as they are without.
    WhsecOrUtf8,
}

/// Where the signatures stand and how they are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub from: Location,
    #[serde(default)]
    pub format: Format,
    /// Between the entries of a list.
    #[serde(default = "comma")]
    pub entry: String,
    /// Between tag and value of an entry.
    #[serde(default = "comma")]
    pub tag_sep: String,
    /// The tags that count; others are passed over.
    #[serde(default)]
    pub take: Vec<String>,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub enc: Encoding,
    #[serde(default)]
    pub duplicates: Duplicates,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The header is the signature.
    #[default]
    Plain,
    /// `t=1,v1=aa,v1=bb`
    KvList,
    /// `v1,aa v1,bb`
    TaggedList,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    #[default]
    Hex,
    Base64,
}

/// What a repeated signature header means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Somebody added one.
    #[default]
    Reject,
    /// The provider documents that it sends several; any may match.
    Any,
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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    S,
    Ms,
}

fn default_variant() -> String {
    "default".to_owned()
}

fn comma() -> String {
    ",".to_owned()
}

fn body() -> Proven {
    Proven::Body
}

fn five_minutes() -> i64 {
    300
}
