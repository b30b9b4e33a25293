//! Decides whether a replay processes an event again. Every decision is made here, and depends only
//! on the row of the event and the settings of its source.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::transition::DISCARDED;
use shared::inbox::ledger::{
    BodyAt, EffectState, NEWEST_SCHEMA, RouteAnswer, RouteOutcome, Row, State,
};

use crate::cli::ReplayMode;
use crate::inspect::is_superseded;

/// The maximum time from the receipt of an event to a replay with the same idempotency key.
/// Destinations such as Stripe remember a key for 24 hours, and the attempts of a run use a part of
/// that time.
/// <https://docs.stripe.com/api/idempotent_requests>
pub(crate) const KEY_AGE: Duration = Duration::from_secs(20 * 3600);

/// The minimum time that a body is stored after its event is done.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the operator allows a replay to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    pub mode: ReplayMode,
    /// Whether to repeat effects that are known to have happened.
    pub new_effects: bool,
    /// Whether to replay an event although a destination may have forgotten its idempotency key.
    pub duplicate_risk: bool,
}

/// Facts that the row does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtSource {
    /// How long the source stores bodies.
    pub bodies: Duration,
    /// Whether a newer event of the same entity was processed. If so, the processor would skip this
    /// event, because only the newest event counts.
    pub overtaken: bool,
    /// Whether an open action would send the provider's signature, and the receiver would refuse it
    /// as too old.
    pub stale: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs {
        why: Runs,
        /// The time until which the replay is safe, because destinations remember an idempotency
        /// key only for a limited time.
        until: Option<UnixMillis>,
    },
    LeftOut(LeftOut),
}

/// What is known about the effects of an event that runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runs {
    /// The open effects are known not to have happened.
    NotCommitted,
    /// The effects may have happened. The replay repeats them under the same key.
    SameKey,
    /// The effects are known to have happened.
    Committed,
}

/// The reason why a selected event does not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    Done,
    EffectUnknown,
    NoKey,
    KeyTooOld,
    Superseded,
    StaleSignature,
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
    pub(crate) const ALL: [Self; 14] = [
        Self::Done,
        Self::EffectUnknown,
        Self::NoKey,
        Self::KeyTooOld,
        Self::Superseded,
        Self::StaleSignature,
        Self::Queued,
        Self::AtWork,
        Self::BodyExpired,
        Self::Erased,
        Self::Discarded,
        Self::Quarantined,
        Self::NoSource,
        Self::TooNew,
    ];

    /// Returns the name of the reason in stored plans and in JSON output.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::EffectUnknown => "effect_unknown",
            Self::NoKey => "effect_unknown_no_key",
            Self::KeyTooOld => "key_too_old",
            Self::Superseded => "superseded",
            Self::StaleSignature => "stale_signature",
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
            Self::StaleSignature => "the provider's signature is too old for the receiver",
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

    /// Returns how an operator can include the event, if that is possible.
    pub(crate) fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::EffectUnknown => "include with --mode guarded",
            Self::KeyTooOld => "include with --accept-duplicate-risk",
            Self::NoKey => "check the destination; --mode force --new-effect repeats it",
            Self::Done => "include with --mode force",
            Self::StaleSignature => "set sign = \"provider\" for the action",
            _ => return None,
        })
    }
}

/// Decides whether a replay with this policy processes the event of a row now. `source` is `None`
/// if the source of the event is no longer configured.
pub(crate) fn fate(row: &Row, policy: Policy, source: Option<AtSource>, now: UnixMillis) -> Fate {
    let Some(source) = source else {
        return Fate::LeftOut(LeftOut::NoSource);
    };
    match unable(row, source.bodies, now) {
        Some(why) => Fate::LeftOut(why),
        None if source.overtaken => Fate::LeftOut(LeftOut::Superseded),
        None => match by_effects(row, policy, now) {
            Fate::Runs { .. } if source.stale => Fate::LeftOut(LeftOut::StaleSignature),
            fate => fate,
        },
    }
}

/// Returns the reason why the event cannot run again with any policy.
fn unable(row: &Row, bodies: Duration, now: UnixMillis) -> Option<LeftOut> {
    if row.schema > NEWEST_SCHEMA && !row.is_trial() && !row.is_held() {
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

/// Returns whether the body has expired. The body of an event that is not done does not expire. A
/// body in the row is stored as long as the row.
fn body_expired(row: &Row, bodies: Duration, now: UnixMillis) -> bool {
    let settled = row.done_at.unwrap_or(row.received_at);
    row.body_at != BodyAt::Inline && now >= (row.received_at + bodies).max(settled + DAY)
}

fn by_effects(row: &Row, policy: Policy, now: UnixMillis) -> Fate {
    if row.state == State::Done && !is_open_trial(row) {
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
        // The operator has requested a new key. The destination does not recognise it, so the
        // effect can happen again.
        (_, ReplayMode::Force) if policy.new_effects => Fate::Runs {
            why: Runs::Committed,
            until: None,
        },
        // For an effect without a key, the processor does not call the destination, and would set
        // the same outcome again.
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

/// Returns whether a trial recorded the event, and the route has not accepted it. Such an event is
/// done, but no action of it has run.
fn is_open_trial(row: &Row) -> bool {
    row.is_trial() && row.trial.first_accepted.is_none()
}

/// Returns whether the route may have processed an event of a trial. An answer with a status says
/// that it did not. The forwarded requests had the idempotency key of the event.
fn route_doubt(row: &Row) -> Doubt {
    let trial = &row.trial;
    let is_known = |answer: &RouteAnswer| matches!(answer.outcome, RouteOutcome::Status(_));
    let all_recorded = trial.requests == trial.answers.len() as u64;
    if trial.requests > 0 && all_recorded && trial.answers.iter().all(is_known) {
        Doubt::None
    } else {
        Doubt::Keyed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    /// An effect may have happened, and each such effect has an idempotency key.
    Keyed,
    NoKey,
}

/// Returns whether an effect may have happened although the row does not record it as done. A
/// worker that crashed may have made a call that the ledger does not record. Such a call has an
/// idempotency key.
fn doubt(row: &Row) -> Doubt {
    if is_open_trial(row) {
        return route_doubt(row);
    }
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
