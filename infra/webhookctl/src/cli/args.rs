//! The tree of commands. The doc comments are the help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::bodies::BodiesAt;
use super::completions::{CompletionsArgs, ManArgs};
use super::context::ContextCommand;
use super::dlq::DlqCommand;
use super::doctor::DoctorArgs;
use super::endpoint::EndpointCommand;
use super::erase::EraseArgs;
use super::inbox::{BodyArgs, DiffArgs, ExportArgs, TailArgs};
use super::listen::ListenArgs;
use super::log::LogArgs;
use super::quarantine::QuarantineCommand;
use super::reconcile::ReconcileCommand;
use super::replay::ReplayCommand;
use super::selection::SelectionArgs;
use super::sources::SourcesCommand;
use super::stats::StatsArgs;
use super::sync::SyncCommand;
use super::values::{self, Assignment, Chaos, ColorChoice, Rate, SecretFrom, Tamper, Zone};
use super::verify::VerifyArgs;
use crate::output::{Format, Query};
use crate::target::TargetOptions;

/// Inspect and operate a webhook inbox on AWS, or run one on this machine
#[derive(Debug, Parser)]
#[command(
    name = "webhookctl",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    // Must be last: clap applies its heading to all later options.
    #[command(flatten)]
    pub global: Global,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Output format
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        env = "WEBHOOKCTL_OUTPUT",
        default_value = "table",
        hide_possible_values = true,
        hide_default_value = true,
        hide_env = true,
        help = "Output format: table, wide, json, jsonl, csv, ids"
    )]
    pub output: Format,

    /// Filter JSON with `JMESPath`, as in the AWS CLI; implies -o json
    #[arg(long, global = true, value_name = "JMESPATH", value_parser = Query::parse)]
    pub query: Option<Query>,

    #[command(flatten)]
    pub target: TargetOptions,

    /// Use colour: auto, always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub color: ColorChoice,

    /// Time zone of the times in tables: utc, local
    #[arg(
        long,
        global = true,
        value_name = "ZONE",
        env = "WEBHOOKCTL_TIME",
        default_value = "utc",
        hide_possible_values = true,
        hide_default_value = true,
        hide_env = true
    )]
    pub time: Zone,

    /// Never prompt or read single keys; a command that needs an answer fails
    #[arg(long, global = true)]
    pub no_input: bool,

    /// Print no progress, footers or tips on stderr
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Terminal width, if it cannot be detected
    #[arg(long, global = true, hide = true, env = "COLUMNS")]
    pub terminal_width: Option<String>,

    /// `0`: no tips
    #[arg(long, global = true, hide = true, env = "WEBHOOKCTL_TIPS")]
    pub tips: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole system on this machine, without AWS
    ///
    /// The functions are the same binaries as in AWS. This process emulates the table, the queues,
    /// the bucket and the secrets. On a terminal, `dev` shows each change of each event; s sends a
    /// webhook, q stops.
    Dev(DevArgs),
    /// Send a signed test webhook, as a provider would
    ///
    /// The body is a sample of the provider's webhook, signed with the secret of the source.
    Send(SendArgs),
    /// Forward events to a URL on this machine as they arrive
    ///
    /// The inbox is only read: `listen` receives no queue message, changes no event and stores no
    /// response of your program. With --backfill it sends past events first. While your program is
    /// unreachable, events wait, and are sent later. Quarantined events are skipped unless you pass
    /// --status quarantined.
    ///
    /// On a terminal, r sends the last event again, d shows its details, the arrow keys select
    /// another event for both, p pauses, q stops.
    Listen(ListenArgs),
    /// Explain why a signature does or does not match
    ///
    /// Checks a rejected request or a stored event by its id, or a request that you pass with
    /// --body and -H. It runs the same verification as the catcher. If that fails, it tries the
    /// usual causes one by one and names the one that fits. Exit 5 if the request is not verified.
    Verify(VerifyArgs),
    /// List, inspect, count, follow and export stored events
    #[command(subcommand, arg_required_else_help = true)]
    Inbox(InboxCommand),
    /// Run selected events again: plan, then apply
    #[command(subcommand, arg_required_else_help = true)]
    Replay(ReplayCommand),
    /// List dead letters by error, and run them again
    #[command(subcommand, arg_required_else_help = true)]
    Dlq(DlqCommand),
    /// Review rejected requests and quarantined events
    #[command(subcommand, arg_required_else_help = true)]
    Quarantine(QuarantineCommand),
    /// Compare provider objects with yours, and repair differences
    #[command(subcommand, arg_required_else_help = true)]
    Reconcile(ReconcileCommand),
    /// Check the webhook subscriptions at the providers
    #[command(subcommand, arg_required_else_help = true)]
    Endpoint(EndpointCommand),
    /// Delete the data of events, and keep the record that they existed
    ///
    /// Deletes every version of the body, and the headers, errors and notes. Keeps the key, the
    /// status and the history, so that a second delivery is still recognised as a duplicate. An
    /// open event becomes a dead letter. Backups of the table keep the data for up to 35 days.
    /// `--where` reads each body in the time range.
    Erase(EraseArgs),
    /// List what operators changed, when and why
    Log(LogArgs),
    /// Add, check, test and pause sources, and rotate their secrets
    #[command(subcommand, arg_required_else_help = true)]
    Sources(SourcesCommand),
    /// Show events that the scheduled sync found missing, or run it
    #[command(subcommand, arg_required_else_help = true)]
    Sync(SyncCommand),
    /// Check the deployment and suggest fixes
    ///
    /// Each check has a name, a reason and a fix; infra/docs/doctor.md lists them. `doctor` changes
    /// nothing. Exit 5 if a check finds a fault.
    Doctor(DoctorArgs),
    /// Store deployments by name, and choose the default one
    #[command(subcommand, arg_required_else_help = true)]
    Context(ContextCommand),
    /// Print a completion script for your shell
    ///
    /// Completes commands, flags and their values, presets, contexts, sources, and the error
    /// fingerprints and plan ids that commands have printed on this machine. Completion makes no
    /// network request.
    Completions(CompletionsArgs),
    /// Write a man page for each command
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct DevArgs {
    /// Send the demo webhooks, such as a duplicate, a forged and a failing one
    #[arg(long)]
    pub demo: bool,
    /// Exit after the demo; exit 0 only if each webhook had the expected result
    #[arg(long, requires = "demo")]
    pub once: bool,
    /// Break something on purpose, and show how events recover
    ///
    /// Prints what is broken and what to watch, sends a webhook, and shows each change of each
    /// event. It uses its own sources, whose retries last longer than the fault. On a terminal, c
    /// ends the fault and starts it again.
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["demo", "sources"])]
    pub chaos: Option<Chaos>,
    /// Keep the state in this folder for the next run [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Start with an empty state: list what --state DIR keeps, and delete it
    #[arg(long, requires = "state")]
    pub reset: bool,
    /// Port for webhooks on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 8787)]
    pub port: u16,
    /// Sources file to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub sources: Option<PathBuf>,
    /// Template to build the stack from, instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// Folder of the function binaries [default: the folder of this program]
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field for each command-line flag"
)]
pub struct SendArgs {
    /// Provider to imitate, or source to send as; `--list` shows the providers
    #[arg(value_name = "PRESET|SOURCE", required_unless_present_any = ["list", "event"])]
    pub preset: Option<String>,
    /// Send a stored event again with a new signature: to the local stack, or --to this machine
    ///
    /// Takes an id, a unique prefix of it, the provider's event id, or `source:event-id`. The
    /// signature uses the secret of the local stack, or the secret of this machine that `webhookctl
    /// listen --resign` uses. The original signature is in the header
    /// `X-Webhookctl-Original-Signature`. In a deployment this only reads the event, and the audit
    /// log records who read it.
    #[arg(long, value_name = "ID", conflicts_with_all = [
        "preset", "event_type", "data", "file", "id", "tamper", "duplicate", "count", "rate",
        "list", "new_key", "public_key", "key_from", "variant", "param",
    ])]
    pub event: Option<String>,
    /// URL to send to [default: the running local stack]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Source to send as, if several sources have this preset
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Variant of the preset, if it has several [default: default]
    #[arg(long, value_name = "NAME", requires = "to")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::assignment, requires = "to")]
    pub param: Vec<Assignment>,
    /// Type of the event [default: the type of the preset's first sample]
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Change a field of the sample; `+PATH=VALUE` adds one (repeatable)
    #[arg(long, value_name = "PATH=VALUE", value_parser = values::assignment)]
    pub set: Vec<Assignment>,
    /// Send this body instead of a sample; `-` reads stdin
    #[arg(short = 'd', long, value_name = "BODY", conflicts_with = "set")]
    pub data: Option<String>,
    /// Send the body in this file instead of a sample; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "data"])]
    pub file: Option<PathBuf>,
    /// Where to read the secret: `-` (stdin), `file:PATH` or `env:NAME`
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from)]
    pub secret_from: Option<SecretFrom>,
    /// Where to read the private key that replaces the provider's: PKCS #8 in PEM
    ///
    /// For presets whose provider publishes a public key. `-` (stdin), `file:PATH` or `env:NAME`. A
    /// running `dev` has created a key for each of its sources that uses Ed25519 or ECDSA.
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from,
          conflicts_with = "secret_from")]
    pub key_from: Option<SecretFrom>,
    /// Create such a key, print its public key as a source stores it, and send nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_from", "public_key"])]
    pub new_key: Option<PathBuf>,
    /// Print the public key of --key-from as a source stores it, and send nothing
    #[arg(long, requires = "key_from")]
    pub public_key: bool,
    /// The provider's event id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Make the request invalid after signing
    #[arg(long, value_name = "WHAT")]
    pub tamper: Option<Tamper>,
    /// Send the same event twice
    #[arg(long)]
    pub duplicate: bool,
    /// Number of events to send
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Rate of sending: 20/s, 100/m
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<Rate>,
    /// Wait for the final status; exit 6 if it is not `done`
    #[arg(long)]
    pub wait: bool,
    /// List the presets, and how each can be sent
    #[arg(long)]
    pub list: bool,
    /// Print the request as a curl command instead of sending it
    #[arg(long, conflicts_with = "wait")]
    pub curl: bool,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// List stored events, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Explain one event: its status, the cause, and what to do next
    #[command(visible_alias = "show")]
    Inspect(InspectArgs),
    /// Print the exact body of an event
    ///
    /// On a terminal it prints plain text only. For other bytes, pass --raw or redirect to a file.
    Body(BodyArgs),
    /// Compare the bodies of two events; exit 1 if they differ
    ///
    /// Reports different values separately from different notation: key order, white space, and the
    /// notation of numbers and strings.
    Diff(DiffArgs),
    /// Follow events as they arrive and change, until Ctrl-C
    ///
    /// Reads the table once a second, and changes nothing. Events that were already open are read
    /// every five seconds.
    Tail(TailArgs),
    /// Write events to a file; the audit log records who exported them
    Export(ExportArgs),
    /// Count events: received, waiting, failed, and how long they take
    ///
    /// Failed events, dead letters and the oldest waiting event are current values, whatever the
    /// time range. Duplicates are not counted: only metrics and logs record them.
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Maximum number of events
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Continue where a list stopped: the value of `next_cursor`
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Columns of the table or the CSV, such as `id,status,next_action.text`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Oldest first
    #[arg(long)]
    pub reverse: bool,

    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Event id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
    /// Also show arrival, side effects, timeline, replays, and the event that superseded it
    #[arg(long)]
    pub full: bool,
    /// Also show the timeline
    #[arg(long, conflicts_with = "full")]
    pub timeline: bool,
    /// Update the output until the event is settled; exit 6 if its status is not `done`
    #[arg(long)]
    pub watch: bool,
}

impl Global {
    /// `--query` implies JSON output. With JSON lines, it applies to each line.
    pub fn format(&self) -> Format {
        match self.output {
            Format::Jsonl => Format::Jsonl,
            _ if self.query.is_some() => Format::Json,
            output => output,
        }
    }

    /// Treats an empty environment variable as unset.
    pub(super) fn without_empty(mut self) -> Self {
        for value in [
            &mut self.target.context,
            &mut self.target.profile,
            &mut self.target.region,
            &mut self.target.table,
            &mut self.target.endpoint_url,
            &mut self.terminal_width,
            &mut self.tips,
        ] {
            value.take_if(|text| text.is_empty());
        }
        self
    }
}
