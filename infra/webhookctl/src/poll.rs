//! Reads a state repeatedly until it meets a condition.

use std::time::{Duration, Instant};

/// Reads until `enough` returns true, or until `patience` has passed. Returns the last state.
pub(crate) async fn until<T>(
    every: Duration,
    patience: Duration,
    mut read: impl AsyncFnMut() -> anyhow::Result<T>,
    enough: impl Fn(&T) -> bool,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        let state = read().await?;
        if enough(&state) || Instant::now() > deadline {
            return Ok(state);
        }
        tokio::time::sleep(every).await;
    }
}
