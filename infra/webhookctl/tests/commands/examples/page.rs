//! Reads the pages of the documentation, and the blocks in them.

use std::path::{Path, PathBuf};

/// A console block: its commands, and the output of each command.
pub(super) struct Block {
    /// The page and the line of the block.
    pub(super) at: String,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) command: String,
    pub(super) expected: String,
    pub(super) exit: i32,
}

/// Returns the README, the runbook and every page below `infra/docs`, by its path in the repository.
pub(super) fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "infra/runbook.md".to_owned()];
    let mut folders = vec!["infra/docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.path().is_dir() {
                folders.push(name);
            } else if entry.path().extension() == Some("md".as_ref()) {
                pages.push(name);
            }
        }
    }
    pages.sort();
    pages
}

pub(super) fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

pub(super) fn blocks(page: &str) -> Vec<Block> {
    let text = text(page);
    let block = |fence: Fence| {
        let at = format!("{page}:{}", fence.line);
        assert!(fence.note.is_empty(), "{at}: what is {:?}?", fence.note);
        let lines = fence.inside.into_iter().map(|(_, line)| line);
        Block {
            at,
            steps: steps(lines),
        }
    };
    fenced(&text, "console").map(block).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The content of a fenced block.
pub(super) struct Fence {
    line: usize,
    /// The text after the name of the language.
    note: String,
    /// The lines, with their numbers.
    pub(super) inside: Vec<(usize, String)>,
}

/// Returns the fenced blocks of a language.
pub(super) fn fenced<'t>(text: &'t str, language: &'t str) -> impl Iterator<Item = Fence> + 't {
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
                return Some(Fence {
                    line: at + 1,
                    note: note.to_owned(),
                    inside,
                });
            }
        }
    })
}

/// Returns the commands of webhookctl between backticks outside of blocks, with their lines and
/// without the name of the program.
pub(super) fn named(text: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().starts_with("```") {
            inside = !inside;
        } else if !inside {
            let parts = line.split('`').skip(1).step_by(2);
            let commands = parts.filter_map(|part| part.strip_prefix("webhookctl "));
            found.extend(commands.map(|command| (at + 1, command.to_owned())));
        }
    }
    found
}

/// Parses a console block. A command begins with `$ ` and continues after a `\`. Its exit code is
/// 0, unless `[exit 5]` is below its output.
fn steps(lines: impl Iterator<Item = String>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open = false;
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            open = command.ends_with('\\');
            steps.push(Step {
                command: command.trim_end_matches('\\').to_owned(),
                expected: String::new(),
                exit: 0,
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
            step.exit = exit.parse().unwrap();
        } else if !line.starts_with("tip: ") {
            // The CLI prints tips only on a terminal, and the test has no terminal.
            step.expected += &(line + "\n");
        }
    }
    steps
}

/// Splits a line into words, as a shell does. A comment ends the line.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            (c, Some(end)) if c == end => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            // `<id>` is a placeholder, `< file` is a redirection.
            ('#' | '|' | '>', None) if word.is_none() => break,
            ('<', None) if word.is_none() && !line[at..].contains('>') => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn a_block_is_its_commands_and_what_they_print() {
    let text =
        "text\n```console note\n$ one \\\n  two\nout\ntip: not here\n[exit 5]\n$ three\n```\n";
    let fence = fenced(text, "console").next().unwrap();
    assert_eq!((fence.line, fence.note.as_str()), (2, "note"));
    let steps = steps(fence.inside.into_iter().map(|(_, line)| line));
    let steps = steps.iter().map(|step| {
        let Step {
            command,
            expected,
            exit,
        } = step;
        (command.as_str(), expected.as_str(), *exit)
    });
    assert_eq!(
        steps.collect::<Vec<_>>(),
        [("one   two", "out\n", 5), ("three", "", 0)]
    );
    assert_eq!(
        words("-H 'a: b' \"c d\"  e # no"),
        ["-H", "a: b", "c d", "e"]
    );
}

#[test]
fn commands_in_sentences_are_found() {
    let text =
        "See `webhookctl log` and `make`.\n```sh\n`webhookctl no`\n```\n| `webhookctl a -b` |\n";
    let expected = [(1, "log".to_owned()), (5, "a -b".to_owned())];
    assert_eq!(named(text), expected);
}

#[test]
fn pages_in_folders_are_found() {
    let pages = pages();
    for page in [
        "README.md",
        "infra/runbook.md",
        "infra/docs/output.md",
        "infra/docs/sync/README.md",
    ] {
        assert!(pages.iter().any(|known| known == page), "{page}");
    }
}
