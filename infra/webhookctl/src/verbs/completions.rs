//! `completions` and `man`: written from the tree of commands.

use std::path::Path;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Command, Id};
use shared::config::{Config, EMBEDDED};
use shared::preset::Preset;

use crate::cli::{CompletionsArgs, Global, ManArgs, tree};
use crate::output::{Exit, Printer};
use crate::place::Inbox;

/// The name of the program, as a shell knows it.
const NAME: &str = "webhookctl";

/// The script. It knows the names that are known now, and asks nobody when a key is pressed.
pub(super) fn completions(
    args: &CompletionsArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let mut tree = with_names(tree(), &sources(global));
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, NAME, &mut script);
    out.painted(&String::from_utf8(script).context("a script is text")?)?;
    Ok(Exit::Done)
}

/// A page for each command.
pub(super) fn man(args: &ManArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let folder: &Path = &args.folder;
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(tree(), folder));
    written.with_context(|| format!("write man pages to {}", folder.display()))?;
    out.say(&format!("wrote the pages to {}", folder.display()));
    Ok(Exit::Done)
}

/// The sources of the running local stack, or of the configuration that is built in.
fn sources(global: &Global) -> Vec<&'static str> {
    let here = Global {
        context: Some("local".to_owned()),
        table: None,
        ..global.clone()
    };
    let config = match Inbox::open(&here) {
        Ok(inbox) => Some(inbox.config),
        Err(_) => Config::parse(EMBEDDED).ok(),
    };
    let sources = config.iter().flat_map(Config::sources);
    // clap keeps words of the program's own; these live as long, which is until the script is out.
    let names = sources.map(|source| &*source.name.clone().leak());
    names.collect()
}

/// The tree, in which what takes a source or a preset names those that there are.
fn with_names(tree: Command, sources: &[&'static str]) -> Command {
    let args: Vec<Id> = tree
        .get_arguments()
        .map(|arg| arg.get_id().clone())
        .collect();
    let below: Vec<String> = tree
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    let tree = args.into_iter().fold(tree, |tree, id| {
        let names = match id.as_str() {
            "source" => sources.to_vec(),
            "preset" => Preset::ids().collect(),
            _ => return tree,
        };
        tree.mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(names)))
    });
    below.into_iter().fold(tree, |tree, name| {
        tree.mut_subcommand(name, |command| with_names(command, sources))
    })
}
