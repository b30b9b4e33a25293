//! One item of a list, and the event that is created from it.

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use serde_json::value::RawValue;
use shared::base::clock::UnixMillis;
use shared::base::json_path::{JsonPath, scalar};
use shared::webhook::event::{LONGEST_NAME, Sha, cut};
use shared::webhook::preset::{Location, Locations, Sync, SyncKind};

/// The type of an event that reports a change.
const CHANGED: &str = "mitt.changed";

/// The maximum length of an event id in bytes.
const LONGEST: usize = 1024;

/// One event of a list.
#[derive(Debug)]
pub(super) struct Item {
    /// The id that the webhook of the event has.
    pub(super) id: String,
    /// The type, truncated like the type of a webhook, so that a long type never blocks the cursor.
    pub(super) kind: String,
    /// The time at which the event happened, if the list contains it.
    pub(super) at: Option<UnixMillis>,
    /// Whether this inbox answered the delivery of the event with 2xx.
    pub(super) delivered: bool,
    /// Whether the provider has no body for the event.
    pub(super) bare: bool,
    /// The exact bytes of the item.
    pub(super) raw: Bytes,
}

impl Item {
    /// Parses an item. If the id or a required time is missing, the page has an error, because the
    /// item must not be skipped.
    pub(super) fn read(sync: &Sync, raw: &RawValue) -> anyhow::Result<Self> {
        let raw = raw.get().as_bytes();
        let id = name(sync, raw)?;
        let (id, kind) = if sync.kind == SyncKind::ChangeCursor {
            // A change is not the event of a webhook, and must not have the same id as one.
            (format!("changed:{id}"), CHANGED.to_owned())
        } else {
            let kind = first(&sync.event_type, raw).context("read the type of an event")?;
            (id, cut(&kind.unwrap_or_default(), LONGEST_NAME).to_owned())
        };
        let at = match &sync.time {
            None => None,
            Some(time) => {
                let text = first(&time.at, raw)?.context("an event of the list has no time")?;
                let at = time.unit.read(&text);
                Some(at.context("the time of an event of the list cannot be read")?)
            }
        };
        let status = sync
            .delivered
            .as_ref()
            .map(|at| find(at, raw))
            .transpose()?;
        let status = status.flatten().and_then(|text| text.parse::<u16>().ok());
        let bare = sync.no_body.as_ref().map(|at| find(at, raw)).transpose()?;
        Ok(Self {
            id,
            bare: bare.flatten().as_deref() == Some("true"),
            kind,
            at,
            delivered: status.is_some_and(|status| (200..300).contains(&status)),
            raw: Bytes::copy_from_slice(raw),
        })
    }

    /// Returns whether the id is longer than the limit.
    pub(super) fn is_too_long(&self) -> bool {
        self.id.len() > LONGEST
    }

    /// Returns the body of the event, from the item or from the document that was fetched for it.
    /// Returns `None` if the provider has no body.
    pub(super) fn body(
        &self,
        sync: &Sync,
        fetched: Option<&Bytes>,
    ) -> anyhow::Result<Option<Bytes>> {
        let body = match &sync.body {
            None => {
                let whole = fetched.unwrap_or(&self.raw);
                // The document can be truncated, so it is parsed first.
                serde_json::from_slice::<&RawValue>(whole)
                    .map_err(|_| anyhow!("the fetched event is not valid JSON"))?;
                Some(whole.clone())
            }
            Some(Location::Json(path)) => part(path, fetched.context("no document was fetched")?)?,
            Some(Location::Item(path)) => part(path, &self.raw)?,
            Some(other) => anyhow::bail!("a body cannot be read from {other}"),
        };
        match (&sync.wrap, body) {
            (Some(wrap), Some(body)) => wrapped(wrap, &body, &self.raw).map(Some),
            (_, body) => Ok(body),
        }
    }
}

fn name(sync: &Sync, raw: &[u8]) -> anyhow::Result<String> {
    let none = || "an event of the list has no id";
    if sync.composite.is_empty() {
        return first(&sync.id, raw)?.with_context(none);
    }
    let parts = sync.composite.iter().map(|at| {
        let value = find(at, raw)?.filter(|value| !value.is_empty());
        value.with_context(none)
    });
    Ok(parts.collect::<anyhow::Result<Vec<_>>>()?.join("/"))
}

fn first(locations: &Locations, raw: &[u8]) -> anyhow::Result<Option<String>> {
    for at in &locations.0 {
        if let Some(value) = find(at, raw)?.filter(|value| !value.is_empty()) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn find(at: &Location, raw: &[u8]) -> anyhow::Result<Option<String>> {
    match at {
        Location::Item(path) => path
            .scalar(raw)
            .map_err(|_| anyhow!("the value {path} of an event of the list cannot be read")),
        Location::Const(value) => Ok(Some(value.clone())),
        Location::BodySha256 => Ok(Some(Sha::of(raw).hex())),
        other => Err(anyhow!("an event of a list has no {other}")),
    }
}

/// Returns a part of a document: the text of a string, or the exact bytes of any other value.
fn part(path: &JsonPath, document: &[u8]) -> anyhow::Result<Option<Bytes>> {
    let raw = path
        .raw(document)
        .map_err(|_| anyhow!("the list entry with the event's body is not valid JSON"))?
        .filter(|raw| raw.get() != "null");
    let Some(raw) = raw else {
        return Ok(None);
    };
    if raw.get().starts_with('"') {
        let text =
            scalar(raw).map_err(|_| anyhow!("the body of an event is not a valid string"))?;
        return Ok(text.map(Bytes::from));
    }
    Ok(Some(Bytes::copy_from_slice(raw.get().as_bytes())))
}

/// Wraps the body, or values of the item, in the same JSON as a webhook has.
fn wrapped(wrap: &str, body: &[u8], item: &[u8]) -> anyhow::Result<Bytes> {
    let mut whole = Vec::with_capacity(wrap.len() + body.len());
    let mut rest = wrap;
    while let Some((before, after)) = rest.split_once("{item") {
        whole.extend_from_slice(before.as_bytes());
        let (path, after) = after.split_once('}').context("wrap: a { is not closed")?;
        match path.strip_prefix(':') {
            None => whole.extend_from_slice(body),
            Some(path) => {
                let path = JsonPath::parse(path).context("wrap: invalid path")?;
                let value = path
                    .raw(item)
                    .map_err(|_| anyhow!("an item is not valid JSON"))?;
                let text = value.map_or("null", RawValue::get);
                whole.extend_from_slice(text.as_bytes());
            }
        }
        rest = after;
    }
    whole.extend_from_slice(rest.as_bytes());
    Ok(whole.into())
}
