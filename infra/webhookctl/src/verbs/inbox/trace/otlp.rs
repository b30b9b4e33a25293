//! The trace as OTLP JSON, as any OpenTelemetry collector accepts it.
//!
//! Ids are hexadecimal, enumerations are numbers, and 64-bit numbers are strings. Only what has
//! ended is a span. What an operator did is an event of the receipt.
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>

use serde_json::{Value, json};

use super::spans::{Span, Trace, What};

/// The values of `SpanKind` and of `StatusCode`.
/// <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto>
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const CONSUMER: u8 = 5;
const ERROR: u8 = 2;

/// Returns the document. `stack` is the name of the deployment.
pub(super) fn document(trace: &Trace, stack: &str) -> Value {
    let spans = trace.spans.iter().filter_map(|it| span(trace, it));
    let resource = [
        attribute("service.name", "mitt"),
        attribute("service.namespace", stack),
    ];
    let scope = json!({ "name": "webhookctl", "version": env!("CARGO_PKG_VERSION") });
    let scoped = json!({ "scope": scope, "spans": spans.collect::<Vec<_>>() });
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [scoped],
    }] })
}

fn span(trace: &Trace, span: &Span) -> Option<Value> {
    let (id, end) = (span.id?, span.end?);
    let mut value = json!({
        "traceId": trace.id.to_string(),
        "spanId": id.to_string(),
        "name": name(span),
        "kind": kind(span.what),
        "startTimeUnixNano": nanos(span.start),
        "endTimeUnixNano": nanos(end),
        "attributes": attributes(trace, span),
    });
    if let Some(parent) = span.parent {
        value["parentSpanId"] = json!(parent.to_string());
    }
    if is_error(span) {
        value["status"] = json!({ "code": ERROR, "message": span.detail });
    }
    if span.what == What::Receipt {
        value["events"] = trace.spans.iter().filter_map(event).collect();
        let links = trace.link.iter();
        let links = links.map(|link| json!({ "traceId": link.trace_id, "spanId": link.span_id }));
        value["links"] = links.collect();
    }
    Some(value)
}

/// Returns the name. Attempts have one name, because collectors group spans by their names.
fn name(span: &Span) -> &str {
    match span.what {
        What::Attempt => "attempt",
        _ => &span.name,
    }
}

fn kind(what: What) -> u8 {
    match what {
        What::Receipt => SERVER,
        What::Wait | What::Operator => INTERNAL,
        What::Attempt => CONSUMER,
        What::Effect => CLIENT,
    }
}

fn is_error(span: &Span) -> bool {
    let failed = [
        "failed",
        "dead_letter",
        "not_committed",
        "refused",
        "unknown",
        "intent",
    ];
    failed.contains(&span.outcome.as_str())
}

fn attributes(trace: &Trace, span: &Span) -> Vec<Value> {
    let mut all = vec![
        attribute("mitt.event.id", &trace.event),
        attribute("mitt.event.type", &trace.event_type),
        attribute("mitt.source", &trace.source),
    ];
    for (name, text) in [
        ("mitt.outcome", span.outcome.as_str()),
        ("mitt.detail", span.detail.as_str()),
        (
            "mitt.idempotency_key",
            span.key.as_deref().unwrap_or_default(),
        ),
    ] {
        if !text.is_empty() {
            all.push(attribute(name, text));
        }
    }
    if let Some(number) = span.attempt {
        all.push(json!({ "key": "mitt.attempt", "value": { "intValue": number.to_string() } }));
    }
    all
}

fn event(span: &Span) -> Option<Value> {
    (span.what == What::Operator).then(|| {
        json!({
            "timeUnixNano": nanos(span.start),
            "name": span.name,
            "attributes": [attribute("mitt.detail", &span.detail)],
        })
    })
}

fn attribute(key: &str, text: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": text } })
}

/// Returns a time in nanoseconds. A 64-bit number is a string in OTLP JSON.
fn nanos(millis: i64) -> String {
    millis.max(0).saturating_mul(1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::spans::tests::{EFFECT, RECEIPT, TRACE, retried};
    use super::*;

    type Field = (&'static str, fn(&Value) -> bool);

    /// The fields of each message of `trace.proto`, in lower camel case, and their JSON types.
    fn check(message: &str, value: &Value) {
        let fields: &[Field] = match message {
            "TracesData" => &[("resourceSpans", |it| each("ResourceSpans", it))],
            "ResourceSpans" => &[
                ("resource", |it| one("Resource", it)),
                ("scopeSpans", |it| each("ScopeSpans", it)),
            ],
            "Resource" => &[("attributes", |it| each("KeyValue", it))],
            "ScopeSpans" => &[
                ("scope", |it| one("Scope", it)),
                ("spans", |it| each("Span", it)),
            ],
            "Scope" => &[("name", Value::is_string), ("version", Value::is_string)],
            "Span" => &[
                ("traceId", |it| is_id(it, 32)),
                ("spanId", |it| is_id(it, 16)),
                ("parentSpanId", |it| is_id(it, 16)),
                ("name", Value::is_string),
                ("kind", |it| (1..=5).contains(&it.as_u64().unwrap())),
                ("startTimeUnixNano", is_number),
                ("endTimeUnixNano", is_number),
                ("attributes", |it| each("KeyValue", it)),
                ("events", |it| each("Event", it)),
                ("links", |it| each("Link", it)),
                ("status", |it| one("Status", it)),
            ],
            "Event" => &[
                ("timeUnixNano", is_number),
                ("name", Value::is_string),
                ("attributes", |it| each("KeyValue", it)),
            ],
            "Link" => &[
                ("traceId", |it| is_id(it, 32)),
                ("spanId", |it| is_id(it, 16)),
            ],
            "Status" => &[
                ("message", Value::is_string),
                ("code", |it| (0..=2).contains(&it.as_u64().unwrap())),
            ],
            "KeyValue" => &[
                ("key", Value::is_string),
                ("value", |it| one("AnyValue", it)),
            ],
            "AnyValue" => &[("stringValue", Value::is_string), ("intValue", is_number)],
            other => panic!("{other}"),
        };
        for (name, value) in value.as_object().expect(message) {
            let field = fields.iter().find(|(known, _)| known == name);
            let (_, is_valid) = field.unwrap_or_else(|| panic!("{message} has no field {name}"));
            assert!(is_valid(value), "{message}.{name}: {value}");
        }
    }

    fn one(message: &str, value: &Value) -> bool {
        check(message, value);
        true
    }

    fn each(message: &str, value: &Value) -> bool {
        value.as_array().unwrap().iter().all(|it| one(message, it))
    }

    fn is_id(value: &Value, length: usize) -> bool {
        let id = value.as_str().unwrap();
        let is_hex = id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        id.len() == length && is_hex && id.bytes().any(|it| it != b'0')
    }

    fn is_number(value: &Value) -> bool {
        value
            .as_str()
            .is_some_and(|text| text.parse::<u64>().is_ok())
    }

    #[test]
    fn the_document_has_only_fields_of_otlp() {
        let mut trace = retried();
        trace.link = super::super::link::Link::parse(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        );
        let document = document(&trace, "prod");
        check("TracesData", &document);
        let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let names = spans.as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["receipt", "wait", "attempt", "wait", "attempt", "orders"]
        );
        let (receipt, effect) = (&spans[0], &spans[5]);
        assert_eq!(receipt["spanId"], RECEIPT);
        assert_eq!(receipt["parentSpanId"], Value::Null);
        assert_eq!(receipt["links"].as_array().unwrap().len(), 1);
        assert_eq!(effect["spanId"], EFFECT);
        assert_eq!(effect["parentSpanId"], spans[4]["spanId"]);
        assert_eq!(spans[2]["status"]["code"], 2);
        assert_eq!(spans[4]["status"], Value::Null);
        for span in spans.as_array().unwrap() {
            assert_eq!(span["traceId"], TRACE);
        }
        assert_eq!(receipt["startTimeUnixNano"], "1795169681000000000");
    }

    #[test]
    fn what_lasts_is_not_exported() {
        let mut trace = retried();
        trace.spans[4].end = None;
        let document = document(&trace, "prod");
        let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().unwrap().len(), trace.spans.len() - 1);
    }
}
