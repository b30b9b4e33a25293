//! What an event's row does not say of its lineage: who ran it again and why, and which event of its
//! entity made it pointless.

use shared::inbox::ledger::{BodyAt, Plan, Row};
use shared::webhook::event::EventKey;

use crate::inspect::{EventView, Replay};
use crate::target::Deployment;

/// Adds it, as far as it is still known: plans and versions are kept for 90 days.
pub(super) async fn trace(
    event: &mut EventView,
    inbox: &Deployment,
    row: &Row,
) -> anyhow::Result<()> {
    for replay in &mut event.replays {
        if let Some(plan) = inbox.ledger.plan(&replay.plan).await? {
            ask(&plan, replay);
        }
    }
    if event.superseded {
        let newest = newest_of_its_entity(inbox, row).await?;
        event.superseded_by = newest.map(|newest| newest.to_string());
    }
    Ok(())
}

/// Of several who applied the plan, it was the one who was at it then.
fn ask(plan: &Plan, replay: &mut Replay) {
    let run = plan.runs.iter().rfind(|run| run.from <= replay.at);
    let by = run.map_or(&plan.facts.by, |run| &run.by);
    replay.by = Some(by.clone());
    replay.reason = Some(plan.facts.reason.clone()).filter(|reason| !reason.is_empty());
}

/// Which entity an event is about stands in its body, so that nothing is known once that is gone.
async fn newest_of_its_entity(inbox: &Deployment, row: &Row) -> anyhow::Result<Option<EventKey>> {
    let source = inbox.config.source(row.key.source());
    let Some(order) = source.and_then(|source| source.order.as_ref()) else {
        return Ok(None);
    };
    if matches!(row.body_at, BodyAt::Bucket(_)) && !inbox.ledger.has_bucket() {
        return Ok(None);
    }
    let Some(Ok(body)) = inbox.ledger.event_body(&row.key).await? else {
        return Ok(None);
    };
    let place = order.place(row.key.source(), &row.headers, &body.0, row.received_at);
    match place {
        Some(place) => inbox.ledger.newest_of(&place.entity).await,
        None => Ok(None),
    }
}
