//! `sources`: manages the sources, and shows their presets.

mod add;
mod check;
mod destinations;
mod file;
mod health;
mod list;
mod pause;
mod presets;
mod promote;
mod recipe;
mod remove;
mod request;
mod retention;
mod reveal;
mod rotate;
mod rotation;
mod secret_input;
mod secrets;
mod settings;
mod show;
mod test;
mod to;
mod traffic;
mod upkeep;
mod versions;

use std::path::Path;

use shared::sources::{Config, EMBEDDED, Source};

use crate::cli::{ApiAt, Global, SourcesAt, SourcesCommand};
use crate::faults::invalid;
use crate::files;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Chosen, Deployment, Local};

pub(in crate::verbs) use pause::Pause;
pub(in crate::verbs) use presets::known as known_preset;
pub(in crate::verbs) use rotate::next_slot;
pub(in crate::verbs) use rotation::Rotation;
pub(in crate::verbs) use secret_input::ask;

pub(super) async fn run(
    command: SourcesCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        SourcesCommand::Check(args) => Box::pin(check::check(&args, global, out)).await,
        SourcesCommand::List(args) => Box::pin(list::list(args, global, out)).await,
        SourcesCommand::Show(args) => Box::pin(show::show(args, global, out)).await,
        SourcesCommand::Presets(args) => presets::presets(&args, out),
        SourcesCommand::Settings(args) => settings::settings(&args, out),
        SourcesCommand::Add(args) => Box::pin(add::add(args, global, out)).await,
        SourcesCommand::Remove(args) => Box::pin(remove::remove(args, global, out)).await,
        SourcesCommand::Recipe(args) => recipe::recipe(&args, global, out),
        SourcesCommand::Promote(args) => Box::pin(promote::promote(args, global, out)).await,
        SourcesCommand::Test(args) => Box::pin(test::test(args, global, out)).await,
        SourcesCommand::RotateSecret(args) => Box::pin(rotate::rotate(args, global, out)).await,
        SourcesCommand::Pause(args) => Box::pin(pause::pause(args, global, out)).await,
        SourcesCommand::Resume(args) => Box::pin(pause::resume(args, global, out)).await,
        SourcesCommand::Apply(args) => Box::pin(versions::apply(args, global, out)).await,
        SourcesCommand::Diff(args) => Box::pin(versions::diff(args, global, out)).await,
        SourcesCommand::History(args) => Box::pin(versions::history(args, global, out)).await,
        SourcesCommand::Rollback(args) => Box::pin(versions::rollback(args, global, out)).await,
        SourcesCommand::Export => Box::pin(versions::export(global, out)).await,
    }
}

/// The sources. If an inbox is selected, the commands can also read it.
enum Known {
    Inbox(Box<Deployment>),
    /// The configuration without an inbox, and a text that says where it comes from.
    Config(Config, String),
}

impl Known {
    async fn open(at: &SourcesAt, global: &Global) -> anyhow::Result<Self> {
        if let Some(file) = &at.file {
            let said = format!("only the file {}; no inbox was read", file.display());
            return Ok(Self::Config(read(file)?, said));
        }
        if !named(global)? {
            let said = "the built-in configuration; no inbox is selected, and no local stack is \
                        running in this folder";
            return Ok(Self::Config(Config::parse(EMBEDDED)?, said.to_owned()));
        }
        let inbox = Deployment::open(&global.target).await?;
        Ok(Self::Inbox(Box::new(inbox)))
    }

    fn config(&self) -> &Config {
        match self {
            Self::Inbox(inbox) => &inbox.config,
            Self::Config(config, _) => config,
        }
    }
}

/// Returns whether an inbox is selected or runs in this folder.
fn named(global: &Global) -> anyhow::Result<bool> {
    Ok(Chosen::is_named(&global.target)? || Local::find()?.is_some())
}

/// Returns the URL to which senders deliver. An unknown base URL becomes the placeholder `<api>`.
fn api_url(inbox: Option<&Deployment>, at: &ApiAt) -> String {
    let given = at.api_url.as_deref().filter(|url| !url.is_empty());
    let known = inbox.and_then(|inbox| inbox.names().url.as_deref());
    let url = given.or(known).unwrap_or("https://<api>");
    url.trim_end_matches('/').to_owned()
}

/// Returns the source with this name.
fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Source, CliError> {
    config.source(name).ok_or_else(|| {
        let names: Vec<&str> = config
            .sources()
            .map(|source| source.name.as_str())
            .collect();
        let message = format!("unknown source '{name}'");
        CliError::not_found("sources.not_found", message).one_of(name, &names)
    })
}

fn read(file: &Path) -> anyhow::Result<Config> {
    let text = files::read_text(file, "the sources")?;
    Config::parse_for_dev(&text).map_err(|error| invalid(file, &text, true, &error).into())
}
