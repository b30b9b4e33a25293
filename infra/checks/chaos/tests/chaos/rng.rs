//! A generator of random numbers that can be repeated with a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The `SplitMix64` generator. One seed determines all numbers. The order in which tasks use the
/// numbers depends on the machine, so a seed repeats a run almost, but not exactly.
/// <https://prng.di.unimi.it/splitmix64.c>
pub(crate) struct Dice(AtomicU64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(crate) fn roll(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed);
        let mut z = state.wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..sides`.
    pub(crate) fn below(&self, sides: usize) -> usize {
        usize::try_from(self.roll() % sides.max(1) as u64).unwrap()
    }

    /// Returns true with this probability.
    pub(crate) fn chance(&self, of_one: f64) -> bool {
        let fraction = f64::from(u32::try_from(self.roll() >> 32).unwrap()) / f64::from(u32::MAX);
        fraction < of_one
    }

    pub(crate) fn between(&self, least: Duration, most: Duration) -> Duration {
        let span = usize::try_from(most.saturating_sub(least).as_millis()).unwrap();
        least + Duration::from_millis(self.below(span + 1) as u64)
    }

    pub(crate) fn one_of<'t, T>(&self, all: &'t [T]) -> Option<&'t T> {
        all.get(self.below(all.len()))
    }
}
