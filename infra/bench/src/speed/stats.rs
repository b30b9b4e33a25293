//! Medians and their confidence intervals.

use std::fmt;

/// A median and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) median: f64,
    low: f64,
    high: f64,
}

/// The number of resamplings.
const DRAWS: usize = 2_000;

impl Range {
    /// Computes the interval with the bootstrap method. The resampling is the same in every run.
    /// <https://en.wikipedia.org/wiki/Bootstrapping_(statistics)>
    pub(crate) fn of_median(values: &[f64]) -> Self {
        let mut dice = fastrand::Rng::with_seed(1);
        let draws = (0..DRAWS).map(|_| {
            let drawn = values.iter().filter_map(|_| dice.choice(values)).copied();
            median(&drawn.collect::<Vec<_>>())
        });
        let medians: Vec<f64> = draws.collect();
        Self {
            median: median(values),
            low: percentile(&medians, 0.025),
            high: percentile(&medians, 0.975),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, low, high] = [self.median, self.low, self.high].map(figure);
        write!(f, "{median} ({low} to {high})")
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// Returns the value below which this share of the values lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an index in a list"
)]
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    sorted
        .get((last * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Formats a value with three digits, at most two of them after the point.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let found = [0.0, 0.5, 0.99, 1.0].map(|share| figure(percentile(&values, share)));
        assert_eq!(found, ["1.00", "51.0", "100", "101"]);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_holds_the_median_and_repeats() {
        let values: Vec<f64> = (0..21).map(|n| f64::from(n * 7 % 21)).collect();
        let range = Range::of_median(&values);
        assert!(
            range.low < range.median && range.median < range.high,
            "{range:?}"
        );
        assert_eq!(range, Range::of_median(&values));
        assert_eq!(
            Range::of_median(&[3.0; 5]).to_string(),
            "3.00 (3.00 to 3.00)"
        );
    }
}
