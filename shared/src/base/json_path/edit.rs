//! Writes values into a JSON document without changing any other byte of it.

use serde_json::value::RawValue;

use super::{JsonPath, NotThere, Step, span};

impl JsonPath {
    /// Returns the path that begins with this one and continues with another.
    pub(crate) fn joined(&self, then: &Self) -> Self {
        Self(self.0.iter().chain(&then.0).cloned().collect())
    }

    /// Writes a value at each place of this path, and creates missing keys. `text` gets the index of
    /// a place and its present value, and returns the new JSON text; with `None`, the place does not
    /// change. A place inside a value that is not an object does not change, and a missing array is
    /// not created.
    pub(crate) fn written(
        &self,
        json: &[u8],
        mut text: impl FnMut(usize, Option<&RawValue>) -> Option<String>,
    ) -> Result<Vec<u8>, NotThere> {
        let each = self.0.iter().rposition(|step| *step == Step::Each);
        let (array, keys) = self.0.split_at(each.map_or(0, |at| at + 1));
        let elements = Self(array.to_vec()).all(json)?;
        let mut document = json.to_vec();
        let elements = elements.into_iter().flatten().enumerate();
        // This goes from the last element to the first, so that the earlier ranges stay valid.
        for (index, element) in elements.collect::<Vec<_>>().into_iter().rev() {
            let present = at(element.get(), keys)?;
            if let Some(text) = text(index, present) {
                let written = with_value(element.get(), keys, present, &text)?;
                document.splice(span(json, element), written.into_bytes());
            }
        }
        Ok(document)
    }
}

/// Returns the document with this value at the keys. `present` is the value that is there now.
fn with_value(
    document: &str,
    keys: &[Step],
    present: Option<&RawValue>,
    text: &str,
) -> Result<String, NotThere> {
    if let Some(present) = present {
        return Ok(replaced(document, present, text));
    }
    // Finds the innermost value that exists on the way to the missing one.
    for known in (0..keys.len()).rev() {
        let Some(parent) = at(document, &keys[..known])? else {
            continue;
        };
        let inner = nested(&keys[known..], text);
        let object = parent.get().strip_prefix('{');
        return Ok(match object.map(str::trim_start) {
            Some("}") => replaced(document, parent, &format!("{{{inner}}}")),
            Some(members) => replaced(document, parent, &format!("{{{inner},{members}")),
            None if parent.get() == "null" => replaced(document, parent, &format!("{{{inner}}}")),
            None => document.to_owned(),
        });
    }
    Ok(document.to_owned())
}

/// Returns the members of an object that contain the text at these keys: `"a":{"b":text}`.
fn nested(keys: &[Step], text: &str) -> String {
    let mut nested = text.to_owned();
    for (depth, step) in keys.iter().enumerate().rev() {
        if let Step::Key(key) = step {
            let key = serde_json::Value::from(key.as_str());
            nested = format!("{key}:{nested}");
            if depth > 0 {
                nested = format!("{{{nested}}}");
            }
        }
    }
    nested
}

fn at<'j>(document: &'j str, keys: &[Step]) -> Result<Option<&'j RawValue>, NotThere> {
    JsonPath(keys.to_vec()).raw(document.as_bytes())
}

fn replaced(document: &str, value: &RawValue, text: &str) -> String {
    let range = span(document.as_bytes(), value);
    let (before, after) = (document.get(..range.start), document.get(range.end..));
    format!(
        "{}{text}{}",
        before.unwrap_or_default(),
        after.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &str, json: &str, text: &str) -> String {
        let path = JsonPath::parse(path).unwrap();
        let written = path.written(json.as_bytes(), |_, _| Some(text.to_owned()));
        String::from_utf8(written.unwrap()).unwrap()
    }

    #[test]
    fn only_the_bytes_of_the_value_change() {
        for (path, before, after) in [
            (
                "a",
                r#" {"b" : 1.10, "a" :1} "#,
                r#" {"b" : 1.10, "a" :"x"} "#,
            ),
            (
                "a.b",
                "{\"a\":{\"b\":\"\\u00e9\"},\n\"c\":[ ]}",
                "{\"a\":{\"b\":\"x\"},\n\"c\":[ ]}",
            ),
            ("a", r#"{"a":1,"a":2}"#, r#"{"a":1,"a":"x"}"#),
            (
                "v[*].a",
                r#"{"v":[{"a":1}, {"a":22} ],"é":1e2}"#,
                r#"{"v":[{"a":"x"}, {"a":"x"} ],"é":1e2}"#,
            ),
            ("v[*]", r#"{"v":[1, 2]}"#, r#"{"v":["x", "x"]}"#),
            ("[*].a", r#"[{"a":1},{"a":2}]"#, r#"[{"a":"x"},{"a":"x"}]"#),
        ] {
            assert_eq!(written(path, before, r#""x""#), after, "{path}");
        }
    }

    #[test]
    fn missing_keys_are_created() {
        for (path, before, after) in [
            ("a", "{}", r#"{"a":1}"#),
            ("a", "{ }", r#"{"a":1}"#),
            ("a.b.c", r#"{"z": 0}"#, r#"{"a":{"b":{"c":1}},"z": 0}"#),
            ("a.b", r#"{"a":null}"#, r#"{"a":{"b":1}}"#),
            ("a.b", r#"{"a": {"c":0}}"#, r#"{"a": {"b":1,"c":0}}"#),
            (
                "v[*].a.b",
                r#"{"v":[{}, {"a":{}}]}"#,
                r#"{"v":[{"a":{"b":1}}, {"a":{"b":1}}]}"#,
            ),
            // Nothing can be written into these.
            ("a.b", r#"{"a":3}"#, r#"{"a":3}"#),
            ("v[*].a", r#"{"v":[3,[]]}"#, r#"{"v":[3,[]]}"#),
            ("v[*].a", r#"{"v":{}}"#, r#"{"v":{}}"#),
        ] {
            assert_eq!(written(path, before, "1"), after, "{path} {before}");
        }
        let path = JsonPath::parse("a").unwrap();
        assert!(path.written(b"no json", |_, _| None).is_err());
    }
}
