//! Writes values to the locations that a preset names.

use anyhow::{Context as _, anyhow, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::base::json_path::JsonPath;
use crate::webhook::envelope::{Envelope, form_decode};
use crate::webhook::preset::{Location, multipart_field};

/// Sets the value at a location. Replaces an existing value.
pub(super) fn set(envelope: &mut Envelope, at: &Location, value: &str) -> anyhow::Result<()> {
    match at {
        Location::Header(names) => {
            let name = names.first().context("the header location has no name")?;
            envelope.headers.set(name, value);
        }
        Location::HeaderNumbered(prefix) => envelope.headers.set(&format!("{prefix}1"), value),
        Location::Query(name) => {
            let (path, query) = envelope.url.split_once('?').unwrap_or((&envelope.url, ""));
            envelope.url = format!("{path}?{}", with_pair(query, name, value));
        }
        Location::Form(name) => {
            let body = std::str::from_utf8(&envelope.body)
                .map_err(|_| anyhow!("the body is not a form"))?;
            envelope.body = with_pair(body, name, value).into();
        }
        Location::Json(path) => {
            write(envelope, path, |_, present| Some(json_text(present, value)))?;
        }
        Location::MultipartJson(name, path) => {
            let range = multipart_field(envelope, name)
                .map_err(|_| anyhow!("the body is not multipart/form-data"))?;
            let range = range.with_context(|| format!("the body has no field {name:?}"))?;
            let json = envelope.body.get(range.clone()).unwrap_or_default();
            let written = path.written(json, |_, present| Some(json_text(present, value)));
            let written = written.map_err(|_| anyhow!("the field {name:?} is not JSON"))?;
            let mut body = envelope.body.to_vec();
            body.splice(range, written);
            envelope.body = body.into();
        }
        Location::Body => envelope.body = value.to_owned().into(),
        _ => bail!("cannot write a value to {at}"),
    }
    Ok(())
}

/// Returns the query or form in which exactly one pair has this name. The other pairs do not
/// change.
pub(super) fn with_pair(pairs: &str, name: &str, value: &str) -> String {
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let pair = format!("{name}={value}");
    let is_named = |pair: &str| form_decode(pair.split('=').next().unwrap_or_default()) == name;
    let mut all: Vec<&str> = Vec::new();
    let mut is_placed = false;
    for other in pairs.split('&').filter(|pair| !pair.is_empty()) {
        if !is_named(other) {
            all.push(other);
        } else if !is_placed {
            all.push(&pair);
            is_placed = true;
        }
    }
    if !is_placed {
        all.push(&pair);
    }
    all.join("&")
}

/// Writes a value into each item.
pub(super) fn set_each(
    envelope: &mut Envelope,
    items: &JsonPath,
    at: &Location,
    values: &[String],
) -> anyhow::Result<()> {
    let Location::Item(path) = at else {
        bail!("cannot write a value to {at} of an item");
    };
    write(envelope, &items.joined(path), |index, present| {
        let value = values.get(index)?;
        Some(json_text(present, value))
    })
}

/// Writes values into the body. If the document lacks the array of the path, creates it with one
/// element.
fn write(
    envelope: &mut Envelope,
    path: &JsonPath,
    mut text: impl FnMut(usize, Option<&RawValue>) -> Option<String>,
) -> anyhow::Result<()> {
    let not_json = |_| anyhow!("the body is not JSON");
    if path.is_many() && path.all(&envelope.body).map_err(not_json)?.is_empty() {
        let mut json: Value =
            serde_json::from_slice(&envelope.body).context("the body is not JSON")?;
        for (index, place) in path.places(&mut json).into_iter().enumerate() {
            if let Some(text) = text(index, None) {
                *place = serde_json::from_str(&text).unwrap_or(Value::Null);
            }
        }
        envelope.body = json.to_string().into();
    } else {
        let written = path.written(&envelope.body, text);
        envelope.body = written.map_err(not_json)?.into();
    }
    Ok(())
}

/// Returns a value as JSON. If the present value is a number, the new value is also a number,
/// because providers send timestamps as numbers or as strings.
fn json_text(present: Option<&RawValue>, value: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if present.is_some_and(|present| digits(present.get())) && digits(value) {
        value.to_owned()
    } else {
        Value::from(value).to_string()
    }
}
