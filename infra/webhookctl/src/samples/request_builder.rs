//! Builds a request that has values at the locations where a preset reads them.

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use shared::base::json_path::JsonPath;
use shared::webhook::preset::{Kind, Location, Part, Preset, Scheme};

use super::build::{Known, is_form};
use super::draft::Draft;
use super::fill::{Filler, random_hex};
use super::values::{document, is_in, list, with_element, write, write_inside};

/// The parts of an unsigned request.
pub(super) struct RequestBuilder {
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
    body: Body,
    /// The path of the list in the body of a batch.
    batch: Option<JsonPath>,
    /// The form field that contains the batch.
    batch_field: Option<String>,
    /// Whether the body becomes a token. Then the JSON is its claims.
    is_token: bool,
}

enum Body {
    Json(Value),
    Form(Vec<(String, String)>),
    /// A `multipart/form-data` body with one field, which contains JSON.
    Multipart(String, Value),
}

const MULTIPART: &str = "multipart/form-data; boundary=----webhookctl";

/// The boundary of multipart bodies.
const BOUNDARY: &str = "----webhookctl";

impl RequestBuilder {
    pub(super) fn new(
        preset: &Preset,
        scheme: &Scheme,
        known: &Known,
        filler: &Filler,
    ) -> anyhow::Result<Self> {
        let json = || {
            let json = known.json.as_deref();
            let json = json.map(|json| serde_json::from_str(&filler.fill(json)));
            let json: Option<Value> = json.transpose().with_context(|| {
                format!("parse the JSON of {} in samples/drafts.toml", preset.id)
            })?;
            anyhow::Ok(json.unwrap_or_default())
        };
        let is_token = scheme
            .jwt
            .as_ref()
            .is_some_and(|jwt| jwt.from == Location::Body);
        // Nothing in a scheme with a token shows the form of the body, but the places of the types do.
        let mut kinds = preset.event.kind.0.iter();
        let of_form = scheme.kind == Kind::Token
            && !preset.event.kind.0.is_empty()
            && kinds.all(|at| matches!(at, Location::Form(_)));
        let (content_type, body) = if of_form || is_form(scheme) {
            let fields = known.form.as_deref().map(|form| fields(&filler.fill(form)));
            (
                "application/x-www-form-urlencoded",
                Body::Form(fields.unwrap_or_default()),
            )
        } else if let Location::MultipartJson(field, _) = &scheme.sig.from {
            (MULTIPART, Body::Multipart(field.clone(), json()?))
        } else {
            let content_type = if is_token {
                "text/plain"
            } else {
                "application/json"
            };
            (content_type, Body::Json(json()?))
        };
        let batch = preset.event.batch.clone().or(scheme.for_each.clone());
        Ok(Self {
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            query: Vec::new(),
            body,
            batch,
            batch_field: preset.event.batch_field.clone(),
            is_token,
        })
    }

    /// Writes the type to the first possible location, and returns the type of the request. This is
    /// the fixed type of the preset if it has one. It is empty if the request has no location for a
    /// type.
    pub(super) fn put_type(&mut self, at: &[Location], kind: String) -> String {
        for at in at {
            if let Location::Const(fixed) = at {
                return fixed.clone();
            }
            if self.put(at, &kind) {
                return kind;
            }
        }
        String::new()
    }

    /// Writes a value to the first of these locations that the request has.
    pub(super) fn put_first(&mut self, at: &[Location], value: &str) -> bool {
        at.iter().any(|at| self.put(at, value))
    }

    /// Writes a value to a location. Returns `false` if the request does not have the location.
    pub(super) fn put(&mut self, at: &Location, value: &str) -> bool {
        match (at, &mut self.body) {
            (Location::Header(names), _) => {
                let Some(name) = names.first() else {
                    return false;
                };
                replace(&mut self.headers, name, value);
                true
            }
            (Location::Query(name), _) => {
                replace(&mut self.query, name, value);
                true
            }
            (Location::Form(name), Body::Form(fields)) => {
                replace(fields, name, value);
                true
            }
            (Location::Item(path), Body::Form(fields)) => {
                let (Some(batch), Some(field)) = (&self.batch, &self.batch_field) else {
                    return false;
                };
                let mut json = list(fields, field);
                let there = write_items(batch, path, &mut json, value);
                replace(fields, field, &json.to_string());
                there
            }
            (Location::FormXml(name, tag), Body::Form(fields)) => {
                let text = with_element(&document(fields, name), tag, value);
                replace(fields, name, &STANDARD.encode(text));
                true
            }
            (Location::Json(path), Body::Json(json)) if !self.is_token => {
                write(path.places(json), value)
            }
            (Location::MultipartJson(name, path), Body::Multipart(field, json))
                if name == field =>
            {
                write(path.places(json), value)
            }
            (Location::Jwt(claim), Body::Json(json)) if self.is_token => {
                let path = JsonPath::parse(claim);
                path.is_some_and(|path| write(path.places(json), value))
            }
            (Location::JwtJson(claim, paths), Body::Json(json)) if self.is_token => {
                let path = JsonPath::parse(claim);
                let place = path.and_then(|path| path.places(json).into_iter().next());
                place.is_some_and(|place| write_inside(place, paths, value))
            }
            (Location::First(parts), _) => {
                let parts = parts.clone();
                self.put_first(&parts, value)
            }
            (Location::Item(path), Body::Json(json)) => {
                let batch = self.batch.as_ref();
                batch.is_some_and(|batch| write_items(batch, path, json, value))
            }
            _ => false,
        }
    }

    fn has(&mut self, at: &Location) -> bool {
        let there = |pairs: &[(String, String)], name: &String| pairs.iter().any(|p| p.0 == *name);
        match (at, &self.body) {
            (Location::Header(names), _) => names.iter().any(|name| there(&self.headers, name)),
            (Location::Query(name), _) => there(&self.query, name),
            (Location::Form(name), Body::Form(fields)) => there(fields, name),
            (Location::Item(path), Body::Form(fields)) => {
                let (Some(batch), Some(field)) = (&self.batch, &self.batch_field) else {
                    return true;
                };
                let mut json = list(fields, field);
                let items = batch.places(&mut json);
                items.iter().all(|item| is_in(path, item))
            }
            (Location::FormXml(name, tag), Body::Form(fields)) => {
                document(fields, name).contains(&format!("<{tag}>"))
            }
            (Location::Json(path), Body::Json(json))
            | (Location::MultipartJson(_, path), Body::Multipart(_, json)) => is_in(path, json),
            (Location::Jwt(claim), Body::Json(json)) if self.is_token => {
                JsonPath::parse(claim).is_none_or(|path| is_in(&path, json))
            }
            (Location::JwtJson(claim, paths), Body::Json(json)) if self.is_token => {
                let all = JsonPath::parse(claim)
                    .into_iter()
                    .chain(paths.iter().cloned());
                let mut text = Some(json.to_string());
                for path in all {
                    text = text.and_then(|json| path.scalar(json.as_bytes()).ok()?);
                }
                text.is_some()
            }
            (Location::First(parts), _) => {
                let parts = parts.clone();
                parts.iter().any(|part| self.has(part))
            }
            (Location::Item(path), Body::Json(json)) => {
                let Some(batch) = &self.batch else {
                    return true;
                };
                let mut json = json.clone();
                let items = batch.places(&mut json);
                items.iter().all(|item| is_in(path, item))
            }
            _ => true,
        }
    }

    /// Adds an id to the body if the provider's events have no id, so that each body is unique.
    pub(super) fn add_id(&mut self, id: &str) {
        let add_to = |place: &mut Value| {
            if place.is_null() {
                *place = serde_json::json!({});
            }
            if let Some(fields) = place.as_object_mut() {
                fields.entry("id").or_insert_with(|| id.into());
            }
        };
        let item = |batch: JsonPath, json: &mut Value| {
            for place in batch.places(json) {
                add_to(place);
            }
        };
        match (&mut self.body, self.batch.clone()) {
            (Body::Form(fields), _) if fields.is_empty() => replace(fields, "id", id),
            (Body::Form(fields), _) => {
                for (_, text) in fields.iter_mut() {
                    let bytes = STANDARD.decode(&*text).unwrap_or_default();
                    if bytes.starts_with(b"<") {
                        let xml = String::from_utf8_lossy(&bytes);
                        *text = STANDARD.encode(with_element(&xml, "id", id));
                    }
                }
            }
            (Body::Json(json), Some(batch)) => item(batch, json),
            (Body::Json(json), None) => add_to(json),
            _ => {}
        }
    }

    /// Fills in all other locations that the preset reads: the parts of a composite key, time,
    /// account, delivery, and signed values outside the body.
    pub(super) fn rest(
        &mut self,
        preset: &Preset,
        scheme: &Scheme,
        filler: &Filler,
    ) -> anyhow::Result<()> {
        let at = &preset.event;
        for place in [&at.time, &at.account, &at.delivery] {
            if !place.0.iter().any(|at| self.has(at)) {
                let first = place
                    .0
                    .iter()
                    .find(|at| fits(at, &self.body, self.is_token));
                self.fill_in(first, filler)?;
            }
        }
        for part in &at.composite {
            self.fill_in(Some(part), filler)?;
        }
        for required in &scheme.require_value {
            if !required.is.is_empty() {
                self.put(&required.from, &required.is);
            }
        }
        let signed_time = scheme.ts.as_ref().map(|ts| &ts.from);
        for part in &scheme.message.0 {
            let inner = match part {
                Part::Optional(parts) => parts.as_slice(),
                part => std::slice::from_ref(part),
            };
            for part in inner {
                if let Part::At(at) | Part::Lower(at) = part
                    && signed_time != Some(at)
                {
                    self.fill_in(Some(at), filler)?;
                }
            }
        }
        for name in &scheme.require_signed {
            let at = Location::Header(vec![name.clone()]);
            if signed_time != Some(&at) {
                self.fill_in(Some(&at), filler)?;
            }
        }
        Ok(())
    }

    fn fill_in(&mut self, at: Option<&Location>, filler: &Filler) -> anyhow::Result<()> {
        let Some(at) = at.filter(|at| !self.has(at)) else {
            return Ok(());
        };
        let name = at.to_string().to_lowercase();
        let is_time = ["time", "date", "created", "occurred", "_at", "-at", "_ts"];
        let value = if is_time.iter().any(|part| name.contains(part)) {
            filler.fill("{rfc3339}")
        } else {
            random_hex(8)?
        };
        self.put(at, &value);
        Ok(())
    }

    pub(super) fn finish(self, preset: &Preset, id: String, kind: String) -> Draft {
        let body = match self.body {
            Body::Json(json) => json.to_string(),
            Body::Form(fields) => {
                let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
                let pairs = fields
                    .iter()
                    .map(|(name, value)| format!("{}={}", name, encoded(value)));
                pairs.collect::<Vec<_>>().join("&")
            }
            Body::Multipart(field, json) => format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n\
                 {json}\r\n--{BOUNDARY}--\r\n"
            ),
        };
        Draft {
            preset: preset.id.clone(),
            kind,
            id,
            headers: self.headers,
            query: self.query,
            body: body.into(),
        }
    }
}

fn fits(at: &Location, body: &Body, is_token: bool) -> bool {
    match at {
        Location::Jwt(_) | Location::JwtJson(..) => is_token,
        Location::MultipartJson(..) => matches!(body, Body::Multipart(..)),
        Location::First(parts) => parts.iter().any(|part| fits(part, body, is_token)),
        Location::Json(_) | Location::Item(_) => matches!(body, Body::Json(_)),
        Location::Form(_) | Location::FormXml(..) => matches!(body, Body::Form(_)),
        Location::Header(_) | Location::Query(_) => true,
        _ => false,
    }
}

fn replace(pairs: &mut Vec<(String, String)>, name: &str, value: &str) {
    pairs.retain(|(known, _)| known != name);
    pairs.push((name.to_owned(), value.to_owned()));
}

/// Returns the decoded fields of a form.
fn fields(form: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned()
    };
    let pairs = form.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// Writes a value to each item of a batch. Returns `false` if no item has the path.
fn write_items(batch: &JsonPath, path: &JsonPath, json: &mut Value, value: &str) -> bool {
    let items = batch.places(json).into_iter();
    write(items.flat_map(|item| path.places(item)).collect(), value)
}
