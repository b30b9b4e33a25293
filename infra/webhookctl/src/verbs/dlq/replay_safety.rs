//! Decides from the effects of a dead letter whether a replay is safe.

use serde::Serialize;
use shared::inbox::ledger::transition::DISCARDED;
use shared::inbox::ledger::{EffectState, Row};
use shared::sources::Config;

use crate::inspect::EventView;
use crate::inspect::next_action::{Code, next_action};
use crate::inspect::view;

/// Whether a replay is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::verbs) enum ReplaySafety {
    /// All effects are known; a replay skips those that happened.
    Safe,
    /// An effect may have happened; a replay repeats it under the same idempotency key.
    Guarded,
    /// An effect may have happened; a replay could make it happen twice.
    Unknown,
    /// An operator discarded the event.
    Discarded,
    /// The payload was erased, so there is nothing to process.
    Erased,
}

/// The number of dead letters of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(in crate::verbs) struct Standings {
    pub(super) safe: usize,
    pub(super) guarded: usize,
    pub(super) unknown: usize,
    pub(super) discarded: usize,
    pub(super) erased: usize,
}

impl ReplaySafety {
    pub(super) fn of(row: &Row, config: &Config, now: i64) -> Self {
        match row.reason.as_deref() {
            _ if row.erased_at.is_some() => Self::Erased,
            Some(DISCARDED) => Self::Discarded,
            _ => match next_action(&view(row, config), now).code {
                Code::RetryGuarded => Self::Guarded,
                Code::CheckDownstream => Self::Unknown,
                _ => Self::Safe,
            },
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Guarded => "guarded",
            Self::Unknown => "unknown",
            Self::Discarded => "discarded",
            Self::Erased => "erased",
        }
    }
}

impl Standings {
    pub(super) fn add(&mut self, standing: ReplaySafety) {
        let count = match standing {
            ReplaySafety::Safe => &mut self.safe,
            ReplaySafety::Guarded => &mut self.guarded,
            ReplaySafety::Unknown => &mut self.unknown,
            ReplaySafety::Discarded => &mut self.discarded,
            ReplaySafety::Erased => &mut self.erased,
        };
        *count += 1;
    }

    /// Returns the number of dead letters that can be replayed.
    pub(in crate::verbs) fn open(&self) -> usize {
        self.safe + self.guarded + self.unknown
    }

    /// Returns the counts as text, such as `safe 38 · unknown 3`.
    pub(in crate::verbs) fn text(&self) -> String {
        let all = [
            (ReplaySafety::Safe, self.safe),
            (ReplaySafety::Guarded, self.guarded),
            (ReplaySafety::Unknown, self.unknown),
            (ReplaySafety::Discarded, self.discarded),
            (ReplaySafety::Erased, self.erased),
        ];
        let some = all.iter().filter(|(_, count)| *count > 0);
        let texts = some.map(|(standing, count)| format!("{} {count}", standing.word()));
        texts.collect::<Vec<_>>().join(" · ")
    }

    /// Returns the next step for the whole group.
    pub(in crate::verbs) fn next_action(&self) -> String {
        let again = self.safe + self.guarded;
        match (again, self.unknown) {
            (0, 0) => "none".to_owned(),
            (_, 0) => "replay after fix".to_owned(),
            (0, _) => "check downstream: it is unknown whether the effect happened".to_owned(),
            (_, 1) => "replay after fix; 1 needs a check downstream".to_owned(),
            (_, unknown) => format!("replay after fix; {unknown} need a check downstream"),
        }
    }
}

/// Returns the worst state among the effects of one event.
pub(super) fn effects(view: &EventView) -> &'static str {
    let some = |states: &[EffectState]| view.effects.iter().any(|e| states.contains(&e.state));
    if some(&[EffectState::Unknown, EffectState::Intent]) {
        "unknown"
    } else if some(&[EffectState::Done]) {
        "committed"
    } else {
        "not committed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_without_what_there_is_none_of() {
        let standings = Standings {
            safe: 38,
            unknown: 3,
            ..Standings::default()
        };
        assert_eq!(standings.text(), "safe 38 · unknown 3");
        assert_eq!(
            standings.next_action(),
            "replay after fix; 3 need a check downstream"
        );
        assert_eq!(Standings::default().next_action(), "none");
        let mut one = Standings::default();
        one.add(ReplaySafety::Unknown);
        one.add(ReplaySafety::Discarded);
        assert_eq!(
            (one.text().as_str(), one.open()),
            ("unknown 1 · discarded 1", 1)
        );
        assert!(one.next_action().starts_with("check downstream"));
    }
}
