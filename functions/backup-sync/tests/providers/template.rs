//! Fills values into the JSON of a script.

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) type Values = BTreeMap<&'static str, Value>;

/// Replaces `{name}` in every string. A string that is only `{name}` becomes the value itself, and
/// so can become a number or an array.
pub(crate) fn fill(template: &Value, values: &Values) -> Value {
    match template {
        Value::String(text) => {
            let whole = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'));
            if let Some(value) = whole.and_then(|name| values.get(name)) {
                return value.clone();
            }
            let filled = values.iter().fold(text.clone(), |text, (name, value)| {
                let plain = value.as_str().map(str::to_owned);
                text.replace(
                    &format!("{{{name}}}"),
                    &plain.unwrap_or_else(|| value.to_string()),
                )
            });
            filled.into()
        }
        Value::Array(list) => list.iter().map(|value| fill(value, values)).collect(),
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| (name.clone(), fill(value, values)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
