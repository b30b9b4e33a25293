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
use super::help;
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
use crate::place::TargetOptions;

/// Inspect and test a webhook inbox on AWS, or run it all on this machine
#[derive(Debug, Parser)]
#[command(
    name = "webhookctl",
    version,
    arg_required_else_help = true,
    after_help = help::START_HERE,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    // Last, so that its heading does not reach other options.
    #[command(flatten)]
    pub global: Global,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Format of stdout
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
        help = "Format of stdout: table, wide, json, jsonl, csv, ids"
    )]
    pub output: Format,

    /// `JMESPath` over the JSON document, as in the AWS CLI; implies -o json
    #[arg(long, global = true, value_name = "JMESPATH", value_parser = Query::parse)]
    pub query: Option<Query>,

    #[command(flatten)]
    pub target: TargetOptions,

    /// Colour: auto, always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub color: ColorChoice,

    /// Times for people: utc, local
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

    /// Ask nothing and take no single keys; what needs an answer is refused
    #[arg(long, global = true)]
    pub no_input: bool,

    /// No progress, footers or tips on stderr
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Columns of the terminal, where it does not say so itself
    #[arg(long, global = true, hide = true, env = "COLUMNS")]
    pub terminal_width: Option<String>,

    /// `0`: no tips
    #[arg(long, global = true, hide = true, env = "WEBHOOKCTL_TIPS")]
    pub tips: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole system on this machine, nothing in AWS
    ///
    /// The functions are the unchanged binaries; table, queue, bucket and secrets are emulated in
    /// this process. On a terminal, s sends a webhook, q stops, and what becomes of events is shown.
    Dev(DevArgs),
    /// Send a signed test webhook, as a provider would
    ///
    /// The body is a sample of the provider's, signed with the secret of the source.
    Send(SendArgs),
    /// Forward events to a URL on this machine as they arrive, and past ones on request
    ///
    /// The inbox is only read: no message is received from a queue, no event changes, and what the
    /// program here answers is told to nobody. While it cannot be reached, events are held and sent
    /// when it can. What is kept apart is left out, unless --status quarantined asks for it. On a
    /// terminal, r sends the last one again, d shows where it stands in the inbox, the arrows choose
    /// another one for both, p pauses, q stops.
    Listen(ListenArgs),
    /// Explain, step by step, why a signature does or does not match
    ///
    /// The request is one of the quarantine or of the inbox, by its id, or one that is given with
    /// --body and -H. The catcher's own verification decides. Where it refuses, the usual causes are
    /// tried one by one, and the one that fits is named. Exit 5 if it is not verified.
    Verify(VerifyArgs),
    /// Stored events: list, inspect, count, follow, export
    #[command(subcommand, arg_required_else_help = true)]
    Inbox(InboxCommand),
    /// Replay a chosen set of events: plan, then apply; every run is recorded
    #[command(subcommand, arg_required_else_help = true)]
    Replay(ReplayCommand),
    /// Dead letters, grouped by error
    #[command(subcommand, arg_required_else_help = true)]
    Dlq(DlqCommand),
    /// Requests that were refused, kept apart from the inbox for a week
    #[command(subcommand, arg_required_else_help = true)]
    Quarantine(QuarantineCommand),
    /// What the provider has, held against what we have
    #[command(subcommand, arg_required_else_help = true)]
    Reconcile(ReconcileCommand),
    /// The subscriptions at the providers: whether they still lead to us
    #[command(subcommand, arg_required_else_help = true)]
    Endpoint(EndpointCommand),
    /// Delete what events carried, and keep that they were there
    ///
    /// The body goes in each of its versions, and so do headers, errors and notes; key, outcome and
    /// history stay, so that a second delivery is still recognised. An event that is open ends as a
    /// dead letter. Backups of the table keep it for up to 35 days. `--where` reads each body of the
    /// time that is looked through.
    Erase(EraseArgs),
    /// What operators did to the inbox, when and why
    Log(LogArgs),
    /// Who sends to us, and with which secret
    #[command(subcommand, arg_required_else_help = true)]
    Sources(SourcesCommand),
    /// The scheduled sync, and what it found missing
    #[command(subcommand, arg_required_else_help = true)]
    Sync(SyncCommand),
    /// Look whether everything is set up and at work, and say how to mend what is not
    ///
    /// Each check has a name, a reason and a fix; infra/docs/doctor.md lists them. Nothing is changed.
    /// Exit 5 if one found a fault.
    Doctor(DoctorArgs),
    /// The deployments that commands can talk to, by name
    #[command(subcommand, arg_required_else_help = true)]
    Context(ContextCommand),
    /// Print a completion script for your shell
    ///
    /// It completes commands, flags and their values, presets, contexts, sources, and the error
    /// fingerprints and plan ids that commands have shown on this machine. Nobody else is asked when
    /// a key is pressed.
    ///
    /// bash: webhookctl completions bash > ~/.local/share/bash-completion/completions/webhookctl
    ///
    /// zsh: webhookctl completions zsh > ~/.zfunc/_webhookctl
    ///
    /// fish: webhookctl completions fish > ~/.config/fish/completions/webhookctl.fish
    Completions(CompletionsArgs),
    /// Write a man page for each command
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct DevArgs {
    /// Send the demo webhooks: a good one, a duplicate, a forged, a flaky and a poisonous one
    #[arg(long)]
    pub demo: bool,
    /// Exit after the demo; 0 only if every webhook met the fate expected of it
    #[arg(long, requires = "demo")]
    pub once: bool,
    /// Break something on purpose, and show what becomes of events
    ///
    /// It says what is broken and what to watch, sends a webhook to begin with, and shows every
    /// change of every event. It has sources of its own, whose attempts outlast what breaks. On a
    /// terminal, c mends it and breaks it again.
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["demo", "sources"])]
    pub chaos: Option<Chaos>,
    /// Keep the state in this folder, for next time [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Begin with an empty state: say what --state DIR keeps, and throw it away
    #[arg(long, requires = "state")]
    pub reset: bool,
    /// Port for webhooks on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 8787)]
    pub port: u16,
    /// Sources to serve instead of those built in
    #[arg(long, value_name = "FILE")]
    pub sources: Option<PathBuf>,
    /// Template to build the stack from, instead of the one built in
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// Folder of the function binaries, instead of the one this program is in
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each switch of the command line"
)]
pub struct SendArgs {
    /// Provider to imitate, or the source to send as; `--list` shows the providers
    #[arg(value_name = "PRESET|SOURCE", required_unless_present_any = ["list", "event"])]
    pub preset: Option<String>,
    /// Send a stored event again, signed afresh: to the running local stack, or --to this machine
    ///
    /// Its id, a unique prefix of it, the provider's event id, or `source:event-id`. Signed with
    /// the secret of the local stack, or of this machine as `webhookctl listen --resign` does; the signature
    /// that it had is in `X-Webhookctl-Original-Signature`. Of a deployment this is a read, and is
    /// written down there as one.
    #[arg(long, value_name = "ID", conflicts_with_all = [
        "preset", "event_type", "data", "file", "id", "tamper", "duplicate", "count", "rate",
        "list", "new_key", "public_key", "key_from", "variant", "param",
    ])]
    pub event: Option<String>,
    /// URL to send to [default: the running local stack]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Source to send as, where several have this preset
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// How it is signed, where the preset knows several ways [default: default]
    #[arg(long, value_name = "NAME", requires = "to")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::assignment, requires = "to")]
    pub param: Vec<Assignment>,
    /// Type of the event [default: that of the preset's first sample]
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
    /// Where to read the private key that stands for the provider's: PKCS #8 in PEM
    ///
    /// For presets whose provider publishes a public key. `-` (stdin), `file:PATH` or `env:NAME`;
    /// a running `dev` has made one for each of its sources that takes Ed25519 or ECDSA.
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from,
          conflicts_with = "secret_from")]
    pub key_from: Option<SecretFrom>,
    /// Make such a key, print the public key as a source stores it, and send nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_from", "public_key"])]
    pub new_key: Option<PathBuf>,
    /// Print the public key of --key-from as a source stores it, and send nothing
    #[arg(long, requires = "key_from")]
    pub public_key: bool,
    /// The provider's id of the event [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Falsify it after signing
    #[arg(long, value_name = "WHAT")]
    pub tamper: Option<Tamper>,
    /// Send the same event a second time
    #[arg(long)]
    pub duplicate: bool,
    /// How many events to send
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// How fast to send them: 20/s, 100/m
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<Rate>,
    /// Wait for the outcome; exit 6 if it is not `done`
    #[arg(long)]
    pub wait: bool,
    /// List the presets, and whether and how each can be sent
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
    /// Explain one event: where it stands, why, and what to do next
    #[command(visible_alias = "show")]
    Inspect(InspectArgs),
    /// Print the exact body that arrived
    ///
    /// To a terminal only what is plain text; everything with --raw, or into a file.
    Body(BodyArgs),
    /// Compare the bodies of two events; exit 1 if they differ
    ///
    /// Values are told apart from how they are written: the order of keys, the spelling of numbers
    /// and strings, white space.
    Diff(DiffArgs),
    /// Follow events as they arrive and change, until Ctrl-C
    ///
    /// Looks once a second, and reads only. An event that was open before is looked at every five
    /// seconds.
    Tail(TailArgs),
    /// Write events into a file; what was exported by whom is written down
    Export(ExportArgs),
    /// Count events: how many came, what is stuck, how long they take
    ///
    /// Failed events, dead letters and the oldest one that waits are those of now, whenever they came.
    /// Duplicates are not counted: they leave no trace but in the metrics and logs.
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// How many
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Go on where a list stopped
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Columns of a table or of CSV, such as `id,status,next_action.text`
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
    /// Id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
    /// Also arrival, side effects, timeline, and who ran it again or what superseded it
    #[arg(long)]
    pub full: bool,
    /// Also the timeline
    #[arg(long, conflicts_with = "full")]
    pub timeline: bool,
    /// Show it again whenever it changes, until it is settled; exit 6 if it is not `done` then
    #[arg(long)]
    pub watch: bool,
}

impl Global {
    /// A query asks a JSON document; lines of JSON it asks one by one.
    pub fn format(&self) -> Format {
        match self.output {
            Format::Jsonl => Format::Jsonl,
            _ if self.query.is_some() => Format::Json,
            output => output,
        }
    }

    /// An empty variable is one that is not set.
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
