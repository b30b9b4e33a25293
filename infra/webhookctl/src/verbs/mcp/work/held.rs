//! The events that this process has claimed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// The maximum number of events that one agent holds. An agent that forgets an event would keep it
/// from other workers until the end of `max_hold`.
pub(super) const MOST: usize = 10;

/// The shortest wait between two extensions of a lease.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The wait after an extension that failed.
const EXTEND_AGAIN: Duration = Duration::from_secs(3);

/// The events, by their leases. An event that was claimed again has another lease, so a late answer
/// for the earlier one changes nothing.
#[derive(Default)]
pub(super) struct Held(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    events: Vec<Event>,
    is_closed: bool,
}

struct Event {
    id: String,
    lease: String,
    /// The event as the API returned it.
    document: Value,
    /// The length that the agent asked for.
    length_s: Option<u64>,
    until: Instant,
    /// When the lease is extended again. `None` if it has reached `max_hold`.
    extend_at: Option<Instant>,
    /// The effects that were begun, and not ended.
    open: BTreeSet<String>,
    /// Whether an answer with the event was sent.
    is_handed_out: bool,
}

/// An event at the end of the process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) id: String,
    pub(super) lease: String,
    /// The effects whose result is open.
    pub(super) open: Vec<String>,
}

impl Held {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claimed event, and returns its lease.
    pub(super) fn add(&self, document: &Value, asked: Instant, is_handed_out: bool) -> String {
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        let (id, lease) = (text("id"), text("lease"));
        let left = document["lease_ms"].as_u64().unwrap_or_default();
        let left = Duration::from_millis(left);
        let mut inner = self.inner();
        inner.events.retain(|event| event.id != id);
        inner.events.push(Event {
            id,
            lease: lease.clone(),
            document: document.clone(),
            length_s: None,
            until: asked + left,
            extend_at: Some(asked + wait(left)),
            open: BTreeSet::new(),
            is_handed_out,
        });
        lease
    }

    /// Returns the ids of the events, without those whose leases have ended.
    pub(super) fn ids(&self, now: Instant) -> Vec<String> {
        let mut inner = self.inner();
        inner.events.retain(|event| event.until > now);
        inner.events.iter().map(|event| event.id.clone()).collect()
    }

    pub(super) fn lease_of(&self, id: &str) -> Option<String> {
        let inner = self.inner();
        let event = inner.events.iter().find(|event| event.id == id);
        event.map(|event| event.lease.clone())
    }

    /// Returns the event as it was claimed.
    pub(super) fn document(&self, id: &str) -> Option<Value> {
        let inner = self.inner();
        let event = inner.events.iter().find(|event| event.id == id);
        event.map(|event| event.document.clone())
    }

    /// Returns an event whose answer was cancelled. It counts as handed out from now on.
    pub(super) fn not_handed_out(&self) -> Option<Value> {
        let mut inner = self.inner();
        let event = inner.events.iter_mut().find(|event| !event.is_handed_out)?;
        event.is_handed_out = true;
        Some(event.document.clone())
    }

    fn with<T>(&self, lease: &str, change: impl FnOnce(&mut Event) -> T) -> Option<T> {
        let mut inner = self.inner();
        let event = inner.events.iter_mut().find(|event| event.lease == lease);
        event.map(change)
    }

    /// Returns when the lease has to be extended, and for how long. `None` if it is not held, or
    /// cannot be extended.
    pub(super) fn extension(&self, lease: &str) -> Option<(Instant, Option<u64>)> {
        let found = self.with(lease, |event| Some((event.extend_at?, event.length_s)));
        found.flatten()
    }

    /// Records the length that the agent asked for. Later extensions have the same length.
    pub(super) fn wants(&self, lease: &str, length_s: u64) {
        self.with(lease, |event| event.length_s = Some(length_s));
    }

    pub(super) fn extended(&self, lease: &str, asked: Instant, left: Duration) {
        self.with(lease, |event| {
            event.until = asked + left;
            event.extend_at = Some(asked + wait(left));
        });
    }

    /// Tries the extension again, or gives up the event if its lease has ended.
    pub(super) fn extends_again(&self, lease: &str, now: Instant) {
        let is_over = self.with(lease, |event| {
            event.extend_at = Some(now + EXTEND_AGAIN);
            event.until <= now
        });
        if is_over == Some(true) {
            self.remove(lease);
        }
    }

    /// The lease has reached `max_hold`. It ends by itself.
    pub(super) fn extends_no_more(&self, lease: &str) {
        self.with(lease, |event| event.extend_at = None);
    }

    /// Records that an effect is begun. Returns whether it was open before.
    pub(super) fn begins(&self, lease: &str, effect: &str) -> bool {
        let was_new = self.with(lease, |event| event.open.insert(effect.to_owned()));
        was_new == Some(false)
    }

    pub(super) fn ends(&self, lease: &str, effect: &str) {
        self.with(lease, |event| event.open.remove(effect));
    }

    pub(super) fn remove(&self, lease: &str) {
        self.inner().events.retain(|event| event.lease != lease);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    /// Gives up all events. Nothing is claimed or extended from now on.
    pub(super) fn close(&self) -> Vec<Left> {
        let mut inner = self.inner();
        inner.is_closed = true;
        let events = std::mem::take(&mut inner.events);
        let left = events.into_iter().map(|event| Left {
            id: event.id,
            lease: event.lease,
            open: event.open.into_iter().collect(),
        });
        left.collect()
    }
}

/// Returns the wait before the next extension: a third of the lease.
fn wait(left: Duration) -> Duration {
    (left / 3).max(SHORTEST_WAIT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const THIRTY: Duration = Duration::from_secs(30);

    fn event(id: &str, lease: &str) -> Value {
        json!({"id": id, "lease": lease, "lease_ms": 30_000})
    }

    #[test]
    fn a_lease_is_extended_at_a_third_of_its_length() {
        let (held, now) = (Held::default(), Instant::now());
        let lease = held.add(&event("evt_1", "a"), now, true);
        assert_eq!(held.extension(&lease), Some((now + THIRTY / 3, None)));
        held.wants(&lease, 90);
        held.extended(&lease, now, 3 * THIRTY);
        assert_eq!(held.extension(&lease), Some((now + THIRTY, Some(90))));
        held.extends_again(&lease, now + THIRTY);
        let again = now + THIRTY + EXTEND_AGAIN;
        assert_eq!(held.extension(&lease), Some((again, Some(90))));
        held.extends_no_more(&lease);
        assert_eq!(held.extension(&lease), None);
        assert_eq!(held.ids(now), ["evt_1"]);
    }

    #[test]
    fn a_lease_that_ended_is_given_up() {
        let (held, now) = (Held::default(), Instant::now());
        held.add(&event("evt_1", "a"), now, true);
        held.extends_again("a", now + THIRTY);
        assert_eq!(held.lease_of("evt_1"), None);
        held.add(&event("evt_2", "b"), now, true);
        assert!(held.ids(now + THIRTY).is_empty());
    }

    #[test]
    fn a_late_answer_for_an_earlier_lease_changes_nothing() {
        let (held, now) = (Held::default(), Instant::now());
        held.add(&event("evt_1", "a"), now, true);
        held.add(&event("evt_1", "b"), now, true);
        held.remove("a");
        held.extends_no_more("a");
        assert_eq!(held.lease_of("evt_1").as_deref(), Some("b"));
        assert!(held.extension("b").is_some());
    }

    #[test]
    fn a_cancelled_answer_is_handed_out_once() {
        let (held, now) = (Held::default(), Instant::now());
        held.add(&event("evt_1", "a"), now, false);
        assert_eq!(held.not_handed_out(), Some(event("evt_1", "a")));
        assert_eq!(held.not_handed_out(), None);
    }

    #[test]
    fn what_is_left_names_the_open_effects() {
        let (held, now) = (Held::default(), Instant::now());
        held.add(&event("evt_1", "a"), now, true);
        held.add(&event("evt_2", "b"), now, true);
        assert!(!held.begins("b", "open-ticket"));
        assert!(held.begins("b", "open-ticket"), "it was open before");
        held.begins("a", "close-ticket");
        held.ends("a", "close-ticket");
        let left = held.close();
        let open: Vec<_> = left
            .iter()
            .map(|left| (left.id.as_str(), left.open.len()))
            .collect();
        assert_eq!(open, [("evt_1", 0), ("evt_2", 1)]);
        assert!(held.is_closed() && held.extension("b").is_none());
    }
}
