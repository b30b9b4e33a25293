//! `init`: writes a first sources file, and keeps the files of `dev` out of git. `--for` also writes a
//! receiver.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::InitArgs;
use crate::files;
use crate::output::{CliError, Exit, Printer};
use crate::recipes::{Kind, Recipe};
use crate::verbs::receiver_files::missing;

/// The sources file.
const SOURCES: &str = include_str!("init/sources.toml");

/// The folder of `dev`: the description of the running stack, and copies of files.
const IGNORED: &str = "/.mitt/";

/// The folder of the receiver.
const RECEIVER: &str = "receiver";

#[derive(Serialize)]
struct Written {
    file: String,
    /// Whether the entry was added to `.gitignore`.
    gitignore: bool,
    /// The files of the receiver that were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<Vec<String>>,
    next: Vec<String>,
}

pub(super) fn init(args: &InitArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    if let Some(framework) = &args.framework {
        let recipe = Recipe::named(framework).context("find the recipe")?;
        return with_receiver(args, recipe, out);
    }
    let folder = args.folder.clone().unwrap_or_else(|| PathBuf::from("."));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("create the folder {}", folder.display()))?;
    let file = match &args.folder {
        Some(folder) => folder.join("sources.toml"),
        None => PathBuf::from("sources.toml"),
    };
    create(&file)?;
    let gitignore = ignore(&folder)?;
    let next = [
        "webhookctl sources presets",
        "webhookctl sources add stripe-main --preset stripe --to https://app.example.com/webhooks",
        "webhookctl dev --forward :3000",
        "webhookctl send stripe-main --wait",
    ];
    let written = Written {
        file: file.display().to_string(),
        gitignore,
        receiver: None,
        next: next.map(str::to_owned).to_vec(),
    };
    let mut text = format!("  ✓ created  {}\n", written.file);
    if gitignore {
        let _ = writeln!(text, "  ✓ added    {IGNORED} to .gitignore");
    }
    let _ = write!(
        text,
        "\nNext{}:\n\
         \x20 {:<37}# how each provider signs its webhooks\n\
         \x20 webhookctl sources add stripe-main --preset stripe \\\n\
         \x20   --to https://app.example.com/webhooks   # a source, and where its events go\n\
         \x20 {:<37}# run it here, with your program on port 3000\n\
         \x20 {:<37}# in another terminal: send a signed test webhook\n",
        match &args.folder {
            Some(folder) => format!(", in {}", folder.display()),
            None => String::new(),
        },
        next[0],
        next[2],
        next[3],
    );
    out.document("init", &written, &written.file, &text)?;
    Ok(Exit::Done)
}

/// Writes the sources file, the entry of `.gitignore` and the receiver, as far as they are missing.
fn with_receiver(args: &InitArgs, recipe: &Recipe, out: &mut Printer) -> anyhow::Result<Exit> {
    let folder = args.folder.clone().unwrap_or_default();
    let files = recipe.unchanged();
    // Nothing is written if a file of the receiver differs.
    let missing = missing(&folder.join(RECEIVER), &files)?;
    if !folder.as_os_str().is_empty() {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("create the folder {}", folder.display()))?;
    }
    let file = folder.join("sources.toml");
    let exists = file.exists();
    if !exists {
        create(&file)?;
    }
    let written = Written {
        file: file.display().to_string(),
        gitignore: ignore(&folder)?,
        receiver: Some(missing.write()?),
        next: next(recipe.kind).map(str::to_owned).to_vec(),
    };
    let explains = match recipe.kind {
        Kind::Http => "explains how to run the receiver, and how to store its secret",
        Kind::Lambda | Kind::Sqs => "explains how to deploy the receiver, and shows its action",
    };
    let text = told(&written, exists, &folder, explains);
    out.document("init", &written, &written.file, &text)?;
    Ok(Exit::Done)
}

/// Returns the commands that bring a first event to the receiver.
fn next(kind: Kind) -> [&'static str; 3] {
    match kind {
        Kind::Http => [
            "webhookctl sources add stripe-main --preset stripe --to https://app.example.com/webhooks",
            "webhookctl dev --forward :3000",
            "webhookctl send stripe-main --wait",
        ],
        // The action is in the README of the recipe, because `sources add` writes only HTTP actions.
        Kind::Lambda | Kind::Sqs => [
            "webhookctl sources add stripe-main --preset stripe",
            "webhookctl sources check",
            "webhookctl send stripe-main --wait",
        ],
    }
}

fn told(written: &Written, exists: bool, folder: &Path, explains: &str) -> String {
    let mut text = String::new();
    let created = written.receiver.iter().flatten();
    let created = created.map(String::as_str);
    let own = (!exists).then_some(written.file.as_str());
    for path in own.into_iter().chain(created) {
        let _ = writeln!(text, "  ✓ created  {path}");
    }
    if written.gitignore {
        let _ = writeln!(text, "  ✓ added    {IGNORED} to .gitignore");
    }
    if text.is_empty() {
        text.push_str("  every file exists already; nothing was changed\n");
    }
    let place = match folder.to_str() {
        Some("") => String::new(),
        _ => format!(", in {}", folder.display()),
    };
    let _ = writeln!(text, "\nNext{place}:");
    for command in &written.next {
        let _ = writeln!(text, "  {command}");
    }
    let readme = folder.join(RECEIVER).join("README.md");
    let _ = writeln!(text, "{} {explains}.", readme.display());
    text
}

/// Creates the sources file. Never changes an existing file.
fn create(file: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    let mut options = std::fs::OpenOptions::new();
    let mut created = match options.write(true).create_new(true).open(file) {
        Ok(created) => created,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{shown} already exists; nothing was changed");
            return Err(CliError::refused("init.exists", message)
                .tip(format!("check it with webhookctl sources check {shown}"))
                .into());
        }
        Err(error) => return Err(error).with_context(|| format!("create {shown}")),
    };
    let written = created.write_all(SOURCES.as_bytes());
    written.with_context(|| format!("write {shown}"))
}

/// Adds the folder of `dev` to `.gitignore`, unless an entry names it. Returns whether it was
/// added.
fn ignore(folder: &Path) -> anyhow::Result<bool> {
    let file = folder.join(".gitignore");
    let old = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let names = |line: &str| line.trim().trim_matches('/') == IGNORED.trim_matches('/');
    if old.lines().any(names) {
        return Ok(false);
    }
    let line_end = if old.is_empty() || old.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    // `.gitignore` can be a symbolic link. The link stays, and the file behind it changes.
    let file = file.canonicalize().unwrap_or(file);
    files::replace(&file, &format!("{old}{line_end}{IGNORED}\n"), None)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use shared::sources::Config;

    use super::*;

    #[test]
    fn the_new_file_and_its_example_are_valid() {
        assert!(Config::parse(SOURCES).is_ok());
        let example: Vec<&str> = SOURCES
            .lines()
            .skip_while(|line| *line != "# [[source]]")
            .map_while(|line| line.strip_prefix("# "))
            .collect();
        let text = SOURCES.replace("allow_hosts = []", "allow_hosts = [\"app.example.com\"]");
        let config = Config::parse(&format!("{text}\n{}\n", example.join("\n"))).unwrap();
        let source = config.source("stripe-main").unwrap();
        assert_eq!(source.actions.len(), 1);
    }
}
