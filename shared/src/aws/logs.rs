//! Writes log lines in the format of Lambda's advanced logging controls.

use std::fmt;
use std::str::FromStr as _;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::base::env::env_var;

/// Starts to write log lines to stdout, with the level and the format of the function's
/// configuration. Call this function once in a process.
///
/// A JSON line has the fields `level` and `requestId`, like the lines that Lambda writes itself.
/// The field `fields` contains `message` and the other values. The setup of the Lambda runtime
/// crate would also write the trace, and would repeat the data of the invocation. These values
/// would add cost to every event.
/// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-advanced.html>
pub fn init() {
    let level = env_var("AWS_LAMBDA_LOG_LEVEL")
        .and_then(|level| LevelFilter::from_str(&level).ok())
        .unwrap_or(LevelFilter::INFO);
    let filter = env_var("RUST_LOG")
        .and_then(|wanted| Targets::from_str(&wanted).ok())
        .unwrap_or_else(|| Targets::new().with_default(level));
    // Lambda adds a timestamp to each line.
    let lines = tracing_subscriber::fmt()
        .with_target(false)
        .without_time()
        .with_max_level(LevelFilter::TRACE);
    let is_json =
        env_var("AWS_LAMBDA_LOG_FORMAT").is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if is_json {
        lines
            .fmt_fields(JsonFields::new())
            .event_format(Line)
            .finish()
            .with(filter)
            .init();
    } else {
        lines.finish().with(filter).init();
    }
}

/// Formats a log event as one line of JSON.
struct Line;

impl<S> FormatEvent<S, JsonFields> for Line
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = event.metadata().level().as_str();
        let mut line = json!({ "level": level, "fields": fields.0 });
        if let Some(request) = request_id(context) {
            line["requestId"] = request;
        }
        writeln!(writer, "{line}")
    }
}

/// Returns the request id of the invocation, from the span that the runtime opens around the
/// handler.
fn request_id<S>(context: &FmtContext<'_, S, JsonFields>) -> Option<Value>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    context.event_scope()?.find_map(|span| {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<JsonFields>>()?;
        let mut fields: Map<String, Value> = serde_json::from_str(&fields.fields).ok()?;
        fields.remove("requestId")
    })
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing::level_filters::STATIC_MAX_LEVEL;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_names_its_invocation_and_keeps_the_kinds_of_its_fields() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt()
            .fmt_fields(JsonFields::new())
            .event_format(Line)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(n = 3_u64, "before \"all\"");
            let span = tracing::info_span!("invoke", requestId = "r-1", xrayTraceId = "Root=1");
            let _in = span.entered();
            let _inner = tracing::info_span!("inner", part = 2).entered();
            tracing::info!(event.id = %"evt_1", ok = true, minus = -1, half = 0.5, source = "s", "kept");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let before = json!({"level": "WARN", "fields": {"message": "before \"all\"", "n": 3}});
        let within = json!({
            "level": "INFO",
            "fields": {
                "message": "kept", "event.id": "evt_1", "ok": true, "minus": -1, "half": 0.5,
                "source": "s",
            },
            "requestId": "r-1",
        });
        assert_eq!(lines, [before, within]);
    }

    #[test]
    fn no_log_level_shows_the_responses_of_services() {
        assert_eq!(STATIC_MAX_LEVEL, LevelFilter::DEBUG);
    }
}
