//! Makes one simulation run from start to end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use backup_sync::{BackupSync, Task};
use catcher::Catcher;
use processor::Processor;
use shared::base::timing::ROUND_EVERY;
use shared::inbox::Inbox;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::clock;
use crate::crash_injection::{Ended, Role, at_risk};
use crate::mapping::Mapping;
use crate::observer::Figures;
use crate::sandbox::{API_SECRET, Sandbox, Sandboxes};
use crate::scenario::{Scenario, Without};
use crate::wire::dynamodb::{Item, Value};
use crate::wire::fate::Down;
use crate::world::{Shared, World};
use crate::{agents, mapping, sender, stranger, webhook};

/// The number of catchers that answer concurrently.
const CATCHERS: usize = 4;

/// The interval of the backup-sync schedules.
const TICK: Duration = ROUND_EVERY;

/// The result of a run, with a hash over all its events. The hash is the same for the same
/// scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub figures: Figures,
    pub trace: u64,
    /// Simulated hours.
    pub hours: u64,
}

/// The running functions.
pub struct Run {
    pub world: Shared,
    sandboxes: Sandboxes,
    catchers: RefCell<Vec<Rc<Sandbox<Catcher>>>>,
    processors: RefCell<Vec<Rc<Sandbox<Processor>>>>,
    backup_syncs: RefCell<Vec<Rc<Sandbox<BackupSync>>>>,
    mapping: Rc<Mapping>,
    turn: Cell<usize>,
    senders: Cell<usize>,
    all_sent: Cell<bool>,
    failed: RefCell<Option<anyhow::Error>>,
}

/// Runs a scenario on this thread, in virtual time.
pub fn run(scenario: Scenario) -> anyhow::Result<Found> {
    shared::base::random::seed(scenario.seed);
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
        for source in webhook::SOURCES.into_iter().chain(agents::SOURCES) {
            world
                .secrets
                .insert(source.to_owned(), webhook::SECRET.to_owned());
        }
        world
            .secrets
            .insert(API_SECRET.to_owned(), "application:secret".to_owned());
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
        backup_syncs: RefCell::default(),
        mapping: Rc::default(),
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
    tokio::task::spawn_local(mapping::map(run.clone(), run.mapping.clone()));
    tokio::task::spawn_local(purge(run.clone()));
    tokio::task::spawn_local(stranger::act(run.clone()));
    agents::act(&run);
    while !run.is_over() && clock::elapsed() < ends_after {
        sleep(TICK).await;
        run.schedule()?;
        if let Some(error) = run.failed.borrow_mut().take() {
            return Err(error);
        }
    }
    run.found()
}

/// Runs one invocation of backup-sync. A sandbox that froze or crashed is not used again.
async fn sync(run: Rc<Run>, sandbox: Rc<Sandbox<BackupSync>>, task: Task) {
    let (at_work, skew_ms) = (sandbox.clone(), sandbox.skew_ms);
    let work = async move { at_work.function.run(task).await.is_ok() };
    let time = Duration::from_secs(300);
    let ended = at_risk(Role::BackupSync, work, skew_ms, time, &run.world).await;
    let again = matches!(
        ended,
        Ended::Returned {
            was_frozen: false,
            ..
        }
    );
    if again {
        run.backup_syncs.borrow_mut().push(sandbox);
    }
}

/// Purges the message queues by mistake, as an operator could.
async fn purge(run: Rc<Run>) {
    let times = run.world.lock().scenario.purges_ms.clone();
    for at in times {
        let at = Duration::from_millis(u64::try_from(at).unwrap_or(0));
        sleep(at.saturating_sub(clock::elapsed())).await;
        let mut world = run.world.lock();
        world.queues.work_messages.purge();
        world.queues.backlog.purge();
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

    /// Returns the number of requests sent so far. The number is different for each request.
    pub fn next_turn(&self) -> usize {
        self.turn.get()
    }

    /// Returns whether each event was sent at least once.
    pub fn all_are_sent(&self) -> bool {
        self.all_sent.get()
    }

    fn is_over(&self) -> bool {
        let world = self.world.lock();
        let quiet = self.all_sent.get() && self.senders.get() == 0 && self.mapping.is_idle();
        let calm = quiet && world.tracker.is_idle();
        calm && world.queues.are_empty() && !world.table.has_open_rows()
    }

    /// Returns the next catcher in round-robin order.
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

    /// Removes a catcher that crashed, so that it is not used again.
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

    /// Returns the ledger and the queues of an operator.
    pub fn inbox(&self) -> anyhow::Result<Inbox> {
        self.sandboxes.inbox()
    }

    pub fn give_back(&self, processor: Rc<Sandbox<Processor>>) {
        self.processors.borrow_mut().push(processor);
    }

    /// Runs the schedules of backup-sync. Sometimes a schedule starts a task twice. A sweep without
    /// open rows and a drain of empty queues do nothing, so they are skipped.
    fn schedule(self: &Rc<Self>) -> anyhow::Result<()> {
        let mut tasks = Vec::new();
        {
            let mut world = self.world.lock();
            let without = world.scenario.without;
            let down = world.is_down(Down::Sweep);
            // The sweep also fetches the keys that rejected requests need.
            let due = world.table.has_open_rows() || world.scenario.stranger.is_some();
            if !down && without != Some(Without::Sweep) && due {
                tasks.push(Task::Sweep);
            }
            let waits = !world.queues.spill.is_empty() || !world.queues.backlog.is_empty();
            if !down && without != Some(Without::Drain) && waits {
                tasks.push(Task::Drain);
            }
            if world.dice.hits(200) {
                tasks.extend(tasks.clone());
            }
        }
        for task in tasks {
            let sandbox = match self.backup_syncs.borrow_mut().pop() {
                Some(sandbox) => sandbox,
                None => self.sandboxes.backup_sync()?,
            };
            tokio::task::spawn_local(Box::pin(sync(self.clone(), sandbox, task)));
        }
        Ok(())
    }

    fn found(&self) -> anyhow::Result<Found> {
        let world = self.world.lock();
        ensure!(
            world.unknown.is_empty(),
            "the simulated stores received an unsupported request: {:?}",
            world.unknown.first()
        );
        let mut figures = world.witness.judge(
            &world.table.state_rows(),
            &world.destination.done,
            &world.destination.asked,
        );
        figures.sent = world.queues.work_messages.sent + world.queues.backlog.sent;
        figures.moved = world.moved;
        figures.spilled = world.queues.spill.sent;
        figures.undrained = world.queues.spill.len() as u64;
        figures.calls = world.calls;
        figures.stale = stale(&world);
        Ok(Found {
            figures,
            trace: world.trace,
            hours: clock::elapsed().as_secs() / 3600,
        })
    }
}

/// Returns the number of entities whose version at the destination is not the expected version.
///
/// The expected version is the newest version that is done, or that is a dead letter and the
/// destination carried out. If the newest version is a dead letter that the destination never
/// carried out, older versions may be done without their actions. The expected version is then the
/// newest version that the destination carried out.
fn stale(world: &World) -> u64 {
    let Some(order) = world.scenario.order else {
        return 0;
    };
    let mut newest: HashMap<usize, Newest> = HashMap::new();
    for (pk, row) in world.table.state_rows() {
        if let Some((event, fate)) = fate_of(pk, row, &world.destination.done) {
            let (entity, version) = order.place(event);
            newest.entry(entity).or_default().add(version, fate);
        }
    }
    let has = &world.destination.versions;
    let stale = newest
        .iter()
        .filter(|(entity, newest)| has.get(entity).copied() != newest.version());
    stale.count() as u64
}

/// The outcome of an ordered event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The destination carried the event out.
    CarriedOut,
    /// The event is done without its actions, because there was a newer event.
    PassedOver,
    /// The event is a dead letter that the destination never carried out.
    Dead,
}

/// The newest version of each outcome.
#[derive(Debug, Default)]
struct Newest {
    carried_out: Option<usize>,
    passed_over: Option<usize>,
    dead: Option<usize>,
}

impl Newest {
    fn add(&mut self, version: usize, fate: Fate) {
        let newest = match fate {
            Fate::CarriedOut => &mut self.carried_out,
            Fate::PassedOver => &mut self.passed_over,
            Fate::Dead => &mut self.dead,
        };
        *newest = (*newest).max(Some(version));
    }

    /// Returns the version that the destination must have.
    fn version(&self) -> Option<usize> {
        if self.dead > self.passed_over {
            self.carried_out
        } else {
            self.carried_out.max(self.passed_over)
        }
    }
}

/// Returns the event of a settled row, and its outcome according to the ledger and the destination.
fn fate_of(pk: &str, row: &Item, done: &[u32]) -> Option<(usize, Fate)> {
    let event = sender::event_of_message(pk)?;
    let carried_out = done.get(event).is_some_and(|times| *times > 0);
    let fate = match row.get("st").and_then(Value::text) {
        Some("done" | "dead_letter") if carried_out => Fate::CarriedOut,
        Some("done") => Fate::PassedOver,
        Some("dead_letter") => Fate::Dead,
        _ => return None,
    };
    Some((event, fate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_and_the_destination_say_what_became_of_an_event() {
        let row = |state: &str| Item::from([("st".to_owned(), Value::S(state.to_owned()))]);
        let told = |state, times| fate_of("E#s#evt_000000001", &row(state), &[0, times]);
        assert_eq!(told("done", 1), Some((1, Fate::CarriedOut)));
        assert_eq!(told("done", 0), Some((1, Fate::PassedOver)));
        assert_eq!(told("dead_letter", 1), Some((1, Fate::CarriedOut)));
        assert_eq!(told("dead_letter", 0), Some((1, Fate::Dead)));
        assert_eq!(told("failed", 1), None);
    }

    #[test]
    fn what_was_passed_over_for_a_dead_letter_is_not_expected() {
        let newest = |fates: &[(usize, Fate)]| {
            let mut newest = Newest::default();
            for (version, fate) in fates {
                newest.add(*version, *fate);
            }
            newest.version()
        };
        let (out, over, dead) = (Fate::CarriedOut, Fate::PassedOver, Fate::Dead);
        assert_eq!(newest(&[(3, out), (1, over), (2, out)]), Some(3));
        assert_eq!(newest(&[(1, out), (2, over)]), Some(2));
        assert_eq!(newest(&[(1, out), (2, over), (3, dead)]), Some(1));
        assert_eq!(newest(&[(1, out), (3, over), (2, dead)]), Some(3));
        assert_eq!(newest(&[(2, dead)]), None);
    }
}
