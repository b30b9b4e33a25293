//! `sources`: who sends to us, and what their presets say.

mod check;
mod list;
mod page;
mod preset;
mod presets;
mod secrets;
mod show;
mod synced;
mod traffic;
mod upkeep;

use std::path::Path;

use anyhow::Context;
use shared::config::{Config, EMBEDDED};

use crate::cli::{Global, SourcesAt, SourcesCommand};
use crate::output::{CliError, Exit, Printer};
use crate::place::{Chosen, Inbox, Local};

pub(super) async fn run(
    command: SourcesCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        SourcesCommand::Check(args) => check::check(&args, out),
        SourcesCommand::List(args) => Box::pin(list::list(args, global, out)).await,
        SourcesCommand::Show(args) => Box::pin(show::show(args, global, out)).await,
        SourcesCommand::Presets(args) => presets::presets(&args, out),
    }
}

/// The sources, and the inbox that they send to where there is one to ask.
enum Known {
    Inbox(Box<Inbox>),
    /// The configuration alone, and why.
    Config(Config, String),
}

impl Known {
    fn open(at: &SourcesAt, global: &Global) -> anyhow::Result<Self> {
        if let Some(file) = &at.file {
            let said = format!("{} alone; no inbox was asked", file.display());
            return Ok(Self::Config(read(file)?, said));
        }
        if !Chosen::is_named(global)? && Local::find()?.is_none() {
            let said = "the configuration that is built in; no inbox is named and none runs in \
                        this folder";
            return Ok(Self::Config(Config::parse(EMBEDDED)?, said.to_owned()));
        }
        Ok(Self::Inbox(Box::new(Inbox::open(global)?)))
    }

    fn config(&self) -> &Config {
        match self {
            Self::Inbox(inbox) => &inbox.config,
            Self::Config(config, _) => config,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Config::parse(&text).map_err(|error| {
        CliError::new(
            "sources.invalid",
            Exit::No,
            format!("{} is refused: {error:#}", file.display()),
        )
        .tip("mend the line that is named, and check again")
        .into()
    })
}
