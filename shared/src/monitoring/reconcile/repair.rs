//! Repairs the drift of a report. A repair adds an event for each drifted object to the inbox, and
//! changes no object itself.

use anyhow::Context as _;

use crate::base::clock::Clock;
use crate::inbox::Inbox;
use crate::monitoring::reconcile::{Repair, Report};
use crate::sources::Source;
use crate::webhook::event::EventKey;

/// The events of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The number of events that were new to the inbox.
    pub new: usize,
    pub events: Vec<EventKey>,
    /// What the report says about the repair.
    pub noted: Repair,
}

impl Report {
    /// Returns whether more objects drifted than `cap` percent. If one side has lost all its
    /// objects, every object looks drifted.
    pub fn is_over(&self, cap: f64) -> bool {
        self.counts.percent() > cap
    }

    /// Adds an event to the inbox for each drifted object. Records in the report that the repair has
    /// started, and afterwards its result. Each object of a report gets only one event, even if the
    /// report is repaired again.
    pub async fn repair(
        &self,
        (source, config): (&Source, &str),
        inbox: &Inbox,
        mut noted: Repair,
        clock: Clock,
    ) -> anyhow::Result<Repaired> {
        let reports = inbox.ledger.provider_reports();
        reports.note_repair(self, &noted).await?;
        let (mut new, mut events) = (0, Vec::new());
        for drift in self.repairable() {
            let event = self.event(drift, source, config, clock());
            let kept = inbox.accept(&event, clock()).await;
            let kept = kept.with_context(|| {
                let put = events.len();
                format!(
                    "put the event of {} into the inbox ({put} put so far)",
                    drift.object
                )
            })?;
            new += kept.iter().filter(|kept| kept.received.is_new()).count();
            events.push(event.key().clone());
        }
        noted.events = events.len() as u64;
        noted.complete = true;
        reports.note_repair(self, &noted).await?;
        Ok(Repaired { new, events, noted })
    }
}
