//! `log`: prints the audit log of operators' actions.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditEntry, Through};

use crate::cli::{Global, LogArgs};
use crate::output::time::{DAY_MS, rfc3339};
use crate::output::{Column, Exit, List, Printer, Range};
use crate::target::Deployment;

/// The default time range: 90 days.
const QUARTER_MS: i64 = 90 * DAY_MS;

#[derive(Serialize)]
struct Entry {
    id: String,
    at: String,
    what: String,
    /// The AWS identity of the operator. On a local stack, this is the user name.
    by: String,
    /// What the operator used: `cli`, `console`, `mcp` or `api`. A scheduled run has `schedule`.
    through: Through,
    events: u64,
    selection: String,
    reason: String,
}

pub(super) async fn log(args: LogArgs, global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let from = args
        .since
        .map_or(now.0 - QUARTER_MS, |when| when.millis(now.0));
    let to = args.until.map_or(now.0, |when| when.millis(now.0) - 1);
    let by = args.by.as_deref().map(str::to_lowercase);
    let wanted = |entry: &AuditEntry| {
        by.as_deref()
            .is_none_or(|by| entry.who.to_lowercase().contains(by))
            && args
                .what
                .as_deref()
                .is_none_or(|what| entry.what.starts_with(what))
    };
    let limit = args.limit as usize;
    let deeds = inbox
        .ledger
        .operations()
        .audit_log(UnixMillis(from), UnixMillis(to), limit, wanted)
        .await?;
    let items: Vec<Entry> = deeds.found.into_iter().map(Entry::from).collect();
    let since = rfc3339(from);
    let mut footer = format!("{} newest since {since} · {}", items.len(), inbox.name);
    // The cursor is a time, because a time is easy to read.
    if let Some(last) = items.last().filter(|_| deeds.more) {
        footer = format!(
            "{footer} · more entries: --until {}, or a larger -n",
            last.at
        );
    }
    out.list(&List {
        truncated: deeds.more,
        footer: Some(footer),
        empty: format!("The audit log has no matching entries since {since}."),
        range: Some(Range::covered(UnixMillis(from), UnixMillis(to))),
        ..List::new("log", &inbox.name, now, columns(), items)
    })?;
    Ok(Exit::Done)
}

impl From<AuditEntry> for Entry {
    fn from(logged: AuditEntry) -> Self {
        Self {
            id: logged.id,
            at: rfc3339(logged.at.0),
            what: logged.what,
            by: logged.who,
            through: logged.through,
            events: logged.count,
            selection: logged.selection,
            reason: logged.why,
        }
    }
}

/// Returns the last part of an ARN. For a role, this is the session name, which usually names a
/// person.
fn name(arn: &str) -> String {
    arn.rsplit(['/', ':']).next().unwrap_or(arn).to_owned()
}

fn columns() -> Vec<Column<'static, Entry>> {
    vec![
        Column::whole("WHEN", "at").essential(),
        Column::whole("WHO", "by")
            .shown(|entry: &Entry| name(&entry.by))
            .essential(),
        Column::whole("WHAT", "what").essential(),
        Column::whole("THROUGH", "through").extra(),
        Column::count("EVENTS", "events"),
        Column::text("SELECTION", "selection", 16),
        Column::text("REASON", "reason", 16).essential(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_did_it_is_known_by_the_end_of_the_name() {
        let role = "arn:aws:sts::123456789012:assumed-role/Oncall/alice";
        for (arn, expected) in [
            (role, "alice"),
            ("local/bob", "bob"),
            ("arn:aws:iam::1:root", "root"),
            ("", ""),
        ] {
            assert_eq!(name(arn), expected, "{arn}");
        }
    }
}
