//! The virtual time of the simulation: the time of the paused runtime, which each function reads
//! through a clock with its own error.

use std::cell::Cell;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use tokio::time::Instant;

/// The start of every simulation: 2026-01-05 00:00:00 UTC.
pub const BEGIN: i64 = 1_767_571_200_000;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static SKEW_MS: Cell<i64> = const { Cell::new(0) };
}

/// Starts the time of this thread at [`BEGIN`]. The caller must be inside the runtime.
pub fn begin() {
    BEGAN.set(Some(Instant::now()));
    SKEW_MS.set(0);
}

/// Returns the real time of the simulation in milliseconds, without any clock error.
pub fn true_ms() -> i64 {
    let elapsed = BEGAN.get().map(|began| began.elapsed()).unwrap_or_default();
    BEGIN + i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time since the start.
pub fn elapsed() -> Duration {
    BEGAN.get().map(|began| began.elapsed()).unwrap_or_default()
}

/// Returns the time for the production code, by the clock of the function that currently runs on
/// this thread.
pub fn read() -> UnixMillis {
    UnixMillis(true_ms() + SKEW_MS.get())
}

/// Runs a closure with a clock that is wrong by `by_ms`.
pub fn skewed<T>(by_ms: i64, run: impl FnOnce() -> T) -> T {
    let before = SKEW_MS.replace(by_ms);
    let result = run();
    SKEW_MS.set(before);
    result
}
