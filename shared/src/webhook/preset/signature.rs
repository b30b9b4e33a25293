//! Where signatures stand and how they are written.

use anyhow::ensure;
use serde::Deserialize;

use super::Location;

/// The `sig` of a `[[verify]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub from: Location,
    /// Other places that may hold one as well.
    #[serde(default)]
    pub also: Vec<Location>,
    #[serde(default)]
    pub format: Format,
    /// Between the entries of a list.
    #[serde(default = "comma")]
    pub entry: String,
    /// Between the groups of `kv-groups`.
    #[serde(default = "space")]
    pub group: String,
    /// Between tag and value of an entry; `=` unless the format is a tagged list.
    #[serde(default = "comma")]
    pub tag_sep: String,
    /// Between name and signature of a pair.
    #[serde(default = "pipe")]
    pub kv: String,
    /// The tags that count; others are passed over.
    #[serde(default)]
    pub take: Vec<String>,
    /// Which entry of a positional list is the time.
    #[serde(default)]
    pub ts_index: usize,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub enc: Encoding,
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Every value at `from` has to match, and there has to be one.
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
            "sig.take goes with a format that has tags, and only there"
        );
        for separator in [&self.entry, &self.group, &self.tag_sep, &self.kv] {
            ensure!(!separator.is_empty(), "a separator of sig is empty");
        }
        for from in std::iter::once(&self.from).chain(&self.also) {
            ensure!(
                !matches!(
                    from,
                    Location::Sig(_) | Location::Jwt(_) | Location::Const(_) | Location::BodySha256
                ),
                "sig.from must be a header, or a field of the body or the query"
            );
        }
        ensure!(self.max <= 128, "sig.max is 128 at most");
        ensure!(
            !self.all || self.also.is_empty() && matches!(self.from, Location::Json(_)),
            "sig.all goes with one json location"
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
    /// The header is the signature.
    #[default]
    Plain,
    /// `t=1,v1=aa,v1=bb`
    KvList,
    /// `t=1,v1=aa t=2,v1=bb`: each group has a time of its own.
    KvGroups,
    /// `v1,aa v1,bb`
    TaggedList,
    /// `1,aa,bb`: one entry is the time, the others are signatures.
    Positional,
    /// `name|aa&name2|bb`
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
