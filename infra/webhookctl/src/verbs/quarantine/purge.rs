//! `quarantine purge`: deletes the selected requests if the operator has confirmed their number.

use futures::StreamExt;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::RejectedRequest;

use super::group::addresses;
use super::{asked, chosen};
use crate::audit::{self, Change};
use crate::cli::{Global, PurgeArgs};
use crate::confirm::Confirmation;
use crate::output::count::{plural, thousands};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// The number of requests that are deleted concurrently.
const AT_ONCE: usize = 8;

#[derive(Serialize)]
struct Purged {
    deleted: usize,
    bytes: u64,
    by: String,
    reason: String,
}

pub(super) async fn purge(
    args: PurgeArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("purge the quarantine")?;
    let held = chosen(&inbox, &args.selection, UnixMillis::now()).await?;
    let count = held.len();
    if count == 0 && args.confirm.is_none_or(|confirmed| confirmed == 0) {
        out.say(&format!(
            "No rejected requests ({}).",
            asked(&args.selection)
        ));
        return Ok(Exit::Done);
    }
    let bytes = held.iter().map(|held| held.stored).sum();
    let all: Vec<&RejectedRequest> = held.iter().collect();
    let what = format!(
        "{}, {} bytes, {}",
        plural(count, "request"),
        thousands(bytes),
        addresses(&all)
    );
    confirmed(count, &what, args.confirm)?;
    let reason = audit::reason("quarantine.reason", args.why.as_deref().unwrap_or_default())?;
    let by = Change {
        what: "quarantine.purge",
        why: reason,
        selection: asked(&args.selection),
        count,
    }
    .record(&inbox)
    .await?;
    let mut deleted = futures::stream::iter(&held)
        .map(|held| inbox.quarantine.purge(held))
        .buffer_unordered(AT_ONCE);
    while let Some(result) = deleted.next().await {
        result?;
    }
    let purged = Purged {
        deleted: count,
        bytes,
        reason: reason.to_owned(),
        by,
    };
    let text = format!("{what}: deleted\n");
    out.document("quarantine.purge", &purged, "", &text)?;
    Ok(Exit::Done)
}

fn confirmed(count: usize, what: &str, confirm: Option<usize>) -> Result<(), CliError> {
    match Confirmation::of(confirm.map(|it| it as u64), count as u64) {
        Confirmation::Given => Ok(()),
        Confirmation::Missing | Confirmation::Invalid => Err(CliError::refused(
            "quarantine.confirm",
            format!("confirm the count: --confirm {count}"),
        )
        .note(format!("{what}; this cannot be undone"))),
        Confirmation::Mismatch(number, how) => Err(CliError::refused(
            "quarantine.confirm_mismatch",
            format!(
                "the selection has {}, but {how} {number}; nothing was deleted",
                plural(count, "request")
            ),
        )
        .note(what)
        .tip("review the selection with `webhookctl quarantine list`")),
    }
}
