//! Shows a histogram of times in one line.

use serde::Serialize;

use crate::output::time::{DAY_MS, HOUR_MS, MINUTE_MS, clock, rfc3339};

/// The maximum number of buckets.
const MOST: i64 = 48;

const WIDTHS: [i64; 9] = [
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    3 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    7 * DAY_MS,
    30 * DAY_MS,
];

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Histogram {
    pub(super) from: String,
    pub(super) bucket_s: i64,
    pub(super) counts: Vec<u64>,
    #[serde(skip)]
    start: i64,
}

impl Histogram {
    /// Counts `times`, which are in milliseconds and in any order. A bucket covers 5 minutes, or
    /// more if there would be more than [`MOST`] buckets.
    pub(super) fn of(times: &[i64]) -> Self {
        let (first, last) = (
            times.iter().copied().min().unwrap_or(0),
            times.iter().copied().max().unwrap_or(0),
        );
        let fits = |width: &i64| last.div_euclid(*width) - first.div_euclid(*width) < MOST;
        let width = WIDTHS.into_iter().find(fits);
        // A span of almost four years needs more buckets than [`MOST`], even with the widest
        // bucket. The last bucket then also counts all later times.
        let width = width.unwrap_or(30 * DAY_MS);
        let start = first.div_euclid(width) * width;
        let places = ((last - start) / width + 1).min(MOST);
        let mut counts = vec![0; usize::try_from(places).unwrap_or(1)];
        let end = counts.len().saturating_sub(1);
        for time in times {
            let place = usize::try_from((time - start) / width)
                .unwrap_or(0)
                .min(end);
            if let Some(count) = counts.get_mut(place) {
                *count += 1;
            }
        }
        Self {
            from: rfc3339(start),
            bucket_s: width / 1000,
            counts,
            start,
        }
    }

    /// Returns the width of a bucket as text, such as `per 5 min`.
    pub(super) fn label(&self) -> String {
        match self.bucket_s {
            seconds if seconds < 3600 => format!("per {} min", seconds / 60),
            seconds if seconds < 86_400 => format!("per {} h", seconds / 3600),
            seconds => format!("per {} d", seconds / 86_400),
        }
    }

    /// Returns the histogram, such as `09:10 ▁▃▆▇▇▇▆▅▃▁ 10:00`.
    pub(super) fn line(&self, now: i64) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let level = |count: &u64| match count {
            0 => ' ',
            count => {
                let step = usize::try_from(count * 8 / most).unwrap_or(8).clamp(1, 8);
                LEVELS.get(step - 1).copied().unwrap_or('█')
            }
        };
        let bars: String = self.counts.iter().map(level).collect();
        let length = i64::try_from(self.counts.len()).unwrap_or(0);
        let end = self.start + length * self.bucket_s * 1000;
        format!("{} {bars} {}", minute(self.start, now), minute(end, now))
    }
}

/// Returns the time without seconds. Adds the date if it is not today.
fn minute(millis: i64, now: i64) -> String {
    let text = clock(millis, now);
    text.strip_suffix(":00.000").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::tests::NOW;

    #[test]
    fn an_hour_is_told_in_five_minutes_each() {
        let ten = NOW - 14 * MINUTE_MS - 41_000;
        let at = |minute: i64| ten - HOUR_MS + minute * MINUTE_MS;
        let mut times = vec![at(12), at(13), at(16)];
        times.extend([at(58); 8]);
        let histogram = Histogram::of(&times);
        assert_eq!(histogram.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 8]);
        assert_eq!(histogram.label(), "per 5 min");
        assert_eq!(histogram.line(NOW), "09:10 ▂▁       █ 10:00");
        assert_eq!(histogram.from, "2026-11-20T09:10:00Z");
    }

    #[test]
    fn whatever_the_span_the_line_is_short_and_counts_all() {
        for days in [0, 1, 3, 30, 365, 10_000] {
            let times = [NOW - days * DAY_MS, NOW, NOW - 1];
            let histogram = Histogram::of(&times);
            assert!(histogram.counts.len() <= 48, "{days}");
            assert_eq!(histogram.counts.iter().sum::<u64>(), 3, "{days}");
        }
        assert_eq!(Histogram::of(&[]).counts, [0]);
        assert_eq!(Histogram::of(&[NOW, NOW - 30 * DAY_MS]).label(), "per 1 d");
    }
}
