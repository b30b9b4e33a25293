//! The tracker. It accepts no keys, and can be searched.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::world::Shared;

/// The calls that have not ended. They can open a ticket after their worker has crashed.
#[derive(Debug, Default)]
pub struct Tracker {
    under_way: usize,
}

/// How long after the timeout of a call its ticket can be opened. Together with the ten seconds
/// between the timeout and the lease, this is less than the minute that workers wait.
const LATEST_MS: u64 = 55_000;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    Yes,
    /// The tracker has opened no ticket.
    Busy,
    /// No answer arrived. A ticket may have been opened, or may still be opened.
    Unknown,
}

enum Deed {
    Answers,
    Busy,
    LosesAnswer,
    Late,
}

impl Tracker {
    /// Returns whether no call can open a ticket any more.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }
}

/// Opens a ticket. The call goes on if its worker crashes.
pub(super) async fn open(world: &Shared, event: usize, timeout: Duration) -> Opened {
    let (deed, takes) = {
        let mut world = world.lock();
        world.tracker.under_way += 1;
        world.witness.called(event);
        if let Some(asked) = world.destination.asked.get_mut(event) {
            *asked += 1;
        }
        let trouble = world.scenario.destination_trouble;
        let deed = match world.dice.below(4) {
            _ if !world.dice.hits(trouble) => Deed::Answers,
            0 => Deed::Busy,
            1 => Deed::Late,
            _ => Deed::LosesAnswer,
        };
        let takes = match deed {
            Deed::Late => timeout + Duration::from_millis(world.dice.between(0, LATEST_MS)),
            _ => Duration::from_millis(world.dice.between(10, 5_000)),
        };
        (deed, takes)
    };
    let (answer, answered) = oneshot::channel();
    let world = world.clone();
    tokio::spawn(async move {
        sleep(takes).await;
        let mut world = world.lock();
        world.tracker.under_way -= 1;
        let opens = !matches!(deed, Deed::Busy);
        if opens && let Some(done) = world.destination.done.get_mut(event) {
            *done += 1;
        }
        let _ = match deed {
            Deed::Answers => answer.send(Opened::Yes),
            Deed::Busy => answer.send(Opened::Busy),
            Deed::LosesAnswer | Deed::Late => answer.send(Opened::Unknown),
        };
    });
    match tokio::time::timeout(timeout, answered).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(_)) | Err(_) => Opened::Unknown,
    }
}

/// Returns whether a ticket was opened for the event before the search.
pub(super) async fn search(world: &Shared, event: usize) -> bool {
    let (found, takes) = {
        let mut world = world.lock();
        let done = world.destination.done.get(event).copied();
        (done.unwrap_or(0) > 0, world.dice.between(10, 500))
    };
    sleep(Duration::from_millis(takes)).await;
    found
}
