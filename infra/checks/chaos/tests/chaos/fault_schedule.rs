//! The faults of a run, and how many of them have happened.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::env::env_var;

use crate::evolution::Previous;
use crate::faults::Fault;
use crate::rng::Dice;
use crate::sender::SOURCES;
use crate::site::Cell;
use testkit::wire::Message;

/// A protection that the proxy removes from requests, or that the test leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Only the newest claim can write.
    Fence,
    /// A stored event is not written again.
    Condition,
    /// The sweep finds lost events.
    Sweep,
    /// The destination applies a call with a known idempotency key once.
    Keys,
    /// When the destination acknowledges a call, it has applied the call.
    Deed,
    /// The provider receives the true result of its delivery.
    HonestAnswer,
    /// A request that resembles a captured request is not a new event.
    SecondLook,
    /// A handshake never hides an event and never signs one.
    HandshakeGuard,
    /// No secret is logged. Here, the name of a source is treated as a secret.
    Silence,
}

/// The configuration of the faults.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    pub(crate) deliveries: usize,
    /// The sources of the events.
    pub(crate) sources: &'static [&'static str],
    pub(crate) seed: u64,
    /// The share of requests between functions and stores that fail, from 0 to 1.
    pub(crate) faults: f64,
    /// The share of calls to the destination that fail.
    pub(crate) downstream_faults: f64,
    /// The maximum time that the destination takes for a call. With this time, faults also occur
    /// while a worker is running an action.
    pub(crate) work: Duration,
    /// The interval between two kills of a process.
    pub(crate) kills: Option<(Duration, Duration)>,
    /// The number of processors that are stopped for longer than their lease.
    pub(crate) zombies: usize,
    /// One event in this many kills its worker. One event in twice as many is always rejected by
    /// the destination.
    pub(crate) poison: Option<usize>,
    /// One event in this many waits for an approval.
    pub(crate) held: Option<usize>,
    pub(crate) without: Option<Protection>,
    /// A caller without a secret, in addition to the senders.
    pub(crate) stranger: bool,
    /// Whether each call fails in each way, instead of at random.
    pub(crate) cells: bool,
    /// The previous release, which is deployed alternately with this one.
    pub(crate) previous: Option<Previous>,
    /// The time in which all events must finish after the faults end.
    pub(crate) patience: Duration,
}

impl Weather {
    pub(crate) fn calm(deliveries: usize) -> Self {
        Self {
            deliveries,
            sources: &SOURCES,
            seed: seed(),
            faults: 0.0,
            downstream_faults: 0.0,
            work: Duration::from_millis(80),
            kills: None,
            zombies: 0,
            poison: None,
            held: None,
            without: None,
            stranger: true,
            cells: false,
            previous: None,
            // No faults are injected, but a busy machine can still lose a message. The sweep then
            // sends it, for the first time after two minutes.
            patience: Duration::from_secs(480),
        }
    }

    pub(crate) fn cells() -> Self {
        Self {
            cells: true,
            stranger: false,
            patience: Duration::from_secs(180),
            ..Self::calm(0)
        }
    }

    pub(crate) fn storm(deliveries: usize) -> Self {
        Self {
            faults: 0.05,
            downstream_faults: 0.08,
            kills: Some((Duration::from_millis(200), Duration::from_millis(800))),
            zombies: 3 + deliveries / 5_000,
            // Poison events finish one after the other, each after four leases, so a long run has
            // fewer of them.
            poison: Some((deliveries / 50).max(100)),
            ..Self::calm(deliveries)
        }
    }
}

/// The fault schedule of a run, shared by all of its tasks.
pub(crate) struct Sky {
    pub(crate) weather: Weather,
    pub(crate) dice: Dice,
    stormy: AtomicBool,
    cell: Mutex<Option<Cell>>,
    done_to_it: Mutex<BTreeMap<String, u64>>,
}

impl Sky {
    pub(crate) fn new(weather: Weather) -> Self {
        Self {
            dice: Dice::new(weather.seed),
            stormy: AtomicBool::new(true),
            cell: Mutex::default(),
            done_to_it: Mutex::default(),
            weather,
        }
    }

    pub(crate) fn is_stormy(&self) -> bool {
        self.stormy.load(Ordering::Relaxed)
    }

    /// Ends the faults.
    pub(crate) fn clear_up(&self) {
        self.stormy.store(false, Ordering::Relaxed);
    }

    /// Returns the fault for this request.
    pub(crate) fn fault(&self, service: &str, request: &Message) -> Option<Fault> {
        let cell = *self.cell.lock().unwrap();
        let (of, fault) = if let Some(cell) = cell {
            let met = cell.is_met_by(service, request) && self.dice.chance(0.5);
            met.then_some((cell.site, cell.fault))?
        } else {
            let met = self.is_stormy() && self.dice.chance(self.weather.faults);
            met.then(|| (service, Fault::any(&self.dice)))?
        };
        self.count(format!("{of} {}", fault.word()));
        Some(fault)
    }

    pub(crate) fn enter(&self, cell: Option<Cell>) {
        *self.cell.lock().unwrap() = cell;
    }

    /// Returns how many times the fault of a cell has occurred.
    pub(crate) fn met(&self, cell: Cell) -> u64 {
        let word = format!("{} {}", cell.site, cell.fault.word());
        let counted = self.done_to_it.lock().unwrap();
        counted.get(&word).copied().unwrap_or_default()
    }

    pub(crate) fn is_without(&self, protection: Protection) -> bool {
        self.weather.without == Some(protection)
    }

    pub(crate) fn count(&self, what: impl Into<String>) {
        *self
            .done_to_it
            .lock()
            .unwrap()
            .entry(what.into())
            .or_default() += 1;
    }

    pub(crate) fn counted(&self) -> BTreeMap<String, u64> {
        self.done_to_it.lock().unwrap().clone()
    }
}

/// Reads a whole number from the environment.
pub(crate) fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env_var(name)?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{name}={text:?} is not a whole number");
    number
}

fn seed() -> u64 {
    number("SEED").unwrap_or_else(|| UnixMillis::now().0.unsigned_abs())
}
