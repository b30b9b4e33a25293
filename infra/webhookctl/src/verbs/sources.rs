//! `sources`: who sends to us.

use anyhow::Context;
use serde::Serialize;
use shared::config::Config;

use crate::cli::SourcesCheckArgs;
use crate::output::{CliError, Exit, Printer};

#[derive(Serialize)]
struct Checked {
    file: String,
    hash: String,
    sources: Vec<String>,
}

/// Checks a file of sources. A wrong one exits with 5.
pub(super) fn check(args: &SourcesCheckArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let file = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("read {file}"))?;
    let config = Config::parse(&text).map_err(|error| {
        CliError::new(
            "sources.invalid",
            Exit::No,
            format!("{file} is refused: {error:#}"),
        )
        .tip("mend the line that is named, and check again")
    })?;
    let sources: Vec<String> = config.sources().map(|source| source.name.clone()).collect();
    let text = format!(
        "{file} is good: {} (configuration {})\n",
        sources.join(", "),
        config.hash()
    );
    let checked = Checked {
        file: file.clone(),
        hash: config.hash().to_owned(),
        sources,
    };
    out.document("sources.check", &checked, &file, &text)?;
    Ok(Exit::Done)
}
