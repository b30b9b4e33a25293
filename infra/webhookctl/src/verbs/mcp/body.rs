//! The structure of a body. It is enough to see that a field is missing or has another type, and it
//! contains neither personal data nor prose.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::fence::inert;
use crate::output::CliError;

/// The maximum number of paths.
const MOST_PATHS: usize = 200;

/// The maximum depth of a path.
const MOST_DEEP: usize = 16;

/// The maximum length of a value in characters.
const MOST_OF_VALUE: usize = 2000;

/// Parts of names whose values are never shown.
const MASKED: &[&str] = &[
    "password",
    "passwd",
    "token",
    "authorization",
    "secret",
    "card",
    "cvc",
    "cvv",
    "iban",
    "ssn",
    "api_key",
    "apikey",
    "private",
    "signature",
    "credential",
    "cookie",
];

/// Returns the structure of the body in a document of `inbox body`, and the values at the paths.
pub(super) fn answer(document: &Value, paths: &Value, shows: bool) -> Result<Value, CliError> {
    let paths: Vec<&str> = match paths {
        Value::Null => Vec::new(),
        Value::Array(paths) => paths.iter().filter_map(Value::as_str).collect(),
        _ => {
            return Err(CliError::usage(
                "mcp.argument",
                "`paths` must be a list of texts",
            ));
        }
    };
    if !paths.is_empty() && !shows {
        return Err(
            CliError::refused("mcp.bodies", "values of bodies are not allowed here")
                .note("without `paths`, the answer is the structure of the body")
                .tip("the operator can start `webhookctl mcp --bodies`"),
        );
    }
    let mut answer = json!({
        "schema": "webhookctl/mcp.body/v1",
        "id": document["id"],
        "bytes": document["bytes"],
        "content_type": document["content_type"],
        "sha256": document["sha256"],
    });
    let Some(body) = parsed(document) else {
        answer["json"] = "no".into();
        return Ok(answer);
    };
    answer["json"] = "yes".into();
    let mut shape = Shape::default();
    shape.walk("", &body, 0);
    answer["shape"] = shape.lines.into_iter().map(Line::document).collect();
    if !paths.is_empty() {
        let values = paths
            .iter()
            .map(|path| json!({"path": path, "value": value(&body, path)}));
        answer["values"] = values.collect();
    }
    Ok(answer)
}

/// Returns the values of the whole body as a text of limited length, or nothing if it is not JSON.
pub(super) fn whole(document: &Value) -> Option<Value> {
    let text = masked(&parsed(document)?).to_string();
    Some(json!({"path": "$", "value": {"untrusted": inert(&text, MOST_OF_VALUE)}}))
}

fn parsed(document: &Value) -> Option<Value> {
    let bytes = match (&document["text"], &document["base64"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Value::String(text)) => STANDARD.decode(text).ok()?,
        _ => return None,
    };
    serde_json::from_slice(&bytes).ok()
}

#[derive(Default)]
struct Shape {
    lines: BTreeMap<(String, &'static str), Line>,
}

/// The values at one path that have the same type and class.
struct Line {
    path: String,
    class: &'static str,
    count: usize,
    length: Option<(usize, usize)>,
}

type Entry = ((String, &'static str), Line);

impl Shape {
    fn walk(&mut self, path: &str, value: &Value, depth: usize) {
        let (class, length) = match value {
            Value::Null => ("null", None),
            Value::Bool(_) => ("boolean", None),
            Value::Number(_) => ("number", None),
            Value::String(text) => (class(text), Some(text.chars().count())),
            Value::Array(items) => ("array", Some(items.len())),
            Value::Object(object) => ("object", Some(object.len())),
        };
        let key = (path.to_owned(), class);
        if self.lines.len() >= MOST_PATHS && !self.lines.contains_key(&key) {
            return;
        }
        let line = self.lines.entry(key).or_insert_with(|| Line {
            path: path.to_owned(),
            class,
            count: 0,
            length: length.map(|length| (length, length)),
        });
        line.count += 1;
        if let (Some((least, most)), Some(length)) = (&mut line.length, length) {
            (*least, *most) = ((*least).min(length), (*most).max(length));
        }
        if depth == MOST_DEEP {
            return;
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.walk(&format!("{path}[*]"), item, depth + 1);
                }
            }
            Value::Object(object) => {
                for (key, value) in object {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.walk(&format!("{path}{dot}{key}"), value, depth + 1);
                }
            }
            _ => {}
        }
    }
}

impl Line {
    fn document((_, line): Entry) -> Value {
        let mut document = json!({"path": line.path, "class": line.class, "count": line.count});
        if let Some((least, most)) = line.length {
            document["length"] = json!([least, most]);
        }
        document
    }
}

/// Returns the kind of a text. The text itself stays unknown.
fn class(text: &str) -> &'static str {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if text.is_empty() {
        "empty text"
    } else if text.starts_with("https://") || text.starts_with("http://") {
        "url-like"
    } else if text.contains('@') && !text.contains(' ') {
        "email-like"
    } else if text.len() <= 80 && text.chars().all(is_word) {
        "id-like"
    } else {
        "text"
    }
}

/// Returns the value at a path, as a text of limited length.
fn value(body: &Value, path: &str) -> Value {
    let mut at = body;
    for key in path.split('.') {
        if is_masked(key) {
            return "masked".into();
        }
        let next = match at {
            Value::Object(object) => object.get(key),
            Value::Array(items) => key.parse().ok().and_then(|place: usize| items.get(place)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Value::Null,
        }
    }
    let text = match masked(at) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    // The fence marks the text, and would cut it earlier.
    json!({"untrusted": inert(&text, MOST_OF_VALUE)})
}

/// Returns the value without the fields that have the names of secrets.
fn masked(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let fields = object.iter().map(|(key, value)| {
                let value = if is_masked(key) {
                    "masked".into()
                } else {
                    masked(value)
                };
                (key.clone(), value)
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(masked).collect(),
        other => other.clone(),
    }
}

fn is_masked(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    MASKED.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(body: &str) -> Value {
        json!({"id": "evt_1", "bytes": body.len(), "content_type": null, "sha256": null, "text": body})
    }

    const BODY: &str = r#"{"id":"in_1","lines":[{"mail":"a@b.c"},{"mail":"x"}],"note":"call me, I pay",
        "card":{"number":"4242"},"n":1.50}"#;

    #[test]
    fn a_shape_has_no_values() {
        let shape = answer(&document(BODY), &Value::Null, false).unwrap();
        let text = shape.to_string();
        for value in ["in_1", "a@b.c", "I pay", "4242", "1.5"] {
            assert!(!text.contains(value), "{value} in {text}");
        }
        let lines = shape["shape"].as_array().unwrap();
        let find = |path: &str, class: &str| {
            lines
                .iter()
                .any(|line| line["path"] == path && line["class"] == class)
        };
        assert!(
            find("id", "id-like") && find("lines[*].mail", "email-like"),
            "{text}"
        );
        assert!(
            find("note", "text") && find("lines", "array") && find("n", "number"),
            "{text}"
        );
    }

    #[test]
    fn values_need_permission_and_secrets_stay_masked() {
        let paths = json!(["id", "card.number", "lines.1.mail", "nothing", "lines"]);
        let error = answer(&document(BODY), &paths, false).unwrap_err();
        assert_eq!(error.code, "mcp.bodies");
        let values = answer(&document(BODY), &paths, true).unwrap();
        let value = |place: usize| &values["values"][place]["value"];
        assert_eq!(value(0)["untrusted"], "in_1");
        assert_eq!(*value(1), "masked");
        assert_eq!(value(2)["untrusted"], "x");
        assert_eq!(*value(3), Value::Null);
        let nested = answer(
            &document(r#"{"a":{"token":"t0p","b":1}}"#),
            &json!(["a"]),
            true,
        );
        let nested = nested.unwrap().to_string();
        assert!(
            !nested.contains("t0p") && nested.contains("masked"),
            "{nested}"
        );
    }

    #[test]
    fn a_body_that_is_not_json_has_no_shape() {
        let answer = answer(&document("a=1&b=2"), &Value::Null, false).unwrap();
        assert_eq!(answer["json"], "no");
    }
}
