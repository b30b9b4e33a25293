//! Random bytes for write ids, names of lease holders and jitter. Do not use them for cryptographic
//! keys or nonces.

use std::cell::Cell;

use anyhow::anyhow;

thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Fills the buffer with random bytes from the operating system. After [`seed`], the bytes come
/// from a seeded generator.
pub fn fill(bytes: &mut [u8]) -> anyhow::Result<()> {
    let Some(mut state) = SEEDED.get() else {
        return getrandom::fill(bytes)
            .map_err(|error| anyhow!("the random number generator failed: {error}"));
    };
    for chunk in bytes.chunks_mut(8) {
        let drawn = split_mix(&mut state).to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    SEEDED.set(Some(state));
    Ok(())
}

/// Makes this thread return the same bytes in each run, for reproducible simulations. Production
/// code does not call this function.
pub fn seed(seed: u64) {
    SEEDED.set(Some(seed));
}

/// The generator `splitmix64`.
/// <https://prng.di.unimi.it/splitmix64.c>
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> [u8; 12] {
        let mut bytes = [0; 12];
        fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_seeded_thread_repeats_itself_and_another_one_does_not() {
        assert_ne!(drawn(), drawn());
        seed(7);
        let (one, two) = (drawn(), drawn());
        assert_ne!(one, two);
        seed(7);
        assert_eq!((one, two), (drawn(), drawn()));
        let elsewhere = std::thread::spawn(drawn).join().unwrap();
        seed(7);
        assert_ne!(elsewhere, drawn());
    }
}
