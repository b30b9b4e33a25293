//! Decides whether a replay processes an event again. This is the only place of the decision, and
//! it uses the row alone.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::transition::DISCARDED;
use shared::inbox::ledger::{BodyAt, EffectState, NEWEST_SCHEMA, Row, State};

use crate::cli::ReplayMode;
use crate::inspect::is_superseded;

/// How long after its receipt an event may be sent again under the same idempotency key.
/// Destinations such as Stripe remember a key for 24 hours, and the attempts of a run use part of
/// that time. <https://docs.stripe.com/api/idempotent_requests>
pub(crate) const KEY_AGE: Duration = Duration::from_secs(20 * 3600);

/// Bodies are kept for at least one day after their event is settled.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the operator allows a replay to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    pub mode: ReplayMode,
    /// Effects that are known to have happened are repeated.
    pub new_effects: bool,
    /// The operator accepts that a destination may have forgotten a key.
    pub duplicate_risk: bool,
}

/// Facts about the source that are not in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtSource {
    /// How long the source keeps bodies.
    pub bodies: Duration,
    /// A newer event of the same entity was processed, and the latest event wins: the processor
    /// would skip this one.
    pub overtaken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs {
        why: Runs,
        /// The end of the time in which a replay is safe: destinations remember a key for a limited
        /// time.
        until: Option<UnixMillis>,
    },
    LeftOut(LeftOut),
}

/// What is known about the effects of an event that runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runs {
    /// The open effects are known not to have happened.
    NotCommitted,
    /// The effects may have happened, and are repeated under the same key.
    SameKey,
    /// The effects are known to have happened.
    Committed,
}

/// Why a selected event does not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
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
    pub(crate) const ALL: [Self; 13] = [
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

    /// The word in stored plans and in JSON output.
    pub(crate) fn word(self) -> &'static str {
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

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.word() == word)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Done => "already done",
            Self::EffectUnknown => "side effect unknown",
            Self::NoKey => "side effect unknown, and no idempotency key protects it",
            Self::KeyTooOld => {
                "side effect unknown, and the destination may have forgotten its key"
            }
            Self::Superseded => "superseded by a newer event",
            Self::Queued => "already queued",
            Self::AtWork => "a worker is processing it",
            Self::BodyExpired => "its body has expired",
            Self::Erased => "erased",
            Self::Discarded => "discarded",
            Self::Quarantined => "quarantined",
            Self::NoSource => "its source is no longer configured",
            Self::TooNew => "written by a newer version",
        }
    }

    /// The option that includes the event, if the operator can include it.
    pub(crate) fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::EffectUnknown => "include with --mode guarded",
            Self::KeyTooOld => "include with --accept-duplicate-risk",
            Self::NoKey => "check the destination; --mode force --new-effect repeats it",
            Self::Done => "include with --mode force",
            _ => return None,
        })
    }
}

/// Decides whether a replay under this policy processes the event of a row now. `source` is `None`
/// if its source is no longer configured.
pub(crate) fn fate(row: &Row, policy: Policy, source: Option<AtSource>, now: UnixMillis) -> Fate {
    let Some(source) = source else {
        return Fate::LeftOut(LeftOut::NoSource);
    };
    match unable(row, source.bodies, now) {
        Some(why) => Fate::LeftOut(why),
        None if source.overtaken => Fate::LeftOut(LeftOut::Superseded),
        None => by_effects(row, policy, now),
    }
}

/// Why the event cannot run again under any policy.
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

/// The body of an event that is not done does not expire. A body stored in the row is kept as long
/// as the row.
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
        // The operator has asked for a new key, which does not protect against a repeated effect.
        (_, ReplayMode::Force) if policy.new_effects => Fate::Runs {
            why: Runs::Committed,
            until: None,
        },
        // Without a key the processor does not call the destination: it would report the same
        // outcome again.
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
    /// Something may have happened, and each such effect has a key.
    Keyed,
    NoKey,
}

/// Whether an effect may have happened without being recorded as done. A crashed worker may have
/// made a call that the ledger does not record; such calls have idempotency keys.
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
