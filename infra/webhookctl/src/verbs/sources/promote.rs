//! `sources promote`: ends the trial of a source.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::RouteOutcome;
use shared::inbox::rejected::KEEP;
use shared::sources::Config;

use super::add::{record, running};
use super::file::SourcesFile;
use super::named;
use crate::cli::{Global, SourcesPromoteArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// The period whose rejected requests the command reads.
const READ: Duration = KEEP;

#[derive(Serialize)]
struct Promoted {
    source: String,
    file: String,
    /// The lines that the command removed. With them, the trial begins again.
    removed: Vec<String>,
    /// The number of requests that Mitt would have rejected, and the route accepted.
    disagreements: usize,
    next: String,
}

pub(super) async fn promote(
    args: SourcesPromoteArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let local = running(global)?;
    let file = SourcesFile::read(args.file.as_deref(), local.as_ref())?;
    let (text, removed) = file.promoted(&args.source)?;
    let config = Config::parse_for_dev(&file.text)?;
    let source = config.source(&args.source).context("find the source")?;
    if source.trial.is_none() {
        return Err(no_trial(&args.source, &file).into());
    }
    let mut disagreements = 0;
    if named(global)? {
        let inbox = Deployment::open(&global.target).await?;
        inbox.may_write("end a trial")?;
        disagreements = disagreed(&inbox, &args.source).await?;
        if disagreements > 0 && !args.anyway {
            return Err(would_reject(&args.source, disagreements).into());
        }
        record(&inbox, "source.promote", args.source.clone()).await?;
    }
    file.write(&text)?;
    let path = file.path.display().to_string();
    let next = match &local {
        Some(_) => "Restart `dev`: it reads the sources only when it starts.".to_owned(),
        None => format!(
            "Put it into force: `webhookctl sources apply {path} -m WHY`, or deploy the file. Leave \
             the stack parameter Trial on until the provider no longer retries events of the trial."
        ),
    };
    let promoted = Promoted {
        source: args.source.clone(),
        file: path,
        removed,
        disagreements,
        next,
    };
    let mut text = format!("  ✓ trial ended   {}\n", promoted.file);
    for line in &promoted.removed {
        let _ = writeln!(text, "    removed       {line}");
    }
    out.document("sources.promote", &promoted, &promoted.source, &text)?;
    out.say(&promoted.next);
    out.tip(&format!(
        "events that the route never accepted, and that the provider does not send again: \
         webhookctl replay plan -s {} --tee lost",
        promoted.source
    ));
    Ok(Exit::Done)
}

/// Returns the number of requests that Mitt would have rejected, and the route accepted.
async fn disagreed(inbox: &Deployment, source: &str) -> anyhow::Result<usize> {
    let now = UnixMillis::now();
    let held = inbox.quarantine.held(source, now - READ, now, now).await?;
    let accepted = held
        .iter()
        .filter(|request| request.route.is_some_and(RouteOutcome::is_accepted));
    Ok(accepted.count())
}

fn would_reject(source: &str, count: usize) -> CliError {
    CliError::refused(
        "sources.promote_rejects",
        format!(
            "Mitt would have rejected {count} requests of the last 7 days that the route accepted; \
             nothing was changed"
        ),
    )
    .note("the secret or the variant of the source may be wrong")
    .tip(format!(
        "webhookctl quarantine list {source}, or promote with --anyway"
    ))
}

fn no_trial(source: &str, file: &SourcesFile) -> CliError {
    CliError::refused(
        "sources.no_trial",
        format!(
            "source {source} has no mode = \"tee\" in {}; nothing was changed",
            file.path.display()
        ),
    )
    .tip("pass the file of the trial with --file FILE")
}
