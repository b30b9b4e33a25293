//! Handles Ctrl-C: the run stops at the next point from which it can be resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<(AtomicBool, Notify)>);

impl Interrupt {
    /// Starts to handle Ctrl-C, which then no longer ends the process.
    pub(super) fn listen() -> Self {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                heard.0.0.store(true, Ordering::Relaxed);
                heard.0.1.notify_waiters();
            }
        });
        interrupt
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Sleeps until the duration has passed or Ctrl-C is pressed.
    pub(super) async fn sleep(&self, duration: Duration) {
        let heard = self.0.1.notified();
        if !self.is_set() {
            let _ = tokio::time::timeout(duration, heard).await;
        }
    }
}
