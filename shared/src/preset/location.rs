//! Where a value stands in a request.

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::envelope::Envelope;
use crate::json_path::{JsonPath, NotThere};

/// One place in a request that holds one value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Location {
    /// `header:NAME|NAME2`: the first header that is there.
    Header(Vec<String>),
    /// `sig:KEY`: a field inside the signature header.
    Sig(String),
    /// `json:PATH`: dotted keys into the body.
    Json(JsonPath),
    /// `form:NAME`: a field of an urlencoded body.
    Form(String),
    /// `query:NAME`
    Query(String),
    /// `const:VALUE`
    Const(String),
}

impl Location {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (place, name) = text.split_once(':').with_context(|| {
            format!("{text:?} is no location; a location is like header:NAME or json:a.b")
        })?;
        ensure!(!name.is_empty(), "{text:?} names nothing");
        Ok(match place {
            "header" => Self::Header(name.split('|').map(str::to_ascii_lowercase).collect()),
            "sig" => Self::Sig(name.to_owned()),
            "json" => Self::Json(
                JsonPath::parse(name).with_context(|| format!("{text:?} has an empty key"))?,
            ),
            "form" => Self::Form(name.to_owned()),
            "query" => Self::Query(name.to_owned()),
            "const" => Self::Const(name.to_owned()),
            _ => bail!(
                "{text:?}: there is no place {place:?}; there are header, sig, json, form, query, const"
            ),
        })
    }

    /// The value in a request. `Sig` fields are only known to the verification and are absent
    /// here.
    pub fn find(&self, envelope: &Envelope) -> Result<Option<String>, Unreadable> {
        match self {
            Self::Header(names) => {
                for name in names {
                    if let Some(value) = envelope
                        .headers
                        .one(name)
                        .map_err(|_| Unreadable::RepeatedHeader)?
                    {
                        return Ok(Some(value.to_owned()));
                    }
                }
                Ok(None)
            }
            Self::Sig(_) => Ok(None),
            Self::Json(path) => path.scalar(&envelope.body).map_err(|error| match error {
                NotThere::NoJson => Unreadable::NoJson,
                NotThere::NoScalar => Unreadable::NoScalar,
            }),
            Self::Form(name) => Ok(form_field(&envelope.body, name)),
            Self::Query(name) => Ok(envelope.query(name)),
            Self::Const(value) => Ok(Some(value.clone())),
        }
    }
}

/// As it is written in a preset.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(names) => write!(f, "header:{}", names.join("|")),
            Self::Sig(key) => write!(f, "sig:{key}"),
            Self::Json(path) => write!(f, "json:{path}"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Const(value) => write!(f, "const:{value}"),
        }
    }
}

impl TryFrom<String> for Location {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

/// Why a value could not be read, though it may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    RepeatedHeader,
    NoJson,
    NoScalar,
}

/// Places to look at, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Locations(pub Vec<Location>);

impl Locations {
    /// The first value that is there and is not empty. A place that cannot be read is as good as
    /// absent: what it would have named has other names, down to the hash of the body.
    pub fn first(&self, envelope: &Envelope) -> Option<String> {
        self.0.iter().find_map(|at| {
            at.find(envelope)
                .ok()
                .flatten()
                .filter(|value| !value.is_empty())
        })
    }
}

fn form_field(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    text.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (crate::envelope::form_decode(key) == name).then(|| crate::envelope::form_decode(value))
    })
}
