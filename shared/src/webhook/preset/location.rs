//! Locations of values in a request.

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::base::json_path::{JsonPath, NotThere, scalar};
use crate::webhook::envelope::{Envelope, form_fields};
use crate::webhook::event::Sha;

/// A location in a request that has one value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Location {
    /// `header:NAME|NAME2`: the first of these headers that is present.
    Header(Vec<String>),
    /// `header-numbered:PREFIX`: the headers `PREFIX1`, `PREFIX2` and so on.
    HeaderNumbered(String),
    /// `sig:KEY`: a field inside the signature header.
    Sig(String),
    /// `json:PATH`: a value of the JSON body. The path consists of keys separated by dots.
    Json(JsonPath),
    /// `item:PATH`: a value of one item, such as an item of a batch.
    Item(JsonPath),
    /// `form:NAME`: a field of a URL-encoded body.
    Form(String),
    /// `form-xml:NAME/TAG`: the text of an element directly below the root of an XML document. The
    /// document is base64 in a field of a URL-encoded body.
    FormXml(String, String),
    /// `query:NAME`: a parameter of the query.
    Query(String),
    /// `jwt:CLAIM`: a claim of the token that proved the request.
    Jwt(String),
    /// `body:sha256`: the hash of the exact body, in hex.
    BodySha256,
    /// `const:VALUE`: a fixed value.
    Const(String),
}

/// The data in which Mitt looks up a location. `item` is set for an item of a request, and `claims`
/// for a request with a signed token.
#[derive(Clone, Copy)]
pub struct Place<'e> {
    pub envelope: &'e Envelope,
    pub item: Option<&'e RawValue>,
    pub claims: Option<&'e serde_json::Map<String, serde_json::Value>>,
}

impl<'e> From<&'e Envelope> for Place<'e> {
    fn from(envelope: &'e Envelope) -> Self {
        Self {
            envelope,
            item: None,
            claims: None,
        }
    }
}

impl Location {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (place, name) = text.split_once(':').with_context(|| {
            format!("invalid location {text:?}; use a location such as header:NAME or json:a.b")
        })?;
        ensure!(
            !name.is_empty(),
            "invalid location {text:?}: the name is empty"
        );
        let path = || JsonPath::parse(name).with_context(|| format!("invalid path in {text:?}"));
        Ok(match place {
            "header" => Self::Header(name.split('|').map(str::to_ascii_lowercase).collect()),
            "header-numbered" => Self::HeaderNumbered(name.to_ascii_lowercase()),
            "sig" => Self::Sig(name.to_owned()),
            "json" => Self::Json(path()?),
            "item" => Self::Item(path()?),
            "form" => Self::Form(name.to_owned()),
            "form-xml" => {
                let parts = name.split_once('/');
                let (field, tag) = parts
                    .with_context(|| format!("invalid location {text:?}; use form-xml:NAME/TAG"))?;
                Self::FormXml(field.to_owned(), tag.to_owned())
            }
            "query" => Self::Query(name.to_owned()),
            "jwt" => Self::Jwt(name.to_owned()),
            "body" if name == "sha256" => Self::BodySha256,
            "const" => Self::Const(name.to_owned()),
            _ => bail!(
                "invalid location {text:?}: unknown kind {place:?}; use header, header-numbered, \
                 sig, json, item, form, form-xml, query, jwt, body:sha256 or const"
            ),
        })
    }

    /// Finds the value. Returns `None` for `sig:` fields and numbered headers, because only the
    /// code that reads signatures can find them.
    pub fn find<'e>(&self, place: impl Into<Place<'e>>) -> Result<Option<String>, Unreadable> {
        let place = place.into();
        let envelope = place.envelope;
        match self {
            Self::Header(names) => {
                for name in names {
                    let value = envelope.headers.one(name);
                    if let Some(value) = value.map_err(|_| Unreadable::RepeatedHeader)? {
                        return Ok(Some(value.to_owned()));
                    }
                }
                Ok(None)
            }
            Self::HeaderNumbered(_) | Self::Sig(_) => Ok(None),
            Self::Json(path) => path.scalar(&envelope.body).map_err(Unreadable::from),
            Self::Item(path) => match place.item {
                Some(item) => path.scalar(item.get().as_bytes()).map_err(Unreadable::from),
                None => Ok(None),
            },
            Self::Form(name) => form(envelope, name),
            Self::FormXml(name, tag) => Ok(form(envelope, name)?.and_then(|text| xml(&text, tag))),
            Self::Query(name) => Ok(envelope.query(name)),
            Self::Jwt(claim) => match place.claims.and_then(|claims| claims.get(claim)) {
                Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
                Some(serde_json::Value::Number(number)) => Ok(Some(number.to_string())),
                None => Ok(None),
                Some(_) => Err(Unreadable::NoScalar),
            },
            Self::BodySha256 => Ok(Some(Sha::of(&envelope.body).hex())),
            Self::Const(value) => Ok(Some(value.clone())),
        }
    }

    /// Returns all values at a path with `[*]`. Any other location has at most one value.
    pub fn find_all(&self, envelope: &Envelope) -> Result<Vec<Option<String>>, Unreadable> {
        let Self::Json(path) = self else {
            return Ok(vec![self.find(envelope)?]);
        };
        let values = path.all(&envelope.body)?;
        let text = |raw: Option<&RawValue>| raw.map_or(Ok(None), scalar);
        Ok(values.into_iter().map(text).collect::<Result<_, _>>()?)
    }
}

/// Formats the location in the notation of presets.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(names) => write!(f, "header:{}", names.join("|")),
            Self::HeaderNumbered(prefix) => write!(f, "header-numbered:{prefix}"),
            Self::Sig(key) => write!(f, "sig:{key}"),
            Self::Json(path) => write!(f, "json:{path}"),
            Self::Item(path) => write!(f, "item:{path}"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::FormXml(name, tag) => write!(f, "form-xml:{name}/{tag}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Jwt(claim) => write!(f, "jwt:{claim}"),
            Self::BodySha256 => f.write_str("body:sha256"),
            Self::Const(value) => write!(f, "const:{value}"),
        }
    }
}

fn form(envelope: &Envelope, name: &str) -> Result<Option<String>, Unreadable> {
    let fields = form_fields(&envelope.body).into_iter();
    let mut values = fields.filter(|(key, _)| key == name.as_bytes());
    let first = values.next();
    // If a field is repeated, some form libraries return the first value and others the last.
    if values.next().is_some() {
        return Err(Unreadable::RepeatedField);
    }
    Ok(first.and_then(|(_, value)| String::from_utf8(value).ok()))
}

/// The text of the first element with this name directly below the root.
fn xml(base64: &str, tag: &str) -> Option<String> {
    let packed: String = base64.split_ascii_whitespace().collect();
    let document = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    let mut depth = 0_usize;
    let mut rest = document.as_str();
    while let Some((_, after)) = rest.split_once('<') {
        let (inner, text) = after.split_once('>')?;
        rest = text;
        let name = inner.split([' ', '/']).next()?;
        if inner.starts_with(['?', '!']) || inner.ends_with('/') {
            continue;
        }
        if inner.starts_with('/') {
            depth = depth.checked_sub(1)?;
            continue;
        }
        depth += 1;
        if depth == 2 && name == tag {
            let (text, _) = text.split_once('<')?;
            return Some(text.trim().to_owned());
        }
    }
    None
}

impl TryFrom<String> for Location {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

/// The reason why a value cannot be read, although it may be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    RepeatedHeader,
    RepeatedField,
    NoJson,
    NoScalar,
}

impl From<NotThere> for Unreadable {
    fn from(not_there: NotThere) -> Self {
        match not_there {
            NotThere::NoJson => Self::NoJson,
            NotThere::NoScalar => Self::NoScalar,
        }
    }
}

/// Locations to try, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Locations(pub Vec<Location>);

impl Locations {
    /// Returns the first value that is present and not empty. Skips a location that cannot be read,
    /// because the caller can use another identifier, such as the hash of the body.
    pub fn first<'e>(&self, place: impl Into<Place<'e>>) -> Option<String> {
        let place = place.into();
        self.0.iter().find_map(|at| {
            let value = at.find(place).ok().flatten();
            value.filter(|value| !value.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_below_the_root_is_found_and_no_other() {
        let found = |document: &str| xml(&format!("{}\n", STANDARD.encode(document)), "kind");
        let document = "<?xml version=\"1.0\"?>\n<notification>\n <timestamp type=\"datetime\">1\
             </timestamp><a/><subject><kind>no</kind></subject> <kind> check </kind></notification>";
        assert_eq!(found(document), Some("check".into()));
        for none in [
            "",
            "<a",
            "<kind>no</kind>",
            "</a></a>",
            "<a><b><kind>no</kind></b></a>",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
        assert_eq!(xml("no base64!", "kind"), None);
    }
}
