//! A histogram of delays. The bounds are fixed, so that the counts of days and runs can be added.

use std::time::Duration;

/// The upper bounds in seconds, inclusive. Delays above the last bound have a separate count.
pub const BOUNDS: [u64; 13] = [
    1, 2, 5, 15, 60, 300, 900, 1800, 3600, 14_400, 43_200, 86_400, 259_200,
];

/// The delays of many events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Each count is the number of delays up to the bound with the same index, and above the
    /// previous bound.
    counts: [u64; BOUNDS.len() + 1],
    longest: Duration,
}

impl Delays {
    pub fn add(&mut self, delay: Duration) {
        let bounds = BOUNDS.iter();
        let within = |bound: &u64| delay <= Duration::from_secs(*bound);
        let place = bounds.clone().position(within).unwrap_or(bounds.len());
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.longest = self.longest.max(delay);
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.longest = self.longest.max(other.longest);
    }

    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn longest(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(self.longest)
    }

    /// Returns an upper limit for this percentage of the delays. It is the bound that contains the
    /// percentile, or the longest delay if that is shorter.
    pub fn within(&self, percent: u64) -> Option<Duration> {
        let wanted = (self.len() * percent).div_ceil(100).max(1);
        let mut sum = 0;
        let bounds = BOUNDS.iter().map(|bound| Duration::from_secs(*bound));
        for (count, bound) in self.counts.iter().zip(bounds.chain([Duration::MAX])) {
            sum += count;
            if sum >= wanted {
                return Some(bound.min(self.longest));
            }
        }
        None
    }

    /// Returns the stored form, which contains the counts and then the longest delay in
    /// milliseconds.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let longest = u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX);
        self.counts.iter().copied().chain([longest]).collect()
    }

    /// Parses the stored form. Discards the counts if they have another number of bounds than the
    /// current code.
    pub(crate) fn of_numbers(numbers: &[u64]) -> Self {
        let Some((longest, counts)) = numbers.split_last() else {
            return Self::default();
        };
        counts.try_into().map_or_else(
            |_| Self::default(),
            |counts| Self {
                counts,
                longest: Duration::from_millis(*longest),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(seconds: impl IntoIterator<Item = u64>) -> Delays {
        let mut delays = Delays::default();
        for delay in seconds {
            delays.add(Duration::from_secs(delay));
        }
        delays
    }

    #[test]
    fn a_share_of_them_came_within_a_bound_and_never_later_than_the_last() {
        let delays = delays((1..=94).map(|_| 2).chain([50, 55, 58, 59, 60, 3000]));
        let said = |percent| delays.within(percent).map(|delay| delay.as_secs());
        assert_eq!(
            [said(50), said(94), said(95), said(99), said(100)],
            [Some(2), Some(2), Some(60), Some(60), Some(3000)]
        );
        assert_eq!(delays.longest(), Some(Duration::from_secs(3000)));
        assert_eq!(Delays::default().within(50), None);
    }

    #[test]
    fn what_is_later_than_all_bounds_is_counted_too() {
        let late = delays([1_000_000]);
        assert_eq!((late.len(), late.within(50)), (1, late.longest()));
    }

    #[test]
    fn they_add_up_and_are_read_back() {
        let mut sum = delays([1, 70]);
        sum.merge(&delays([2, 400_000]));
        assert_eq!(sum, delays([400_000, 1, 2, 70]));
        assert_eq!(Delays::of_numbers(&sum.numbers()), sum);
        assert_eq!(Delays::of_numbers(&[1, 2, 3]), Delays::default());
    }
}
