//! `hold list`: lists the events that wait for an approval.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Hold, Row};

use crate::cli::{Global, HoldListArgs};
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::selection::{held_rows, sources};
use crate::target::Deployment;

#[derive(Serialize)]
struct Item {
    id: String,
    source: String,
    #[serde(rename = "type")]
    event_type: String,
    hold: String,
    rule: String,
    effect: String,
    reason: String,
    summary: String,
    /// The paths in the body that the rule read. `hold show` has the values.
    read: Vec<String>,
    held_at: String,
    expires_at: String,
}

pub(super) async fn list(
    args: HoldListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let sources = sources(&inbox, &args.source)?;
    let limit = args.limit as usize;
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let at_most = i32::try_from(args.limit)?;
    let (mut rows, mut more) = held_rows(&inbox.ledger, &sources, at_most).await?;
    more |= rows.len() > limit;
    rows.truncate(limit);
    let items: Vec<Item> = rows.iter().map(|(row, hold)| Item::of(row, hold)).collect();
    let tip = items
        .first()
        .map(|item| format!("webhookctl hold show {}", item.id));
    out.list(&List {
        truncated: more,
        empty: "No event waits for an approval.".to_owned(),
        tip,
        ..List::new("hold.list", &inbox.name, now, columns(now.0), items)
    })?;
    Ok(Exit::Done)
}

impl Item {
    fn of(row: &Row, hold: &Hold) -> Self {
        Self {
            id: row.id().to_string(),
            source: row.key.source().to_owned(),
            event_type: row.kind.clone(),
            hold: hold.id.clone(),
            rule: hold.rule.clone(),
            effect: hold.effect.clone(),
            reason: hold.why.clone(),
            summary: hold.summary.clone(),
            read: hold.read.clone(),
            held_at: rfc3339(hold.at.0),
            expires_at: rfc3339(hold.expires.0),
        }
    }
}

fn columns(now: i64) -> Vec<Column<'static, Item>> {
    vec![
        Column::age("HELD", "held_at", now),
        Column::id("id"),
        Column::whole("SOURCE", "source"),
        Column::text("TYPE", "type", 16),
        Column::whole("EFFECT", "effect"),
        Column::whole("RULE", "rule").essential(),
        Column::text("REASON", "reason", 16).essential(),
        Column::text("WOULD SEND", "summary", 16),
        Column::whole("EXPIRES", "expires_at"),
        Column::whole("HOLD", "hold").extra(),
    ]
}
