//! The locations and formats of signatures.

use anyhow::ensure;
use serde::Deserialize;

use super::Location;

/// The `sig` of a `[[verify]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub from: Location,
    /// Other locations that can also contain a signature.
    #[serde(default)]
    pub also: Vec<Location>,
    #[serde(default)]
    pub format: Format,
    /// The separator between the entries of a list.
    #[serde(default = "comma")]
    pub entry: String,
    /// The separator between the groups of `kv-groups`.
    #[serde(default = "space")]
    pub group: String,
    /// The separator between tag and value of a `tagged-list` entry. Other lists use `=`.
    #[serde(default = "comma")]
    pub tag_sep: String,
    /// The separator between name and signature of a pair.
    #[serde(default = "pipe")]
    pub kv: String,
    /// The tags to use. Verification ignores the signatures of entries with other tags.
    #[serde(default)]
    pub take: Vec<String>,
    /// The index of the time in a positional list.
    #[serde(default)]
    pub ts_index: usize,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub enc: Encoding,
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Whether every value at `from` must match. There must be at least one value.
    #[serde(default)]
    pub all: bool,
    /// The highest number of a numbered header.
    #[serde(default = "hundred")]
    pub max: usize,
}

impl Signature {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let tagged = matches!(
            self.format,
            Format::KvList | Format::KvGroups | Format::TaggedList | Format::Pairs
        );
        ensure!(
            tagged != self.take.is_empty(),
            "a format with tags needs sig.take, and other formats cannot have sig.take"
        );
        for separator in [&self.entry, &self.group, &self.tag_sep, &self.kv] {
            ensure!(
                !separator.is_empty(),
                "the separators of sig must not be empty"
            );
        }
        for from in std::iter::once(&self.from).chain(&self.also) {
            ensure!(
                !matches!(
                    from,
                    Location::Sig(_)
                        | Location::Jwt(_)
                        | Location::JwtJson(..)
                        | Location::Const(_)
                        | Location::Body
                        | Location::BodySha256
                        | Location::ItemSha256
                        | Location::First(_)
                ),
                "sig.from must be a header, or a field of the body or the query"
            );
        }
        ensure!(self.max <= 128, "sig.max must be at most 128");
        ensure!(
            !self.all || self.also.is_empty() && matches!(self.from, Location::Json(_)),
            "sig.all needs exactly one json: location"
        );
        Ok(())
    }
}

impl Default for Signature {
    fn default() -> Self {
        Self {
            from: Location::Header(vec!["authorization".to_owned()]),
            also: Vec::new(),
            format: Format::default(),
            entry: comma(),
            group: space(),
            tag_sep: comma(),
            kv: pipe(),
            take: Vec::new(),
            ts_index: 0,
            prefix: String::new(),
            enc: Encoding::default(),
            duplicates: Duplicates::default(),
            all: false,
            max: hundred(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The header contains only the signature.
    #[default]
    Plain,
    /// Fields with a name and a value: `t=1,v1=aa,v1=bb`.
    KvList,
    /// Groups of fields: `t=1,v1=aa t=2,v1=bb`. Each group has its own time.
    KvGroups,
    /// Signatures with tags: `v1,aa v1,bb`.
    TaggedList,
    /// Entries without tags: `1,aa,bb`. One entry is the time. The other entries are signatures.
    Positional,
    /// Pairs of a name and a signature: `name|aa&name2|bb`.
    Pairs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    #[default]
    Hex,
    Base64,
    Base64url,
    /// Base64 of the two numbers of an ECDSA signature in DER.
    Base64Der,
}

/// How to handle a repeated signature header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Rejects the request, because the provider sends only one signature header.
    #[default]
    Reject,
    /// Accepts the request if one of the headers matches, because the provider documents that it
    /// sends several headers.
    Any,
}

fn comma() -> String {
    ",".to_owned()
}

fn space() -> String {
    " ".to_owned()
}

fn pipe() -> String {
    "|".to_owned()
}

fn hundred() -> usize {
    100
}
