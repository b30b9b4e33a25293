//! The parameters of a simulation.

use crate::rng::Dice;
use crate::wire::dynamodb::Weakness;
use crate::wire::fate::{Odds, Outage};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The faults and the load of a run. Shares are in ten-thousandths.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub events: usize,
    /// The time over which first deliveries are distributed evenly.
    pub arrive_in_ms: u64,
    /// The time at which the run ends at the latest.
    pub ends_after_ms: u64,
    /// The share of events that are delivered a second time.
    pub duplicates: u64,
    pub odds: Odds,
    /// Maximum latency of a call.
    pub latency_ms: u64,
    /// Share of calls to the destination that fail.
    pub destination_trouble: u64,
    /// How long from the start the destination answers every request with 404, as during a
    /// deployment.
    pub missing_for_ms: u64,
    /// Share of events that the destination always rejects.
    pub unwanted: u64,
    /// Share of events that crash every worker that processes them.
    pub killers: u64,
    /// Share of messages that the queue loses, and of messages that it delivers twice.
    pub message_loss: u64,
    pub message_copies: u64,
    /// Probability that a function crashes, or freezes for minutes, between two of its steps.
    pub deaths: u64,
    pub freezes: u64,
    /// Maximum clock error.
    pub skew_ms: i64,
    pub outages: Vec<Outage>,
    /// The times at which an operator purges the queues.
    pub purges_ms: Vec<i64>,
    /// The order of the events, which then belong to entities with several versions.
    pub order: Option<Ordering>,
    pub weakness: Option<Weakness>,
    pub without: Option<Without>,
    /// A caller without a secret, in addition to genuine senders of several sources.
    pub stranger: Option<Stranger>,
    /// Whether workers outside of Lambda take the events, which are of several sources.
    pub agents: bool,
}

/// The actions of a caller without a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Unsigned requests per day to the source whose keys are fetched. Other sources get a tenth of
    /// them.
    pub junk: u64,
    /// The number of nonexistent keys that the stranger names per minute, and the number of
    /// minutes.
    pub unknown_keys: u64,
    pub names_keys_for: u64,
    /// Share of acknowledged requests, in ten-thousandths, that the stranger captures and posts
    /// again.
    pub captures: u64,
}

/// The ordering of a source's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// The mode in the vocabulary of `sources.toml`.
    pub mode: &'static str,
    pub versions: usize,
}

impl Ordering {
    /// Returns the entity of an event and its version, starting at 0.
    pub fn place(self, event: usize) -> (usize, usize) {
        let versions = self.versions.max(1);
        (event / versions, event % versions)
    }
}

/// A protection outside the stores that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// The sweep never runs.
    Sweep,
    /// The drain never runs.
    Drain,
    /// The catcher answers 200 even if the event was not stored.
    HonestAnswer,
    /// Each attempt sends another key to the destination.
    StableKey,
    /// The sweep cannot read the depth of the queue, so it does not slow down.
    DepthGate,
    /// The destination reports an effect that did not happen.
    Deed,
    /// A handshake signs any text for the caller, and not only text that looks like a challenge.
    HandshakeGuard,
    /// A worker does not wait until a call of an earlier attempt can no longer arrive.
    Wait,
    /// No rule holds an event.
    Rule,
}

/// The effect of an event on the functions that process it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    Harmless,
    Unwanted,
    Killer,
}

impl Scenario {
    /// Returns a scenario with faults at every step.
    pub fn rough(seed: u64, events: usize) -> Self {
        Self {
            seed,
            events,
            arrive_in_ms: (events as u64 * 400).max(HOUR_MS),
            ends_after_ms: 12 * DAY_MS,
            duplicates: 3_000,
            odds: Odds::ROUGH,
            latency_ms: 9,
            destination_trouble: 1_500,
            missing_for_ms: 0,
            unwanted: 50,
            killers: 20,
            message_loss: 300,
            message_copies: 500,
            deaths: 60,
            freezes: 15,
            skew_ms: 30_000,
            outages: Vec::new(),
            purges_ms: Vec::new(),
            order: None,
            weakness: None,
            without: None,
            stranger: None,
            agents: false,
        }
    }

    /// Returns a scenario without faults.
    pub fn calm(seed: u64, events: usize) -> Self {
        Self {
            duplicates: 0,
            odds: Odds::NONE,
            destination_trouble: 0,
            unwanted: 0,
            killers: 0,
            message_loss: 0,
            message_copies: 0,
            deaths: 0,
            freezes: 0,
            skew_ms: 0,
            ..Self::rough(seed, events)
        }
    }

    pub fn nature(&self, event: usize) -> Nature {
        let mut dice = Dice::new(self.seed, 0x6e61_7475_7265 + event as u64);
        if dice.hits(self.unwanted) {
            Nature::Unwanted
        } else if dice.hits(self.killers) {
            Nature::Killer
        } else {
            Nature::Harmless
        }
    }
}

/// The times at which a sender retries a delivery that was not acknowledged. They cover three days,
/// as with Stripe.
/// <https://docs.stripe.com/webhooks#behaviors>
pub const RETRIES_MS: [u64; 12] = [
    MINUTE_MS,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    5 * HOUR_MS,
    10 * HOUR_MS,
    10 * HOUR_MS,
    12 * HOUR_MS,
    12 * HOUR_MS,
    12 * HOUR_MS,
    12 * HOUR_MS,
    12 * HOUR_MS,
];

/// Returns the time between the first and the second delivery of an event.
pub fn second_delivery_ms(dice: &mut Dice) -> u64 {
    match dice.below(5) {
        0 => dice.between(0, 20),
        1 => dice.between(1_000, 10_000),
        2 => dice.between(MINUTE_MS, 30 * MINUTE_MS),
        3 => dice.between(HOUR_MS, DAY_MS),
        _ => dice.between(DAY_MS, 3 * DAY_MS),
    }
}
