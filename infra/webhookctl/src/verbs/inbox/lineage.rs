//! Adds the lineage of an event, which its row does not contain: the operator and the reason of
//! each replay, and the newer event that superseded it.

use shared::inbox::ledger::{BodyAt, Plan, Row};
use shared::webhook::event::EventKey;

use crate::inspect::{EventView, Replay};
use crate::target::Deployment;

/// Adds the lineage to an event, if it is still stored. Plans and versions are stored for 90 days.
pub(super) async fn trace(
    event: &mut EventView,
    inbox: &Deployment,
    row: &Row,
) -> anyhow::Result<()> {
    for replay in &mut event.replays {
        if let Some(plan) = inbox.ledger.plans().plan(&replay.plan).await? {
            ask(&plan, replay);
        }
    }
    if event.superseded {
        let newest = newest_of_its_entity(inbox, row).await?;
        event.superseded_by = newest.map(|newest| newest.to_string());
    }
    Ok(())
}

/// Adds the operator of a replay. Several operators can apply one plan, so this takes the operator
/// of the last run that began before the replay.
fn ask(plan: &Plan, replay: &mut Replay) {
    let run = plan.runs.iter().rfind(|run| run.from <= replay.at);
    let by = run.map_or(&plan.facts.by, |run| &run.by);
    replay.by = Some(by.clone());
    replay.through = Some(run.map_or(plan.facts.through, |run| run.through));
    replay.reason = Some(plan.facts.reason.clone()).filter(|reason| !reason.is_empty());
}

/// Returns the newest event of the entity. The body names the entity, so this returns `None` if the
/// body is missing.
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
    let place = order.place(row.key.source(), row.stored(&body.0), row.received_at);
    match place {
        Some(place) => inbox.ledger.entities().newest_of(&place.entity).await,
        None => Ok(None),
    }
}
