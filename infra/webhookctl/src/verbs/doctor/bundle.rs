//! Writes the support bundle: configuration, results of the checks and counts. The bundle has no
//! bodies and no secrets.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::gather::counts;
use crate::doctor::{Checked, Facts};
use crate::output::safe::inert_json;
use crate::output::time::rfc3339;
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// Prints the bundle on stderr, then writes it. An existing file is not overwritten.
pub(super) fn write(
    file: &Path,
    inbox: &Deployment,
    facts: &Facts,
    checked: &[Checked],
    out: &mut Printer,
) -> anyhow::Result<()> {
    let bundle = bundle(inbox, facts, checked);
    let text = inert_json(serde_json::to_string_pretty(&bundle)?) + "\n";
    out.painted_talk(&text);
    let created = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file);
    let mut created = created.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let message = format!("{} already exists; it was not overwritten", file.display());
            CliError::new("doctor.bundle", Exit::Usage, message).into()
        }
        _ => anyhow::Error::new(error).context(format!("write {}", file.display())),
    })?;
    let written = created.write_all(text.as_bytes());
    written.with_context(|| format!("write {}", file.display()))?;
    out.say(&format!("The bundle is in {}.", file.display()));
    Ok(())
}

fn bundle(inbox: &Deployment, facts: &Facts, checked: &[Checked]) -> Value {
    let sources = inbox.config.sources().map(|source| {
        let actions: Vec<&str> = source.actions.iter().map(|it| it.name.as_str()).collect();
        json!({
            "name": source.name,
            "preset": source.verifier.preset.id,
            "variant": source.verifier.variant,
            "actions": actions,
            "sync": source.sync.is_some(),
            "endpoint": source.endpoint.is_some(),
            "max_body": source.max_body,
            "rows_s": source.retention.rows.as_secs(),
            "bodies_s": source.retention.bodies.as_secs(),
        })
    });
    json!({
        "schema": "webhookctl/doctor.bundle/v1",
        "version": env!("CARGO_PKG_VERSION"),
        "as_of": rfc3339(facts.now.0),
        "context": inbox.name,
        "region": facts.region,
        "names": facts.names,
        "config": {"hash": inbox.config.hash(), "sources": sources.collect::<Vec<_>>()},
        "checks": checked,
        "counts": counts(facts),
    })
}
