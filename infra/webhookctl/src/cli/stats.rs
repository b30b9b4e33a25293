//! Arguments of `inbox stats`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::selection::SelectionArgs;
use crate::output::CliError;
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Group by source, type or hour
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "source",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub by: By,
    /// Exit 5 if an event of a source has waited longer than this; with -q, print only errors
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub max_lag: Option<Duration>,
    // Must be last: clap applies its heading to all later options.
    #[command(flatten)]
    pub selection: SelectionArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum By {
    #[default]
    Source,
    Type,
    Hour,
}

/// Parses a duration, such as `15m`, `2h` or `90s`.
pub(super) fn span(text: &str) -> Result<Duration, CliError> {
    match When::parse(text) {
        Ok(When::Ago(span)) => Duration::try_from(span).ok(),
        _ => None,
    }
    .ok_or_else(|| {
        CliError::usage("usage.span", format!("invalid duration '{text}'"))
            .tip("write 90s, 15m, 2h or 1h30m")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_span_and_not_a_time() {
        assert_eq!(span("15m").unwrap(), Duration::from_secs(900));
        assert_eq!(span("1h30m").unwrap(), Duration::from_secs(5400));
        for wrong in ["", "15", "09:10", "2026-11-20", "-3m", "soon"] {
            assert_eq!(span(wrong).unwrap_err().code, "usage.span", "{wrong}");
        }
    }
}
