//! Schedules, which invoke a function periodically with a fixed input.

use std::{str::FromStr, time::Duration};

use anyhow::{Context, bail};

use super::{lambda::Functions, template::Schedule};

/// A schedule, such as `rate(5 minutes)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Duration);

impl FromStr for Rate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let wrong =
            || format!("invalid schedule {text:?}; use \"rate(1 minute)\" or \"rate(15 minutes)\"");
        let inside = text
            .strip_prefix("rate(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (number, unit) = inside
            .and_then(|it| it.split_once(' '))
            .with_context(wrong)?;
        let number: u64 = number.parse().with_context(wrong)?;
        let seconds = match (number, unit) {
            (0, _) => bail!("{}: the number must not be 0", wrong()),
            (_, "minute" | "minutes") => 60,
            (_, "hour" | "hours") => 3600,
            (_, "day" | "days") => 86_400,
            _ => bail!(wrong()),
        };
        Ok(Self(Duration::from_secs(number.saturating_mul(seconds))))
    }
}

/// Invokes the function once in each period, without end. The first invocation is after one period,
/// as in EventBridge Scheduler.
pub(crate) async fn run(schedule: Schedule, functions: Functions) {
    let payload = schedule.input.to_string();
    loop {
        tokio::time::sleep(schedule.rate.0).await;
        let outcome = functions
            .invoke(&schedule.function, payload.clone().into())
            .await;
        let failure = match outcome {
            Ok(invocation) => invocation.error().map(ToString::to_string),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(error) = failure {
            tracing::warn!(
                schedule = schedule.id,
                error,
                "the schedule {} failed",
                schedule.id
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        for (text, seconds) in [
            ("rate(1 minute)", 60),
            ("rate(15 minutes)", 900),
            ("rate(1 hour)", 3600),
            ("rate(2 days)", 172_800),
        ] {
            assert_eq!(
                text.parse::<Rate>().unwrap(),
                Rate(Duration::from_secs(seconds))
            );
        }
    }

    #[test]
    fn other_schedules_are_refused_with_a_hint() {
        for text in [
            "",
            "rate(1)",
            "rate(0 minutes)",
            "rate(-1 minutes)",
            "rate(1 week)",
            "rate(1.5 hours)",
            "rate(5  minutes)",
            "cron(0 12 * * ? *)",
            "rate(5 minutes",
            "5 minutes",
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("rate(1 minute)"), "{text}: {error}");
        }
    }
}
