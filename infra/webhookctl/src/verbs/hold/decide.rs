//! `hold approve` and `hold reject`: apply the operator's decision about a held event.

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{By, Hold, HoldDecision, Row};

use super::view::Shown;
use super::{held, not_held};
use crate::audit::{self, Change};
use crate::cli::{ApprovalAt, Global, HoldApproveArgs, HoldRejectArgs, WorkAt};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::decision::{Decision, removed};
use crate::verbs::quarantine::reach::door;
use crate::verbs::work::Client;

pub(super) async fn approve(
    args: HoldApproveArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("hold.reason", &args.reason)?;
    let inbox = args.door_at.bodies_at.open(global).await?;
    inbox.may_write("approve an event")?;
    let (row, hold) = held(&inbox, &args.id).await?;
    if hold.expires <= UnixMillis::now() {
        return Err(expired(&row).into());
    }
    let shown = Shown::read(&inbox, &row, &hold).await?;
    confirmed(&shown, args.confirm.as_deref(), out)?;
    if needs_api(&inbox, &row, &hold) {
        let asked = ("approve", reason);
        return over_api(asked, (&row, &hold), &args.api_at, global, out).await;
    }
    let door = door(&inbox, global, &args.door_at)?;
    let who = record(&inbox, "hold.approve", &row, &hold, reason).await?;
    let by = By {
        who: &who,
        why: reason,
    };
    let decided = door
        .approve(&row.key, &hold.id, by, UnixMillis::now())
        .await?;
    told(&decided, (&row, &hold), by, "approved", out)
}

pub(super) async fn reject(
    args: HoldRejectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("hold.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("reject an event")?;
    let (row, hold) = held(&inbox, &args.id).await?;
    if args.confirm.is_some_and(|wanted| wanted.trim() != hold.id) {
        return Err(moved(&row).into());
    }
    if needs_api(&inbox, &row, &hold) {
        let asked = ("reject", reason);
        return over_api(asked, (&row, &hold), &args.api_at, global, out).await;
    }
    let who = record(&inbox, "hold.reject", &row, &hold, reason).await?;
    let by = By {
        who: &who,
        why: reason,
    };
    let ledger = &inbox.ledger;
    let decided = ledger
        .reject(&row.key, &hold.id, by, UnixMillis::now())
        .await?;
    told(&decided, (&row, &hold), by, "rejected", out)
}

/// Asks for the id of the hold, so that the operator approves what was shown and nothing else.
fn confirmed(shown: &Shown, given: Option<&str>, out: &mut Printer) -> anyhow::Result<()> {
    let typed = match given {
        Some(given) => given.to_owned(),
        None if out.terminal.asks => {
            out.say(shown.text().trim_end());
            out.ask(&format!("Approve it? Type {} to continue: ", shown.hold))?
        }
        None => String::new(),
    };
    if typed.trim() == shown.hold {
        return Ok(());
    }
    let message = match typed.trim() {
        "" => "approving needs the id of the hold".to_owned(),
        other => format!("the event is held as {}, not as '{other}'", shown.hold),
    };
    let lines = shown.text();
    let details = lines.lines().map(str::to_owned).collect();
    Err(CliError::refused("hold.confirm", message)
        .details(details)
        .note("nothing was changed")
        .tip(format!(
            "webhookctl hold approve {} -m \"…\" --confirm {}",
            shown.id, shown.hold
        ))
        .into())
}

/// Returns whether a rule of the hold names the roles that can decide. After its rule was renamed or
/// removed, the hold is decided as one without such roles.
fn needs_api(inbox: &Deployment, row: &Row, hold: &Hold) -> bool {
    let source = inbox.config.source(row.key.source());
    let mut rules = source.into_iter().flat_map(|source| &source.policy);
    hold.over_api
        && rules
            .any(|rule| !rule.approvers.is_empty() && hold.rules().any(|name| name == rule.name))
}

/// Sends the decision to the API, which checks that the role of the caller is an approver, and which
/// writes the audit log.
async fn over_api(
    (op, reason): (&str, &str),
    (row, hold): (&Row, &Hold),
    at: &ApprovalAt,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let at = WorkAt {
        queue: row.key.source().to_owned(),
        api: at.api.clone(),
        role: at.role.clone(),
    };
    let client = Client::find(&at, global)?;
    let body = json!({ "key": row.key.to_string(), "hold": hold.id, "reason": reason });
    let answer = client.call(op, &body).await.map_err(of_approval)?;
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let (status, who) = (text("status"), text("by"));
    let decision = Decision {
        document: "hold.decision",
        what: if op == "approve" {
            "approved"
        } else {
            "rejected"
        },
        hold: Some(&hold.id),
        by: By {
            who: &who,
            why: reason,
        },
    };
    decision.report_as(row, &status, out)
}

/// Describes a refusal of the API for an approver.
fn of_approval(error: CliError) -> CliError {
    if error.code == "work.not_allowed" {
        return error.tip("webhookctl policies approver --help");
    }
    error
}

async fn record(
    inbox: &Deployment,
    what: &'static str,
    row: &Row,
    hold: &Hold,
    why: &str,
) -> anyhow::Result<String> {
    let change = Change {
        what,
        why,
        selection: format!(
            "{}, hold {}, rule {}, effect {}",
            row.key, hold.id, hold.rule, hold.effect
        ),
        count: 1,
    };
    change.record(inbox).await
}

fn told(
    decided: &HoldDecision,
    (row, hold): (&Row, &Hold),
    by: By<'_>,
    what: &'static str,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let decision = Decision {
        document: "hold.decision",
        what,
        hold: Some(&hold.id),
        by,
    };
    match decided {
        HoldDecision::Made(now) => decision.report(now, out),
        HoldDecision::Moved(now) if now.is_held() => Err(moved(row).into()),
        HoldDecision::Moved(now) => Err(not_held(now).into()),
        HoldDecision::Expired => Err(expired(row).into()),
        HoldDecision::Missing => Err(removed(row).into()),
    }
}

fn moved(row: &Row) -> CliError {
    let message = format!("{} is now held for something else", row.key);
    CliError::refused("hold.moved", message)
        .note("nothing was changed")
        .tip(format!("webhookctl hold show {}", row.id()))
}

fn expired(row: &Row) -> CliError {
    let message = format!("the hold of {} has expired", row.key);
    CliError::refused("hold.expired", message)
        .note("the sweep makes the event a dead letter")
        .tip(format!("webhookctl replay plan --id {}", row.id()))
}
