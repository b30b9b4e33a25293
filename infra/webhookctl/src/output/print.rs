//! Prints data to stdout, and messages to stderr.

use std::io::{self, BufRead as _, IsTerminal, Write};

use anyhow::Context as _;
use serde::Serialize;

use super::error::CliError;
use super::format::{Format, List, Spent, json_document, json_line, schema};
use super::query::Query;
use super::safe::safe;
use super::style;

/// The reader has closed the pipe of stdout, as `| head` does. This is not an error.
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
    /// Prints only errors.
    Quiet,
    /// Prints no tips.
    Plain,
    #[default]
    All,
}

/// The output streams and their terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    pub stdout: Stream,
    pub stderr: Stream,
    /// The width of the terminal in columns; `None` if stdout is not a terminal.
    pub width: Option<usize>,
    pub talk: Talk,
    /// Whether the program can prompt.
    pub asks: bool,
}

impl Terminal {
    /// Detects the streams of this process. `columns` is the value of `COLUMNS`, and `asks` is
    /// false if prompts are not allowed.
    pub fn detect(colour: Option<bool>, columns: Option<usize>, talk: Talk, asks: bool) -> Self {
        let stream = |terminal: bool, choice: anstream::ColorChoice| Stream {
            terminal,
            colour: colour.unwrap_or(choice != anstream::ColorChoice::Never),
        };
        let (out, err) = (io::stdout(), io::stderr());
        // `choice` respects NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
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
            // An operator who does not see the prompt cannot answer it.
            asks: asks && stderr.terminal && io::stdin().is_terminal(),
        }
    }

    /// Returns the reason why the program cannot prompt.
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

/// Prints the results of commands in the selected format.
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

    /// Creates a printer with other streams than those of this process.
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

    /// Sets a query, which the printer applies to each JSON document.
    #[must_use]
    pub fn asking(mut self, query: Option<Query>) -> Self {
        self.query = query;
        self
    }

    /// Prints a list in any format. Prints its footer and its tip on stderr.
    pub fn list<T: Serialize>(&mut self, list: &List<'_, T>) -> anyhow::Result<()> {
        let data = match self.format {
            Format::Json => self.json_document(&list.document())?,
            Format::Jsonl => {
                let lines = list.items.iter().map(|item| self.line(item));
                lines.collect::<anyhow::Result<String>>()?
            }
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
            // The footer of a truncated list tells the user that there are more rows. In the JSON
            // document, a field tells it.
            && (self.format.is_table() || list.truncated && self.format != Format::Json)
        {
            self.say(footer);
        }
        if let Some(tip) = &list.tip {
            self.tip(tip);
        }
        Ok(())
    }

    /// Prints one item: `text` for people, or its fields with a schema for scripts.
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
            #[serde(skip_serializing_if = "Option::is_none")]
            cost: Option<Spent>,
        }
        let data = match self.format {
            Format::Table | Format::Wide => return self.text(text),
            Format::Json => {
                let schema = schema(command);
                let cost = Spent::now();
                self.json_document(&Document { schema, item, cost })?
            }
            Format::Jsonl => self.line(item)?,
            Format::Ids => format!("{}\n", safe(id)),
            // The arguments are refused before a command runs.
            Format::Otlp => return Ok(()),
            Format::Csv => {
                return Err(CliError::usage(
                    "usage.output",
                    "-o csv is not supported for one event",
                )
                .tip("use -o json, or a command that prints a list")
                .into());
            }
        };
        self.data(&data)
    }

    /// Prints one object on its own line immediately. Commands use this for results that arrive one
    /// by one.
    pub fn json_line(&mut self, item: &impl Serialize) -> anyhow::Result<()> {
        let line = self.line(item)?;
        self.data(&line)
    }

    /// Prints the bytes unchanged. The caller checks that they are safe to print.
    pub fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write(bytes)
    }

    /// Prints lines for people on stdout. Escapes each line, so that it cannot control the
    /// terminal.
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

    /// Prints text with colours on stdout. Text from outside must already be safe.
    pub fn painted(&mut self, text: &str) -> anyhow::Result<()> {
        self.data(text)
    }

    /// Prints text with colours on stderr, also with `-q`. Text from outside must already be safe.
    pub fn painted_talk(&mut self, text: &str) {
        self.err(text);
    }

    /// Prompts, and returns the answer. The caller checks [`Terminal::asks`] first.
    pub fn ask(&mut self, question: &str) -> anyhow::Result<String> {
        self.err(&safe(question));
        let mut typed = String::new();
        let read = io::stdin().lock().read_line(&mut typed);
        read.context("read the answer")?;
        Ok(typed.trim().to_owned())
    }

    /// Prints a message on stderr, unless `-q` is set.
    pub fn say(&mut self, line: &str) {
        if self.terminal.talk != Talk::Quiet {
            self.err(&format!("{}\n", safe(line)));
        }
    }

    /// Returns whether tips are printed. Tips are only for terminals.
    pub fn tips(&self) -> bool {
        let Terminal {
            stdout,
            stderr,
            talk,
            ..
        } = self.terminal;
        talk == Talk::All && stdout.terminal && stderr.terminal
    }

    /// Prints a tip: what to run next.
    pub fn tip(&mut self, tip: &str) {
        if self.tips() {
            let label = style::paint(self.terminal.stderr.colour, style::TIP, "tip:");
            self.err(&format!("{label} {}\n", safe(tip)));
        }
    }

    pub fn error(&mut self, error: &CliError) {
        self.err(&error.render(self.format, self.terminal.stderr.colour));
    }

    /// Returns one object on its own line: with a query, the part that the query selects.
    fn line(&self, item: &impl Serialize) -> anyhow::Result<String> {
        match &self.query {
            Some(query) => json_line(&query.of(item)?),
            None => json_line(item),
        }
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
        // If stderr is also closed, the message cannot be printed anywhere.
        let _ = self
            .err
            .write_all(text.as_bytes())
            .and_then(|()| self.err.flush());
    }
}
