//! The examples in README, the runbook and `infra/docs` are correct. Each console block runs on the
//! stack of its page. The CLI parses each line of a shell block that calls webhookctl, and each such
//! command in a sentence. `infra/tests/documented_commands.py` runs the shell blocks.
//!
//! Ids, times, hashes and prices differ from run to run, so the test masks them on both sides. It
//! also masks white space, which depends on the widest cell. The test replaces an id of the page by
//! the id that a command printed in its place, also in later commands.

mod history;
mod mask;
mod page;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use clap::error::{ContextKind, ContextValue};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::process::Command;
use webhookctl::cli::Stop;

use crate::world::World;
use mask::{ids, masked};
use page::{Block, blocks, fenced, named, pages, text, words};

/// The minimum number of blocks. If the search finds fewer, it no longer recognises the blocks.
const LEAST: usize = 10;

#[tokio::test]
async fn what_the_pages_show_is_what_happens() {
    let mut run = 0;
    for page in pages() {
        let blocks = blocks(&page);
        if blocks.is_empty() {
            continue;
        }
        let world = history::of(&page).await;
        let mut reader = Reader::new(&world);
        for block in &blocks {
            reader.follows(block).await;
            run += 1;
        }
        world.end().await;
    }
    assert!(run >= LEAST, "ran only {run} blocks");
}

#[test]
fn every_command_in_a_shell_block_is_understood() {
    let mut understood = 0;
    for page in pages() {
        let text = text(&page);
        for (number, line) in fenced(&text, "sh").flat_map(|fence| fence.inside) {
            let Some(line) = line.trim().strip_prefix("webhookctl ") else {
                continue;
            };
            let parsed = parsed(line);
            assert!(
                parsed.is_ok(),
                "{page}:{number}: {line}: {:?}",
                parsed.err()
            );
            understood += 1;
        }
    }
    assert!(understood > 150, "found only {understood} lines");
}

/// A sentence can name a command without its arguments, such as `webhookctl sources show`.
#[test]
fn every_command_in_a_sentence_is_understood() {
    let mut understood = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for (number, line) in named(&text(&page)) {
            let stop = parsed(&line).err();
            if stop.is_some_and(|stop| !is_incomplete(&stop)) {
                wrong.push(format!("{page}:{number}: {line}"));
            }
            understood += 1;
        }
    }
    assert!(wrong.is_empty(), "not a command: {wrong:#?}");
    assert!(understood > 100, "found only {understood} commands");
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    for line in [
        "secrets set",
        "inbox list --sincee 3d",
        "inbox list --since soon",
        "sources show one two",
    ] {
        let stop = parsed(line).err();
        assert!(stop.is_some_and(|stop| !is_incomplete(&stop)), "{line}");
    }
    for line in [
        "sources show",
        "sources",
        "sync run --lookback",
        "help CODE",
    ] {
        let stop = parsed(line).err();
        assert!(stop.is_some_and(|stop| is_incomplete(&stop)), "{line}");
    }
}

/// Parses the arguments of a command line. A word such as `ID` or `<id>` stands for a value.
fn parsed(line: &str) -> Result<webhookctl::cli::Cli, Stop> {
    let value = |word: String| match word.as_str() {
        "<command>" => "inbox".to_owned(),
        "N" => "3".to_owned(),
        "URL" => "https://hooks.example.com/in".to_owned(),
        "CODE" => "usage.source".to_owned(),
        "FP" => "f45942".to_owned(),
        "<id>" | "ID" => "evt_01M7W76XREM".to_owned(),
        _ => word,
    };
    let words = words(line).into_iter().map(value);
    let args = ["webhookctl".to_owned()].into_iter().chain(words);
    let args: Vec<_> = args.map(Into::into).collect();
    webhookctl::cli::parse(&args)
}

/// Returns whether only values or subcommands are missing.
fn is_incomplete(stop: &Stop) -> bool {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, InvalidValue,
        MissingRequiredArgument, MissingSubcommand,
    };
    match stop {
        Stop::Text(_) => true,
        Stop::Ours(_) => false,
        Stop::Clap(error) => match error.kind() {
            DisplayHelp
            | DisplayHelpOnMissingArgumentOrSubcommand
            | DisplayVersion
            | MissingRequiredArgument
            | MissingSubcommand => true,
            // An option at the end of the line, without its value.
            InvalidValue => {
                error.get(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new()))
            }
            _ => false,
        },
    }
}

/// Types the commands of a page, as a reader would.
struct Reader<'w> {
    world: &'w World,
    /// The actual id for each id on the page.
    ids: BTreeMap<String, String>,
}

/// The body of the `verify` example. The original request had a line end after it.
const BODY: &str = r#"{"a":1}"#;
const SECRET: &str = "secret-of-the-example";

impl<'w> Reader<'w> {
    /// Writes the files that the commands of the pages read.
    fn new(world: &'w World) -> Self {
        std::fs::write(world.folder.join("body.json"), BODY).unwrap();
        Self {
            world,
            ids: BTreeMap::new(),
        }
    }

    async fn follows(&mut self, block: &Block) {
        for step in &block.steps {
            let at = format!("{}: {}", block.at, step.command);
            let (printed, code) = self.types(&step.command).await;
            assert_eq!(masked(&printed), masked(&step.expected), "{at}\n{printed}");
            assert_eq!(code, step.exit, "{at}");
            for (shown, id) in ids(&step.expected).zip(ids(&printed)) {
                let known = self.ids.entry(shown.to_owned()).or_insert(id.to_owned());
                assert_eq!(known, id, "{at}: {shown} is the name of two things");
            }
        }
    }

    /// Returns the output of both streams, in the order in which a terminal would show it, and the
    /// exit code.
    async fn types(&self, command: &str) -> (String, i32) {
        let programs = Path::new(env!("CARGO_BIN_EXE_webhookctl"))
            .parent()
            .unwrap();
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let named = |command: String, (shown, id): (&String, &String)| command.replace(shown, id);
        let command = self.ids.iter().fold(command.to_owned(), named);
        // The pages shorten long values that a reader does not need.
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("{BODY}\n").as_bytes());
        let signature = hex::encode(mac.finalize().into_bytes());
        let command = command.replace("8c85…", &signature);
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.world.folder)
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", path)
            .env("USER", "alice")
            .env("SECRET", SECRET)
            .output()
            .await
            .unwrap();
        let code = output.status.code().unwrap_or(-1);
        let printed = String::from_utf8(output.stdout).unwrap();
        // A command prints a progress line if it runs for more than ten seconds.
        let is_news = |line: &&str| line.starts_with("  queued ") && line.contains(" waiting ");
        let lines = printed.lines().filter(|line| !is_news(line));
        (lines.collect::<Vec<_>>().join("\n"), code)
    }
}
