//! The tree of commands. The doc comments are the help texts.

use clap::{Args, Parser, Subcommand};

use super::completions::{CompletionsArgs, ManArgs};
use super::console::ConsoleArgs;
use super::context::ContextCommand;
use super::dev::DevArgs;
use super::dlq::DlqCommand;
use super::doctor::DoctorArgs;
use super::endpoint::EndpointCommand;
use super::erase::EraseArgs;
use super::hold::HoldCommand;
use super::inbox::InboxCommand;
use super::init::InitArgs;
use super::listen::ListenArgs;
use super::log::LogArgs;
use super::mcp::McpArgs;
use super::policies::PoliciesCommand;
use super::presets::PresetsCommand;
use super::quarantine::QuarantineCommand;
use super::reconcile::ReconcileCommand;
use super::replay::ReplayCommand;
use super::secrets::SecretsCommand;
use super::send::SendArgs;
use super::sources::SourcesCommand;
use super::status::StatusArgs;
use super::sync::SyncCommand;
use super::trial::TrialCommand;
use super::values::{ColorChoice, Zone};
use super::verify::VerifyArgs;
use super::work::WorkCommand;
use crate::output::{CliError, Format, Query};
use crate::target::TargetOptions;

/// Inspect and operate a webhook inbox on AWS, or run one on this machine
#[derive(Debug, Parser)]
#[command(
    name = "webhookctl",
    version,
    long_version = super::version::long(),
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

    /// Set to `0` to print no tips
    #[arg(long, global = true, hide = true, env = "WEBHOOKCTL_TIPS")]
    pub tips: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole system on this machine, without AWS
    ///
    /// The functions are the same binaries as in AWS. This process emulates the table, the queues,
    /// the bucket and the secrets. On a terminal, `dev` shows each change of each event. Press s to
    /// send a webhook, or q to stop.
    Dev(DevArgs),
    /// Send a signed test webhook, as a provider would
    ///
    /// The body is a sample of the provider's webhook, signed with the secret of the source.
    Send(SendArgs),
    /// Forward events to a URL on this machine as they arrive
    ///
    /// `listen` only reads the inbox: it receives no queue message, changes no event and stores no
    /// response of your program. With --backfill it sends past events first. While your program is
    /// unreachable, events wait, and are sent later. Quarantined events are skipped unless you pass
    /// --status quarantined.
    ///
    /// On a terminal, press r to send the last event again, d to show its details, p to pause, or q
    /// to stop. The arrow keys select another event for r and d.
    Listen(ListenArgs),
    /// Show the inbox in a browser on this machine
    ///
    /// Serves the pages on 127.0.0.1 only, and opens a browser with an address that is good once.
    /// The pages run the same commands as a terminal, with your credentials, and change nothing
    /// without --write. On a terminal, press o to open a page, n to end all sessions, or q to stop.
    Console(ConsoleArgs),
    /// Explain why a signature does or does not match
    ///
    /// Checks a rejected request or a stored event by its id, or a request that you pass with
    /// --body and -H. The command runs the same verification as the catcher. If the verification
    /// fails, the command tries the usual causes one by one and names the cause that fits. Exit 5
    /// if the request is not verified.
    Verify(VerifyArgs),
    /// Show what is wrong, worst first, and what to do about it
    ///
    /// Each line names one problem and the command that helps. Reads the table and the lengths of
    /// the queues, and changes nothing. Exit 5 if something is wrong.
    Status(StatusArgs),
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
    /// Review events that wait for an approval
    #[command(subcommand, arg_required_else_help = true)]
    Hold(HoldCommand),
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
    /// Let an agent read the inbox, over the Model Context Protocol
    ///
    /// Serves ten tools on stdin and stdout. They change nothing, and mark every text that a sender
    /// of webhooks chose. With --propose, the agent can also propose a replay, which a person
    /// applies. With --work, the agent gets other tools: it claims events of a queue, declares its
    /// effects, and ends the work.
    Mcp(McpArgs),
    /// Claim events of a queue, work on them, and end the work
    ///
    /// The commands call the API of workers, and print its answer as JSON. Exit 3 if the lease has
    /// ended, or if no source has the queue. After the end of a lease, another worker can have the
    /// event, so stop the work.
    #[command(subcommand, arg_required_else_help = true)]
    Work(WorkCommand),
    /// Write a first sources file into this folder
    ///
    /// Creates sources.toml with comments and an example, and adds the folder of `dev` to
    /// .gitignore. Never changes an existing sources file.
    Init(InitArgs),
    /// List and store secrets; prints fingerprints, never values
    #[command(subcommand, arg_required_else_help = true)]
    Secrets(SecretsCommand),
    /// Print IAM policies for programs
    #[command(subcommand, arg_required_else_help = true)]
    Policies(PoliciesCommand),
    /// Add, check, test and pause sources, and rotate their secrets
    #[command(subcommand, arg_required_else_help = true)]
    Sources(SourcesCommand),
    /// Check the presets of the providers against their test vectors
    #[command(subcommand, arg_required_else_help = true)]
    Presets(PresetsCommand),
    /// Show events that the scheduled sync found missing, or run it
    #[command(subcommand, arg_required_else_help = true)]
    Sync(SyncCommand),
    /// Compare the previous route of a source with Mitt
    #[command(subcommand, arg_required_else_help = true)]
    Trial(TrialCommand),
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

impl Cli {
    /// Returns an error if the command cannot print the output format.
    pub(super) fn checked_output(&self) -> Result<(), CliError> {
        let is_trace = matches!(self.command, Command::Inbox(InboxCommand::Trace(_)));
        if is_trace || self.global.output != Format::Otlp {
            return Ok(());
        }
        let message = "-o otlp is only supported by `webhookctl inbox trace`";
        Err(CliError::usage("usage.output", message).tip("remove -o, or use -o json"))
    }
}

impl Global {
    /// Returns the output format. `--query` without `-o` selects JSON. With JSON lines, the query
    /// applies to each line.
    pub fn format(&self) -> Format {
        match self.output {
            Format::Table if self.query.is_some() => Format::Json,
            output => output,
        }
    }

    /// Returns an error if the query cannot be applied to the output format.
    pub(super) fn checked_query(&self) -> Result<(), CliError> {
        if self.query.is_none() || matches!(self.format(), Format::Json | Format::Jsonl) {
            return Ok(());
        }
        let message = "--query is only supported with -o json and -o jsonl";
        Err(CliError::usage("usage.output", message).tip("remove -o, or use -o json"))
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
