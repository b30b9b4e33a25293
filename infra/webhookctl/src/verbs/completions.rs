//! `completions` and `man`: generates completion scripts and man pages from the tree of commands.
//!
//! The script runs this program for each completion. The program reads only local data: the tree of
//! commands, the contexts and sources files, and the names that earlier commands have printed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use shared::base::env::env_var;
use shared::sources::{Config, EMBEDDED};
use shared::webhook::preset::Preset;

use crate::cli::{CompletionsArgs, ManArgs, tree};
use crate::completion_cache::{self, Kind};
use crate::output::{Exit, Printer};
use crate::target::{Contexts, Local};

/// The name that a user types to run the program.
const NAME: &str = "webhookctl";

/// The environment variable with the name of the shell that requests completions.
const ASKED: &str = "WEBHOOKCTL_COMPLETE";

/// Answers a shell that requests completions, and exits. Does nothing if no shell requests
/// completions.
pub fn answer_shell() {
    CompleteEnv::with_factory(|| with_names(tree()))
        .var(ASKED)
        .bin(NAME)
        .complete();
}

pub(super) fn completions(args: &CompletionsArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell).context("find the shell")?;
    let mut script = Vec::new();
    completer.write_registration(ASKED, NAME, NAME, NAME, &mut script)?;
    out.painted(&String::from_utf8(script).context("read the script as UTF-8")?)?;
    Ok(Exit::Done)
}

/// Writes a man page for each command.
pub(super) fn man(args: &ManArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let folder: &Path = &args.folder;
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(tree(), folder));
    written.with_context(|| format!("write man pages to {}", folder.display()))?;
    out.say(&format!("wrote the pages to {}", folder.display()));
    Ok(Exit::Done)
}

/// Adds completion candidates to the arguments that accept a name.
fn with_names(tree: Command) -> Command {
    let is_inspect = tree.get_name() == "inspect";
    let tree = tree.mut_args(|arg| match arg.get_id().as_str() {
        "context" => arg.add(ArgValueCandidates::new(contexts)),
        "source" => arg.add(ArgValueCandidates::new(sources)),
        "preset" => arg.add(ArgValueCandidates::new(presets)),
        "error" => arg.add(ArgValueCandidates::new(errors)),
        "what" if is_inspect => arg.add(ArgValueCandidates::new(errors)),
        "plan" | "like" => arg.add(ArgValueCandidates::new(plans)),
        _ => arg,
    });
    tree.mut_subcommands(with_names)
}

fn candidates(names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let numbered = names.into_iter().enumerate();
    // The display order keeps the order of the names. Without it, clap would sort them.
    let candidate = |(place, name)| CompletionCandidate::new(name).display_order(Some(place));
    numbered.map(candidate).collect()
}

fn contexts() -> Vec<CompletionCandidate> {
    let named = Contexts::read().unwrap_or_default().all.into_keys();
    candidates(named.chain(["local".to_owned()]))
}

fn presets() -> Vec<CompletionCandidate> {
    candidates(Preset::names().map(str::to_owned))
}

fn errors() -> Vec<CompletionCandidate> {
    candidates(completion_cache::names(&context(), Kind::Error))
}

fn plans() -> Vec<CompletionCandidate> {
    candidates(completion_cache::names(&context(), Kind::Plan))
}

fn sources() -> Vec<CompletionCandidate> {
    let config = match file_of_sources(&context()) {
        Some(file) => std::fs::read_to_string(file)
            .ok()
            .and_then(|text| Config::parse_for_dev(&text).ok()),
        None => Config::parse(EMBEDDED).ok(),
    };
    let sources = config.iter().flat_map(Config::sources);
    candidates(sources.map(|source| source.name.clone()))
}

/// Returns the sources file of a context. `None` means the built-in sources.
fn file_of_sources(context: &str) -> Option<PathBuf> {
    if context == "local" {
        return Some(Local::find().ok()??.sources);
    }
    Contexts::read().ok()?.all.remove(context)?.sources
}

/// Returns the context that the command line, the environment or the contexts files select.
fn context() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    on_the_line(words.skip_while(|word| word != "--"))
        .or_else(|| env_var("WEBHOOKCTL_CONTEXT"))
        .or_else(|| env_var("MITT_TABLE"))
        .or_else(|| Contexts::read().ok()?.default)
        .unwrap_or_else(|| "local".to_owned())
}

fn on_the_line(mut words: impl Iterator<Item = String>) -> Option<String> {
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--context" | "--table", name)) => return Some(name.to_owned()),
            _ if ["-c", "--context", "--table"].contains(&word.as_str()) => return words.next(),
            _ => {}
        }
    }
    None
}
