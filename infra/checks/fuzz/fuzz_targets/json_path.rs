//! Compares the value at a path in a document with the result of serde_json. The first line of the
//! input is the path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use shared::base::json_path::{JsonPath, NotThere};

fuzz_target!(|data: &[u8]| {
    let Some((text, json)) = fuzz::line(data) else {
        return;
    };
    let Some(path) = JsonPath::parse(text) else {
        return;
    };
    assert_eq!(JsonPath::parse(&path.to_string()), Some(path.clone()));
    let found = path.all(json);
    let scalar = path.scalar(json);
    // serde_json also checks numbers, escapes and depth outside the path, which our code only
    // skips.
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        return;
    };
    let found = found.expect("the document is JSON");
    let expected = values(text, &value);
    let parsed =
        |raw: &RawValue| -> Value { serde_json::from_str(raw.get()).expect("the value is JSON") };
    let found: Vec<Option<Value>> = found.iter().map(|raw| raw.map(parsed)).collect();
    let found: Vec<Option<&Value>> = found.iter().map(Option::as_ref).collect();
    assert_eq!(found, expected);
    match expected.first().copied().flatten() {
        None | Some(Value::Null) => assert_eq!(scalar, Ok(None)),
        Some(Value::String(text)) => assert_eq!(scalar.as_ref(), Ok(&Some(text.clone()))),
        Some(Value::Object(_) | Value::Array(_)) => assert_eq!(scalar, Err(NotThere::NoScalar)),
        Some(number_or_bool) => {
            let scalar = scalar
                .expect("the value is a scalar")
                .expect("the value exists");
            assert_eq!(
                &serde_json::from_str::<Value>(&scalar).expect("the scalar is JSON"),
                number_or_bool
            );
        }
    }
});

/// Returns the values at the path: one for each element of an array on the path, or `None` if an
/// element lacks the value.
fn values<'v>(path: &str, value: &'v Value) -> Vec<Option<&'v Value>> {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        return vec![Some(value)];
    }
    if let Some(rest) = path.strip_prefix("[*]") {
        let elements = value.as_array().into_iter().flatten();
        let each = elements.map(|element| values(rest, element));
        let or_none = |found: Vec<_>| if found.is_empty() { vec![None] } else { found };
        return each.flat_map(or_none).collect();
    }
    let (key, rest) = match path.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'').expect("the path is valid"),
        None => path.split_at(path.find(['.', '[']).unwrap_or(path.len())),
    };
    let field = value.as_object().and_then(|fields| fields.get(key));
    field.map_or(Vec::new(), |field| values(rest, field))
}
