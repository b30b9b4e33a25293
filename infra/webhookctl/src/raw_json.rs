//! Parses JSON and keeps its notation: the order of keys, the spelling of numbers and strings, and
//! duplicate keys. A signature covers bytes, so a tool that shows bodies must not normalize them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum depth of a document.
const DEEPEST: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// `null`, `true`, `false`, a number or a string, in its original notation.
    Plain(String),
    List(Vec<Json>),
    /// The keys and their values, in the original order.
    Map(Vec<(Key, Json)>),
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub name: String,
    /// The original notation of the key, with its quotes.
    written: String,
}

impl Json {
    /// Parses a document. Returns `None` if the bytes are not valid JSON, or if the document has
    /// more than 128 levels.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let raw: &RawValue = serde_json::from_slice(bytes).ok()?;
        Self::read(raw.get(), DEEPEST)
    }

    /// Creates a string value.
    pub(crate) fn text(text: &str) -> Self {
        Self::Plain(serde_json::Value::from(text).to_string())
    }

    fn read(text: &str, depth: usize) -> Option<Self> {
        match text.as_bytes().first()? {
            b'{' => {
                let depth = depth.checked_sub(1)?;
                let members = serde_json::Deserializer::from_str(text)
                    .deserialize_map(Members)
                    .ok()?;
                let read = |(written, value): (&RawValue, &RawValue)| {
                    let written = written.get().to_owned();
                    let name = serde_json::from_str(&written).ok()?;
                    Some((Key { name, written }, Self::read(value.get(), depth)?))
                };
                members
                    .into_iter()
                    .map(read)
                    .collect::<Option<_>>()
                    .map(Self::Map)
            }
            b'[' => {
                let depth = depth.checked_sub(1)?;
                let elements = serde_json::Deserializer::from_str(text)
                    .deserialize_seq(Elements)
                    .ok()?;
                let read = |value: &RawValue| Self::read(value.get(), depth);
                elements
                    .into_iter()
                    .map(read)
                    .collect::<Option<_>>()
                    .map(Self::List)
            }
            _ => Some(Self::Plain(text.to_owned())),
        }
    }

    /// Returns the document on one line, without spaces.
    pub(crate) fn compact(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, None);
        text
    }

    /// Returns the document with a line for each value, indented by two spaces.
    pub(crate) fn pretty(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text + "\n"
    }

    fn write(&self, text: &mut String, indent: Option<usize>) {
        let below = indent.map(|indent| indent + 1);
        match self {
            Self::Plain(plain) => text.push_str(plain),
            Self::List(list) => {
                let write = |text: &mut String, value: &Self| value.write(text, below);
                write_all(text, indent, ('[', ']'), list, write);
            }
            Self::Map(members) => {
                let colon = if indent.is_some() { ": " } else { ":" };
                let write = |text: &mut String, (key, value): &(Key, Self)| {
                    text.push_str(&key.written);
                    text.push_str(colon);
                    value.write(text, below);
                };
                write_all(text, indent, ('{', '}'), members, write);
            }
        }
    }

    /// Returns the value of the key with this name. If the name occurs more than once, the last
    /// value counts, as in most parsers.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else {
            return None;
        };
        let found = members.iter().rev().find(|(key, _)| key.name == name);
        found.map(|(_, value)| value)
    }

    /// Replaces the value at this path by `value`, also in each element of the lists on the path.
    /// Returns the number of replacements.
    pub(crate) fn replace(&mut self, path: &[Cow<'_, str>], value: &Self) -> usize {
        let Some((name, rest)) = path.split_first() else {
            self.clone_from(value);
            return 1;
        };
        match self {
            Self::Plain(_) => 0,
            Self::List(list) => list
                .iter_mut()
                .map(|element| element.replace(path, value))
                .sum(),
            Self::Map(members) => {
                let named = members.iter_mut().filter(|(key, _)| key.name == *name);
                named.map(|(_, member)| member.replace(rest, value)).sum()
            }
        }
    }
}

fn write_all<T>(
    text: &mut String,
    indent: Option<usize>,
    (open, close): (char, char),
    all: &[T],
    mut write: impl FnMut(&mut String, &T),
) {
    text.push(open);
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        if let Some(indent) = indent {
            text.push('\n');
            text.push_str(&"  ".repeat(indent + 1));
        }
        write(text, one);
    }
    if let (Some(indent), false) = (indent, all.is_empty()) {
        text.push('\n');
        text.push_str(&"  ".repeat(indent));
    }
    text.push(close);
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = r#"{"b":1.10,"a":{"x":[1,"\u00e9",null],"x":2},"e":{},"f":[]}"#;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_written_stays_as_it_was() {
        assert_eq!(json(WRITTEN).compact(), WRITTEN);
        assert_eq!(json(&json(WRITTEN).pretty()).compact(), WRITTEN);
        assert_eq!(
            json(r#"{"a":[1,{"b":2}],"c":[]}"#).pretty(),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": []\n}\n"
        );
        assert_eq!(
            json(WRITTEN).get("a").unwrap().get("x").unwrap().compact(),
            "2"
        );
    }

    #[test]
    fn what_is_no_json_or_too_deep_is_nothing() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        for text in ["", "{", "nul", "{} {}", "a=b", &deep] {
            assert_eq!(Json::parse(text.as_bytes()), None);
        }
        assert_eq!(Json::parse(b"\"\xff\""), None);
    }

    #[test]
    fn a_value_is_replaced_wherever_the_path_leads() {
        let mut people = json(r#"{"u":[{"m":"a","m":"b"},{"n":1}],"m":"c"}"#);
        let path = [Cow::from("u"), Cow::from("m")];
        assert_eq!(people.replace(&path, &Json::text("-")), 2);
        assert_eq!(
            people.compact(),
            r#"{"u":[{"m":"-","m":"-"},{"n":1}],"m":"c"}"#
        );
        assert_eq!(people.replace(&[Cow::from("z")], &Json::text("-")), 0);
    }
}
