//! Collects the spans of an event from its row alone.
//!
//! The row has the end of each attempt and the end of its lease. A lease has a fixed length, so its
//! end gives the time of the claim. The row does not have the times at which effects began, and no
//! entry for a deferral or for an attempt that crashed.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, LEASE};
use shared::inbox::ledger::{EffectRow, EffectState, Moment, Row, State};
use shared::inbox::trace::SpanId;
use shared::webhook::event::EventKey;

use super::{Span, What};
use crate::inspect::with_error;
use crate::output::count::plural;

/// The maximum number of entries in a history. A full history may lack its first entries.
const FULL: usize = 20;

/// Collects the spans in the order of time.
pub(super) struct Builder<'r> {
    row: &'r Row,
    lease: Duration,
    receipt: SpanId,
    spans: Vec<Span>,
    /// Since when the event waits.
    free: UnixMillis,
    /// The number of the last attempt in this run.
    attempts: u32,
}

impl<'r> Builder<'r> {
    pub(super) fn new(row: &'r Row, lease: Duration) -> Self {
        Self {
            row,
            lease,
            receipt: SpanId::of_receipt(&row.key),
            spans: Vec::new(),
            free: row.drained_at.unwrap_or(row.received_at),
            attempts: 0,
        }
    }

    pub(super) fn spans(mut self) -> Vec<Span> {
        let row = self.row;
        let detail = match row.drained_at {
            Some(_) => format!("by {}, through the spill queue", row.via),
            None => format!("by {}", row.via),
        };
        let name = "receipt";
        self.spans.push(Span {
            id: Some(self.receipt),
            detail,
            ..Span::new(What::Receipt, name, row.received_at, Some(self.free))
        });
        for moment in &row.history {
            self.moment(moment);
        }
        self.now();
        for (name, effect) in &row.effects {
            self.effect(name, effect);
        }
        self.spans
    }

    /// Adds an entry of the history.
    fn moment(&mut self, moment: &Moment) {
        let is_operators = matches!(
            moment.what.as_str(),
            "kept_apart" | "released" | "discarded" | "erased" | "replayed"
        );
        // An entry without a claim is a decision of the sweep.
        if is_operators || moment.owner.is_empty() {
            let name = match moment.what.as_str() {
                "kept_apart" => "quarantined",
                what => what,
            };
            self.spans.push(Span {
                detail: moment.note.clone(),
                ..Span::new(What::Operator, name, moment.at, Some(moment.at))
            });
            if moment.what == "replayed" {
                self.attempts = 0;
            }
            self.free = self.free.max(moment.at);
            return;
        }
        let began = self.began(moment.lease_until, moment.at);
        self.attempt(&moment.owner, moment.attempt, began, Some(moment.at));
        let is_last = self.row.history.last() == Some(moment);
        if let Some(span) = self.spans.last_mut() {
            span.outcome.clone_from(&moment.what);
            span.detail = match moment.what.as_str() {
                "dead_letter" if is_last => with_error(&moment.note, self.row),
                _ => moment.note.clone(),
            };
        }
        self.free = moment.at;
    }

    /// Adds an attempt, and the wait before it. If the start is unknown, there is no wait.
    fn attempt(
        &mut self,
        owner: &str,
        number: u32,
        began: Option<UnixMillis>,
        end: Option<UnixMillis>,
    ) {
        let key: &EventKey = &self.row.key;
        let start = began.or(end).unwrap_or(self.free);
        if let Some(began) = began {
            self.spans.push(Span {
                id: Some(SpanId::of_wait(key, owner)),
                parent: Some(self.receipt),
                detail: self.crashed(number),
                ..Span::new(What::Wait, "wait", self.free, Some(began))
            });
        }
        self.spans.push(Span {
            id: Some(SpanId::of_attempt(key, owner)),
            parent: Some(self.receipt),
            attempt: Some(number),
            from: began.unwrap_or(self.free).0,
            ..Span::new(What::Attempt, &format!("attempt {number}"), start, end)
        });
        self.attempts = number;
    }

    /// Says how many attempts before this one have no entry in the history.
    fn crashed(&self, number: u32) -> String {
        let is_whole = self.attempts > 0 || self.row.history.len() < FULL;
        let count = number.saturating_sub(self.attempts + 1);
        if count == 0 || !is_whole {
            return String::new();
        }
        format!("{} crashed", plural(u64::from(count), "attempt"))
    }

    /// Adds what lasts: the current attempt, or the wait for the next one.
    fn now(&mut self) {
        let row = self.row;
        match (row.state, &row.owner) {
            (State::Processing, Some(owner)) => {
                // The end of a renewed lease does not tell when it began.
                let until = row.lease_until.filter(|_| self.lease == LEASE);
                let began = self.began(until, UnixMillis(i64::MAX));
                self.attempt(owner, row.attempts, began, None);
                if let Some(span) = self.spans.last_mut() {
                    span.outcome = row.state.to_string();
                }
            }
            (State::Received | State::Failed, _) => self.spans.push(Span {
                parent: Some(self.receipt),
                outcome: "open".to_owned(),
                detail: match row.deferrals {
                    0 => String::new(),
                    _ => row.error.clone().unwrap_or_default(),
                },
                ..Span::new(What::Wait, "wait", self.free, None)
            }),
            _ => {}
        }
    }

    /// Returns when the worker claimed the event. Returns `None` if the lease does not tell it.
    fn began(&self, until: Option<UnixMillis>, end: UnixMillis) -> Option<UnixMillis> {
        let began = until? - self.lease;
        // The clocks of two machines differ a little.
        let earliest = self.free - CLOCK_MARGIN;
        (earliest <= began && began <= end).then(|| began.max(self.free).min(end))
    }

    /// Adds an effect below its attempt, or below the receipt if a deferred claim had the effect.
    fn effect(&mut self, name: &str, effect: &EffectRow) {
        let place = self.spans.iter().rposition(|span| span.holds(effect.at));
        let parent = place.and_then(|place| self.spans[place].id);
        let span = Span {
            id: Some(SpanId::of_effect(&self.row.key, &effect.key, effect.run)),
            parent: parent.or(Some(self.receipt)),
            outcome: word(effect.state).to_owned(),
            detail: effect.note.clone(),
            key: Some(effect.key.clone()),
            ..Span::new(What::Effect, name, effect.at, Some(effect.at))
        };
        let behind = place.map_or(self.spans.len(), |place| {
            let below = self.spans[place + 1..].iter();
            place + 1 + below.take_while(|span| span.what == What::Effect).count()
        });
        self.spans.insert(behind, span);
    }
}

fn word(state: EffectState) -> &'static str {
    match state {
        EffectState::Not => "not_committed",
        EffectState::Refused => "refused",
        EffectState::Intent => "intent",
        EffectState::Unknown => "unknown",
        EffectState::Done => "committed",
    }
}
