//! Postpones events whose destinations are all unreachable. During a long outage, each message for
//! such an event would only find an open circuit breaker.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use shared::base::backoff::jitter;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::Position;
use shared::sources::{ActionKind, Source};

use crate::BackupSync;

/// The time span over which events that waited for the same probe become due.
const SPREAD: Duration = Duration::from_secs(120);

/// How long events are postponed while a probe is running.
const MEANWHILE: Duration = Duration::from_secs(60);

impl BackupSync {
    /// Returns when to check an event of this source again, if no destination can take it now. If
    /// events of a source wait for a probe, each sweep sends one of them, and records the source in
    /// `ahead`.
    pub(super) async fn skipped_unreachable(
        &self,
        source: &Source,
        now: UnixMillis,
        ahead: &RefCell<BTreeSet<String>>,
    ) -> Option<UnixMillis> {
        let mut positions = Vec::new();
        for action in &source.actions {
            match (&action.kind, &action.destination) {
                (ActionKind::Keep | ActionKind::Pull(_), _) => {}
                (_, Some(destination)) => {
                    positions.push(self.breakers.position(&destination.name, now).await);
                }
                (_, None) => return None,
            }
        }
        match wait(&positions, now, jitter())? {
            Wait::ForProbe(_) if ahead.borrow_mut().insert(source.name.clone()) => None,
            Wait::Until(at) | Wait::ForProbe(at) => Some(at),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Wait {
    Until(UnixMillis),
    ForProbe(UnixMillis),
}

/// Combines the circuit breakers of all destinations of a source. Returns `None` if its events can
/// be sent.
fn wait(positions: &[Position], now: UnixMillis, jitter: f64) -> Option<Wait> {
    let mut first: Option<UnixMillis> = None;
    let mut probing = false;
    for position in positions {
        match *position {
            Position::Closed => return None,
            Position::Probing => probing = true,
            Position::Open { until, .. } => first = Some(first.map_or(until, |at| at.min(until))),
        }
    }
    if probing {
        let at = now + MEANWHILE + MEANWHILE.mul_f64(jitter);
        return Some(Wait::ForProbe(at));
    }
    Some(Wait::Until(first? + SPREAD.mul_f64(jitter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_sleeps_only_while_all_of_its_destinations_are_down() {
        use Position::{Closed, Probing};
        let now = UnixMillis(1_900_000_000_000);
        let open = |secs| Position::Open {
            until: now + Duration::from_secs(secs),
            refused: None,
        };
        let at = |secs| now + Duration::from_secs(secs);
        for (positions, expected) in [
            (vec![], None),
            (vec![Closed], None),
            (vec![open(30), Closed], None),
            (vec![Closed, Probing], None),
            (vec![open(600), open(30)], Some(Wait::Until(at(30)))),
            (vec![open(600), Probing], Some(Wait::ForProbe(at(60)))),
        ] {
            assert_eq!(wait(&positions, now, 0.0), expected, "{positions:?}");
        }
        assert_eq!(wait(&[open(30)], now, 1.0), Some(Wait::Until(at(150))));
    }
}
