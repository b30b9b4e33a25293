//! Records the effects of actions, so that Mitt applies each effect once where that is possible.
//!
//! A ledger cannot make a call to another system happen exactly once. So this module skips an
//! effect that is known to have happened. It repeats an uncertain effect under the same key. If a
//! repeat could apply the effect twice, the module stops, and an operator must decide.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::base::clock::{Clock, UnixMillis};
use crate::base::timing::LONGEST_WORK_LEASE;
use crate::inbox::ledger::{EffectRow, EffectState, Lease, Ledger, Row};
use crate::inbox::outcome::Outcome;
use crate::inbox::trace::SpanId;
use crate::sources::policy::IdempotencySupport;
use crate::webhook::event::EventKey;

/// The result of a call to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The effect happened. The note (at most 120 characters) contains useful information, such as
    /// the number of a ticket.
    Done { note: String },
    /// The effect did not happen. The outcome says whether to retry.
    NotApplied(Outcome),
    /// The destination did not respond, so the effect may have happened.
    Unknown { error: String },
    /// The destination reported a failure, but the effect may still have happened.
    Failed {
        error: String,
        /// Whether the destination returned the stored response of an earlier call with this key.
        replayed: bool,
        /// The wait that the destination asked for.
        after: Option<Duration>,
    },
}

/// The result of asking a destination whether an effect happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The effect happened. The note has the same meaning as in [`Effect::Done`].
    Happened { note: String },
    /// The effect did not happen, and no earlier call is still in flight.
    DidNot,
    /// The destination cannot answer now.
    Unclear { error: String },
}

/// The effects of one attempt.
pub struct Effects<'l> {
    ledger: &'l Ledger,
    lease: &'l Lease,
    clock: Clock,
    changed: Mutex<Vec<(String, EffectRow)>>,
    /// The version of the fetched state that the actions send, if any.
    state: OnceLock<String>,
}

impl<'l> Effects<'l> {
    pub fn new(ledger: &'l Ledger, lease: &'l Lease, clock: Clock) -> Self {
        Self {
            ledger,
            lease,
            clock,
            changed: Mutex::new(Vec::new()),
            state: OnceLock::new(),
        }
    }

    /// Sets the version of the fetched state that the actions send. Each state is a separate
    /// effect, and needs its own key. Under the same key, a destination would keep the older state
    /// or reject the newer state.
    pub fn of_state(&self, version: &str) {
        // This function is called once, before the first effect.
        let _ = self.state.set(version.to_owned());
    }

    /// Applies an effect once. The intent is written before the call, so that a crash during the
    /// call can be distinguished from a crash before the call. The result is written when the
    /// attempt is settled.
    ///
    /// The closure receives the idempotency key, which is the same in every attempt. The action
    /// chooses the name of the effect. The name has up to 40 characters, and must not change
    /// between versions of the code.
    pub async fn once(
        &self,
        name: &str,
        keys: IdempotencySupport,
        call: impl AsyncFnOnce(&str) -> Effect,
    ) -> Outcome {
        match self.known(name, keys) {
            Some(outcome) => outcome,
            None => self.begin(name, keys, call).await,
        }
    }

    /// Like [`once`](Self::once), for a destination that accepts no key but can be queried. If an
    /// earlier attempt may have applied the effect, `ask` queries the destination, so that no
    /// operator has to check it. `ask` receives the key of the effect. The call must therefore
    /// store the key in a searchable place, such as a reference field.
    ///
    /// This function also queries a destination that stores its failures under the key. If the
    /// effect did not happen there, no call with this key can apply it, so an operator must decide.
    pub async fn once_asking(
        &self,
        name: &str,
        call: impl AsyncFnOnce(&str) -> Effect,
        ask: impl AsyncFnOnce(&str) -> Asked,
    ) -> Outcome {
        // A repeat is safe, because the query comes first.
        let keys = IdempotencySupport::Honoured;
        if let Some(outcome) = self.known(name, keys) {
            return outcome;
        }
        if self.is_in_doubt(name) {
            match ask(&self.key(name)).await {
                Asked::Happened { note } => {
                    self.note(name, EffectState::Done, keys, &note);
                    return Outcome::Done;
                }
                Asked::DidNot if self.is_spent(name) => {
                    let error = format!(
                        "effect {name} failed, and the destination returns the stored failure for each call with the same idempotency key"
                    );
                    self.note(name, EffectState::Refused, keys, &error);
                    return Outcome::permanent(error);
                }
                Asked::DidNot => {}
                // The row keeps the uncertain state, and the next attempt queries again.
                Asked::Unclear { error } => return Outcome::retry(error),
            }
        }
        match self.begin(name, keys, call).await {
            Outcome::Unknown { error } => Outcome::retry(error),
            other => other,
        }
    }

    /// Writes the intent, then makes the call.
    async fn begin(
        &self,
        name: &str,
        keys: IdempotencySupport,
        call: impl AsyncFnOnce(&str) -> Effect,
    ) -> Outcome {
        if let Some(outcome) = self.held_back(name, keys) {
            return outcome;
        }
        // If the attempt ends before the call, for example after a lost response or a timeout, this
        // state replaces the uncertain intent. The call does not change an older uncertain state.
        if !self.is_in_doubt(name) {
            self.note(name, EffectState::Not, keys, "");
        }
        let intent = self.entry(name, EffectState::Intent, keys, "");
        match self.ledger.intend(self.lease, name, &intent).await {
            Ok(true) => self.run(name, keys, call).await,
            Ok(false) => {
                self.changed().retain(|(other, _)| other != name);
                Outcome::retry("a newer claim holds the event")
            }
            Err(error) => Outcome::retry(format!("{error:#}")),
        }
    }

    /// Like [`once`](Self::once), for a destination that honours keys, but without the write before
    /// the call. The ledger does not show a crash during the call, but a repeat is safe.
    pub async fn keyed(&self, name: &str, call: impl AsyncFnOnce(&str) -> Effect) -> Outcome {
        if let Some(outcome) = self.known(name, IdempotencySupport::Honoured) {
            return outcome;
        }
        self.run(name, IdempotencySupport::Honoured, call).await
    }

    /// Returns the changed effects. The caller writes them when it settles the attempt.
    pub fn into_changed(self) -> Vec<(String, EffectRow)> {
        self.changed
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the header `traceparent` of a call with this idempotency key.
    pub fn traceparent(&self, key: &str) -> String {
        let row = &self.lease.row;
        let span = SpanId::of_effect(&row.key, key, row.run);
        self.lease.trace.traceparent(span)
    }

    /// Returns `true` if each effect of this attempt with an unknown result has a destination that
    /// honours keys.
    pub fn all_keyed(&self) -> bool {
        self.changed()
            .iter()
            .all(|(_, effect)| effect.keyed || effect.state != EffectState::Unknown)
    }

    /// Returns whether an effect is complete in this run, so that no further call is needed.
    pub fn is_settled(&self, name: &str) -> bool {
        self.before(name).is_some_and(|before| match before.state {
            EffectState::Done => true,
            EffectState::Refused => before.run == self.lease.row.run,
            _ => false,
        })
    }

    /// Returns whether an earlier attempt may have applied the effect.
    fn is_in_doubt(&self, name: &str) -> bool {
        self.before(name).is_some_and(is_in_doubt)
    }

    /// Returns whether the destination is known to have stored a failure under the key.
    fn is_spent(&self, name: &str) -> bool {
        self.before(name).is_some_and(is_spent)
    }

    fn before(&self, name: &str) -> Option<&EffectRow> {
        self.lease.row.effects.get(name)
    }

    /// Returns the outcome if the ledger alone determines it, or `None` if a call is needed.
    fn known(&self, name: &str, keys: IdempotencySupport) -> Option<Outcome> {
        let never = Inquiry::Never;
        match before(&self.lease.row, name, keys, never, (self.clock)()) {
            Begin::Go => None,
            Begin::Done { .. } => Some(Outcome::Done),
            Begin::Refused { note } => Some(Outcome::permanent(note)),
            Begin::InDoubt { .. } if keys == IdempotencySupport::Ignored => {
                Some(Outcome::unknown(format!(
                    "effect {name} may have happened in an earlier attempt, and the destination ignores idempotency keys"
                )))
            }
            Begin::InDoubt { .. } => Some(Outcome::unknown(format!(
                "effect {name} failed in an earlier attempt, and the destination returns the stored failure for each call with the same idempotency key"
            ))),
        }
    }

    async fn run(
        &self,
        name: &str,
        keys: IdempotencySupport,
        call: impl AsyncFnOnce(&str) -> Effect,
    ) -> Outcome {
        if let Some(outcome) = self.held_back(name, keys) {
            return outcome;
        }
        // If the attempt ends during the call, for example after a timeout, this state is stored.
        self.note(name, EffectState::Unknown, keys, "");
        let key = self.key(name);
        match call(&key).await {
            Effect::Done { note } => {
                self.note(name, EffectState::Done, keys, &note);
                Outcome::Done
            }
            Effect::NotApplied(Outcome::Permanent { error }) => {
                self.note(name, EffectState::Refused, keys, &error);
                Outcome::permanent(error)
            }
            Effect::NotApplied(outcome) => {
                self.note(name, EffectState::Not, keys, "");
                outcome
            }
            Effect::Failed {
                error, replayed, ..
            } if replayed || keys == IdempotencySupport::HonouredWithFailures => {
                // Another call under this key would only return the same failure.
                self.note(name, EffectState::Unknown, IdempotencySupport::Ignored, "");
                Outcome::unknown(error)
            }
            Effect::Unknown { error } => uncertain(keys, error, None),
            Effect::Failed { error, after, .. } => uncertain(keys, error, after),
        }
    }

    /// Returns a retry if the lease has expired or is about to expire. A worker can be suspended,
    /// and resume after its lease has expired. The worker must then leave the call to the next
    /// worker. The effect has not happened, even if its intent was written.
    fn held_back(&self, name: &str, keys: IdempotencySupport) -> Option<Outcome> {
        if self.lease.holds((self.clock)()) {
            return None;
        }
        self.note(name, EffectState::Not, keys, "");
        Some(Outcome::retry(
            "the lease was about to expire before the effect began",
        ))
    }

    fn note(&self, name: &str, state: EffectState, keys: IdempotencySupport, note: &str) {
        let entry = self.entry(name, state, keys, note);
        let mut changed = self.changed();
        changed.retain(|(other, _)| other != name);
        changed.push((name.to_owned(), entry));
    }

    fn changed(&self) -> MutexGuard<'_, Vec<(String, EffectRow)>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(
        &self,
        name: &str,
        state: EffectState,
        keys: IdempotencySupport,
        note: &str,
    ) -> EffectRow {
        let key = self.key(name);
        record(&self.lease.row, key, state, keys, note, (self.clock)())
    }

    fn key(&self, name: &str) -> String {
        let row = &self.lease.row;
        let key = |effect: &str| idempotency_key(&row.key, effect, row.generation);
        match self.state.get() {
            Some(version) => key(&format!("{name}@{version}")),
            None => key(name),
        }
    }
}

/// What a caller knows about an effect in doubt, before it makes the call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// The caller cannot ask the destination.
    Never,
    /// The caller can ask the destination, and has not asked yet.
    Possible,
    /// The destination answered that the effect did not happen.
    DidNot,
}

/// What an effect needs, as the row alone determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The intent can be written, and the call made after it.
    Go,
    /// An earlier attempt applied the effect.
    Done { note: String },
    /// An earlier attempt may have applied the effect, and a repeat is not safe.
    InDoubt {
        /// When the effect began or became unknown.
        since: UnixMillis,
        /// The time from which [`Inquiry::DidNot`] is accepted. Until then, a call of the earlier
        /// attempt may still be under way.
        ask_from: UnixMillis,
    },
    /// The destination refused the effect in this run.
    Refused { note: String },
}

/// How long after the end of a lease a call that began under it may still arrive.
const CALL_ARRIVES: Duration = Duration::from_secs(60);

/// Decides what an effect of an event needs before it begins. `keys` says what the destination does
/// with a repeated key, and `asked` what it answered about an effect in doubt.
///
/// The effects of the processor and those of workers outside of Lambda follow this one table.
pub fn before(
    row: &Row,
    name: &str,
    keys: IdempotencySupport,
    asked: Inquiry,
    now: UnixMillis,
) -> Begin {
    let Some(before) = row.effects.get(name) else {
        return Begin::Go;
    };
    match before.state {
        EffectState::Done => {
            let note = before.note.clone();
            return Begin::Done { note };
        }
        EffectState::Refused if before.run == row.run => {
            let note = before.note.clone();
            return Begin::Refused { note };
        }
        EffectState::Not | EffectState::Refused => return Begin::Go,
        EffectState::Intent | EffectState::Unknown => {}
    }
    let ask_from = match before.lease {
        // The caller repeats its own request, whose answer was lost.
        Some(lease) if before.state == EffectState::Intent && lease.epoch == row.epoch => {
            return Begin::Go;
        }
        Some(lease) => lease.until + CALL_ARRIVES,
        None => before.at + LONGEST_WORK_LEASE + CALL_ARRIVES,
    };
    let in_doubt = Begin::InDoubt {
        since: before.at,
        ask_from,
    };
    match (asked, keys) {
        (Inquiry::DidNot, _) if now < ask_from => in_doubt,
        (Inquiry::DidNot, keys) if keys != IdempotencySupport::Ignored && is_spent(before) => {
            Begin::Refused {
                note: format!(
                    "effect {name} failed, and the destination returns the stored failure for each call with the same idempotency key"
                ),
            }
        }
        (Inquiry::Possible, _) | (Inquiry::Never, IdempotencySupport::Ignored) => in_doubt,
        (Inquiry::Never, IdempotencySupport::HonouredWithFailures) if is_spent(before) => in_doubt,
        (Inquiry::DidNot | Inquiry::Never, _) => Begin::Go,
    }
}

/// Returns the names of the effects that workers began and of which no result is known. A worker must
/// report the result of each before it ends its work as done.
pub fn open_effects(row: &Row) -> impl Iterator<Item = &str> {
    let is_open =
        |effect: &EffectRow| effect.state == EffectState::Intent && effect.lease.is_some();
    let effects = row.effects.iter();
    effects.filter_map(move |(name, effect)| is_open(effect).then_some(name.as_str()))
}

/// Returns the record of an effect of an event.
pub fn effect_row(
    row: &Row,
    name: &str,
    state: EffectState,
    keys: IdempotencySupport,
    note: &str,
    now: UnixMillis,
) -> EffectRow {
    let key = idempotency_key(&row.key, name, row.generation);
    record(row, key, state, keys, note, now)
}

fn record(
    row: &Row,
    key: String,
    state: EffectState,
    keys: IdempotencySupport,
    note: &str,
    now: UnixMillis,
) -> EffectRow {
    EffectRow {
        state,
        key,
        keyed: keys != IdempotencySupport::Ignored,
        at: now,
        run: row.run,
        note: note.chars().take(120).collect(),
        lease: None,
    }
}

fn is_in_doubt(effect: &EffectRow) -> bool {
    matches!(effect.state, EffectState::Intent | EffectState::Unknown)
}

/// Returns whether the destination is known to have stored a failure under the key.
fn is_spent(effect: &EffectRow) -> bool {
    effect.state == EffectState::Unknown && !effect.keyed
}

/// Returns the outcome of a call whose effect may have happened.
fn uncertain(keys: IdempotencySupport, error: String, after: Option<Duration>) -> Outcome {
    match keys {
        IdempotencySupport::Honoured | IdempotencySupport::HonouredWithFailures => {
            Outcome::Retry { error, after }
        }
        IdempotencySupport::Ignored => Outcome::unknown(error),
    }
}

/// Returns the idempotency key of an effect. The key is the same in every attempt and every replay.
/// Only a replay that requests a new effect changes the key, because it starts a new generation.
pub fn idempotency_key(key: &EventKey, effect: &str, generation: u64) -> String {
    let mut hash = Sha256::new();
    for part in [key.source(), key.id(), effect, &generation.to_string()] {
        hash.update(part);
        hash.update([0]);
    }
    format!("wh_{}", &base32(&hash.finalize())[..40])
}

fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |n: usize| bytes.get(n / 8).map_or(0, |byte| byte >> (7 - n % 8) & 1);
    (0..(bytes.len() * 8).div_ceil(5))
        .map(|i| (0..5).fold(0, |acc, b| acc << 1 | bit(i * 5 + b)))
        .map(|index| char::from(ALPHABET[usize::from(index)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_all_of_its_parts_and_on_nothing_else() {
        let key = |source, id, effect, generation| {
            idempotency_key(&EventKey::new(source, id), effect, generation)
        };
        let one = key("s", "1", "e", 0);
        assert_eq!(one, key("s", "1", "e", 0));
        assert_eq!(one.len(), 43);
        for other in [
            key("s1", "", "e", 0),
            key("s", "2", "e", 0),
            key("s", "1", "f", 0),
            key("s", "1", "e", 1),
            key("s", "1e", "", 0),
        ] {
            assert_ne!(one, other);
        }
        // Destinations store this key, so it must never change.
        assert_eq!(
            idempotency_key(&EventKey::new("stripe-main", "evt_1"), "http", 0),
            "wh_2r2h5kf6eplrs7vio3wgxo2c3p6npuzhowvs2h7d"
        );
    }
}
