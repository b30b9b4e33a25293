//! `sources check`

use serde::Serialize;

use super::read;
use crate::cli::SourcesCheckArgs;
use crate::output::{Exit, Printer};

#[derive(Serialize)]
struct Checked {
    file: String,
    hash: String,
    sources: Vec<String>,
}

/// Checks a file of sources. A wrong one exits with 5.
pub(super) fn check(args: &SourcesCheckArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let file = args.file.display().to_string();
    let config = read(&args.file)?;
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
