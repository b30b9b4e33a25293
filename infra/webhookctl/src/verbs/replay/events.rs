//! `replay show --events`: lists the events of a plan, and what the replay does to each of their
//! side effects.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{EffectState, Plan, PlanEvent};
use shared::webhook::event::EventId;

use crate::inspect::view;
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

/// The maximum number of events in the list. Each needs a read of its row.
const MOST: usize = 200;

/// The number of rows that are read concurrently.
const AT_ONCE: usize = 16;

#[derive(Serialize)]
struct Line {
    id: String,
    source: String,
    received_at: String,
    /// `None` if the inbox no longer has the event.
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<&'static str>,
    effects: Vec<Planned>,
    /// Whether the event has run again since the plan was made.
    ran: bool,
}

/// A side effect that an earlier run of the event has recorded.
#[derive(Serialize)]
struct Planned {
    name: String,
    key: String,
    /// Whether the replay repeats it. Otherwise, it has happened, and the replay skips it.
    again: bool,
}

pub(super) async fn events(
    plan: &Plan,
    inbox: &Deployment,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let all = inbox.ledger.plans().plan_order(&plan.id).await?;
    let lines = all.iter().take(MOST);
    let lines: Vec<_> = lines.map(|event| line(event, plan, inbox)).collect();
    let items: Vec<Line> = stream::iter(lines).buffered(AT_ONCE).try_collect().await?;
    let truncated = all.len() > MOST;
    out.list(&List {
        truncated,
        footer: truncated.then(|| format!("the first {MOST} of {} events", all.len())),
        empty: format!("{} has no events.", plan.id),
        ..List::new(
            "replay.events",
            &inbox.name,
            now,
            vec![
                Column::id("id"),
                Column::whole("SOURCE", "source"),
                Column::text("TYPE", "type", 12).dash(),
                Column::whole("STATUS", "status").dash(),
                Column::text("REPLAY", "effects", 20)
                    .essential()
                    .shown(Line::said),
                Column::whole("RECEIVED", "received_at").lesser(),
            ],
            items,
        )
    })?;
    Ok(Exit::Done)
}

async fn line(event: &PlanEvent, plan: &Plan, inbox: &Deployment) -> anyhow::Result<Line> {
    let row = inbox.ledger.event(&event.key).await?;
    let ran = row.as_ref().is_some_and(|row| row.run > event.run);
    let seen = row.map(|row| view(&row, &inbox.config));
    let (kind, status, effects) = match seen {
        Some(seen) => (
            Some(seen.event_type),
            Some(seen.status.as_str()),
            seen.effects,
        ),
        None => (None, None, Vec::new()),
    };
    let repeats = |state| plan.facts.new_effects || state != EffectState::Done;
    let effects = effects.into_iter().map(|effect| Planned {
        again: repeats(effect.state),
        name: effect.name,
        key: effect.key,
    });
    Ok(Line {
        id: EventId::new(event.received_at, &event.key).to_string(),
        source: event.key.source().to_owned(),
        received_at: rfc3339(event.received_at.0),
        kind,
        status,
        effects: effects.collect(),
        ran,
    })
}

impl Line {
    /// Returns what the replay does, such as `open-issue: again; audit: skipped`.
    fn said(&self) -> String {
        if self.ran {
            return "ran again".to_owned();
        }
        if self.effects.is_empty() {
            return "its actions run".to_owned();
        }
        let effects = self.effects.iter().map(|effect| {
            let does = if effect.again { "again" } else { "skipped" };
            format!("{}: {does}", effect.name)
        });
        effects.collect::<Vec<_>>().join("; ")
    }
}
