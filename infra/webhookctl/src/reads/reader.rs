//! Runs a command in this process, and returns what it prints.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Question;
use crate::cli::{Cli, Global, parse};
use crate::output::{CliError, Exit, Format, Printer, Spent, Talk, Terminal};
use crate::target::{Caller, Deployment, Opened, TargetFlags};

/// Runs a command, as `verbs::run` does.
pub(crate) type Run = for<'o> fn(Cli, &'o mut Printer) -> LocalBoxFuture<'o, anyhow::Result<Exit>>;

/// Runs commands for callers without a terminal. All of them use one open inbox.
#[derive(Clone)]
pub(crate) struct Reader {
    global: Global,
    run: Run,
}

/// What a command printed, or its error.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The output on stdout. If the command failed, its error in JSON.
    pub(crate) body: Bytes,
    pub(crate) exit: Exit,
    pub(crate) error: Option<CliError>,
}

impl Reader {
    /// `global` selects the inbox of all commands.
    pub(crate) fn new(global: &Global, run: Run) -> Self {
        let mut global = global.clone();
        global.target.opened = Opened::kept();
        global.query = None;
        global.no_input = true;
        global.quiet = true;
        Self { global, run }
    }

    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    pub(crate) async fn inbox(&self) -> anyhow::Result<Deployment> {
        Deployment::open(&self.global.target).await
    }

    /// Returns a reader whose commands act for this caller.
    pub(crate) fn for_caller(&self, caller: Caller) -> Self {
        let mut reader = self.clone();
        reader.global.target.caller = caller;
        reader
    }

    /// Returns the flags with which a command in a terminal reads the same inbox.
    pub(crate) fn target(&self) -> TargetFlags {
        self.global.target.flags()
    }

    /// Runs a read. Returns its document.
    pub(crate) async fn ask(&self, question: &Question) -> Answer {
        self.run(question.line("json")).await
    }

    /// Runs a command line.
    pub(crate) async fn run(&self, line: Vec<OsString>) -> Answer {
        match self.parsed(&line) {
            Ok(cli) => self.run_parsed(cli).await,
            Err(error) => Answer::failed(error),
        }
    }

    /// Parses a command line. Its target is that of this process.
    pub(crate) fn parsed(&self, line: &[OsString]) -> Result<Cli, CliError> {
        let mut cli = parse(line).map_err(crate::cli::Stop::into_error)?;
        cli.global = Global {
            output: cli.global.output,
            ..self.global.clone()
        };
        Ok(cli)
    }

    /// Runs the command on a thread of its own, because its future cannot move between threads. If
    /// the caller drops this future, the command stops.
    async fn run_parsed(&self, cli: Cli) -> Answer {
        let (reader, runtime) = (self.clone(), Handle::current());
        let (_ends_with_the_caller, ended) = oneshot::channel::<()>();
        let work = tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                tokio::select! {
                    answer = reader.run_here(cli) => answer,
                    _ = ended => Answer::failed(stopped()),
                }
            })
        });
        work.await.unwrap_or_else(|_| Answer::failed(stopped()))
    }

    async fn run_here(&self, cli: Cli) -> Answer {
        let printed = Printed::default();
        let out = Box::new(printed.clone());
        let mut printer = Printer::onto(cli.global.format(), SILENT, out, Box::new(io::sink()));
        match (self.run)(cli, &mut printer).await {
            Ok(exit) => Answer {
                body: printed.take(),
                exit,
                error: None,
            },
            Err(error) => Answer::failed(self.global.explained(&error)),
        }
    }
}

impl Answer {
    pub(crate) fn failed(error: CliError) -> Self {
        Self {
            body: error.render(Format::Json, false).into(),
            exit: error.exit,
            error: Some(error),
        }
    }

    /// Returns the cost, if the document has one.
    pub(crate) fn cost(&self) -> Option<Spent> {
        #[derive(Deserialize)]
        struct Document {
            cost: Option<Spent>,
        }
        let document: Document = serde_json::from_slice(&self.body).ok()?;
        document.cost
    }
}

const SILENT: Terminal = Terminal {
    stdout: crate::output::Stream {
        terminal: false,
        colour: false,
    },
    stderr: crate::output::Stream {
        terminal: false,
        colour: false,
    },
    width: None,
    talk: Talk::Quiet,
    asks: false,
};

fn stopped() -> CliError {
    CliError::failed("console.stopped", "the command was stopped")
}

/// The output of a command, which the printer and the caller share.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Write for Printed {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut printed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        printed.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
