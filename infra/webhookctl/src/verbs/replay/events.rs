//! `replay show --events` and `--left-out`: lists the events of a plan, and the selected events that
//! are not part of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{EffectState, Plan, PlanEvent, Row};
use shared::webhook::event::EventId;

use super::decision::LeftOut;
use super::outcome::{Became, became};
use crate::inspect::view;
use crate::output::count::thousands;
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

/// An event of a plan.
#[derive(Serialize)]
struct Event {
    id: String,
    source: String,
    key: String,
    r#type: Option<String>,
    received_at: String,
    /// The state of the row, or `null` if there is no row.
    status: Option<&'static str>,
    /// `planned`, `waiting`, `done`, `failed` or `changed`.
    outcome: &'static str,
    /// The error of the run, if it failed.
    error: Option<String>,
    effects: Vec<EffectPlan>,
}

/// What the plan does about an effect.
#[derive(Serialize)]
struct EffectPlan {
    name: String,
    /// The idempotency key.
    key: String,
    /// `runs` or `skipped`.
    action: &'static str,
}

/// Lists the events of a plan in the order in which they run.
pub(super) async fn events(
    plan: &Plan,
    inbox: &Deployment,
    limit: usize,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let plans = inbox.ledger.plans();
    let (all, planned) = tokio::try_join!(plans.plan_order(&plan.id), plans.planned(&plan.id))?;
    let applied = planned.iter().filter(|event| event.applied_at.is_some());
    let applied: BTreeSet<String> = applied.map(|event| event.key.pk()).collect();
    let shown = all.get(..limit).unwrap_or(&all);
    let keys: Vec<_> = shown.iter().map(|event| event.key.clone()).collect();
    let (rows, _) = inbox.ledger.rows(&keys).await?;
    let rows = rows.into_iter().map(|stored| stored.row);
    let rows: BTreeMap<String, Row> = rows.map(|row| (row.key.pk(), row)).collect();
    let items = shown.iter().enumerate().map(|(place, event)| {
        let pk = event.key.pk();
        let became = match (rows.get(&pk), applied.contains(&pk)) {
            (row, true) => became(event, row, &inbox.config),
            (_, false) if place < plan.next => Became::Changed,
            (_, false) => Became::NotYet,
        };
        Event::new(event, rows.get(&pk), became, plan, inbox)
    });
    let items: Vec<Event> = items.collect();
    let truncated = items.len() < all.len();
    let footer = truncated.then(|| {
        format!(
            "{} of {} events; pass a larger -n for the others",
            thousands(items.len() as u64),
            thousands(all.len() as u64)
        )
    });
    out.list(&List {
        truncated,
        footer,
        empty: format!("{} has no events.", plan.id),
        ..List::new("replay.events", &inbox.name, now, columns(), items)
    })?;
    Ok(Exit::Done)
}

fn columns<'a>() -> Vec<Column<'a, Event>> {
    vec![
        Column::id("id"),
        Column::whole("SOURCE", "source"),
        Column::text("TYPE", "type", 12).dash().lesser(),
        Column::whole("RECEIVED", "received_at").lesser(),
        Column::whole("OUTCOME", "outcome").essential(),
        Column::text("EFFECTS", "effects", 20).shown(|event: &Event| event.effects_text()),
        Column::text("ERROR", "error", 20).dash(),
        Column::whole("STATUS", "status").dash().extra(),
        Column::whole("KEY", "key").extra(),
    ]
}

impl Event {
    fn new(
        event: &PlanEvent,
        row: Option<&Row>,
        became: Became,
        plan: &Plan,
        inbox: &Deployment,
    ) -> Self {
        let (outcome, error) = match became {
            Became::NotYet => ("planned", None),
            Became::Waiting | Became::Parked => ("waiting", None),
            Became::Done => ("done", None),
            Became::Failed { text, .. } => ("failed", Some(text)),
            Became::Changed => ("changed", None),
        };
        let seen = row.map(|row| view(row, &inbox.config));
        // An effect that has happened is repeated only under a new key.
        let repeats = plan.facts.new_effects;
        let effects = seen.iter().flat_map(|seen| &seen.effects);
        let effects = effects.map(|effect| EffectPlan {
            name: effect.name.clone(),
            key: effect.key.clone(),
            action: match effect.state {
                EffectState::Done if !repeats => "skipped",
                _ => "runs",
            },
        });
        Self {
            id: EventId::new(event.received_at, &event.key).to_string(),
            source: event.key.source().to_owned(),
            key: event.key.id().to_owned(),
            r#type: row
                .map(|row| row.kind.clone())
                .filter(|kind| !kind.is_empty()),
            received_at: rfc3339(event.received_at.0),
            status: row.map(|row| row.state.as_str()),
            outcome,
            error,
            effects: effects.collect(),
        }
    }

    /// Returns the effects as text, such as `open-issue: runs, notify: skipped`.
    fn effects_text(&self) -> String {
        let effects = self.effects.iter();
        let effects = effects.map(|effect| format!("{}: {}", effect.name, effect.action));
        effects.collect::<Vec<_>>().join(", ")
    }
}

/// An event that the selection matched but the plan leaves out.
#[derive(Serialize)]
struct Line {
    id: String,
    source: String,
    key: String,
    received_at: String,
    why: String,
    #[serde(skip)]
    said: String,
}

/// Lists the selected events that the plan leaves out.
pub(super) async fn left_out(
    plan: &Plan,
    inbox: &Deployment,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let left = inbox.ledger.plans().plan_left_out(&plan.id).await?;
    let items = left.iter().map(|left| {
        let why = LeftOut::parse(&left.why);
        Line {
            id: EventId::new(left.received_at, &left.key).to_string(),
            source: left.key.source().to_owned(),
            key: left.key.id().to_owned(),
            received_at: rfc3339(left.received_at.0),
            why: left.why.clone(),
            said: why.map_or(left.why.clone(), |why| why.text().to_owned()),
        }
    });
    out.list(&List {
        empty: format!("{} leaves out no events.", plan.id),
        ..List::new(
            "replay.left_out",
            &inbox.name,
            now,
            vec![
                Column::id("id"),
                Column::whole("SOURCE", "source"),
                Column::whole("RECEIVED", "received_at").lesser(),
                Column::text("WHY", "why", 20)
                    .essential()
                    .shown(|line: &Line| line.said.clone()),
                Column::whole("KEY", "key").extra(),
            ],
            items.collect(),
        )
    })?;
    Ok(Exit::Done)
}
