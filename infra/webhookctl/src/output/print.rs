//! Where words go: data to stdout, talk to stderr.

use std::io::{self, BufRead as _, IsTerminal, Write};

use anyhow::Context as _;
use serde::Serialize;

use super::error::CliError;
use super::format::{Format, List, json_document, json_line, schema};
use super::query::Query;
use super::safe::safe;
use super::style;

/// Whoever read our stdout has gone: `| head` has seen enough. No error of ours.
#[derive(Debug)]
pub struct StdoutClosed;

impl std::fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stdout was closed")
    }
}

impl std::error::Error for StdoutClosed {}

#[derive(Debug, Clone, Copy, Default)]
pub struct Stream {
    pub terminal: bool,
    pub colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Talk {
    /// Errors only.
    Quiet,
    /// No tips.
    Plain,
    #[default]
    All,
}

/// What we are writing to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    pub stdout: Stream,
    pub stderr: Stream,
    /// Columns of the terminal; `None` when stdout is none.
    pub width: Option<usize>,
    pub talk: Talk,
    /// Whether somebody is there who can be asked.
    pub asks: bool,
}

impl Terminal {
    /// Looks at this process's streams. `columns` is what `COLUMNS` says; `asks` is whether asking is
    /// allowed.
    pub fn detect(colour: Option<bool>, columns: Option<usize>, talk: Talk, asks: bool) -> Self {
        let stream = |terminal: bool, choice: anstream::ColorChoice| Stream {
            terminal,
            colour: colour.unwrap_or(choice != anstream::ColorChoice::Never),
        };
        let (out, err) = (io::stdout(), io::stderr());
        // `choice` knows NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
        let stdout = stream(out.is_terminal(), anstream::AutoStream::choice(&out));
        let stderr = stream(err.is_terminal(), anstream::AutoStream::choice(&err));
        let width = terminal_size::terminal_size_of(&out).map(|(width, _)| usize::from(width.0));
        let width = columns
            .or(width)
            .filter(|width| *width > 0 && stdout.terminal);
        Self {
            stdout,
            stderr,
            width,
            talk,
            // A question that nobody sees is not asked.
            asks: asks && stderr.terminal && io::stdin().is_terminal(),
        }
    }

    /// Completes a refusal for want of an answer.
    pub fn why_it_asks_nothing(&self) -> &'static str {
        if !io::stdin().is_terminal() {
            "stdin is not a terminal"
        } else if self.stderr.terminal {
            "--no-input is given"
        } else {
            "stderr is not a terminal"
        }
    }
}

/// Prints what commands give it, in the format that was asked for.
pub struct Printer {
    pub format: Format,
    pub terminal: Terminal,
    query: Option<Query>,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
}

impl Printer {
    pub fn new(format: Format, terminal: Terminal) -> Self {
        Self::onto(
            format,
            terminal,
            Box::new(io::stdout()),
            Box::new(io::stderr()),
        )
    }

    /// The same onto other streams.
    pub fn onto(
        format: Format,
        terminal: Terminal,
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
    ) -> Self {
        Self {
            format,
            terminal,
            query: None,
            out,
            err,
        }
    }

    /// The same, and of each JSON document only what the query finds.
    #[must_use]
    pub fn asking(mut self, query: Option<Query>) -> Self {
        self.query = query;
        self
    }

    /// A list in any format, its footer and tip on stderr.
    pub fn list<T: Serialize>(&mut self, list: &List<'_, T>) -> anyhow::Result<()> {
        let data = match self.format {
            Format::Json => self.json_document(&list.document())?,
            _ => list.data(
                self.format,
                self.terminal.width,
                self.terminal.stdout.colour,
            )?,
        };
        self.data(&data)?;
        if self.format.is_table() && list.items.is_empty() {
            self.say(&list.empty);
        } else if let Some(footer) = &list.footer
            // Nothing is cut silently; the JSON document says so itself.
            && (self.format.is_table() || list.truncated && self.format != Format::Json)
        {
            self.say(footer);
        }
        if let Some(tip) = &list.tip {
            self.tip(tip);
        }
        Ok(())
    }

    /// One thing: `text` for people, its fields with a schema for scripts.
    pub fn document(
        &mut self,
        command: &'static str,
        item: &impl Serialize,
        id: &str,
        text: &str,
    ) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Document<'a, T> {
            schema: String,
            #[serde(flatten)]
            item: &'a T,
        }
        let data = match self.format {
            Format::Table | Format::Wide => return self.text(text),
            Format::Json => {
                let schema = schema(command);
                self.json_document(&Document { schema, item })?
            }
            Format::Jsonl => json_line(item)?,
            Format::Ids => format!("{}\n", safe(id)),
            Format::Csv => {
                return Err(CliError::usage("usage.output", "one event has no -o csv")
                    .tip("-o json, or a list")
                    .into());
            }
        };
        self.data(&data)
    }

    /// One object on its line, written at once: for what is found bit by bit.
    pub fn json_line(&mut self, item: &impl Serialize) -> anyhow::Result<()> {
        let line = match &self.query {
            Some(query) => json_line(&query.of(item)?)?,
            None => json_line(item)?,
        };
        self.data(&line)
    }

    /// Bytes as they are. Whoever calls this has seen that they may be shown.
    pub fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write(bytes)
    }

    /// Lines for people, on stdout. Each is made inert.
    pub fn text(&mut self, text: &str) -> anyhow::Result<()> {
        let mut lines: String = text
            .lines()
            .map(|line| safe(line).into_owned() + "\n")
            .collect();
        if !text.ends_with('\n') {
            lines.pop();
        }
        self.data(&lines)
    }

    /// The same with our own colours in it: every part from outside must be safe already.
    pub fn painted(&mut self, text: &str) -> anyhow::Result<()> {
        self.data(text)
    }

    /// The same on stderr, also with `-q`.
    pub fn painted_talk(&mut self, text: &str) {
        self.err(text);
    }

    /// What somebody types for an answer. Only where a [`Terminal`] asks.
    pub fn ask(&mut self, question: &str) -> anyhow::Result<String> {
        self.err(&safe(question));
        let mut typed = String::new();
        let read = io::stdin().lock().read_line(&mut typed);
        read.context("read the answer")?;
        Ok(typed.trim().to_owned())
    }

    /// A line of talk on stderr, unless `-q`.
    pub fn say(&mut self, line: &str) {
        if self.terminal.talk != Talk::Quiet {
            self.err(&format!("{}\n", safe(line)));
        }
    }

    /// Whether tips are shown: to people at a terminal only.
    pub fn tips(&self) -> bool {
        let Terminal {
            stdout,
            stderr,
            talk,
            ..
        } = self.terminal;
        talk == Talk::All && stdout.terminal && stderr.terminal
    }

    /// What to run next.
    pub fn tip(&mut self, tip: &str) {
        if self.tips() {
            let label = style::paint(self.terminal.stderr.colour, style::TIP, "tip:");
            self.err(&format!("{label} {}\n", safe(tip)));
        }
    }

    pub fn error(&mut self, error: &CliError) {
        self.err(&error.render(self.format, self.terminal.stderr.colour));
    }

    fn json_document(&self, document: &impl Serialize) -> anyhow::Result<String> {
        match &self.query {
            Some(query) => json_document(&query.of(document)?),
            None => json_document(document),
        }
    }

    fn data(&mut self, data: &str) -> anyhow::Result<()> {
        self.write(data.as_bytes())
    }

    fn write(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let written = self.out.write_all(data).and_then(|()| self.out.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => StdoutClosed.into(),
            _ => {
                CliError::failed("output.write", format!("cannot write to stdout: {error}")).into()
            }
        })
    }

    fn err(&mut self, text: &str) {
        // When stderr is gone too, there is nobody left to tell.
        let _ = self
            .err
            .write_all(text.as_bytes())
            .and_then(|()| self.err.flush());
    }
}
