//! The limits with which commands evaluate the events of a trial.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;
use shared::monitoring::trial::{Finding, TrialLimits, findings};
use shared::sources::{Config, Source};

/// How long a provider retries, if its preset does not know it.
const DEFAULT_HORIZON: Duration = Duration::from_secs(24 * 3600);

/// The limit of a slow answer, if the preset does not know the provider's timeout.
const DEFAULT_SLOW: Duration = Duration::from_secs(5);

/// Returns the limits of a source. Without a source, or for unknown values, returns the defaults.
pub(crate) fn limits(source: Option<&Source>) -> TrialLimits {
    let horizon = source.and_then(|source| source.verifier.preset.retry.longest());
    let slow = source.and_then(deadline).map(|deadline| deadline / 2);
    TrialLimits {
        horizon: horizon.unwrap_or(DEFAULT_HORIZON),
        slow: slow.unwrap_or(DEFAULT_SLOW),
    }
}

/// Returns the provider's timeout, if the preset knows it.
pub(crate) fn deadline(source: &Source) -> Option<Duration> {
    let deadline = source.verifier.preset.ack.deadline_ms;
    deadline.map(Duration::from_millis)
}

/// Returns whether the event has one of these findings. An empty list has every event.
pub(crate) fn has_finding(wanted: &[Finding], row: &Row, config: &Config, now: UnixMillis) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let limits = limits(config.source(row.key.source()));
    let found = findings(row, limits, now);
    wanted.iter().any(|finding| found.contains(finding))
}

#[cfg(test)]
mod tests {
    use shared::sources::EMBEDDED;

    use super::*;

    #[test]
    fn the_limits_are_those_of_the_provider() {
        let config = Config::parse(EMBEDDED).unwrap();
        let of = |name| {
            let limits = limits(config.source(name));
            (limits.horizon.as_secs(), limits.slow.as_secs())
        };
        assert_eq!(of("stripe-main"), (3 * 86_400, 5));
        assert_eq!(of("removed"), (86_400, 5));
    }
}
