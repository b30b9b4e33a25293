//! Arguments of `work`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::stats::span;
use super::values::{self, Assignment};

#[derive(Debug, Subcommand)]
pub enum WorkCommand {
    /// Claim events for a program that handles them, one process for each event
    ///
    /// Starts the program with the event as JSON on its stdin, and extends the lease while it runs.
    /// Exit code 0 ends the event as done, 75 tries it again, 65 makes it a dead letter, and any
    /// other code tries it again. On SIGINT and SIGTERM, the command stops the program and releases
    /// the event.
    Run(WorkRunArgs),
    /// Claim events of a queue
    Next(WorkNextArgs),
    /// Extend a lease
    Extend(WorkExtendArgs),
    /// Declare an effect before you cause it, and get its idempotency key
    Begin(WorkBeginArgs),
    /// Record what became of an effect
    End(WorkEndArgs),
    /// End the work on an event
    Finish(WorkFinishArgs),
}

/// The queue, and how to reach its API.
#[derive(Debug, Clone, Args)]
pub struct WorkAt {
    /// Queue, from the `queue` of an action of kind pull
    #[arg(long, value_name = "QUEUE", env = "MITT_QUEUE", hide_env = true)]
    pub queue: String,
    /// Base URL of the API [default: that of the deployment, or of the running `dev`]
    #[arg(long, value_name = "URL", env = "MITT_API", hide_env = true)]
    pub api: Option<String>,
    /// Name of the role to call a local `dev` with [default: local-worker]
    #[arg(
        long = "as",
        value_name = "ROLE",
        env = "MITT_LOCAL_ROLE",
        hide_env = true
    )]
    pub role: Option<String>,
}

#[derive(Debug, Args)]
pub struct WorkNextArgs {
    #[command(flatten)]
    pub at: WorkAt,
    /// Length of the lease, from 30s to 15m [default: the `lease` of the queue]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub lease: Option<Duration>,
    /// Name of this worker, for people
    #[arg(long, value_name = "NAME")]
    pub worker: Option<String>,
    /// Maximum number of events
    #[arg(short = 'n', long = "max", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=10))]
    pub max: u8,
}

/// The lease of an event. `work run` sets it for the programs that it starts.
#[derive(Debug, Clone, Args)]
pub struct LeaseAt {
    /// Lease of the event, as `work next` returned it
    #[arg(long, value_name = "LEASE", env = "MITT_LEASE", hide_env = true)]
    pub lease: String,
}

#[derive(Debug, Args)]
pub struct WorkExtendArgs {
    #[command(flatten)]
    pub at: WorkAt,
    #[command(flatten)]
    pub lease: LeaseAt,
    /// Length of the lease from now, from 30s to 15m [default: the `lease` of the queue]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub length: Option<Duration>,
}

/// What the other system does with an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkKeys {
    /// Repeats with the same key have one effect
    Honoured,
    /// The same, and a failure is stored under the key
    HonouredWithFailures,
    /// The key has no meaning to the system
    Ignored,
    /// The key has no meaning to the system, but you can search for it
    Ask,
}

#[derive(Debug, Args)]
pub struct WorkBeginArgs {
    #[command(flatten)]
    pub at: WorkAt,
    #[command(flatten)]
    pub lease: LeaseAt,
    /// Name of the effect, such as `open-ticket`; it must not change between attempts
    #[arg(long, value_name = "NAME")]
    pub effect: String,
    /// What the other system does with an idempotency key
    #[arg(long, value_name = "KEYS")]
    pub keys: WorkKeys,
    /// You searched the other system, and an earlier attempt did not have the effect
    #[arg(long)]
    pub did_not: bool,
    /// JSON file with the plan: `summary`, `target`, `amount`, `sha256`, `full`; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
}

/// What became of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkResult {
    /// It happened
    Done,
    /// It did not happen
    Not,
    /// It may have happened
    Unknown,
    /// The other system refused it
    Refused,
}

#[derive(Debug, Args)]
pub struct WorkEndArgs {
    #[command(flatten)]
    pub at: WorkAt,
    #[command(flatten)]
    pub lease: LeaseAt,
    /// Name of the effect
    #[arg(long, value_name = "NAME")]
    pub effect: String,
    /// What became of it
    #[arg(long, value_name = "RESULT")]
    pub result: WorkResult,
    /// A note of at most 120 characters, such as the number of a ticket
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// How the work on an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkOutcome {
    /// The work is done
    Done,
    /// Try again after the wait of the source
    Retry,
    /// A retry would fail again: the event becomes a dead letter
    Permanent,
    /// An effect may have happened: an operator must decide
    Unknown,
    /// Leave the event to another worker; it does not count as an attempt
    Release,
}

#[derive(Debug, Args)]
pub struct WorkFinishArgs {
    #[command(flatten)]
    pub at: WorkAt,
    #[command(flatten)]
    pub lease: LeaseAt,
    /// How the work ended
    #[arg(long, value_name = "OUTCOME")]
    pub outcome: WorkOutcome,
    /// What went wrong, for people
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Wait at least this long before the next attempt
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub after: Option<Duration>,
    /// What became of an effect, such as `open-ticket=done` (repeatable)
    #[arg(long, value_name = "NAME=RESULT", value_parser = values::assignment)]
    pub effect: Vec<Assignment>,
    /// The system that the worker calls is down
    #[arg(long)]
    pub destination_failed: bool,
}

#[derive(Debug, Args)]
pub struct WorkRunArgs {
    #[command(flatten)]
    pub at: WorkAt,
    /// Length of the lease, from 30s to 15m [default: the `lease` of the queue]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub lease: Option<Duration>,
    /// Name of this worker, for people
    #[arg(long, value_name = "NAME")]
    pub worker: Option<String>,
    /// Number of events that are handled at once
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=32))]
    pub concurrency: u8,
    /// Stop when no event is available; exit 6 if an event did not end as done
    #[arg(long)]
    pub once: bool,
    /// Time between SIGTERM and SIGKILL when a program has to stop
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub grace: Duration,
    /// Program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}
