//! Checks a sources file against what the functions of a deployment report: the format that they read,
//! and the limits that the stack parameters set.

use std::path::Path;

use shared::inbox::ledger::SourcesReport;
use shared::sources::{Config, Source};

use crate::faults;
use crate::output::CliError;
use crate::output::time::duration;

/// Fails if the functions ignore the versions in the table.
pub(super) fn follows_table(report: &SourcesReport) -> Result<(), CliError> {
    if report.from_table {
        return Ok(());
    }
    Err(CliError::refused(
        "sources.embedded",
        "the stack uses only the built-in sources; nothing was changed",
    )
    .note("the stack parameter Sources is embedded")
    .tip("deploy the file, or deploy the stack with Sources=table"))
}

/// Fails if the functions could not use the file, or could not run its actions.
pub(super) fn within(
    report: &SourcesReport,
    file: &Path,
    config: &Config,
    text: &str,
) -> Result<(), CliError> {
    let schema = Config::schema_of(text).unwrap_or(0);
    if schema > report.schema {
        let message = format!(
            "the file has schema {schema}, but the functions read at most schema {}; nothing was \
             changed",
            report.schema
        );
        return Err(
            CliError::refused("sources.schema", message).tip("deploy a newer release first")
        );
    }
    if report.from_table
        && let Err(error) = Config::parse_within(text, &report.bounds)
    {
        // `config` can have loopback URLs, which only the functions of `dev` use.
        let deployed = Config::parse(text);
        let outside = deployed.map(|config| faults::within(&config, &report.bounds, text));
        return Err(match outside {
            Ok(outside) if !outside.is_empty() => faults::of_faults(file, &outside),
            _ => faults::invalid(file, text, false, &error),
        });
    }
    // The functions accept such a file. If they refused it, they would also refuse the webhooks of
    // all its sources.
    if report.long_actions == Some(false) {
        config.sources().try_for_each(short)?;
    }
    Ok(())
}

/// Fails if an action of the source needs the function for long actions.
fn short(source: &Source) -> Result<(), CliError> {
    let Some(action) = source.long_action() else {
        return Ok(());
    };
    let message = format!(
        "source {}, action {}: the timeout is {}, but the stack has no function for timeouts above \
         20 s; nothing was changed",
        source.name,
        action.name,
        duration(action.timeout.as_secs())
    );
    Err(CliError::refused("sources.long_actions", message)
        .note("the stack parameter LongActions is false")
        .tip(
            "set a timeout of at most 20s, or deploy the stack with LongActions=true and wait for \
             the next run of backup-sync",
        ))
}
