//! `dlq redrive`: processes dead letters again. The command makes a replay plan and applies it
//! immediately.

use shared::base::clock::UnixMillis;

use super::of_the_dead;
use crate::audit;
use crate::cli::{DlqRedriveArgs, Global};
use crate::output::{Exit, Printer};
use crate::selection::Selection;
use crate::target::Deployment;
use crate::verbs::replay;

pub(super) async fn redrive(
    args: DlqRedriveArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("dlq.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("replay dead letters")?;
    let chosen = of_the_dead(&args.selection)?;
    let selection = Selection::new(&chosen, &inbox, UnixMillis::now().0)?;
    let mode = args.mode.into();
    replay::plan_and_apply(selection, mode, reason, args.confirm, &inbox, out).await
}
