//! Logs an event that is durable, and creates its message for the work queue.

use shared::inbox::Stored;
use shared::inbox::ledger::{Received, Repetition, TrialRecord};
use shared::inbox::queue::WorkMessage;
use shared::sources::Source;
use shared::webhook::event::Event;

/// An event that is durable, and how it was stored.
#[expect(clippy::large_enum_variant, reason = "few values, and short-lived")]
pub(crate) enum Durable {
    Stored(Stored),
    Spilled(Event),
}

impl Durable {
    /// Returns the message for the event. `None` for a spilled event, because the drain sends its
    /// message.
    pub(crate) fn into_work_message(self) -> Option<WorkMessage> {
        match self {
            Self::Stored(kept) => kept.work_message,
            Self::Spilled(_) => None,
        }
    }

    pub(crate) fn log(&self, source: &Source) {
        let (id, key, kind, secret, word, repeat) = match self {
            Self::Stored(kept) => {
                let word = match &kept.received {
                    Received::New | Received::Parked => "new",
                    Received::Open { .. } | Received::Settled => "duplicate",
                    Received::Conflict(_) => "conflict",
                    // Anyone can repeat a captured request, so no alarm counts this word.
                    Received::Repeated(_) => "repeated_conflict",
                    Received::Recorded(TrialRecord::New) => "recorded",
                    Received::Recorded(TrialRecord::Known) => "recorded_duplicate",
                    // Outside a trial, an operator would decide about the event.
                    Received::Recorded(TrialRecord::Conflict) => "recorded_conflict",
                };
                let secret = kept.secret.as_deref();
                let repeat = kept.repetition.map(Repetition::as_str);
                let (id, kind) = (kept.id.clone(), kept.kind.as_str());
                (id, &kept.key, kind, secret, word, repeat)
            }
            Self::Spilled(event) => {
                let secret = event.secret();
                let (id, kind) = (event.id(), event.kind());
                (id, event.key(), kind, secret, "spilled", None)
            }
        };
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    event.id = %id,
                    event.key = %key,
                    source = source.name,
                    kind,
                    verification = "ok",
                    secret = secret.unwrap_or_default(),
                    received = word,
                    repeat,
                    "the event is stored ({word})",
                )
            };
        }
        // A metric counts the lines of conflicts, so the catcher logs them at every level that the
        // template allows.
        if word == "conflict" {
            line!(warn);
        } else {
            line!(info);
        }
    }
}
