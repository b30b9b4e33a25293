//! Computes percentiles of durations, and formats durations.

use std::time::Duration;

use crate::output::time::duration;

/// The times from receipt to done, sorted.
pub(super) struct Lags(Vec<Duration>);

impl Lags {
    pub(super) fn new(lags: impl IntoIterator<Item = Duration>) -> Self {
        let mut lags: Vec<Duration> = lags.into_iter().collect();
        lags.sort_unstable();
        Self(lags)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a percentile: the shortest duration within which this percentage of the events was
    /// done.
    pub(super) fn within(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied()
    }
}

/// Returns a duration such as `0.31s`, `1.9s` or `52m10s`.
pub(super) fn seconds(span: Duration) -> String {
    match span.as_millis() {
        0..995 => format!("{:.2}s", span.as_secs_f64()),
        995..9_950 => format!("{:.1}s", span.as_secs_f64()),
        _ => {
            let rounded = (span + Duration::from_millis(500)).as_secs();
            duration(rounded)
        }
    }
}

/// Returns seconds with a fraction, for scripts.
pub(super) fn fraction(span: Duration) -> f64 {
    let thousandth = span.as_millis();
    f64::from(u32::try_from(thousandth).unwrap_or(u32::MAX)) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_events_was_done_within() {
        let lags = Lags::new((1..=100).map(Duration::from_secs));
        let within = |percent| lags.within(percent).map(|lag| lag.as_secs());
        assert_eq!([50, 95, 0].map(within), [Some(50), Some(95), Some(1)]);
        assert_eq!(Lags::new([Duration::ZERO]).within(95), Some(Duration::ZERO));
        assert_eq!(Lags::new([]).within(50), None);
    }

    #[test]
    fn a_short_time_is_said_more_exactly() {
        let said = |ms| seconds(Duration::from_millis(ms));
        assert_eq!(
            [0, 310, 994, 996, 1_900, 9_949, 9_951, 3_130_400].map(said),
            [
                "0.00s", "0.31s", "0.99s", "1.0s", "1.9s", "9.9s", "10s", "52m10s"
            ]
        );
        assert!((fraction(Duration::from_millis(310)) - 0.31).abs() < 1e-9);
    }
}
