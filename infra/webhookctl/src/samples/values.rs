//! Reads and writes values in the bodies of sample requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use shared::base::json_path::JsonPath;

/// Returns the JSON in a form field. If the field is missing, returns a list with one empty object.
pub(super) fn list(fields: &[(String, String)], name: &str) -> Value {
    let field = fields.iter().find(|(field, _)| field == name);
    field
        .and_then(|(_, text)| serde_json::from_str(text).ok())
        .unwrap_or_else(|| serde_json::json!([{}]))
}

/// Returns the XML in a form field, encoded as base64. If the field is missing, returns an empty
/// document.
pub(super) fn document(fields: &[(String, String)], name: &str) -> String {
    let field = fields.iter().find(|(field, _)| field == name);
    field
        .and_then(|(_, text)| String::from_utf8(STANDARD.decode(text).ok()?).ok())
        .unwrap_or_else(|| "<notification></notification>".to_owned())
}

/// Returns the XML with this element directly below the root. Replaces an element of the same name.
pub(super) fn with_element(xml: &str, tag: &str, text: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut xml = xml.to_owned();
    if let (Some(from), Some(to)) = (xml.find(&open), xml.find(&close)) {
        xml.replace_range(from..to + close.len(), "");
    }
    let end = xml.rfind("</").unwrap_or(xml.len());
    xml.insert_str(end, &format!("{open}{text}{close}"));
    xml
}

pub(super) fn is_in(path: &JsonPath, json: &Value) -> bool {
    let text = json.to_string();
    let found = path.raw(text.as_bytes());
    found.is_ok_and(|raw| raw.is_some_and(|raw| raw.get() != "null"))
}

/// Writes a number if the text is a number, because most providers send times and ids as JSON
/// numbers.
pub(super) fn write(places: Vec<&mut Value>, value: &str) -> bool {
    let there = !places.is_empty();
    for place in places {
        let number = serde_json::from_str::<serde_json::Number>(value).ok();
        let number = number.filter(|number| number.to_string() == value);
        *place = number.map_or_else(|| Value::String(value.to_owned()), Value::Number);
    }
    there
}

/// Writes a value into JSON that is the text of another value.
pub(super) fn write_inside(place: &mut Value, paths: &[JsonPath], value: &str) -> bool {
    let Some((path, rest)) = paths.split_first() else {
        return write(vec![place], value);
    };
    let text = place.as_str().unwrap_or("{}");
    let mut json: Value = serde_json::from_str(text).unwrap_or_default();
    let inner = path.places(&mut json).into_iter().next();
    let is_written = inner.is_some_and(|inner| write_inside(inner, rest, value));
    *place = Value::String(json.to_string());
    is_written
}
