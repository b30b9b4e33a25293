//! Puts values where a preset looks for them.

use anyhow::{Context as _, anyhow, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::envelope::Envelope;
use crate::json_path::JsonPath;
use crate::preset::Location;

/// Puts a value there, in place of one that there is.
pub(super) fn set(envelope: &mut Envelope, at: &Location, value: &str) -> anyhow::Result<()> {
    match at {
        Location::Header(names) => {
            let name = names.first().context("a header has a name")?;
            envelope.headers.set(name, value);
        }
        Location::HeaderNumbered(prefix) => envelope.headers.set(&format!("{prefix}1"), value),
        Location::Query(name) => {
            let mark = if envelope.url.contains('?') { '&' } else { '?' };
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            envelope.url = format!("{}{mark}{name}={value}", envelope.url);
        }
        Location::Form(name) => {
            let mut body = envelope.body.to_vec();
            if !body.is_empty() {
                body.push(b'&');
            }
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            body.extend_from_slice(format!("{name}={value}").as_bytes());
            envelope.body = body.into();
        }
        Location::Json(path) => {
            let mut json = parsed(envelope)?;
            // A time is a number to some and a text to others; both are read alike.
            for place in path.places(&mut json) {
                *place = Value::String(value.to_owned());
            }
            envelope.body = json.to_string().into();
        }
        _ => bail!("nothing can be put at {at}"),
    }
    Ok(())
}

/// Puts a value into each item.
pub(super) fn set_each(
    envelope: &mut Envelope,
    items: &JsonPath,
    at: &Location,
    values: &[String],
) -> anyhow::Result<()> {
    let Location::Item(path) = at else {
        bail!("nothing can be put at {at} of an item");
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
