//! Log lines as Lambda's logging controls ask for them.

use std::str::FromStr as _;

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use crate::settings::variable;

/// Writes log lines to stdout from here on, from the level and in the format that the function is
/// deployed with. Only once in a process.
///
/// A line in JSON names its invocation in `span`; the runtime's own set-up does so twice, and every
/// event would pay for it.
/// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-advanced.html>
pub fn init() {
    let level = variable("AWS_LAMBDA_LOG_LEVEL")
        .and_then(|level| LevelFilter::from_str(&level).ok())
        .unwrap_or(LevelFilter::INFO);
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .parse_lossy(variable("RUST_LOG").unwrap_or_default());
    // The platform adds the time of a line by itself.
    let lines = tracing_subscriber::fmt()
        .with_target(false)
        .without_time()
        .with_env_filter(filter);
    let is_json =
        variable("AWS_LAMBDA_LOG_FORMAT").is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if is_json {
        lines.json().with_span_list(false).init();
    } else {
        lines.init();
    }
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::STATIC_MAX_LEVEL;

    use super::*;

    #[test]
    fn what_services_answer_is_in_no_log_whatever_its_level() {
        assert_eq!(STATIC_MAX_LEVEL, LevelFilter::DEBUG);
    }
}
