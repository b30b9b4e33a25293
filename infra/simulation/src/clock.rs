//! Virtual time: that of the paused runtime, seen through clocks that differ.

use std::cell::Cell;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use tokio::time::Instant;

/// When every simulation begins: 2026-01-05 00:00:00 UTC.
pub const BEGIN: i64 = 1_767_571_200_000;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static SKEW_MS: Cell<i64> = const { Cell::new(0) };
}

/// From here on, time on this thread is counted from [`BEGIN`]. Called inside the runtime.
pub fn begin() {
    BEGAN.set(Some(Instant::now()));
    SKEW_MS.set(0);
}

/// The time on nobody's clock, in milliseconds.
pub fn true_ms() -> i64 {
    let elapsed = BEGAN.get().map(|began| began.elapsed()).unwrap_or_default();
    BEGIN + i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// The time since the beginning.
pub fn elapsed() -> Duration {
    BEGAN.get().map(|began| began.elapsed()).unwrap_or_default()
}

/// The clock that the production code is given: that of whoever is at work on this thread.
pub fn read() -> UnixMillis {
    UnixMillis(true_ms() + SKEW_MS.get())
}

/// Runs something by a clock that is wrong by so much.
pub fn skewed<T>(by_ms: i64, run: impl FnOnce() -> T) -> T {
    let before = SKEW_MS.replace(by_ms);
    let result = run();
    SKEW_MS.set(before);
    result
}
