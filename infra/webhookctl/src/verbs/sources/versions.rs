//! The sources in force, and their versions in the table.

mod apply;
mod changes;
mod confirm;
mod history;
mod limits;
mod risks;

use std::path::Path;

use serde::Serialize;
use shared::inbox::ledger::{SourcesReport, is_unavailable};
use shared::inbox::source_versions::{Consistency, SourceVersion, SourceVersions, VersionFacts};
use shared::sources::{Config, EMBEDDED};

use super::file::usual;
use crate::cli::{Global, SourcesDiffArgs};
use crate::faults::invalid;
use crate::files;
use crate::output::{CliError, Exit, Printer};
use crate::target::{DEV, Deployment};
pub(super) use apply::{apply, rollback};
use changes::Changes;
pub(super) use history::history;

/// The sources in force.
struct InForce {
    /// The version of the pointer in the table; 0 if there is none. The number also counts if the
    /// functions use only the built-in file.
    seen: u64,
    /// The version in force; `None` for the built-in file.
    version: Option<VersionFacts>,
    text: String,
    /// What the functions report about their sources, if they have reported yet.
    report: Option<SourcesReport>,
}

impl InForce {
    async fn read(inbox: &Deployment) -> anyhow::Result<Self> {
        let versions = SourceVersions::beside(&inbox.ledger);
        let report = inbox.ledger.operations().sources_report().await?;
        let report = report.map(|(_, report)| report);
        let pointer = versions.current(Consistency::Strong).await?;
        let seen = pointer.as_ref().map_or(0, |facts| facts.version);
        let pinned = report.as_ref().is_some_and(|report| !report.from_table);
        let Some(pointer) = pointer.filter(|facts| !pinned && facts.by != DEV) else {
            return Ok(Self {
                seen,
                version: None,
                text: built_in(inbox)?,
                report,
            });
        };
        let SourceVersion { facts, text } = stored(&versions, pointer.version).await?;
        Ok(Self {
            seen,
            version: Some(facts),
            text,
            report,
        })
    }

    /// Like [`Self::read`], but a version that is damaged or missing counts as an empty file, so
    /// that an operator can replace it.
    async fn read_to_replace(inbox: &Deployment, out: &mut Printer) -> anyhow::Result<Self> {
        let error = match Self::read(inbox).await {
            Err(error) if !is_unavailable(&error) => error,
            read => return read,
        };
        let versions = SourceVersions::beside(&inbox.ledger);
        let pointer = versions.current(Consistency::Strong).await?;
        let Some(pointer) = pointer else {
            return Err(error);
        };
        out.say(&format!(
            "version {} cannot be read and counts as empty: {error:#}",
            pointer.version
        ));
        Ok(Self {
            seen: pointer.version,
            version: Some(pointer),
            text: String::new(),
            report: inbox
                .ledger
                .operations()
                .sources_report()
                .await?
                .map(|(_, it)| it),
        })
    }

    /// Describes the sources, such as `version 12`.
    fn name(&self) -> String {
        match &self.version {
            Some(facts) => format!("version {}", facts.version),
            None => "the built-in file".to_owned(),
        }
    }

    /// Parses the text. The result is `None` if the version is damaged, or if a newer release wrote
    /// it.
    fn config(&self) -> Option<Config> {
        Config::parse_for_dev(&self.text).ok()
    }
}

/// Returns the file that the functions contain, as far as this machine knows it.
fn built_in(inbox: &Deployment) -> anyhow::Result<String> {
    let local = inbox.local.as_ref().map(|local| &local.sources);
    let deployed = inbox.deployed.as_ref();
    let file = local.or_else(|| deployed?.sources.as_ref());
    let Some(file) = file else {
        return Ok(EMBEDDED.to_owned());
    };
    files::read_text(file, "the sources")
}

/// Checks a file against the limits that the functions of the selected deployment report.
pub(super) async fn fits(
    file: &Path,
    config: &Config,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let inbox = Deployment::open(&global.target).await?;
    let Some((_, report)) = inbox.ledger.operations().sources_report().await? else {
        out.say("The functions have not reported their limits yet; run the command again later.");
        return Ok(());
    };
    limits::within(&report, file, config, &text_of(file)?)?;
    Ok(())
}

async fn stored(versions: &SourceVersions, version: u64) -> anyhow::Result<SourceVersion> {
    let stored = versions.version(version).await?;
    stored.ok_or_else(|| {
        CliError::not_found(
            "sources.no_version",
            format!("version {version} of the sources does not exist"),
        )
        .note("the newest 50 versions are kept")
        .tip("webhookctl sources history")
        .into()
    })
}

/// Reads a sources file as text.
fn text_of(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!("{} cannot be read: {error}", file.display());
        CliError::failed("sources.no_file", message)
            .tip("pass the path of the file")
            .into()
    })
}

/// Parses a file as the inbox would. The local stack accepts URLs of this machine.
fn parsed(inbox: &Deployment, file: &Path, text: &str) -> anyhow::Result<Config> {
    let dev = inbox.local.is_some();
    let parsed = if dev {
        Config::parse_for_dev(text)
    } else {
        Config::parse(text)
    };
    parsed.map_err(|error| invalid(file, text, dev, &error).into())
}

/// Exits with 2 if the file differs from the sources in force.
pub(super) async fn diff(
    args: SourcesDiffArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let file = args.file.unwrap_or_else(usual);
    let text = text_of(&file)?;
    let inbox = Deployment::open(&global.target).await?;
    parsed(&inbox, &file, &text)?;
    let current = InForce::read(&inbox).await?;
    let changes = Changes::between(&current.text, &text);
    let name = file.display().to_string();
    let shown = if changes.is_equal() {
        format!("{name} equals {} of {}\n", current.name(), inbox.name)
    } else {
        let head = format!(
            "{name} differs from {} of {}:\n",
            current.name(),
            inbox.name
        );
        format!("{head}{}", changes.text())
    };
    let document = changes.document(current.version.as_ref().map(|facts| facts.version));
    out.document("sources.diff", &document, &document.hash, &shown)?;
    if changes.is_equal() {
        return Ok(Exit::Done);
    }
    out.tip(&format!("webhookctl sources apply {name} -m WHY"));
    Ok(Exit::DIFFERENT)
}

/// Prints the file in force, byte for byte unless stdout is a terminal.
pub(super) async fn export(global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Exported {
        version: Option<u64>,
        hash: String,
        text: String,
    }
    let inbox = Deployment::open(&global.target).await?;
    let current = InForce::read(&inbox).await?;
    let exported = Exported {
        version: current.version.as_ref().map(|facts| facts.version),
        hash: Config::hash_of(&current.text),
        text: current.text.clone(),
    };
    if out.format.is_table() && !out.terminal.stdout.terminal {
        out.bytes(current.text.as_bytes())?;
    } else {
        out.document("sources.export", &exported, &exported.hash, &exported.text)?;
    }
    out.say(&format!("{} of {}", current.name(), inbox.name));
    Ok(Exit::Done)
}
