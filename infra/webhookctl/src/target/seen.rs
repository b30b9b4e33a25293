//! Remembers the keys of the events that a list has shown, so that `inbox inspect` of such an event
//! is one read. A command that runs once forgets them when it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shared::base::clock::UnixMillis;
use shared::webhook::event::{EventId, EventKey};

/// The maximum number of events.
const MOST: usize = 100_000;

/// The keys of events by their ids.
#[derive(Clone, Default)]
pub struct SeenEvents(Arc<Mutex<HashMap<String, EventKey>>>);

impl SeenEvents {
    pub(crate) fn add(&self, received_at: UnixMillis, key: &EventKey) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(EventId::new(received_at, key).to_string(), key.clone());
    }

    /// Returns the key of an event, if a list has shown its whole id.
    pub(crate) fn key(&self, id: &str) -> Option<EventKey> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_id_is_known_and_memory_is_bounded() {
        let seen = SeenEvents::default();
        let key = |number: usize| EventKey::new("github", &format!("delivery-{number}"));
        let at = UnixMillis(1_795_169_681_000);
        seen.add(at, &key(0));
        let id = EventId::new(at, &key(0)).to_string();
        assert_eq!(seen.key(&id), Some(key(0)));
        assert_eq!(seen.clone().key(&id), Some(key(0)), "clones share the keys");
        assert_eq!(seen.key(&id[..15]), None);
        for number in 0..MOST {
            seen.add(at, &key(number + 1));
        }
        assert_eq!(seen.key(&id), None);
    }
}
