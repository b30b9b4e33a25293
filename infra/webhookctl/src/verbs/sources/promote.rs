//! `sources promote`: ends the trial of a source.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::RouteAnswer;
use shared::inbox::rejected::{DailyQuota, KEEP, RejectedRequest};
use shared::sources::Config;

use super::add::{record, running};
use super::file::SourcesFile;
use super::named;
use crate::cli::{Global, SelectionArgs, SourcesPromoteArgs};
use crate::output::count::plural;
use crate::output::time::When;
use crate::output::{CliError, Exit, Printer};
use crate::selection::{Selection, Want};
use crate::target::Deployment;
use crate::verbs::quarantine::tallies;

/// The period whose events and rejected requests the command reads.
const READ: Duration = KEEP;

/// The number of the newest events of which one must have been accepted by the route.
const NEWEST: usize = 100;

#[derive(Serialize)]
struct Promoted {
    source: String,
    file: String,
    /// The lines that the command removed. With them, the trial begins again.
    removed: Vec<String>,
    /// What the trial proves. `null` if no inbox was named.
    checked: Option<Checked>,
    next: String,
}

/// What the inbox knows about the trial.
#[derive(Serialize)]
struct Checked {
    /// The number of requests that Mitt would have rejected, and the route accepted.
    disagreements: usize,
    /// Whether Mitt verified one of the newest events and the route accepted it.
    accepted: bool,
    /// Whether the catcher rejected more requests on a day than it stores.
    incomplete: bool,
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
    let mut checked = None;
    if named(global)? {
        let inbox = Deployment::open(&global.target).await?;
        inbox.may_write("end a trial")?;
        let found = Checked::of(&inbox, &args.source).await?;
        if !args.anyway {
            found.must_agree(&args.source)?;
        }
        record(&inbox, "source.promote", args.source.clone()).await?;
        checked = Some(found);
    } else {
        out.say("No inbox is named, so the results of the trial are not checked.");
    }
    file.write(&text)?;
    let path = file.path.display().to_string();
    let next = match &local {
        Some(_) => "Restart `dev`: it reads the sources only when it starts.".to_owned(),
        None => format!(
            "Put it into force: `webhookctl sources apply {path} -m WHY`, or deploy the file. Leave \
             the stack parameter Trial=true until the provider no longer retries events of the trial."
        ),
    };
    let promoted = Promoted {
        source: args.source.clone(),
        file: path,
        removed,
        checked,
        next,
    };
    let mut text = format!("  ✓ trial ended   {}\n", promoted.file);
    if promoted.checked.as_ref().is_some_and(|it| it.incomplete) {
        text.push_str(
            "    the catcher rejected more requests than it stores; see quarantine list\n",
        );
    }
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

impl Checked {
    async fn of(inbox: &Deployment, source: &str) -> anyhow::Result<Self> {
        let now = UnixMillis::now();
        let held = inbox.quarantine.held(source, now - READ, now, now).await?;
        let is_open = |held: &&RejectedRequest| {
            held.released.is_none() && held.route.as_ref().is_some_and(RouteAnswer::is_accepted)
        };
        let tallies = tallies(inbox, source, now).await?;
        Ok(Self {
            disagreements: held.iter().filter(is_open).count(),
            accepted: has_accepted(inbox, source, now).await?,
            incomplete: tallies.iter().any(DailyQuota::is_spent),
        })
    }

    /// Returns an error if Mitt would not accept the requests that the route accepts.
    fn must_agree(&self, source: &str) -> Result<(), CliError> {
        if self.disagreements > 0 {
            return Err(would_reject(source, self));
        }
        if !self.accepted {
            return Err(unproven(source));
        }
        Ok(())
    }
}

/// Returns `false` for a source that is not in force.
async fn has_accepted(inbox: &Deployment, source: &str, now: UnixMillis) -> anyhow::Result<bool> {
    if inbox.config.source(source).is_none() {
        return Ok(false);
    }
    let mut selection = SelectionArgs::default();
    selection.received.source = vec![source.to_owned()];
    selection.received.since = Some(When::ago(READ));
    let want = Want {
        limit: NEWEST,
        reverse: false,
        after: None,
    };
    let selection = Selection::new(&selection, inbox, now.0)?;
    let found = selection.find(inbox, want).await?;
    Ok(found.rows.iter().any(|row| row.trial.accepted > 0))
}

fn would_reject(source: &str, checked: &Checked) -> CliError {
    let at_least = if checked.incomplete { "at least " } else { "" };
    CliError::refused(
        "sources.promote_rejects",
        format!(
            "Mitt would have rejected {at_least}{} of the last 7 days that the route accepted; \
             nothing was changed",
            plural(checked.disagreements, "request")
        ),
    )
    .note("the secret or the variant of the source may be wrong")
    .tip(format!(
        "webhookctl quarantine list {source}, or promote with --anyway"
    ))
}

fn unproven(source: &str) -> CliError {
    CliError::refused(
        "sources.promote_unproven",
        format!(
            "none of the newest {NEWEST} events of the last 7 days was verified by Mitt and accepted \
             by the route; nothing was changed"
        ),
    )
    .note("the source may have no secret or a wrong one; Mitt would then reject each request")
    .tip(format!(
        "webhookctl trial report {source}, or promote with --anyway"
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
