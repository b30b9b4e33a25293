//! What an action does to the world, remembered, so that it is done once.
//!
//! No ledger of ours can make a call to somebody else happen exactly once. What it can do: skip
//! what is known to have happened, repeat under the same key what is not known, and stop for a
//! human where repeating could do it twice.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use sha2::{Digest, Sha256};

use crate::base::clock::Clock;
use crate::inbox::ledger::{EffectRow, EffectState, Lease, Ledger};
use crate::inbox::outcome::Outcome;
use crate::sources::policy::IdempotencySupport;
use crate::webhook::event::EventKey;

/// What a call to the world came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It happened; the note (at most 120 characters) says what is worth knowing, such as the
    /// number of the ticket.
    Done { note: String },
    /// It is known not to have happened; the outcome says whether to try again.
    NotApplied(Outcome),
    /// Nobody can say whether it happened: there was no answer.
    Unknown { error: String },
    /// The downstream answered that it failed, which does not say whether it happened.
    Failed {
        error: String,
        /// It said that this is its stored answer to an earlier call under the key.
        replayed: bool,
    },
}

/// What a downstream says of an effect of which nobody here knows whether it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It happened; the note is that of [`Effect::Done`].
    Happened { note: String },
    /// It did not, and no call that was made is still on its way to it.
    DidNot,
    /// It cannot say now.
    Unclear { error: String },
}

/// The effects of one attempt.
pub struct Effects<'l> {
    ledger: &'l Ledger,
    lease: &'l Lease,
    clock: Clock,
    changed: Mutex<Vec<(String, EffectRow)>>,
    /// The version of the state that they bring, where that is not the event's own.
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

    /// The actions bring a state that was fetched, and it has this version. Another state is
    /// another effect, so it goes under a key of its own: under the same one, a downstream would
    /// leave the older state as it is, or refuse the newer.
    pub fn of_state(&self, version: &str) {
        // It is said once, before the first effect.
        let _ = self.state.set(version.to_owned());
    }

    /// Makes an effect happen once. Before the call its intent is written, so that a crash in it
    /// can be told from one before it; after the call, its result.
    ///
    /// The closure gets the idempotency key, which is the same in every attempt. Names are the
    /// action's own, up to 40 characters, and must not change between versions of the code.
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

    /// Like [`once`](Self::once) for a downstream that takes no key but can be asked. What may
    /// have happened in an earlier attempt is looked up there, and not left to a human. `ask` gets
    /// the key of the effect, so the call has to leave it where it can be searched for, such as
    /// in a field for references.
    ///
    /// A downstream that stores its failures under the key is asked as well. When it says that it
    /// did not happen, no call under the key will make it happen: that is for a human.
    pub async fn once_asking(
        &self,
        name: &str,
        call: impl AsyncFnOnce(&str) -> Effect,
        ask: impl AsyncFnOnce(&str) -> Asked,
    ) -> Outcome {
        // Whoever asks before repeating can repeat.
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
                    let error = format!("{name} failed, and its key only gives that failure again");
                    self.note(name, EffectState::Refused, keys, &error);
                    return Outcome::permanent(error);
                }
                Asked::DidNot => {}
                // The doubt stays in the row, and the next attempt asks again.
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
        // What stops us before the call, also a lost answer or a timeout, leaves this behind, and
        // not the doubt of an intent. An older doubt stays.
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

    /// Like [`once`](Self::once) for a downstream that honours keys, without the write before
    /// the call: a crash in the call is then not seen in the ledger, but repeating it is safe.
    pub async fn keyed(&self, name: &str, call: impl AsyncFnOnce(&str) -> Effect) -> Outcome {
        if let Some(outcome) = self.known(name, IdempotencySupport::Honoured) {
            return outcome;
        }
        self.run(name, IdempotencySupport::Honoured, call).await
    }

    /// What is to be written with the settlement of the attempt.
    pub fn into_changed(self) -> Vec<(String, EffectRow)> {
        self.changed
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything that was begun in this attempt and has no known end went to a
    /// downstream that honours keys.
    pub fn all_keyed(&self) -> bool {
        self.changed()
            .iter()
            .all(|(_, effect)| effect.keyed || effect.state != EffectState::Unknown)
    }

    /// Whether there is nothing left to do for an effect in this run.
    pub fn is_settled(&self, name: &str) -> bool {
        self.before(name).is_some_and(|before| match before.state {
            EffectState::Done => true,
            EffectState::Refused => before.run == self.lease.row.run,
            _ => false,
        })
    }

    /// Whether an earlier attempt may have made it happen.
    fn is_in_doubt(&self, name: &str) -> bool {
        let before = self.before(name).map(|effect| effect.state);
        matches!(before, Some(EffectState::Intent | EffectState::Unknown))
    }

    /// Whether the downstream is known to hold a failure under the key.
    fn is_spent(&self, name: &str) -> bool {
        self.before(name)
            .is_some_and(|before| before.state == EffectState::Unknown && !before.keyed)
    }

    fn before(&self, name: &str) -> Option<&EffectRow> {
        self.lease.row.effects.get(name)
    }

    /// What the ledger says of an effect, where that decides.
    fn known(&self, name: &str, keys: IdempotencySupport) -> Option<Outcome> {
        let before = self.before(name)?;
        let in_doubt = matches!(before.state, EffectState::Intent | EffectState::Unknown);
        match keys {
            _ if before.state == EffectState::Done => Some(Outcome::Done),
            _ if before.state == EffectState::Refused && before.run == self.lease.row.run => {
                Some(Outcome::permanent(before.note.clone()))
            }
            IdempotencySupport::Ignored if in_doubt => Some(Outcome::unknown(format!(
                "{name} may have happened in an earlier attempt, and the downstream takes no key"
            ))),
            IdempotencySupport::HonouredWithFailures if self.is_spent(name) => {
                Some(Outcome::unknown(format!(
                    "{name} failed in an earlier attempt, and its key only gives that failure again"
                )))
            }
            _ => None,
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
        // Whatever stops us in the call, also a timeout, leaves this behind.
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
            Effect::Failed { error, replayed }
                if replayed || keys == IdempotencySupport::HonouredWithFailures =>
            {
                // Another call under this key would only hear it again.
                self.note(name, EffectState::Unknown, IdempotencySupport::Ignored, "");
                Outcome::unknown(error)
            }
            Effect::Unknown { error } | Effect::Failed { error, .. } => match keys {
                IdempotencySupport::Honoured | IdempotencySupport::HonouredWithFailures => {
                    Outcome::retry(error)
                }
                IdempotencySupport::Ignored => Outcome::unknown(error),
            },
        }
    }

    /// A worker that was frozen wakes up with a lease that is over: what it holds back now, its
    /// successor does. That it did not happen is known, also when its intent was written.
    fn held_back(&self, name: &str, keys: IdempotencySupport) -> Option<Outcome> {
        if self.lease.holds((self.clock)()) {
            return None;
        }
        self.note(name, EffectState::Not, keys, "");
        Some(Outcome::retry(
            "the lease was nearly over before the effect began",
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
        EffectRow {
            state,
            key: self.key(name),
            keyed: keys != IdempotencySupport::Ignored,
            at: (self.clock)(),
            run: self.lease.row.run,
            note: note.chars().take(120).collect(),
        }
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

/// The key under which an effect is done: the same in every attempt and every replay, unless a
/// replay asks for a new effect, which makes a new generation.
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
        // Written into downstreams' stores: it can never change.
        assert_eq!(
            idempotency_key(&EventKey::new("stripe-main", "evt_1"), "http", 0),
            "wh_2r2h5kf6eplrs7vio3wgxo2c3p6npuzhowvs2h7d"
        );
    }
}
