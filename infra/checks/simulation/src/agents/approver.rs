//! A person who approves held events, and forgets some of them.

use std::rc::Rc;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::Inbox;
use shared::inbox::ledger::{By, HoldDecision};
use shared::webhook::event::EventKey;
use tokio::time::sleep;

use super::{SOURCES, is_forgotten};
use crate::clock;
use crate::run::Run;
use crate::sender::event_of_message;

/// The interval between two looks at the held events.
const BETWEEN: Duration = Duration::from_secs(60);

/// The number of held events of a source that the person sees at once.
const PAGE: i32 = 200;

/// Approves each held event that is not forgotten. Returns if the functions cannot be started.
pub(super) async fn approve(run: Rc<Run>) {
    let inbox = match run.inbox() {
        Ok(inbox) => inbox,
        Err(error) => return run.fail(error),
    };
    loop {
        for source in SOURCES {
            let all = (UnixMillis(0), UnixMillis(i64::MAX));
            // After a fault, the person looks again later.
            let held = inbox.ledger.held(source, all, PAGE).await;
            for key in held.map(|(keys, _)| keys).unwrap_or_default() {
                let event = event_of_message(&key.pk());
                let forgotten = event.is_none_or(|event| {
                    let world = run.world.lock();
                    is_forgotten(&world.scenario, event)
                });
                if !forgotten {
                    // The event stays held if a store fails.
                    let _ = decide(&inbox, &key).await;
                }
            }
        }
        sleep(BETWEEN).await;
    }
}

async fn decide(inbox: &Inbox, key: &EventKey) -> anyhow::Result<()> {
    let row = inbox.ledger.event(key).await?;
    let Some(hold) = row.and_then(|row| row.hold) else {
        return Ok(());
    };
    let by = By {
        who: "ann",
        why: "it is in order",
    };
    let decided = inbox
        .ledger
        .approve(key, &hold.id, by, clock::read())
        .await?;
    if let (HoldDecision::Made(_), Some(message)) = (&decided, decided.work_message()) {
        inbox.queue.send(&message, Duration::ZERO).await?;
    }
    Ok(())
}
