//! `sources apply` and `sources rollback`: put another version of the sources into force.

use std::path::PathBuf;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::current_sources::REREAD;
use shared::inbox::ledger::AuditAction;
use shared::inbox::source_versions::{Applied, NewVersion, SourceVersions, VersionFacts};
use shared::sources::Config;

use super::changes::{Change, Changes};
use super::confirm::confirmed;
use super::{InForce, limits, parsed, risks, stored, text_of};
use crate::audit::{self, who};
use crate::cli::{Global, RiskArgs, SecretsAt, SourcesApplyArgs, SourcesRollbackArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// A file that the operator wants to put into force.
struct Wanted<'a> {
    what: &'static str,
    /// The name of the file, for messages.
    name: PathBuf,
    text: String,
    reason: &'a str,
    risks: &'a RiskArgs,
    secrets_at: &'a SecretsAt,
}

#[derive(Serialize)]
struct Told {
    /// The version in force.
    version: u64,
    hash: String,
    /// Whether the command has written a version.
    applied: bool,
    by: String,
    reason: String,
    changes: Vec<Change>,
    /// The time in seconds until all functions use the version.
    in_force_after_s: u64,
}

pub(in crate::verbs::sources) async fn apply(
    args: SourcesApplyArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("sources.reason", &args.reason)?;
    let text = text_of(&args.file)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("apply sources")?;
    let wanted = Wanted {
        what: "sources.apply",
        name: args.file.clone(),
        text,
        reason,
        risks: &args.risks,
        secrets_at: &args.secrets_at,
    };
    put_into_force(&inbox, &wanted, global, out).await
}

pub(in crate::verbs::sources) async fn rollback(
    args: SourcesRollbackArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("sources.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("roll back the sources")?;
    let versions = SourceVersions::beside(&inbox.ledger);
    let old = stored(&versions, args.version).await?;
    let wanted = Wanted {
        what: "sources.rollback",
        name: format!("version {}", args.version).into(),
        text: old.text,
        reason,
        risks: &args.risks,
        secrets_at: &args.secrets_at,
    };
    put_into_force(&inbox, &wanted, global, out).await
}

async fn put_into_force(
    inbox: &Deployment,
    wanted: &Wanted<'_>,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let config = parsed(inbox, &wanted.name, &wanted.text)?;
    let current = InForce::read_to_replace(inbox, out).await?;
    if let Some(report) = &current.report {
        limits::follows_table(report)?;
        limits::within(report, &wanted.name, &config, &wanted.text)?;
    }
    let changes = Changes::between(&current.text, &wanted.text);
    if let Some(facts) = current.version.as_ref().filter(|_| changes.is_equal()) {
        return unchanged(facts, out);
    }
    no_risk(inbox, (&current, &config, &changes), wanted, global).await?;
    let name = wanted.name.display();
    out.say(&format!("{name}, compared with {}:", current.name()));
    out.say(changes.text().trim_end());
    confirmed(&changes, wanted.risks.confirm, inbox, out)?;
    let by = who(inbox).await?;
    let new = NewVersion {
        text: &wanted.text,
        seen: current.seen,
        audit: AuditAction {
            through: inbox.through(),
            what: wanted.what,
            who: by.clone(),
            why: wanted.reason.to_owned(),
            selection: format!("version {} from {name}", current.seen + 1),
            count: 0,
        },
    };
    let versions = SourceVersions::beside(&inbox.ledger);
    let version = match versions.apply(&new, UnixMillis::now()).await? {
        Applied::Version(version) => version,
        Applied::Overtaken(other) => return Err(overtaken(other).into()),
    };
    let told = Told {
        version,
        hash: config.hash().to_owned(),
        applied: true,
        by,
        reason: wanted.reason.to_owned(),
        changes: changes.all,
        in_force_after_s: REREAD.as_secs(),
    };
    tell(&told, &current, wanted.what, out)?;
    Ok(Exit::Done)
}

/// Fails if the change loses, repeats or blocks events, and no flag allows that.
async fn no_risk(
    inbox: &Deployment,
    (current, config, changes): (&InForce, &Config, &Changes),
    wanted: &Wanted<'_>,
    global: &Global,
) -> anyhow::Result<()> {
    let now = UnixMillis::now();
    let (old, risks) = (current.config(), wanted.risks);
    risks::keys_stay(old.as_ref(), config, risks)?;
    risks::no_event_is_left(inbox, changes, risks, now).await?;
    risks::no_event_waits_for_a_worker(inbox, (old.as_ref(), config), risks).await?;
    let options = (global, wanted.secrets_at, risks);
    risks::secrets_are_live(inbox, (old.as_ref(), config), options, now).await
}

fn tell(
    told: &Told,
    current: &InForce,
    what: &'static str,
    out: &mut Printer,
) -> anyhow::Result<()> {
    if current.report.is_none() {
        out.say(
            "The functions have not reported yet whether they use the table: `webhookctl doctor` \
             shows it after the next sweep.",
        );
    }
    let version = told.version;
    let text = format!(
        "version {version} ({}) is applied. The functions use it within {} s; an idle process \
         reads it beside its next request.\n",
        told.hash, told.in_force_after_s
    );
    out.document(what, told, &version.to_string(), &text)?;
    if current.seen > 0 {
        out.tip(&format!(
            "to undo: webhookctl sources rollback {} -m WHY",
            current.seen
        ));
    }
    Ok(())
}

fn unchanged(facts: &VersionFacts, out: &mut Printer) -> anyhow::Result<Exit> {
    let told = Told {
        version: facts.version,
        hash: facts.hash.clone(),
        applied: false,
        by: facts.by.clone(),
        reason: facts.why.clone(),
        changes: Vec::new(),
        in_force_after_s: 0,
    };
    let text = format!(
        "Nothing to change: the file is version {}.\n",
        facts.version
    );
    out.document("sources.apply", &told, &facts.version.to_string(), &text)?;
    Ok(Exit::Done)
}

fn overtaken(other: Option<VersionFacts>) -> CliError {
    let message = match &other {
        Some(other) => format!(
            "another operator has applied version {} in the meantime; nothing was changed",
            other.version
        ),
        None => "CFG/CURRENT was removed in the meantime; nothing was changed".to_owned(),
    };
    let error = CliError::refused("sources.overtaken", message)
        .tip("run `webhookctl sources diff`, then apply again");
    match other {
        Some(other) => error.note(format!("by {}: {}", other.by, other.why)),
        None => error,
    }
}
