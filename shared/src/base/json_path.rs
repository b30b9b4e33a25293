//! Reads values from a JSON document without parsing the whole document into memory.

mod alone;
mod edit;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use alone::{Alone, span};

/// A path of keys in a JSON document, such as `data.object.id`. `[*]` matches every element of an
/// array, as in `value[*].id`. A key that contains a dot is in quotes, as in `data.'odata.etag'`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Each,
}

impl JsonPath {
    /// Parses a path. `None` if a key is empty, or if a quote or a bracket is not closed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            if let Some(after) = rest.strip_prefix('\'') {
                let (key, after) = after.split_once('\'')?;
                steps.push(Step::Key(key.to_owned()));
                rest = after;
            } else if !rest.starts_with('[') {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                steps.push(Step::Key(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            while let Some(after) = rest.strip_prefix("[*]") {
                steps.push(Step::Each);
                rest = after;
            }
            if rest.is_empty() {
                break;
            }
            rest = rest.strip_prefix('.')?;
        }
        let full = |step: &Step| match step {
            Step::Key(key) => !key.is_empty() && !key.contains('\''),
            Step::Each => true,
        };
        steps.iter().all(full).then_some(Self(steps))
    }

    /// Whether the path can match several values.
    pub fn is_many(&self) -> bool {
        self.0.contains(&Step::Each)
    }

    /// The scalar at this path as text. A number is returned as it is written. `null` counts as
    /// absent.
    ///
    /// If a document contains a key twice, the last value counts, as in most JSON parsers. An
    /// object or an array instead of a scalar is an error.
    pub fn scalar(&self, json: &[u8]) -> Result<Option<String>, NotThere> {
        self.raw(json)?.map_or(Ok(None), scalar)
    }

    /// The raw text of the value at this path. If the path matches several values, the first value
    /// is returned.
    pub fn raw<'j>(&self, json: &'j [u8]) -> Result<Option<&'j RawValue>, NotThere> {
        Ok(self.all(json)?.into_iter().next().flatten())
    }

    /// All values at this path. Each array element on the path has one entry, which is `None` if
    /// the element lacks the value. The result is empty if the array is missing or empty.
    pub fn all<'j>(&self, json: &'j [u8]) -> Result<Vec<Option<&'j RawValue>>, NotThere> {
        let mut found = Vec::new();
        let mut document = serde_json::Deserializer::from_slice(json);
        Walk(&self.0, &mut found)
            .deserialize(&mut document)
            .map_err(|_| NotThere::NoJson)?;
        document.end().map_err(|_| NotThere::NoJson)?;
        Ok(found)
    }
}

impl JsonPath {
    /// Returns whether the document has `null` or an empty array at the path, or on the way to it.
    pub fn leads_to_nothing(&self, json: &[u8]) -> bool {
        (1..=self.0.len()).any(|steps| {
            let begin = Self(self.0[..steps].to_vec());
            let values = begin.all(json).unwrap_or_default();
            values.into_iter().flatten().any(is_nothing)
        })
    }
}

fn is_nothing(raw: &RawValue) -> bool {
    let inner = raw.get().strip_prefix('[');
    let inner = inner.and_then(|inner| inner.strip_suffix(']'));
    raw.get() == "null" || inner.is_some_and(|inner| inner.trim_ascii().is_empty())
}

impl JsonPath {
    /// Mutable references to the values at this path. Missing values are created. A created array
    /// has one element.
    pub fn places<'v>(&self, json: &'v mut Value) -> Vec<&'v mut Value> {
        let mut places = vec![json];
        for step in &self.0 {
            places = match step {
                Step::Key(key) => places
                    .into_iter()
                    .filter_map(|place| {
                        if place.is_null() {
                            *place = Value::Object(serde_json::Map::new());
                        }
                        let map = place.as_object_mut()?;
                        Some(map.entry(key.clone()).or_insert(Value::Null))
                    })
                    .collect(),
                Step::Each => places
                    .into_iter()
                    .filter_map(|place| {
                        if place.is_null() {
                            *place = Value::Array(vec![Value::Null]);
                        }
                        place.as_array_mut()
                    })
                    .flatten()
                    .collect(),
            };
        }
        places
    }
}

/// The text of a scalar. `null` counts as absent.
pub fn scalar(raw: &RawValue) -> Result<Option<String>, NotThere> {
    match raw.get().as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') => Err(NotThere::NoScalar),
        Some(b'"') => serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|_| NotThere::NoJson),
        _ => Ok(Some(raw.get().to_owned())),
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match step {
                Step::Each => f.write_str("[*]")?,
                Step::Key(key) if key.contains(['.', '[']) => write!(f, "{dot}'{key}'")?,
                Step::Key(key) => write!(f, "{dot}{key}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for JsonPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("invalid path {text:?}: expected keys such as data.object.id"))
    }
}

/// The reason why a value cannot be read, although it may be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThere {
    /// The document is not JSON.
    NoJson,
    /// The value is an object or an array.
    NoScalar,
}

/// Follows the keys of a path. Skips all other values without parsing them into memory.
struct Walk<'p, 'f, 'j>(&'p [Step], &'f mut Vec<Option<&'j RawValue>>);

impl<'j> DeserializeSeed<'j> for Walk<'_, '_, 'j> {
    type Value = ();

    fn deserialize<D: Deserializer<'j>>(self, value: D) -> Result<(), D::Error> {
        if self.0.is_empty() {
            let raw = <&RawValue as serde::Deserialize>::deserialize(value)?;
            self.1.push(Some(raw));
            return Ok(());
        }
        value.deserialize_any(self)
    }
}

impl<'j> Visitor<'j> for Walk<'_, '_, 'j> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(steps, found) = self;
        let before = found.len();
        while let Some(name) = map.next_key::<Cow<'j, str>>()? {
            match steps {
                [Step::Key(key), rest @ ..] if *key == name => {
                    found.truncate(before);
                    map.next_value_seed(Walk(rest, found))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self(steps, found) = self;
        let [Step::Each, rest @ ..] = steps else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        loop {
            let before = found.len();
            if seq.next_element_seed(Walk(rest, found))?.is_none() {
                return Ok(());
            }
            if found.len() == before {
                found.push(None);
            }
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
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
    fn every_element_has_an_entry() {
        let all = |path: &str, json: &str| {
            let path = JsonPath::parse(path).unwrap();
            let found = path.all(json.as_bytes()).unwrap();
            let text = found.iter().map(|raw| raw.map(|raw| raw.get().to_owned()));
            text.collect::<Vec<_>>()
        };
        let json = r#"{"v":[{"a.b":1},{},3,{"a.b":null}],"e":[],"o":{"v":[[1],[2,3]]}}"#;
        assert_eq!(
            all("v[*].'a.b'", json),
            [Some("1".into()), None, None, Some("null".into())]
        );
        assert_eq!(all("e[*]", json), []);
        assert_eq!(all("none[*].x", json), []);
        assert_eq!(all("o.v[*][*]", json).len(), 3);
        assert_eq!(all("[*].id", r#"[{"id":1}]"#), [Some("1".into())]);
        assert_eq!(all("v[*]", r#"{"v":[1,2],"v":[3]}"#), [Some("3".into())]);
        for path in ["v[*].'a.b'", "[*]", "a.b[*][*].c"] {
            assert_eq!(JsonPath::parse(path).unwrap().to_string(), path);
        }
        for bad in ["", "a.", ".a", "a..b", "a[0]", "a'b", "'a", "a[*]b"] {
            assert_eq!(JsonPath::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_null_or_an_empty_array_on_the_way_is_found() {
        let leads = |path: &str| {
            let json = br#"{"a":{"b":null,"c":1},"d":[{"e":null}],"f":null,"g":[ ]}"#;
            JsonPath::parse(path).unwrap().leads_to_nothing(json)
        };
        let nothing = ["a.b", "a.b.x", "d[*].e", "f.x.y", "g[*].x", "g"];
        assert!(nothing.into_iter().all(leads));
        assert!(!["a.c", "a.x", "d[*].x", "x"].into_iter().any(leads));
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
