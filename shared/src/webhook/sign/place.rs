//! Writes values to the locations that a preset names.

use anyhow::{Context as _, anyhow, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::base::json_path::JsonPath;
use crate::webhook::envelope::{Envelope, form_decode};
use crate::webhook::preset::Location;

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
            let mut json = parsed(envelope)?;
            // Providers send timestamps as numbers or as strings. Verification accepts both.
            for place in path.places(&mut json) {
                *place = Value::String(value.to_owned());
            }
            envelope.body = json.to_string().into();
        }
        _ => bail!("cannot write a value to {at}"),
    }
    Ok(())
}

/// Returns the query or form with this pair at the end. Removes other pairs with this name.
fn with_pair(pairs: &str, name: &str, value: &str) -> String {
    let others = pairs.split('&').filter(|pair| {
        let key = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && form_decode(key) != name
    });
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let pair = format!("{name}={value}");
    let mut all: Vec<&str> = others.collect();
    all.push(&pair);
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
    let mut json = parsed(envelope)?;
    for (item, value) in items.places(&mut json).into_iter().zip(values) {
        for place in path.places(item) {
            *place = Value::String(value.clone());
        }
    }
    envelope.body = json.to_string().into();
    Ok(())
}

fn parsed(envelope: &Envelope) -> anyhow::Result<Value> {
    serde_json::from_slice(&envelope.body).map_err(|_| anyhow!("the body is not JSON"))
}
