//! What a simulation is made of.

use crate::rng::Dice;
use crate::wire::dynamodb::Weakness;
use crate::wire::fate::{Odds, Outage};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Shares are in ten thousand.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub events: usize,
    /// First deliveries come evenly in this time.
    pub arrive_in_ms: u64,
    /// When it ends at the latest.
    pub ends_after_ms: u64,
    /// Events that are delivered a second time.
    pub duplicates: u64,
    pub odds: Odds,
    /// How long a call is on its way at most.
    pub latency_ms: u64,
    /// Calls to the destination that go wrong.
    pub destination_trouble: u64,
    /// Events that the destination will never take.
    pub unwanted: u64,
    /// Events that kill the worker that touches them.
    pub killers: u64,
    /// Messages that the queue loses, and that it brings twice.
    pub message_loss: u64,
    pub message_copies: u64,
    /// How often a function dies, or is frozen for minutes, between two of its steps.
    pub deaths: u64,
    pub freezes: u64,
    /// How wrong a clock may be.
    pub skew_ms: i64,
    pub outages: Vec<Outage>,
    /// When somebody empties the queue.
    pub purges_ms: Vec<i64>,
    /// Events are about entities, of which each has so many versions.
    pub order: Option<Ordering>,
    pub weakness: Option<Weakness>,
    pub without: Option<Without>,
    /// A caller without a secret, beside genuine senders of several sources.
    pub stranger: Option<Stranger>,
}

/// What a caller without a secret does, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Unsigned requests, each day, to the source whose keys are fetched. Others get a tenth of it.
    pub junk: u64,
    /// Keys that do not exist which he names each minute, and for how many minutes.
    pub unknown_keys: u64,
    pub names_keys_for: u64,
    /// Acknowledged requests, of ten thousand, that he has a copy of and posts again.
    pub captures: u64,
}

/// How the events of a source are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// As `sources.toml` names it.
    pub mode: &'static str,
    pub versions: usize,
}

impl Ordering {
    /// The entity of an event, and its version, counted from 0.
    pub fn place(self, event: usize) -> (usize, usize) {
        let versions = self.versions.max(1);
        (event / versions, event % versions)
    }
}

/// A protection outside of the stores that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Nobody sweeps.
    Sweep,
    /// Nobody drains the spill queue.
    Drain,
    /// The catcher says 200 whatever became of the event.
    HonestAnswer,
    /// The destination is shown another key in each attempt.
    StableKey,
    /// The sweep cannot see how deep the queue is, and does not become more rare.
    DepthGate,
    /// The destination says that it has done something, and has not.
    Deed,
    /// A handshake signs any text for the caller, and not only what looks like a challenge.
    HandshakeGuard,
}

/// What an event does to those who touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    Harmless,
    Unwanted,
    Killer,
}

impl Scenario {
    /// Trouble at every step.
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
        }
    }

    /// Nothing goes wrong.
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

/// When a sender tries again after a delivery that was not acknowledged: about Stripe's three
/// days. <https://docs.stripe.com/webhooks#behaviors>
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

/// How long after the first delivery of an event a second one comes.
pub fn second_delivery_ms(dice: &mut Dice) -> u64 {
    match dice.below(5) {
        0 => dice.between(0, 20),
        1 => dice.between(1_000, 10_000),
        2 => dice.between(MINUTE_MS, 30 * MINUTE_MS),
        3 => dice.between(HOUR_MS, DAY_MS),
        _ => dice.between(DAY_MS, 3 * DAY_MS),
    }
}
