//! `init`: writes a first sources file, and keeps the files of `dev` out of git.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::InitArgs;
use crate::files;
use crate::output::{CliError, Exit, Printer};

/// The sources file.
const SOURCES: &str = include_str!("init/sources.toml");

/// The folder of `dev`: the description of the running stack, and copies of files.
const IGNORED: &str = "/.mitt/";

#[derive(Serialize)]
struct Written {
    file: String,
    /// Whether the entry was added to `.gitignore`.
    gitignore: bool,
    next: Vec<String>,
}

pub(super) fn init(args: &InitArgs, out: &mut Printer) -> anyhow::Result<Exit> {
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
