//! Stops a run on Ctrl-C or on request: the run stops at the next point from which it can be resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A request to stop, from Ctrl-C or from another part of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<(AtomicBool, Notify)>);

impl Interrupt {
    /// Starts to handle Ctrl-C, which then no longer ends the process.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                heard.set();
            }
        });
        interrupt
    }

    /// Stops the run at the next point from which it can be resumed.
    pub(crate) fn set(&self) {
        self.0.0.store(true, Ordering::Relaxed);
        self.0.1.notify_waiters();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Sleeps until the duration has passed or the run is to stop.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let heard = self.0.1.notified();
        if !self.is_set() {
            let _ = tokio::time::timeout(duration, heard).await;
        }
    }
}
