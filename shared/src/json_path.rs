//! Reads single values out of a JSON document without building it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Dotted keys into a JSON document, such as `data.object.id`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct JsonPath(Vec<String>);

impl JsonPath {
    /// `None` when a key is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let keys: Vec<String> = text.split('.').map(str::to_owned).collect();
        keys.iter().all(|key| !key.is_empty()).then_some(Self(keys))
    }

    /// The scalar at this path as text: numbers as they were written, `null` as absent.
    ///
    /// A document may hold a key twice; the last one counts, as it does for the parsers that
    /// most handlers use. An object or an array where a scalar is expected is an error.
    pub fn scalar(&self, json: &[u8]) -> Result<Option<String>, NotThere> {
        let Some(raw) = self.raw(json)? else {
            return Ok(None);
        };
        match raw.get().as_bytes().first() {
            Some(b'n') => Ok(None),
            Some(b'{' | b'[') => Err(NotThere::NoScalar),
            Some(b'"') => serde_json::from_str(raw.get())
                .map(Some)
                .map_err(|_| NotThere::NoJson),
            _ => Ok(Some(raw.get().to_owned())),
        }
    }

    /// The text of the value at this path, as it stands in the document.
    pub fn raw<'j>(&self, json: &'j [u8]) -> Result<Option<&'j RawValue>, NotThere> {
        let mut document = serde_json::Deserializer::from_slice(json);
        let found = Walk(&self.0)
            .deserialize(&mut document)
            .map_err(|_| NotThere::NoJson)?;
        document.end().map_err(|_| NotThere::NoJson)?;
        Ok(found)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl TryFrom<String> for JsonPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("{text:?} is no path; a path is like data.object.id"))
    }
}

/// Why a path led nowhere, though not because the value is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThere {
    /// The document is not JSON.
    NoJson,
    /// The path leads to an object or an array.
    NoScalar,
}

/// Steps down along the keys; whatever lies beside the path is skipped, not built.
struct Walk<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&RawValue as serde::Deserialize>::deserialize(value).map(Some);
        }
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((key, rest)) = self.0.split_first() else {
            return Err(A::Error::custom("the path has ended"));
        };
        let mut found = None;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if name == key.as_str() {
                found = map.next_value_seed(Walk(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(path: &str, json: &str) -> Result<Option<String>, NotThere> {
        JsonPath::parse(path).unwrap().scalar(json.as_bytes())
    }

    #[test]
    fn finds_scalars_as_written() {
        let json =
            r#"{"a":{"b":"x\u00e9","n":1.10,"t":true,"z":null,"o":{}},"b":[{"a":1}],"a2":3}"#;
        assert_eq!(scalar("a.b", json), Ok(Some("xé".into())));
        assert_eq!(scalar("a.n", json), Ok(Some("1.10".into())));
        assert_eq!(scalar("a.t", json), Ok(Some("true".into())));
        assert_eq!(scalar("a2", json), Ok(Some("3".into())));
        for absent in ["a.z", "c", "a.b.c", "b.a", "a.n.x", "a.t.x"] {
            assert_eq!(scalar(absent, json), Ok(None), "{absent}");
        }
        assert_eq!(scalar("a.o", json), Err(NotThere::NoScalar));
        assert_eq!(scalar("b", json), Err(NotThere::NoScalar));
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        assert_eq!(
            scalar("id", r#"{"id":"one","id":"two"}"#),
            Ok(Some("two".into()))
        );
        assert_eq!(scalar("a.id", r#"{"a":{"id":"one"},"a":{}}"#), Ok(None));
    }

    #[test]
    fn what_is_not_json_is_said_to_be_none() {
        let deep = "[".repeat(100_000);
        let nested = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        for json in ["", "{", "{\"id\":1}x", "not json", deep.as_str()] {
            assert_eq!(scalar("id", json), Err(NotThere::NoJson), "{json:.20}");
        }
        assert_eq!(scalar("id", &nested), Ok(None));
    }
}
