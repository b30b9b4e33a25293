//! Converts one event for an export.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use shared::webhook::context::RequestContext;

use crate::inspect::{EventView, document};
use crate::output::CliError;
use crate::output::format::{csv_line, csv_text};
use crate::output::safe::inert_json;
use crate::raw_json::Json;

/// The text that replaces a redacted value.
const REDACTED: &str = "[redacted]";

/// The columns of a CSV file: fields of the event.
const COLUMNS: [&str; 11] = [
    "id",
    "received_at",
    "source",
    "type",
    "status",
    "attempt_count",
    "via",
    "dedupe_key",
    "last_error.text",
    "next_action.text",
    "account.value",
];

/// Further columns for exports with headers and bodies.
const OF_THE_REQUEST: [&str; 5] = [
    "request.headers",
    "request.body",
    "request.method",
    "request.path",
    "request.query",
];

/// The paths whose values are redacted.
pub(super) struct Redaction(Vec<Vec<String>>);

impl Redaction {
    pub(super) fn parse(paths: &[String]) -> Result<Self, CliError> {
        let parse = |path: &String| {
            let keys: Vec<String> = path.split('.').map(|key| key.replace("[*]", "")).collect();
            if keys.iter().any(String::is_empty) {
                return Err(
                    CliError::usage("usage.redact", format!("invalid path '{path}'"))
                        .tip("separate keys with dots, such as body.user.email"),
                );
            }
            Ok(keys)
        };
        paths.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Redacts the event, and returns the number of replaced values.
    fn apply(&self, event: &mut Json, body_is_json: bool) -> usize {
        let redacted = Json::text(REDACTED);
        let replace = |path: &Vec<String>| {
            let first = path.first().map_or("", String::as_str);
            // In a body that is not JSON, no path can be found, so the whole body is redacted.
            let whole = first == "body" && !body_is_json;
            let length = if whole { 1 } else { path.len() };
            let of_request = ["body", "headers", "method", "path", "query"]
                .contains(&first)
                .then_some(Cow::from("request"));
            let path = path.iter().take(length).map(Cow::from);
            let path: Vec<Cow<'_, str>> = of_request.into_iter().chain(path).collect();
            event.replace(&path, &redacted)
        };
        self.0.iter().map(replace).sum()
    }
}

pub(super) struct Record {
    json: Json,
    pub(super) redacted: usize,
}

/// The stored parts of the request of an event.
pub(super) struct Request<'r> {
    /// The headers that verification needs.
    pub(super) headers: &'r BTreeMap<String, String>,
    /// The request as it was received, if it is stored.
    pub(super) context: Option<&'r RequestContext>,
    pub(super) body: Option<&'r [u8]>,
}

impl Request<'_> {
    /// Returns all stored headers. The values of a repeated header are joined by commas.
    fn headers(&self) -> BTreeMap<&str, String> {
        let mut all: BTreeMap<&str, String> = BTreeMap::new();
        let context = self
            .context
            .iter()
            .flat_map(|context| context.headers.iter());
        for (name, value) in context {
            all.entry(name)
                .and_modify(|known| *known = format!("{known}, {value}"))
                .or_insert_with(|| value.to_owned());
        }
        for (name, value) in self.headers {
            all.entry(name).or_insert_with(|| value.clone());
        }
        all
    }
}

impl Record {
    /// Converts an event. `request` is given if the export includes the request.
    pub(super) fn new(
        view: &EventView,
        request: Option<Request<'_>>,
        redaction: &Redaction,
        now: i64,
    ) -> anyhow::Result<Self> {
        let event = serde_json::to_string(&document(view, now))?;
        let mut body_is_json = true;
        let text = match request {
            None => event,
            Some(request) => {
                let body = request.body;
                let parsed = body.and_then(Json::parse);
                body_is_json = parsed.is_some() || body.is_none();
                let body = match (parsed, body) {
                    (Some(json), _) => json.compact(),
                    (None, Some(body)) => plain(body),
                    (None, None) => "null".to_owned(),
                };
                let open = event.strip_suffix('}').unwrap_or(&event);
                let headers = json!(request.headers());
                let context = request.context;
                let method = json!(context.map(|context| &context.method));
                let path = json!(context.map(|context| &context.path));
                let query = json!(context.and_then(|context| context.query.as_ref()));
                format!(
                    "{open},\"request\":{{\"method\":{method},\"path\":{path},\"query\":{query},\
                     \"headers\":{headers},\"body\":{body}}}}}"
                )
            }
        };
        let mut json = Json::parse(text.as_bytes()).context("parse the event as JSON")?;
        let redacted = redaction.apply(&mut json, body_is_json);
        Ok(Self { json, redacted })
    }

    pub(super) fn json_line(&self) -> String {
        inert_json(self.json.compact()) + "\n"
    }

    pub(super) fn csv(&self, with_request: bool) -> anyhow::Result<String> {
        let cell = |path: &&str| {
            let found = path
                .split('.')
                .try_fold(&self.json, |json, key| json.get(key));
            let Some(found) = found else {
                return Ok(String::new());
            };
            let text = found.compact();
            let value: serde_json::Value = match found {
                Json::Plain(_) => serde_json::from_str(&text)?,
                Json::List(_) | Json::Map(_) => text.into(),
            };
            Ok(csv_text(&value))
        };
        let more = OF_THE_REQUEST.iter().filter(|_| with_request);
        let cells = COLUMNS.iter().chain(more).map(cell);
        Ok(csv_line(cells.collect::<Result<_, serde_json::Error>>()?))
    }
}

pub(super) fn csv_head(with_request: bool) -> String {
    let more = OF_THE_REQUEST.iter().filter(|_| with_request);
    let names = COLUMNS.iter().chain(more).map(|name| (*name).to_owned());
    csv_line(names.collect())
}

/// Converts a body that is not JSON: to a string, or to base64 if the body is not UTF-8.
fn plain(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) => json!(text).to_string(),
        Err(_) => json!({ "base64": STANDARD.encode(body) }).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::tests::{NOW, example};
    use crate::output::safe::tests::{corpus, is_inert};

    fn record(body: &[u8], redact: &[&str]) -> Record {
        let redact: Vec<String> = redact.iter().map(|path| (*path).to_owned()).collect();
        let headers = BTreeMap::from([("user-agent".to_owned(), "=cmd".to_owned())]);
        let redaction = Redaction::parse(&redact).unwrap();
        let context = RequestContext {
            method: "POST".to_owned(),
            path: "/in/shop".to_owned(),
            query: Some("plan=pro".to_owned()),
            headers: [("x-tenant", "one"), ("x-n", "1"), ("x-n", "2")]
                .into_iter()
                .collect(),
        };
        let request = Request {
            headers: &headers,
            context: Some(&context),
            body: Some(body),
        };
        Record::new(&example(), Some(request), &redaction, NOW).unwrap()
    }

    fn json(record: &Record) -> serde_json::Value {
        serde_json::from_str(&record.json_line()).unwrap()
    }

    #[test]
    fn the_request_is_exported_as_it_was_written() {
        let record = record(br#"{"amount":1.10,"u":{"email":"a@b.test"}}"#, &[]);
        let line = record.json_line();
        assert!(
            line.contains(r#""body":{"amount":1.10,"u":{"email":"a@b.test"}}"#),
            "{line}"
        );
        assert_eq!(json(&record)["request"]["headers"]["user-agent"], "=cmd");
        assert_eq!(json(&record)["id"], example().id);
    }

    #[test]
    fn the_stored_request_is_exported_and_can_be_redacted() {
        let whole = json(&record(b"{}", &[]));
        let request = &whole["request"];
        assert_eq!(
            (&request["method"], &request["path"]),
            (&json!("POST"), &json!("/in/shop"))
        );
        assert_eq!(request["query"], "plan=pro");
        assert_eq!(
            request["headers"],
            json!({ "user-agent": "=cmd", "x-n": "1, 2", "x-tenant": "one" })
        );
        let redacted = json(&record(b"{}", &["query", "headers.x-tenant"]));
        assert_eq!(redacted["request"]["query"], REDACTED);
        assert_eq!(redacted["request"]["headers"]["x-tenant"], REDACTED);
    }

    #[test]
    fn what_is_redacted_is_in_neither_format() {
        let body = br#"{"users":[{"email":"a@b.test"},{"email":"c@d.test"}],"n":1}"#;
        let record = record(body, &["body.users.email", "headers"]);
        assert_eq!(record.redacted, 3);
        for text in [record.json_line(), record.csv(true).unwrap()] {
            assert!(!text.contains("test") && text.contains(REDACTED), "{text}");
        }
        // The CLI does not parse a form body, so it redacts the whole body.
        let form = self::record(b"email=a@b.test&n=1", &["body.email"]);
        assert_eq!(json(&form)["request"]["body"], REDACTED);
        assert!(Redaction::parse(&["body..x".to_owned()]).is_err());
    }

    #[test]
    fn a_hostile_body_is_inert_in_both_formats() {
        for text in corpus() {
            for body in [
                text.clone().into_bytes(),
                json!({ "x": text }).to_string().into_bytes(),
            ] {
                let record = record(&body, &[]);
                let line = record.json_line();
                assert!(line.trim_end_matches('\n').lines().all(is_inert));
                assert_eq!(line.lines().count(), 1);
                let csv = record.csv(true).unwrap();
                assert!(csv.ends_with("\r\n") && is_inert(csv.trim_end()));
                assert!(!csv.contains(",=") && !csv.contains(",\"="));
            }
        }
        assert_eq!(
            json(&record(b"\xff\0", &[]))["request"]["body"]["base64"],
            "/wA="
        );
    }
}
