//! What README and the pages of `infra/docs` show is what happens: each console block is run on a
//! stack, and each line of a shell block that is one of ours is understood.
//!
//! A block that cannot be run here says so in its first line, with the reason:
//! ```` ```console no-run: needs a deployment ````. Ids, times, hashes and prices differ from run to run
//! and are masked on both sides; so is white space, which follows the widest cell.

use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::process::Command;

use crate::world::World;

/// Blocks that are not run. Whoever adds one raises this, and says why in the page.
const NOT_RUN: usize = 3;

/// Fewer would mean that they are not found any more.
const LEAST: usize = 2;

struct Block {
    page: String,
    line: usize,
    /// What stands behind the word `console`.
    note: String,
    steps: Vec<Step>,
}

struct Step {
    command: String,
    expected: String,
    exit: Option<i32>,
}

#[tokio::test]
async fn what_the_pages_show_is_what_happens() {
    let world = World::start().await;
    world.some_events().await;
    prepare(&world);
    let (mut run, mut left) = (0, 0);
    for block in pages().iter().flat_map(|page| blocks(page)) {
        let at = format!("{}:{}", block.page, block.line);
        if let Some(reason) = block.note.strip_prefix("no-run") {
            assert!(reason.len() > 3, "{at}: say why it is not run");
            left += 1;
            continue;
        }
        assert!(block.note.is_empty(), "{at}: what is {:?}?", block.note);
        for step in &block.steps {
            let (text, code) = shell(&world, &step.command).await;
            assert_eq!(
                masked(&text),
                masked(&step.expected),
                "{at}: {}",
                step.command
            );
            if let Some(exit) = step.exit {
                assert_eq!(code, exit, "{at}: {}", step.command);
            }
        }
        run += 1;
    }
    assert!(run >= LEAST, "only {run} blocks were run");
    assert_eq!(left, NOT_RUN, "blocks that are not run");
    world.end().await;
}

#[test]
fn every_command_in_a_shell_block_is_understood() {
    let mut understood = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in fenced(&text, "sh").flat_map(|(_, _, lines)| lines) {
            let Some(line) = line.trim().strip_prefix("webhookctl ") else {
                continue;
            };
            let words = words(line);
            let args = ["webhookctl".to_owned()].into_iter().chain(words);
            let args: Vec<_> = args.map(Into::into).collect();
            let parsed = webhookctl::cli::parse(&args);
            assert!(
                parsed.is_ok(),
                "{}:{number}: {line}: {:?}",
                page.display(),
                parsed.err()
            );
            understood += 1;
        }
    }
    assert!(understood > 20, "only {understood} lines were found");
}

/// The files that the pages name.
fn prepare(world: &World) {
    std::fs::write(world.folder.join("body.json"), BODY).unwrap();
}

/// The body of README's example, which lost its line end on the way.
const BODY: &str = r#"{"a":1}"#;
const SECRET: &str = "secret-of-the-example";

async fn shell(world: &World, command: &str) -> (String, i32) {
    let programs = Path::new(env!("CARGO_BIN_EXE_webhookctl"))
        .parent()
        .unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    // The pages shorten what nobody reads.
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{BODY}\n").as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    let command = command.replace("8c85…", &signature);
    let output = Command::new("sh")
        .args(["-c", &command])
        .current_dir(&world.folder)
        .env_clear()
        .env("PATH", path)
        .env("SECRET", SECRET)
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let code = output.status.code().unwrap_or(-1);
    (String::from_utf8(text).unwrap(), code)
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("infra/docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs
        .filter(|path| path.extension() == Some("md".as_ref()))
        .collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let block = |(line, note, lines): (usize, String, Vec<(usize, String)>)| Block {
        page: name.clone(),
        line,
        note,
        steps: steps(lines.into_iter().map(|(_, line)| line)),
    };
    fenced(&text, "console").map(block).collect()
}

/// The fenced blocks of a language: their first line, what stands behind the language, their lines.
fn fenced<'t>(
    text: &'t str,
    language: &'t str,
) -> impl Iterator<Item = (usize, String, Vec<(usize, String)>)> + 't {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        loop {
            let (at, line) = lines.next()?;
            let Some(info) = line.trim().strip_prefix("```") else {
                continue;
            };
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
            let inside = inside.map(|(at, line)| (at + 1, line.to_owned())).collect();
            let (name, note) = info.split_once(' ').unwrap_or((info, ""));
            if name == language {
                return Some((at + 1, note.to_owned(), inside));
            }
        }
    })
}

fn steps(lines: impl Iterator<Item = String>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open = false;
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            open = command.ends_with('\\');
            steps.push(Step {
                command: command.trim_end_matches('\\').to_owned(),
                expected: String::new(),
                exit: None,
            });
            continue;
        }
        let Some(step) = steps.last_mut() else {
            panic!("a console block begins with a command: {line}");
        };
        let exit = line
            .strip_prefix("[exit ")
            .and_then(|rest| rest.strip_suffix(']'));
        if open {
            open = line.ends_with('\\');
            step.command += line.trim_end_matches('\\');
        } else if let Some(exit) = exit {
            step.exit = Some(exit.parse().unwrap());
        } else if !line.starts_with("tip: ") {
            // A tip is for a terminal, and there is none.
            step.expected += &(line + "\n");
        }
    }
    steps
}

/// Words as a shell has them; a comment ends the line.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(end)) if c == end => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#' | '|' | '>' | '<', None) if word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The same text with what differs from run to run taken out.
fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut words = line.split_whitespace().map(mask).collect::<Vec<_>>();
        // How often was asked depends on the minute of the hour.
        if let Some(calls) = words.iter().position(|word| word.starts_with("calls"))
            && let Some(count) = words.get_mut(calls.wrapping_sub(1))
        {
            "COUNT".clone_into(count);
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn mask(word: &str) -> String {
    let core = word.trim_matches(|c: char| "().,;:".contains(c));
    let masked = if core.starts_with("evt_") {
        "ID"
    } else if core.starts_with("fp:") {
        "FINGERPRINT"
    } else if core.contains('…') && core.chars().all(|c| c == '…' || c.is_ascii_hexdigit()) {
        "HASH"
    } else if core.chars().any(|c| ('▁'..='█').contains(&c)) {
        "BARS"
    } else if is_time(core) {
        "TIME"
    } else if core.parse::<f64>().is_ok() && core.contains('.') {
        "PRICE"
    } else {
        return word.to_owned();
    };
    word.replace(core, masked)
}

/// `40m`, `1h02m`, `0.31s`, or a time of the day or a date with one.
fn is_time(word: &str) -> bool {
    let digits = word.starts_with(|c: char| c.is_ascii_digit());
    let span = |c: char| c.is_ascii_digit() || ".smhd".contains(c);
    let clock = |c: char| c.is_ascii_digit() || "-T:.Z".contains(c);
    let ends = word.ends_with(['s', 'm', 'h', 'd']);
    digits && (ends && word.chars().all(span) || word.contains(':') && word.chars().all(clock))
}

#[test]
fn only_what_differs_from_run_to_run_is_masked() {
    for (text, expected) in [
        ("evt_01M7W76XREM  done", "ID done"),
        (
            "(fp:4d8f437d) gives 1f14a62b…be5f",
            "(FINGERPRINT) gives HASH",
        ),
        ("acme   2   40m1s  failing", "acme 2 TIME failing"),
        ("p50 0.31s, p95", "p50 TIME, p95"),
        ("per hour ▁▁█", "per hour BARS"),
        ("12.5 read units", "PRICE read units"),
        ("335 calls, 1", "COUNT calls, 1"),
        ("received 10:14:41 of 7 bytes", "received TIME of 7 bytes"),
        ("3 secrets match", "3 secrets match"),
    ] {
        assert_eq!(masked(text), expected);
    }
}

#[test]
fn a_block_is_its_commands_and_what_they_print() {
    let text = "text\n```console no-run: why\n$ one \\\n  two\nout\ntip: not here\n[exit 5]\n$ three\n```\n";
    let (line, note, lines) = fenced(text, "console").next().unwrap();
    assert_eq!((line, note.as_str()), (2, "no-run: why"));
    let steps = steps(lines.into_iter().map(|(_, line)| line));
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].command, "one   two");
    assert_eq!(
        (steps[0].expected.as_str(), steps[0].exit),
        ("out\n", Some(5))
    );
    assert_eq!(
        words("-H 'a: b' \"c d\"  e # no"),
        ["-H", "a: b", "c d", "e"]
    );
}
