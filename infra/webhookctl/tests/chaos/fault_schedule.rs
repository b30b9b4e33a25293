//! What happens to the system in a run, and how much of it has happened.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::env::env_var;

use crate::evolution::Previous;
use crate::faults::Fault;
use crate::rng::Dice;
use crate::site::Cell;
use testkit::wire::Message;

/// A protection that the proxy takes off the wire, or the test leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Only the newest claim may write.
    Fence,
    /// An event that is there is not written again.
    Condition,
    /// Somebody looks for what was forgotten.
    Sweep,
    /// The downstream does once what comes twice under a key.
    Keys,
    /// The downstream has done what it says that it did.
    Deed,
    /// The provider is told what became of its event.
    HonestAnswer,
    /// What looks like a captured request is not a new event.
    SecondLook,
    /// A handshake hides no event, and signs none.
    HandshakeGuard,
    /// Nothing that is secret is told: here, the name of a source is taken for a secret.
    Silence,
}

/// What is to happen.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    pub(crate) deliveries: usize,
    pub(crate) seed: u64,
    /// How many of the requests between functions and stores break, of 1.
    pub(crate) faults: f64,
    /// How many of the calls of the downstream do.
    pub(crate) downstream_faults: f64,
    /// It works this long on a call, or less, so that workers are met in the middle of theirs.
    pub(crate) work: Duration,
    /// Processes are killed this often.
    pub(crate) kills: Option<(Duration, Duration)>,
    /// How many processors are stopped for longer than their lease.
    pub(crate) zombies: usize,
    /// One event in so many kills its worker; one in twice as many is refused for good.
    pub(crate) poison: Option<usize>,
    pub(crate) without: Option<Protection>,
    /// A caller without a secret, beside the senders.
    pub(crate) stranger: bool,
    /// Instead of a storm: each call fails in each way.
    pub(crate) cells: bool,
    /// The release before, which is deployed in turn with ours.
    pub(crate) previous: Option<Previous>,
    /// How long the events may take to their end when the storm is over.
    pub(crate) patience: Duration,
}

impl Weather {
    pub(crate) fn calm(deliveries: usize) -> Self {
        Self {
            deliveries,
            seed: seed(),
            faults: 0.0,
            downstream_faults: 0.0,
            work: Duration::from_millis(80),
            kills: None,
            zombies: 0,
            poison: None,
            without: None,
            stranger: true,
            cells: false,
            previous: None,
            // Nothing breaks, but a machine that is busy may lose a message all the same: then the
            // sweep rings, which first looks after two minutes.
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
            // They end one after the other, each over four leases: of a long storm fewer.
            poison: Some((deliveries / 50).max(100)),
            ..Self::calm(deliveries)
        }
    }
}

/// The weather of a run, as everybody in it sees it.
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

    /// From here on nothing breaks any more.
    pub(crate) fn clear_up(&self) {
        self.stormy.store(false, Ordering::Relaxed);
    }

    /// What becomes of this request.
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

    /// How often somebody met the fault of a cell.
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

/// A whole number from the environment.
pub(crate) fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env_var(name)?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{name}={text:?} is not a whole number");
    number
}

fn seed() -> u64 {
    number("SEED").unwrap_or_else(|| UnixMillis::now().0.unsigned_abs())
}
