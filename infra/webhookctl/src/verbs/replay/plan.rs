//! `replay plan`: stores a set of events as a plan, and shows what a replay would do to each event.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    BodyAt, EffectState, Plan, PlanEvent, PlanFacts, PlanLeftOut, PlanState, Row, State, Through,
    plan_digest, plan_id,
};
use shared::sources::ordering::{Mode, Order};
use shared::sources::{Signing, Source};

use super::decision::{AtSource, Fate, LeftOut, Policy, Runs, fate};
use super::{named, render};
use crate::audit::who;
use crate::cli::{ReplayMode, ReplayPlanArgs, SelectionArgs};
use crate::completion_cache::{self, Kind};
use crate::output::count::{plural, thousands};
use crate::output::{CliError, Exit, Printer};
use crate::selection::{Selection, Want};
use crate::target::Deployment;

/// The factor that limits the count of matching events. The command counts up to `--max` times this
/// factor, to report how many events match.
const COUNTED: usize = 10;

/// The number of events that are read concurrently.
const AT_ONCE: usize = 16;

/// The input of a plan.
pub(super) struct Asked {
    selection: Selection,
    reason: String,
    policy: Policy,
    max: usize,
    expires: Duration,
    /// Whether to print the plan. Otherwise, the command prints only its result.
    shown: bool,
    /// Whether to print a plan without events.
    empty_shown: bool,
}

/// What became of the request for a plan.
pub(super) enum Made {
    Kept(Box<Plan>),
    /// No event would run again. The reasons, with the number of events.
    Nothing(BTreeMap<LeftOut, u64>),
}

/// The selected events, and the decision about each of them.
pub(super) struct Judged {
    pub(super) rows: Vec<Row>,
    pub(super) events: Vec<PlanEvent>,
    pub(super) left_out: Vec<PlanLeftOut>,
    pub(super) runs: BTreeMap<Runs, u64>,
    pub(super) left: BTreeMap<LeftOut, u64>,
}

impl Asked {
    pub(super) fn redrive(
        selection: Selection,
        mode: ReplayMode,
        reason: &str,
        shown: bool,
    ) -> Self {
        Self {
            selection,
            reason: reason.trim().to_owned(),
            policy: Policy {
                mode,
                ..Policy::default()
            },
            max: 1000,
            expires: Duration::from_secs(3600),
            shown,
            empty_shown: false,
        }
    }
}

pub(super) async fn plan(
    args: ReplayPlanArgs,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if args.new_effect && args.mode != ReplayMode::Force {
        return Err(CliError::usage(
            "replay.new_effect",
            "--new-effect repeats effects that have happened; it requires --mode force",
        )
        .into());
    }
    let now = UnixMillis::now();
    let selection = match &args.like {
        None => args.selection,
        Some(like) => like_that(inbox, like, now).await?,
    };
    let asked = Asked {
        selection: Selection::new(&selection, inbox, now.0)?,
        reason: args.reason.trim().to_owned(),
        policy: Policy {
            mode: args.mode,
            new_effects: args.new_effect,
            duplicate_risk: args.accept_duplicate_risk,
        },
        max: args.max,
        expires: Duration::from_secs(args.expires),
        shown: true,
        empty_shown: true,
    };
    made(asked, inbox, out).await?;
    Ok(Exit::Done)
}

/// Makes a plan, stores it if it has events, and prints it.
pub(super) async fn made(
    asked: Asked,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Made> {
    inbox.may_write("store a plan")?;
    let now = UnixMillis::now();
    let rows = selected(&asked, inbox).await?;
    let judged = judge(rows, asked.policy, inbox, now).await?;
    let committed = judged.runs.get(&Runs::Committed).copied().unwrap_or(0);
    if committed > 0 && asked.reason.is_empty() {
        let message = format!(
            "--mode force runs {} whose side effect is committed; this requires --reason and \
             --confirm {}",
            plural(committed, "event"),
            judged.events.len()
        );
        return Err(CliError::refused("replay.force", message).into());
    }
    let (shown, empty_shown) = (asked.shown, asked.empty_shown);
    let by = who(inbox).await?;
    let mut plan = planned(asked, &judged, committed, (by, inbox.through()), now)?;
    let kept = !judged.events.is_empty();
    if kept {
        keep(&mut plan, &judged, inbox).await?;
        completion_cache::keep(&inbox.name, Kind::Plan, std::slice::from_ref(&plan.id));
    }
    if if kept { shown } else { empty_shown } {
        render::print(&plan, &judged, kept, inbox, now, out)?;
    }
    Ok(if kept {
        Made::Kept(Box::new(plan))
    } else {
        Made::Nothing(judged.left)
    })
}

/// Returns the plan with its facts. It is not stored yet.
fn planned(
    asked: Asked,
    judged: &Judged,
    committed: u64,
    (by, through): (String, Through),
    now: UnixMillis,
) -> anyhow::Result<Plan> {
    let left = judged.left.iter();
    Ok(Plan {
        id: plan_id()?,
        facts: PlanFacts {
            by,
            through,
            cli: env!("CARGO_PKG_VERSION").to_owned(),
            reason: asked.reason,
            selection: asked.selection.document(),
            words: asked.selection.words(),
            mode: asked.policy.mode.as_str().to_owned(),
            new_effects: asked.policy.new_effects,
            duplicate_risk: asked.policy.duplicate_risk,
            selected: judged.rows.len() as u64,
            committed,
            left_out: left
                .map(|(why, count)| (why.word().to_owned(), *count))
                .collect(),
            sha256: plan_digest(judged.events.iter()),
        },
        state: PlanState::Planned,
        made_at: now,
        good_until: now + asked.expires,
        count: judged.events.len(),
        next: 0,
        runs: Vec::new(),
        lease: None,
        outcome: None,
        cancelled_by: None,
        ended_at: None,
    })
}

async fn selected(asked: &Asked, inbox: &Deployment) -> anyhow::Result<Vec<Row>> {
    let want = Want {
        limit: asked.max.saturating_mul(COUNTED).max(1),
        reverse: true,
        after: None,
    };
    let found = asked.selection.find(inbox, want).await?;
    let count = found.rows.len();
    if count <= asked.max && !found.more {
        return Ok(found.rows);
    }
    let counted = thousands(count);
    let (said, tip) = if found.more {
        (
            format!("more than {counted} events match"),
            "narrow the selection".to_owned(),
        )
    } else {
        (
            format!("{counted} events match"),
            format!("narrow the selection, or pass --max {count}"),
        )
    };
    let message = format!("{said}, but --max is {}", asked.max);
    let error = CliError::refused("replay.too_many", message);
    Err(error.tip(tip).into())
}

async fn judge(
    rows: Vec<Row>,
    policy: Policy,
    inbox: &Deployment,
    now: UnixMillis,
) -> anyhow::Result<Judged> {
    let mut judged = Judged {
        rows: Vec::new(),
        events: Vec::new(),
        left_out: Vec::new(),
        runs: BTreeMap::new(),
        left: BTreeMap::new(),
    };
    let looks: Vec<_> = rows.iter().map(|row| at_source(row, inbox, now)).collect();
    let sources: Vec<Option<AtSource>> =
        stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    for (row, source) in rows.iter().zip(sources) {
        match fate(row, policy, source, now) {
            Fate::Runs { why, until } => {
                *judged.runs.entry(why).or_default() += 1;
                judged.events.push(PlanEvent {
                    key: row.key.clone(),
                    received_at: row.received_at,
                    epoch: row.epoch,
                    run: row.run,
                    until,
                });
            }
            Fate::LeftOut(why) => {
                *judged.left.entry(why).or_default() += 1;
                judged.left_out.push(PlanLeftOut {
                    key: row.key.clone(),
                    received_at: row.received_at,
                    why: why.word().to_owned(),
                });
            }
        }
    }
    judged.rows = rows;
    Ok(judged)
}

/// Reads the facts that the row does not have. Returns `None` if the source is no longer
/// configured.
async fn at_source(
    row: &Row,
    inbox: &Deployment,
    now: UnixMillis,
) -> anyhow::Result<Option<AtSource>> {
    let Some(source) = inbox.config.source(row.key.source()) else {
        return Ok(None);
    };
    let bodies = source.retention.bodies;
    let order = source.order.as_ref();
    let overtaken = match order.filter(|order| order.mode == Mode::LatestWins) {
        Some(order) => is_overtaken(row, order, inbox).await?,
        None => false,
    };
    Ok(Some(AtSource {
        bodies,
        overtaken,
        stale: is_stale(row, source, now),
    }))
}

/// Returns whether an action that is not done would send a signature that is too old for its
/// receiver. This does not read the values of the filter's conditions.
pub(super) fn is_stale(row: &Row, source: &Source, now: UnixMillis) -> bool {
    source.actions.iter().any(|action| {
        let effect = row.effects.get(&action.name).map(|effect| effect.state);
        let is_open = effect != Some(EffectState::Done) || row.state == State::Done;
        let is_stale = |signing: &Signing| signing.is_stale(&source.verifier, row.received_at, now);
        let signing = action.kind.http().map(|(_, signing)| signing);
        is_open && action.filter.may_match(&row.kind) && signing.is_some_and(is_stale)
    })
}

/// Returns whether a newer event of the same entity was processed. Returns false if the order
/// cannot be determined, because the processor makes the final decision.
async fn is_overtaken(row: &Row, order: &Order, inbox: &Deployment) -> anyhow::Result<bool> {
    // The body is in the bucket, and this command does not know the name of a deployment's bucket.
    if matches!(row.body_at, BodyAt::Bucket(_)) && inbox.local.is_none() {
        return Ok(false);
    }
    let Some(Ok(body)) = inbox.ledger.event_body(&row.key).await? else {
        return Ok(false);
    };
    let place = order.place(row.key.source(), row.stored(&body.0), row.received_at);
    match place {
        Some(place) => inbox.ledger.entities().is_overtaken(&place).await,
        None => Ok(false),
    }
}

/// Stores the plan. If its id is already in use, generates another id.
async fn keep(plan: &mut Plan, judged: &Judged, inbox: &Deployment) -> anyhow::Result<()> {
    for _ in 0..3 {
        let made = inbox
            .ledger
            .plans()
            .make_plan(plan, &judged.events, &judged.left_out);
        if made.await? {
            return Ok(());
        }
        plan.id = plan_id()?;
    }
    anyhow::bail!(
        "all generated plan ids are in use; the plan was not stored, so run the command again"
    )
}

/// Returns the selection of another plan.
async fn like_that(
    inbox: &Deployment,
    like: &str,
    now: UnixMillis,
) -> anyhow::Result<SelectionArgs> {
    let plan = named(inbox, like, now).await?;
    let unclear = |what: &str| {
        let message = format!("the selection of {} cannot be repeated: {what}", plan.id);
        CliError::refused("replay.like", message).tip("pass the selection again, without --like")
    };
    let mut line = vec!["selection".to_owned()];
    for (name, value) in plan.facts.selection.as_object().into_iter().flatten() {
        if ["where", "account", "header"].contains(&name.as_str()) {
            return Err(unclear(&format!("the values of --{name} are not stored")).into());
        }
        let values = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            line.push(format!("--{name}={text}"));
        }
    }
    let flags = SelectionArgs::augment_args(clap::Command::new("selection"));
    let read = flags
        .try_get_matches_from(line)
        .and_then(|found| SelectionArgs::from_arg_matches(&found));
    Ok(read.map_err(|_| unclear("this version does not support all options of the selection"))?)
}
