//! Reads a state again until it is as a command needs it.

use std::time::{Duration, Instant};

/// Reads until `enough`, or until `patience` has passed. Returns the last state.
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
