//! Templates of signed messages, such as `{ts}.{body}`.

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::Location;

/// The maximum depth of nested placeholders and groups. Mitt rejects a template with deeper
/// nesting.
const DEEPEST: usize = 4;

/// Literals and placeholders, in order. The hash function reads them one by one, so Mitt never
/// copies the body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(pub Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Literal(String),
    /// `{body}`: the exact bytes.
    Body,
    /// `{body|sha256hex}`: the SHA-256 of the body, in hex.
    BodySha256Hex,
    /// `{body|crc32}`: the CRC-32 of the body, in decimal.
    BodyCrc32,
    /// `{ts}`: the text of the timestamp, as received.
    Timestamp,
    /// `{method}`: the HTTP method.
    Method,
    /// `{url}`: the public URL with the query, as received.
    Url,
    /// `{public_url}`: the public URL without the query.
    PublicUrl,
    /// `{path}`: the path of the URL with the query, as received.
    Path,
    /// `{path|encoded}`: the path with the query. The path is escaped once more, and the query
    /// twice more.
    PathEncoded,
    /// `{form_sorted}`: the distinct pairs of name and value of the form, sorted and joined without
    /// separators.
    FormSorted,
    /// `{secret}`: the bytes of the secret, for plain hashes.
    Secret,
    /// `{sigraw:KEY}`: a field of the signature header, unchanged.
    SigRaw(String),
    /// `{signed_headers:KEY}`: the values of the headers that a field of the signature header
    /// lists, joined by dots.
    SignedHeaders(String),
    /// `{signed_headers_kv:HEADER}`: `name:value;name:value` of the headers that this header
    /// lists.
    SignedHeadersKv(String),
    /// `{header:NAME}` or another location.
    At(Location),
    /// `{query:NAME|lower}`: the value of a location, in lower case.
    Lower(Location),
    /// `[…]`: a group that is omitted if one of its values is absent.
    Optional(Vec<Part>),
    /// `{hmac_hex:…}`: the HMAC with the newest secret, in hex. It is allowed only in replies.
    HmacHex(Vec<Part>),
    /// `{hmac_b64:…}`: the HMAC with the newest secret, in base64. It is allowed only in replies.
    HmacBase64(Vec<Part>),
    /// `{sha256_hex:…}`: the SHA-256, in hex. It is allowed only in replies.
    Sha256Hex(Vec<Part>),
}

impl Template {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let parts = parts(text, DEEPEST).with_context(|| format!("invalid template {text:?}"))?;
        Ok(Self(parts))
    }

    pub fn needs_timestamp(&self) -> bool {
        self.any(&|part| *part == Part::Timestamp)
    }

    /// Returns whether any part, at any depth, satisfies the predicate.
    pub(crate) fn any(&self, is: &dyn Fn(&Part) -> bool) -> bool {
        fn any(parts: &[Part], is: &dyn Fn(&Part) -> bool) -> bool {
            parts.iter().any(|part| {
                let inner = match part {
                    Part::Optional(parts)
                    | Part::HmacHex(parts)
                    | Part::HmacBase64(parts)
                    | Part::Sha256Hex(parts) => parts.as_slice(),
                    _ => &[],
                };
                is(part) || any(inner, is)
            })
        }
        any(&self.0, is)
    }
}

impl Default for Template {
    fn default() -> Self {
        Self(vec![Part::Body])
    }
}

fn parts(text: &str, depth: usize) -> anyhow::Result<Vec<Part>> {
    ensure!(depth > 0, "the template is nested too deeply");
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '[']) {
        if at > 0 {
            parts.push(Part::Literal(rest[..at].to_owned()));
        }
        let (inner, after) = enclosed(&rest[at..])?;
        parts.push(if rest[at..].starts_with('[') {
            Part::Optional(self::parts(inner, depth - 1)?)
        } else {
            placeholder(inner, depth)?
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    ensure!(!parts.is_empty(), "a template or group must not be empty");
    Ok(parts)
}

/// Returns the text between the first bracket and its closing bracket, and the text after the
/// closing bracket.
fn enclosed(text: &str) -> anyhow::Result<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok((&text[1..at], &text[at + 1..]));
        }
    }
    bail!("a {{ or [ is not closed")
}

fn placeholder(name: &str, depth: usize) -> anyhow::Result<Part> {
    let known = match name {
        "body" => Part::Body,
        "body|sha256hex" => Part::BodySha256Hex,
        "body|crc32" => Part::BodyCrc32,
        "ts" => Part::Timestamp,
        "method" => Part::Method,
        "url" => Part::Url,
        "public_url" => Part::PublicUrl,
        "path" => Part::Path,
        "path|encoded" => Part::PathEncoded,
        "form_sorted" => Part::FormSorted,
        "secret" => Part::Secret,
        _ => {
            let Some((kind, of)) = name.split_once(':') else {
                bail!("unknown placeholder {{{name}}}");
            };
            match kind {
                "sigraw" => Part::SigRaw(of.to_owned()),
                "signed_headers" => Part::SignedHeaders(of.to_owned()),
                "signed_headers_kv" => Part::SignedHeadersKv(of.to_ascii_lowercase()),
                "hmac_hex" => Part::HmacHex(parts(of, depth - 1)?),
                "hmac_b64" => Part::HmacBase64(parts(of, depth - 1)?),
                "sha256_hex" => Part::Sha256Hex(parts(of, depth - 1)?),
                _ => match name.strip_suffix("|lower") {
                    Some(name) => Part::Lower(Location::parse(name)?),
                    None => Part::At(Location::parse(name)?),
                },
            }
        }
    };
    Ok(known)
}

/// Formats the template in the notation of presets.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, "{part}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |parts: &[Self]| parts.iter().map(Self::to_string).collect::<String>();
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Body => f.write_str("{body}"),
            Self::BodySha256Hex => f.write_str("{body|sha256hex}"),
            Self::BodyCrc32 => f.write_str("{body|crc32}"),
            Self::Timestamp => f.write_str("{ts}"),
            Self::Method => f.write_str("{method}"),
            Self::Url => f.write_str("{url}"),
            Self::PublicUrl => f.write_str("{public_url}"),
            Self::Path => f.write_str("{path}"),
            Self::PathEncoded => f.write_str("{path|encoded}"),
            Self::FormSorted => f.write_str("{form_sorted}"),
            Self::Secret => f.write_str("{secret}"),
            Self::SigRaw(key) => write!(f, "{{sigraw:{key}}}"),
            Self::SignedHeaders(key) => write!(f, "{{signed_headers:{key}}}"),
            Self::SignedHeadersKv(name) => write!(f, "{{signed_headers_kv:{name}}}"),
            Self::At(location) => write!(f, "{{{location}}}"),
            Self::Lower(location) => write!(f, "{{{location}|lower}}"),
            Self::Optional(parts) => write!(f, "[{}]", all(parts)),
            Self::HmacHex(parts) => write!(f, "{{hmac_hex:{}}}", all(parts)),
            Self::HmacBase64(parts) => write!(f, "{{hmac_b64:{}}}", all(parts)),
            Self::Sha256Hex(parts) => write!(f, "{{sha256_hex:{}}}", all(parts)),
        }
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_literals_and_places() {
        let template = Template::parse("v0:{ts}:{header:X-Id}{body}").unwrap();
        assert_eq!(
            template.0,
            [
                Part::Literal("v0:".into()),
                Part::Timestamp,
                Part::Literal(":".into()),
                Part::At(Location::Header(vec!["x-id".into()])),
                Part::Body,
            ]
        );
        assert_eq!(template.to_string(), "v0:{ts}:{header:x-id}{body}");
        for bad in [
            "",
            "{bdy}",
            "{body",
            "{header:}",
            "{nowhere:x}",
            "[{body}",
            "[]",
            "{}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        assert!(Template::parse(&"[".repeat(9).replace('[', "[x")).is_err());
        assert!(Template::parse("[[[[[x]]]]]").is_err());
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in [
            "[id:{query:data.id|lower};]ts:{ts};",
            "sha256={hmac_b64:{query:crc_token}}",
            "{sha256_hex:{query:c}token{public_url}}",
            "{method}\n{path}\n{path|encoded}\n{signed_headers_kv:x-signed}\n{body}",
            "{json:value[*].id}{item:a.'b.c'}{body|crc32}",
        ] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
    }
}
