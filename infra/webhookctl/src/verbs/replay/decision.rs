//! What a replay would make of an event. Decided here and nowhere else, from the row alone.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::transition::DISCARDED;
use shared::inbox::ledger::{BodyAt, EffectState, NEWEST_SCHEMA, Row, State};

use crate::cli::ReplayMode;
use crate::inspect::is_superseded;

/// For how long after its receipt an event may go out again under the same key. Downstreams such as
/// Stripe remember a key for 24 hours, and the attempts of a run take some of that.
/// <https://docs.stripe.com/api/idempotent_requests>
pub const KEY_AGE: Duration = Duration::from_secs(20 * 3600);

/// A body outlives the settlement of its event by a day at least.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the operator lets a replay do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub mode: ReplayMode,
    /// Effects that are known to have happened happen again.
    pub new_effects: bool,
    /// Somebody answers for a downstream that may have forgotten a key.
    pub duplicate_risk: bool,
}

/// What stands beside the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtSource {
    /// For how long the source keeps bodies.
    pub bodies: Duration,
    /// A newer event of the same entity was worked on, and the newest wins: the processor would pass
    /// this one over.
    pub overtaken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Runs {
        why: Runs,
        /// Until when it is safe to: a downstream remembers a key only for so long.
        until: Option<UnixMillis>,
    },
    LeftOut(LeftOut),
}

/// What is known of the effects of an event that runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// What is open of them is known not to have happened.
    NotCommitted,
    /// They may have happened, and go out under the same key.
    SameKey,
    /// They are known to have happened.
    Committed,
}

/// Why a selected event does not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    Done,
    EffectUnknown,
    NoKey,
    KeyTooOld,
    Superseded,
    Queued,
    AtWork,
    BodyExpired,
    Erased,
    Discarded,
    Quarantined,
    NoSource,
    TooNew,
}

impl LeftOut {
    pub const ALL: [Self; 13] = [
        Self::Done,
        Self::EffectUnknown,
        Self::NoKey,
        Self::KeyTooOld,
        Self::Superseded,
        Self::Queued,
        Self::AtWork,
        Self::BodyExpired,
        Self::Erased,
        Self::Discarded,
        Self::Quarantined,
        Self::NoSource,
        Self::TooNew,
    ];

    /// As it is stored, and as programs read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::EffectUnknown => "effect_unknown",
            Self::NoKey => "effect_unknown_no_key",
            Self::KeyTooOld => "key_too_old",
            Self::Superseded => "superseded",
            Self::Queued => "queued",
            Self::AtWork => "at_work",
            Self::BodyExpired => "body_expired",
            Self::Erased => "erased",
            Self::Discarded => "discarded",
            Self::Quarantined => "quarantined",
            Self::NoSource => "no_source",
            Self::TooNew => "too_new",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.word() == word)
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Done => "already done",
            Self::EffectUnknown => "side effect unknown",
            Self::NoKey => "side effect unknown, and no key protects it",
            Self::KeyTooOld => "side effect unknown, and its key may be forgotten downstream",
            Self::Superseded => "superseded by a newer event",
            Self::Queued => "already queued",
            Self::AtWork => "somebody is at work on it",
            Self::BodyExpired => "its body is not kept any more",
            Self::Erased => "erased",
            Self::Discarded => "discarded",
            Self::Quarantined => "quarantined",
            Self::NoSource => "its source is not configured any more",
            Self::TooNew => "written by a newer version",
        }
    }

    /// What would let it run, where the operator can.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::EffectUnknown => "include with --mode guarded",
            Self::KeyTooOld => "include with --accept-duplicate-risk",
            Self::NoKey => "look downstream; --mode force --new-effect does it again",
            Self::Done => "include with --mode force",
            _ => return None,
        })
    }
}

/// What a replay under this policy makes of a row, now. `source` is missing when its source is not
/// configured any more.
pub fn fate(row: &Row, policy: Policy, source: Option<AtSource>, now: UnixMillis) -> Fate {
    let Some(source) = source else {
        return Fate::LeftOut(LeftOut::NoSource);
    };
    match unable(row, source.bodies, now) {
        Some(why) => Fate::LeftOut(why),
        None if source.overtaken => Fate::LeftOut(LeftOut::Superseded),
        None => by_effects(row, policy, now),
    }
}

/// Why it cannot run again, whatever the operator says.
fn unable(row: &Row, bodies: Duration, now: UnixMillis) -> Option<LeftOut> {
    if row.schema > NEWEST_SCHEMA {
        return Some(LeftOut::TooNew);
    }
    if row.erased_at.is_some() {
        return Some(LeftOut::Erased);
    }
    match row.state {
        State::Quarantined => Some(LeftOut::Quarantined),
        State::Received => Some(LeftOut::Queued),
        State::Processing => Some(LeftOut::AtWork),
        State::Done if body_expired(row, bodies, now) => Some(LeftOut::BodyExpired),
        State::DeadLetter if row.reason.as_deref() == Some(DISCARDED) => Some(LeftOut::Discarded),
        State::Done | State::Failed | State::DeadLetter => None,
    }
}

/// The body of an event that is not done is held; one in the row itself stays as long as the row.
fn body_expired(row: &Row, bodies: Duration, now: UnixMillis) -> bool {
    let settled = row.done_at.unwrap_or(row.received_at);
    row.body_at != BodyAt::Inline && now >= (row.received_at + bodies).max(settled + DAY)
}

fn by_effects(row: &Row, policy: Policy, now: UnixMillis) -> Fate {
    if row.state == State::Done {
        return match policy.mode {
            ReplayMode::Force => Fate::Runs {
                why: Runs::Committed,
                until: None,
            },
            _ if is_superseded(row) => Fate::LeftOut(LeftOut::Superseded),
            ReplayMode::Safe | ReplayMode::Guarded => Fate::LeftOut(LeftOut::Done),
        };
    }
    let doubt = doubt(row);
    match (doubt, policy.mode) {
        (Doubt::None, _) => Fate::Runs {
            why: Runs::NotCommitted,
            until: None,
        },
        // A new key is no protection, and was asked for.
        (_, ReplayMode::Force) if policy.new_effects => Fate::Runs {
            why: Runs::Committed,
            until: None,
        },
        // The processor would not call without a key: it would only say so once more.
        (Doubt::NoKey, _) => Fate::LeftOut(LeftOut::NoKey),
        (Doubt::Keyed, ReplayMode::Safe) => Fate::LeftOut(LeftOut::EffectUnknown),
        (Doubt::Keyed, ReplayMode::Guarded | ReplayMode::Force) => {
            let until = row.received_at + KEY_AGE;
            let risk = policy.duplicate_risk;
            if now >= until && !risk {
                return Fate::LeftOut(LeftOut::KeyTooOld);
            }
            Fate::Runs {
                why: Runs::SameKey,
                until: (!risk).then_some(until),
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    /// Something may have happened, all of it under keys.
    Keyed,
    NoKey,
}

/// Whether something may have happened that nobody knows of. A worker that died may have made a call
/// of which the ledger says nothing; those go out under keys.
fn doubt(row: &Row) -> Doubt {
    let open = |state| matches!(state, EffectState::Unknown | EffectState::Intent);
    let mut effects = row.effects.values().filter(|effect| open(effect.state));
    match (effects.next(), row.crashes.saturating_add(row.died)) {
        (None, 0) => Doubt::None,
        (None, _) => Doubt::Keyed,
        (Some(first), _) if first.keyed && effects.all(|effect| effect.keyed) => Doubt::Keyed,
        (Some(_), _) => Doubt::NoKey,
    }
}

#[cfg(test)]
mod tests;
