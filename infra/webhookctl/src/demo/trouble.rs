//! Faults of the downstream that a user can turn on. The paths of the downstream have further
//! failures of their own.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

/// A fault of the downstream.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The downstream applies no effects and answers with an error.
    Outage(Outage),
    /// The downstream applies the effect immediately, but answers only after this time.
    Slow(Duration),
    /// The processor crashes after an effect. The receiver of this channel stops the processor.
    Crash(mpsc::UnboundedSender<Crash>),
}

/// A signal that the processor has stopped while it waited for the answer. Dropping the
/// sender of the channel has the same effect.
pub type Crash = oneshot::Sender<()>;

/// An outage, which begins with the first request.
#[derive(Clone, Debug)]
pub struct Outage {
    lasts: Duration,
    began: Option<Instant>,
}

impl Outage {
    pub fn of(lasts: Duration) -> Self {
        Self { lasts, began: None }
    }

    /// Whether a request at `now` fails.
    pub(super) fn meets(&mut self, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        now.saturating_duration_since(began) < self.lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_the_first_request_on() {
        let minute = Duration::from_secs(60);
        let mut outage = Outage::of(minute);
        let now = Instant::now() + minute;
        assert!(outage.meets(now));
        assert!(outage.meets(now + minute / 2));
        assert!(!outage.meets(now + minute));
        assert!(!outage.meets(now + minute * 2));
    }
}
