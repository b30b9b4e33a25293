//! How the downstream fails when it is told to, beside what its paths do.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

/// Something that is wrong with it.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It does nothing, and says so.
    Outage(Outage),
    /// It says only after this long that it has done its work; it does so at once.
    Slow(Duration),
    /// Whoever has work done dies over it. Who is to see to that is told here.
    Crash(mpsc::UnboundedSender<Crash>),
}

/// It goes when the one who waits for an answer is dead.
pub type Crash = oneshot::Sender<()>;

/// A time without service, which begins with the first request.
#[derive(Clone, Debug)]
pub struct Outage {
    lasts: Duration,
    began: Option<Instant>,
}

impl Outage {
    pub fn of(lasts: Duration) -> Self {
        Self { lasts, began: None }
    }

    /// Whether a request of now meets it.
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
