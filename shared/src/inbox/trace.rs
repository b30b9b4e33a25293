//! The ids of an event in W3C Trace Context.
//!
//! Mitt derives each id from values that the row stores anyway, so no id is stored: a trace from the
//! key of the event, and a span from the key and from what the span is about. The owner names a
//! claim. The idempotency key and the run name an effect, because the row has both for each effect,
//! also after a deferral. So all attempts of a run call a destination with the same span, and a
//! replay calls it with another one.
//!
//! A provider's `traceparent` is not signed, so it changes none of these ids.
//! <https://www.w3.org/TR/trace-context/#traceparent-header>

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use crate::webhook::event::EventKey;

/// The trace of an event. Its attempts and replays belong to the same trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    pub fn of(key: &EventKey) -> Self {
        Self(derived("trace", key, &[]))
    }

    /// Returns the value of the header `traceparent`, with the flag that the trace is recorded.
    pub fn traceparent(self, parent: SpanId) -> String {
        let mut value = String::with_capacity(55);
        let _ = write!(value, "00-{self}-{parent}-01");
        value
    }
}

impl SpanId {
    /// The receipt of the event, the first span of its trace.
    pub fn of_receipt(key: &EventKey) -> Self {
        Self(derived("span", key, &[]))
    }

    /// The claim of a worker. `owner` is the name of the claim.
    pub fn of_attempt(key: &EventKey, owner: &str) -> Self {
        Self(derived("span", key, &[owner]))
    }

    /// The wait before the claim of a worker.
    pub fn of_wait(key: &EventKey, owner: &str) -> Self {
        Self(derived("span", key, &[owner, "wait"]))
    }

    /// The calls of a run for one effect. This is the parent of what the destination does.
    pub fn of_effect(key: &EventKey, idempotency_key: &str, run: u64) -> Self {
        let mut digits = String::with_capacity(20);
        let _ = write!(digits, "{run}");
        Self(derived("span", key, &[idempotency_key, &digits]))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lower_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lower_hex(&self.0, f)
    }
}

fn lower_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Hashes the kind, the partition key of the event, and the parts, with a zero byte between them.
/// Feeds the partition key in pieces, so that it needs no allocation.
fn derived<const N: usize>(kind: &str, key: &EventKey, parts: &[&str]) -> [u8; N] {
    non_zero(|again| {
        let mut hash = Sha256::new();
        for piece in [kind, "\0E#", key.source(), "#", key.id()] {
            hash.update(piece);
        }
        for part in parts {
            hash.update([0]);
            hash.update(part);
        }
        hash.update(again);
        hash.finalize().into()
    })
}

/// Returns the first bytes of the digest. An id of zeros is invalid, so then this takes the digest
/// with one more byte.
fn non_zero<const N: usize>(digest: impl Fn(&[u8]) -> [u8; 32]) -> [u8; N] {
    let first = |again: &[u8]| {
        let digest = digest(again);
        let mut id = [0; N];
        id.copy_from_slice(&digest[..N]);
        id
    };
    let mut id = first(&[]);
    let mut again = 0_u8;
    while id == [0; N] {
        again = again.wrapping_add(1);
        id = first(&[again]);
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key() -> EventKey {
        EventKey::new("stripe-main", "evt_1PqKrs")
    }

    /// `infra/docs/trace.md` has the same values, and a test in Python calculates them.
    #[test]
    fn the_ids_of_the_documented_event_stay() {
        let key = key();
        let effect = SpanId::of_effect(&key, "wh_b76qkifxhx4peotcvlirfsujbj2nogdq656kxyr2", 0);
        for (id, expected) in [
            (
                TraceId::of(&key).to_string(),
                "001f89d7ca2ca83e415e661b0eed1325",
            ),
            (SpanId::of_receipt(&key).to_string(), "e83486e0a7562551"),
            (
                SpanId::of_attempt(&key, "processor/0123456789ab").to_string(),
                "021cccfb26504b13",
            ),
            (
                SpanId::of_wait(&key, "processor/0123456789ab").to_string(),
                "e64992c6f1e39aa9",
            ),
            (effect.to_string(), "1e80fbd3c3225e67"),
            (
                TraceId::of(&key).traceparent(effect),
                "00-001f89d7ca2ca83e415e661b0eed1325-1e80fbd3c3225e67-01",
            ),
        ] {
            assert_eq!(id, expected);
        }
    }

    #[test]
    fn the_partition_key_is_hashed_as_it_is_stored() {
        let digest = Sha256::digest(format!("trace\0{}", key().pk()));
        assert_eq!(TraceId::of(&key()).0, digest[..16]);
    }

    #[test]
    fn a_hundred_thousand_keys_have_different_ids() {
        const COUNT: usize = 100_000;
        let mut traces = HashSet::with_capacity(COUNT);
        let mut spans = HashSet::with_capacity(COUNT);
        for number in 0..COUNT {
            let key = EventKey::new("stripe-main", &format!("evt_{number}"));
            traces.insert(TraceId::of(&key));
            spans.insert(SpanId::of_receipt(&key));
        }
        assert_eq!((traces.len(), spans.len()), (COUNT, COUNT));
        assert!(!traces.contains(&TraceId([0; 16])) && !spans.contains(&SpanId([0; 8])));
    }

    #[test]
    fn an_id_of_zeros_is_hashed_again() {
        let digest = |again: &[u8]| match again {
            [] | [1] => [0; 32],
            [again] => [*again; 32],
            other => panic!("{other:?}"),
        };
        assert_eq!(non_zero::<8>(digest), [2; 8]);
        // Zeros behind the id do not matter.
        let short = |_: &[u8]| {
            let mut digest = [0; 32];
            digest[15] = 7;
            digest
        };
        assert_eq!(non_zero::<16>(short)[15], 7);
    }

    #[test]
    fn each_part_of_a_trace_has_its_own_span() {
        let (key, other) = (key(), EventKey::new("stripe-main", "evt_2"));
        let spans = [
            SpanId::of_receipt(&key),
            SpanId::of_receipt(&other),
            SpanId::of_attempt(&key, "processor/a"),
            SpanId::of_attempt(&key, "processor/b"),
            SpanId::of_wait(&key, "processor/a"),
            SpanId::of_effect(&key, "wh_1", 0),
            SpanId::of_effect(&key, "wh_1", 1),
            SpanId::of_effect(&key, "wh_2", 0),
            SpanId::of_effect(&other, "wh_1", 0),
        ];
        let unique: HashSet<SpanId> = spans.into_iter().collect();
        assert_eq!(unique.len(), spans.len());
    }
}
