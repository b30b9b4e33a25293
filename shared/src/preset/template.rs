//! What a signature is made over, as a template: `{ts}.{body}`.

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::Location;

/// Literals and placeholders, in order. They are fed to the hash one by one: the body is never
/// copied.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(pub Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Literal(String),
    /// `{body}`: the exact bytes.
    Body,
    /// `{ts}`: the timestamp's text as received.
    Timestamp,
    /// `{method}`
    Method,
    /// `{url}`: the public URL with the query as received.
    Url,
    /// `{header:NAME}` and the other places.
    At(Location),
}

impl Template {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let (name, after) = after
                .split_once('}')
                .with_context(|| format!("{text:?}: a {{ is not closed"))?;
            parts.push(match name {
                "body" => Part::Body,
                "ts" => Part::Timestamp,
                "method" => Part::Method,
                "url" => Part::Url,
                _ if name.contains(':') => Part::At(Location::parse(name)?),
                _ => bail!("{text:?}: there is no placeholder {{{name}}}"),
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        ensure!(!parts.is_empty(), "an empty template");
        Ok(Self(parts))
    }

    pub fn needs_timestamp(&self) -> bool {
        self.0.contains(&Part::Timestamp)
    }
}

/// As it is written in a preset.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(text),
            Part::Body => f.write_str("{body}"),
            Part::Timestamp => f.write_str("{ts}"),
            Part::Method => f.write_str("{method}"),
            Part::Url => f.write_str("{url}"),
            Part::At(location) => write!(f, "{{{location}}}"),
        })
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
        for bad in ["", "{bdy}", "{body", "{header:}", "{nowhere:x}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }
}
