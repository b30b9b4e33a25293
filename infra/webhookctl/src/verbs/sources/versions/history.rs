//! `sources history`: lists the versions of the sources, or shows one.

use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::source_versions::{Consistency, SourceVersions, VersionFacts};

use super::stored;
use crate::cli::{Global, SourcesHistoryArgs};
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

#[derive(Serialize)]
struct Version {
    #[serde(rename = "version")]
    number: u64,
    /// The hash that each event row stores as its configuration.
    hash: String,
    at: String,
    /// The AWS identity of the operator. On a local stack, this is the user name.
    by: String,
    reason: String,
    /// Whether the pointer of the table is at this version.
    current: bool,
}

#[derive(Serialize)]
struct WithText {
    #[serde(flatten)]
    version: Version,
    text: String,
}

impl Version {
    fn of(facts: VersionFacts, current: Option<u64>) -> Self {
        Self {
            current: current == Some(facts.version),
            number: facts.version,
            hash: facts.hash,
            at: rfc3339(facts.at.0),
            by: facts.by,
            reason: facts.why,
        }
    }
}

pub(in crate::verbs::sources) async fn history(
    args: SourcesHistoryArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let versions = SourceVersions::beside(&inbox.ledger);
    let current = versions.current(Consistency::Strong).await?;
    let current = current.map(|facts| facts.version);
    if let Some(version) = args.version {
        return one(&versions, version, current, out).await;
    }
    let now = UnixMillis::now();
    let limit = args.limit as usize;
    let found = versions.history(limit).await?;
    let items = found.into_iter().map(|facts| Version::of(facts, current));
    let items: Vec<Version> = items.collect();
    let tip = items.iter().find(|version| !version.current);
    out.list(&List {
        id: "version",
        tip: tip.map(|old| format!("webhookctl sources history {}", old.number)),
        truncated: items.len() == limit,
        footer: Some(format!("{} newest versions · {}", items.len(), inbox.name)),
        empty: "No sources were applied. The functions use their built-in file.".to_owned(),
        ..List::new("sources.history", &inbox.name, now, columns(now.0), items)
    })?;
    Ok(Exit::Done)
}

async fn one(
    versions: &SourceVersions,
    version: u64,
    current: Option<u64>,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let found = stored(versions, version).await?;
    let shown = WithText {
        version: Version::of(found.facts, current),
        text: found.text,
    };
    let Version {
        hash,
        at,
        by,
        reason,
        ..
    } = &shown.version;
    let mut text = String::new();
    let in_force = if shown.version.current {
        ", current"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "# version {version} ({hash}{in_force}), applied {at} by {by}: {reason}"
    );
    text += &shown.text;
    out.document("sources.history", &shown, &version.to_string(), &text)?;
    Ok(Exit::Done)
}

fn columns(now: i64) -> Vec<Column<'static, Version>> {
    vec![
        Column::whole("VERSION", "version")
            .shown(|it: &Version| {
                let current = if it.current { " *" } else { "" };
                format!("{}{current}", it.number)
            })
            .essential(),
        Column::age("APPLIED", "at", now),
        Column::whole("HASH", "hash"),
        Column::text("BY", "by", 12),
        Column::text("REASON", "reason", 16).essential(),
    ]
}
