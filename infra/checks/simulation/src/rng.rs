//! A generator of random numbers. The same seed gives the same numbers.

/// A stream of random numbers (xorshift64*).
/// <https://en.wikipedia.org/wiki/Xorshift#xorshift*>
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a stream. Streams of one seed with different names are independent.
    pub fn new(seed: u64, name: u64) -> Self {
        let mixed = (seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ name.wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut dice = Self(mixed | 1);
        for _ in 0..8 {
            dice.roll();
        }
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number in `0..end`, or zero if the range is empty.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.roll() >> 11).checked_rem(end).unwrap_or(0)
    }

    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        (from + self.below(to.saturating_sub(from) + 1)).min(to)
    }

    /// Returns whether an event with this probability, in ten-thousandths, happens.
    pub fn hits(&mut self, in_ten_thousand: u64) -> bool {
        self.below(10_000) < in_ten_thousand
    }
}
