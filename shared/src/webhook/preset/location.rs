//! Locations of values in a request.

mod multipart;

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::base::json_path::{JsonPath, NotThere, scalar};
use crate::webhook::envelope::{Envelope, form_fields};
use crate::webhook::event::Sha;
pub(crate) use multipart::field as multipart_field;

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
    /// `item:sha256`: the hash of one item of a batch, in hex.
    ItemSha256,
    /// `form:NAME`: a field of a URL-encoded body.
    Form(String),
    /// `form-xml:NAME/TAG`: the text of an element directly below the root of an XML document. The
    /// document is base64 in a field of a URL-encoded body.
    FormXml(String, String),
    /// `form-json:NAME/PATH`: a value of the JSON in a field of a URL-encoded body.
    FormJson(String, JsonPath),
    /// `multipart-json:NAME/PATH`: a value of the JSON in a field of a `multipart/form-data` body.
    MultipartJson(String, JsonPath),
    /// `query:NAME`: a parameter of the query.
    Query(String),
    /// `jwt:CLAIM` or `jwt:CLAIM.KEY`: a claim of the token that proved the request, or a value
    /// inside a claim.
    Jwt(String),
    /// `jwt-json:CLAIM/PATH/PATH`: a value of the JSON in a claim. If there is a further path, the
    /// value is itself a text with JSON, and the path continues in that JSON.
    JwtJson(String, Vec<JsonPath>),
    /// `body`: the whole body as text, such as a token.
    Body,
    /// `body:sha256`: the hash of the exact body, in hex.
    BodySha256,
    /// `const:VALUE`: a fixed value.
    Const(String),
    /// `first:LOCATION|LOCATION`: the first of these locations that has a value, for a provider that
    /// sends a value in different places.
    First(Vec<Location>),
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
        if text == "body" {
            return Ok(Self::Body);
        }
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
            "item" if name == "sha256" => Self::ItemSha256,
            "item" => Self::Item(path()?),
            "form" => Self::Form(name.to_owned()),
            "form-xml" => {
                let parts = name.split_once('/');
                let (field, tag) = parts
                    .with_context(|| format!("invalid location {text:?}; use form-xml:NAME/TAG"))?;
                Self::FormXml(field.to_owned(), tag.to_owned())
            }
            "form-json" => {
                let (field, path) = field_and_path(text, name)?;
                Self::FormJson(field, path)
            }
            "multipart-json" => {
                let (field, path) = field_and_path(text, name)?;
                Self::MultipartJson(field, path)
            }
            "query" => Self::Query(name.to_owned()),
            "jwt" => Self::Jwt(name.to_owned()),
            "jwt-json" => {
                let (claim, paths) = claim_and_paths(text, name)?;
                Self::JwtJson(claim, paths)
            }
            "body" if name == "sha256" => Self::BodySha256,
            "const" => Self::Const(name.to_owned()),
            "first" => Self::First(Self::parse_alternatives(text, name)?),
            _ => bail!(
                "invalid location {text:?}: unknown kind {place:?}; use header, header-numbered, \
                 sig, json, item, form, form-xml, form-json, multipart-json, query, jwt, jwt-json, \
                 body, body:sha256, const or first"
            ),
        })
    }

    fn parse_alternatives(text: &str, names: &str) -> anyhow::Result<Vec<Self>> {
        let parts = names.split('|').map(Self::parse);
        let parts: Vec<Self> = parts.collect::<anyhow::Result<_>>()?;
        let nested = parts.iter().any(|part| matches!(part, Self::First(_)));
        ensure!(
            parts.len() > 1 && !nested,
            "invalid location {text:?}; use first:LOCATION|LOCATION"
        );
        Ok(parts)
    }

    /// Finds the value. Returns `None` for `sig:` fields and numbered headers, because only the
    /// code that reads signatures can find them.
    pub fn find<'e>(&self, place: impl Into<Place<'e>>) -> Result<Option<String>, Unreadable> {
        let place = place.into();
        let envelope = place.envelope;
        match self {
            Self::Header(names) => header(envelope, names),
            Self::HeaderNumbered(_) | Self::Sig(_) => Ok(None),
            Self::Json(path) => path.scalar(&envelope.body).map_err(Unreadable::from),
            Self::Item(path) => match place.item {
                Some(item) => path.scalar(item.get().as_bytes()).map_err(Unreadable::from),
                None => Ok(None),
            },
            Self::ItemSha256 => {
                let item = place.item.map(|item| item.get().as_bytes());
                Ok(Some(Sha::of(item.unwrap_or(&envelope.body)).hex()))
            }
            Self::Form(name) => form(envelope, name),
            Self::FormJson(name, path) => {
                let text = form(envelope, name)?;
                text.map_or(Ok(None), |text| Ok(path.scalar(text.as_bytes())?))
            }
            Self::MultipartJson(name, path) => match multipart::field(envelope, name)? {
                Some(range) => {
                    let text = envelope.body.get(range).unwrap_or_default();
                    path.scalar(text).map_err(Unreadable::from)
                }
                None => Ok(None),
            },
            Self::FormXml(name, tag) => Ok(form(envelope, name)?.and_then(|text| xml(&text, tag))),
            Self::Query(name) => Ok(envelope.query(name)),
            Self::Jwt(name) => claim(place, name),
            Self::JwtJson(name, paths) => {
                let mut text = claim(place, name)?;
                for path in paths {
                    let Some(json) = text else { return Ok(None) };
                    text = path.scalar(json.as_bytes()).map_err(Unreadable::from)?;
                }
                Ok(text)
            }
            Self::Body => match std::str::from_utf8(&envelope.body) {
                Ok(text) => Ok((!text.is_empty()).then(|| text.to_owned())),
                Err(_) => Err(Unreadable::NoJson),
            },
            Self::BodySha256 => Ok(Some(Sha::of(&envelope.body).hex())),
            Self::Const(value) => Ok(Some(value.clone())),
            Self::First(parts) => {
                for part in parts {
                    let value = part.find(place)?.filter(|value| !value.is_empty());
                    if value.is_some() {
                        return Ok(value);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Returns whether the value can be a part of one item of a request.
    pub(crate) fn is_of_item(&self) -> bool {
        match self {
            Self::Item(_) | Self::ItemSha256 => true,
            Self::First(parts) => parts.iter().any(Self::is_of_item),
            _ => false,
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
            Self::ItemSha256 => f.write_str("item:sha256"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::FormXml(name, tag) => write!(f, "form-xml:{name}/{tag}"),
            Self::FormJson(name, path) => write!(f, "form-json:{name}/{path}"),
            Self::MultipartJson(name, path) => write!(f, "multipart-json:{name}/{path}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Jwt(claim) => write!(f, "jwt:{claim}"),
            Self::JwtJson(claim, paths) => {
                write!(f, "jwt-json:{claim}")?;
                paths.iter().try_for_each(|path| write!(f, "/{path}"))
            }
            Self::Body => f.write_str("body"),
            Self::BodySha256 => f.write_str("body:sha256"),
            Self::Const(value) => write!(f, "const:{value}"),
            Self::First(parts) => {
                let parts: Vec<String> = parts.iter().map(Self::to_string).collect();
                write!(f, "first:{}", parts.join("|"))
            }
        }
    }
}

/// Returns the first of these headers that the request has.
fn header(envelope: &Envelope, names: &[String]) -> Result<Option<String>, Unreadable> {
    for name in names {
        let value = envelope.headers.one(name);
        if let Some(value) = value.map_err(|_| Unreadable::RepeatedHeader)? {
            return Ok(Some(value.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the claim and the paths of `jwt-json:CLAIM/PATH`.
fn claim_and_paths(text: &str, name: &str) -> anyhow::Result<(String, Vec<JsonPath>)> {
    let mut parts = name.split('/');
    let claim = parts.next().unwrap_or_default();
    let paths = parts.map(JsonPath::parse).collect::<Option<Vec<_>>>();
    let paths = paths.filter(|paths| !paths.is_empty() && !claim.is_empty());
    let paths =
        paths.with_context(|| format!("invalid location {text:?}; use jwt-json:CLAIM/PATH"))?;
    Ok((claim.to_owned(), paths))
}

fn field_and_path(text: &str, name: &str) -> anyhow::Result<(String, JsonPath)> {
    let parts = name.split_once('/').filter(|(field, _)| !field.is_empty());
    let path = parts.and_then(|(field, path)| Some((field.to_owned(), JsonPath::parse(path)?)));
    path.with_context(|| format!("invalid location {text:?}; use the form KIND:FIELD/PATH"))
}

/// Returns a claim, or a value inside a claim. The whole name counts first, because the name of a
/// claim can contain dots.
fn claim(place: Place<'_>, name: &str) -> Result<Option<String>, Unreadable> {
    let Some(claims) = place.claims else {
        return Ok(None);
    };
    let inner = || {
        let (first, rest) = name.split_once('.')?;
        let mut keys = rest.split('.');
        keys.try_fold(claims.get(first)?, |value, key| value.get(key))
    };
    match claims.get(name).or_else(inner) {
        Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
        Some(serde_json::Value::Number(number)) => Ok(Some(number.to_string())),
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(_) => Err(Unreadable::NoScalar),
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
mod tests;
