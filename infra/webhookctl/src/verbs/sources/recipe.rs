//! `sources recipe`: prints or writes a receiver for the events of a source.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;
use shared::sources::{ActionKind, Config, Signing, Source};

use super::add::running;
use super::file::SourcesFile;
use super::{find, invalid};
use crate::cli::{Global, SourcesRecipeArgs};
use crate::output::{CliError, Exit, Printer, safe};
use crate::recipes::{Destination, File, Kind, Recipe, Values, literal_path};
use crate::verbs::receiver_files::missing;

#[derive(Serialize)]
struct Printed<'r> {
    source: &'r str,
    recipe: &'r str,
    /// The name of the action that sends the events.
    action: &'r str,
    files: &'r [File],
    /// The files that the command has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Vec<String>>,
}

pub(super) fn recipe(
    args: &SourcesRecipeArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let recipe = Recipe::named(&args.framework).context("find the recipe")?;
    let file = SourcesFile::read(args.file.as_deref(), running(global)?.as_ref())?;
    let config = Config::parse_for_dev(&file.text)
        .map_err(|error| invalid(&file.path, &file.text, true, &error))?;
    let source = find(&config, &args.source)?;
    let (action, destination) = destination(source, recipe.kind)?;
    if let Destination::Http { path: None, .. } = &destination {
        out.say(
            "The recipe has the path /webhooks: change it to the path of the action's URL, in the \
             form that the framework needs.",
        );
    }
    let files = recipe.filled(&Values {
        source: &source.name,
        preset: &source.verifier.preset.id,
        destination,
    });
    let written = match &args.to {
        Some(folder) => Some(missing(folder, &files)?.write()?),
        None => None,
    };
    let text = match &written {
        Some(written) => told(written),
        None => printed(&files),
    };
    let printed = Printed {
        source: &source.name,
        recipe: recipe.name,
        action,
        files: &files,
        written,
    };
    // The text is safe. `text` would replace the tabs of Go.
    if out.format.is_table() {
        out.painted(&text)?;
    } else {
        out.document("sources.recipe", &printed, recipe.name, &text)?;
    }
    Ok(Exit::Done)
}

/// Returns the first action of this kind, by its name, and the values that the recipe needs.
fn destination(source: &Source, kind: Kind) -> Result<(&str, Destination<'_>), CliError> {
    let mut other = None;
    for action in &source.actions {
        let found = match (&action.kind, kind) {
            (ActionKind::Http { url, signing, .. }, Kind::Http) => {
                if let Signing::Standard { secret } = signing {
                    let path = literal_path(url);
                    Some(Destination::Http { secret, path })
                } else {
                    other = Some(action.name.as_str());
                    None
                }
            }
            (ActionKind::Lambda { function, .. }, Kind::Lambda) => {
                Some(Destination::Lambda { function })
            }
            (ActionKind::Sqs { url, .. }, Kind::Sqs) => Some(Destination::Sqs { queue: url }),
            _ => None,
        };
        if let Some(found) = found {
            return Ok((&action.name, found));
        }
    }
    if let Some(action) = other {
        let message = format!(
            "the action {action} does not sign as Standard Webhooks, and the recipes verify \
             nothing else"
        );
        return Err(CliError::refused("recipe.signature", message)
            .tip("remove `sign` from the action, or verify as infra/docs/receivers.md shows"));
    }
    let (name, kind) = (&source.name, kind.as_str());
    let message = format!("the source {name} has no action with kind = \"{kind}\"");
    Err(CliError::refused("recipe.kind", message)
        .tip("add the action to the sources file; infra/docs/destinations.md shows each kind"))
}

/// Returns all files, each with its path above it.
fn printed(files: &[File]) -> String {
    let mut text = String::new();
    for file in files.iter().filter(|file| !file.text.is_empty()) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}==> {} <==", safe(&file.path));
        for line in file.text.lines() {
            let indent = line.len() - line.trim_start_matches('\t').len();
            let _ = writeln!(text, "{}{}", &line[..indent], safe(&line[indent..]));
        }
    }
    text
}

fn told(written: &[String]) -> String {
    if written.is_empty() {
        return "  every file exists already; nothing was changed\n".to_owned();
    }
    let mut text = String::new();
    for path in written {
        let _ = writeln!(text, "  ✓ created  {}", safe(path));
    }
    text
}
