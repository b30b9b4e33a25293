//! One simulation from its beginning to its end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use backup_sync::Task;
use catcher::Catcher;
use processor::Processor;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::clock;
use crate::hazard::at_risk;
use crate::sandbox::{Sandbox, Sandboxes};
use crate::scenario::{Scenario, Without};
use crate::wire::fate::Down;
use crate::witness::Figures;
use crate::world::Shared;
use crate::{mapping, sender};

/// Catchers that answer side by side.
const CATCHERS: usize = 4;

const TICK: Duration = Duration::from_secs(60);

/// What was found, and a hash over all that happened: the same for the same scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub figures: Figures,
    pub trace: u64,
    /// Hours that passed in it.
    pub hours: u64,
}

/// Who is at work.
pub struct Run {
    pub world: Shared,
    sandboxes: Sandboxes,
    catchers: RefCell<Vec<Rc<Sandbox<Catcher>>>>,
    processors: RefCell<Vec<Rc<Sandbox<Processor>>>>,
    /// Invocations of the processor that are under way.
    pub busy: Cell<usize>,
    turn: Cell<usize>,
    senders: Cell<usize>,
    all_sent: Cell<bool>,
    failed: RefCell<Option<anyhow::Error>>,
}

/// Runs a scenario on this thread, in virtual time.
pub fn run(scenario: Scenario) -> anyhow::Result<Found> {
    shared::chance::seed(scenario.seed);
    fastrand::seed(scenario.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let local = LocalSet::new();
    let found = local.block_on(&runtime, simulate(scenario));
    drop(local);
    found
}

async fn simulate(scenario: Scenario) -> anyhow::Result<Found> {
    clock::begin();
    let ends_after = Duration::from_millis(scenario.ends_after_ms);
    let world = Shared::new(scenario);
    {
        let mut world = world.lock();
        world
            .secrets
            .insert(crate::sandbox::SOURCE.to_owned(), sender::SECRET.to_owned());
        world.secrets.insert(
            "destination".to_owned(),
            "whsec_c2ltdWxhdGVkLWRlc3RpbmF0aW9u".to_owned(),
        );
    }
    let run = Rc::new(Run {
        sandboxes: Sandboxes::new(&world)?,
        world,
        catchers: RefCell::default(),
        processors: RefCell::default(),
        busy: Cell::new(0),
        turn: Cell::new(0),
        senders: Cell::new(0),
        all_sent: Cell::new(false),
        failed: RefCell::default(),
    });
    let sending = run.clone();
    tokio::task::spawn_local(async move {
        sender::send_all(sending.clone()).await;
        sending.all_sent.set(true);
    });
    tokio::task::spawn_local(mapping::map(run.clone()));
    tokio::task::spawn_local(purge(run.clone()));
    while !run.is_over() && clock::elapsed() < ends_after {
        sleep(TICK).await;
        run.sweep()?;
        if let Some(error) = run.failed.borrow_mut().take() {
            return Err(error);
        }
    }
    run.found()
}

/// Somebody empties the queue by mistake.
async fn purge(run: Rc<Run>) {
    let times = run.world.lock().scenario.purges_ms.clone();
    for at in times {
        let at = Duration::from_millis(u64::try_from(at).unwrap_or(0));
        sleep(at.saturating_sub(clock::elapsed())).await;
        run.world.lock().doorbells.purge();
    }
}

impl Run {
    pub fn begin(&self) {
        self.senders.set(self.senders.get() + 1);
    }

    pub fn end(&self) {
        self.senders.set(self.senders.get() - 1);
    }

    pub fn fail(&self, error: anyhow::Error) {
        self.failed.borrow_mut().get_or_insert(error);
    }

    fn is_over(&self) -> bool {
        let world = self.world.lock();
        let quiet = self.all_sent.get() && self.senders.get() == 0 && self.busy.get() == 0;
        quiet && world.doorbells.is_empty() && !world.table.has_open_rows()
    }

    /// A catcher, each in its turn.
    pub fn catcher(&self) -> anyhow::Result<Rc<Sandbox<Catcher>>> {
        let mut catchers = self.catchers.borrow_mut();
        if catchers.len() < CATCHERS {
            catchers.push(self.sandboxes.catcher()?);
        }
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        let index = turn % catchers.len();
        Ok(catchers.swap_remove(index)).inspect(|catcher| catchers.push(catcher.clone()))
    }

    /// A catcher that died is not asked again.
    pub fn forget_catcher(&self, dead: &Rc<Sandbox<Catcher>>) {
        self.catchers
            .borrow_mut()
            .retain(|catcher| !Rc::ptr_eq(catcher, dead));
    }

    pub fn processor(&self) -> anyhow::Result<Rc<Sandbox<Processor>>> {
        match self.processors.borrow_mut().pop() {
            Some(processor) => Ok(processor),
            None => self.sandboxes.processor(),
        }
    }

    pub fn give_back(&self, processor: Rc<Sandbox<Processor>>) {
        self.processors.borrow_mut().push(processor);
    }

    /// The schedule of the sweep; now and then it fires twice. Over an empty index a sweep reads
    /// nothing and does nothing, and is left out.
    fn sweep(&self) -> anyhow::Result<()> {
        let times = {
            let mut world = self.world.lock();
            let off = world.scenario.without == Some(Without::Sweep) || world.is_down(Down::Sweep);
            if off || !world.table.has_open_rows() {
                return Ok(());
            }
            1 + u64::from(world.dice.hits(200))
        };
        for _ in 0..times {
            let sandbox = self.sandboxes.backup_sync()?;
            let (world, skew_ms) = (self.world.clone(), sandbox.skew_ms);
            let work = async move { sandbox.function.run(Task::Sweep).await.is_ok() };
            tokio::task::spawn_local(Box::pin(at_risk(
                work,
                skew_ms,
                Duration::from_secs(300),
                &world,
            )));
        }
        Ok(())
    }

    fn found(&self) -> anyhow::Result<Found> {
        let world = self.world.lock();
        ensure!(
            world.unknown.is_empty(),
            "the simulated stores were asked what they do not know: {:?}",
            world.unknown.first()
        );
        let mut figures = world.witness.judge(
            &world.table.state_rows(),
            &world.destination.done,
            &world.destination.asked,
        );
        figures.sent = world.doorbells.sent;
        figures.calls = world.calls;
        Ok(Found {
            figures,
            trace: world.trace,
            hours: clock::elapsed().as_secs() / 3600,
        })
    }
}
