//! Arguments of `sources`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::quarantine::SecretsAt;
use super::source_versions::{
    SourcesApplyArgs, SourcesDiffArgs, SourcesHistoryArgs, SourcesRollbackArgs,
};
use super::values::{self, Assignment, SecretFrom};
use crate::output::CliError;
use crate::output::time::When;
use crate::recipes;

#[derive(Debug, Subcommand)]
pub enum SourcesCommand {
    /// List the sources: last event, events per day, waiting events, secrets
    ///
    /// Without an inbox, it lists the configuration only.
    #[command(visible_alias = "ls")]
    List(SourcesListArgs),
    /// Show one source: how it is verified, its secrets, and which of them are in use
    Show(SourcesShowArgs),
    /// List the presets, or show one in full
    Presets(SourcesPresetsArgs),
    /// List the settings of the sources file, or show one
    Settings(SourcesSettingsArgs),
    /// Check a sources file before you deploy it
    Check(SourcesCheckArgs),
    /// Add a source to the sources file, and store its secret
    ///
    /// The file keeps its comments and its order. The whole file is checked before it is written.
    Add(SourcesAddArgs),
    /// Print a receiver for the events of a source, with the values of the source
    ///
    /// The receiver verifies the signature and handles each event once. --to writes the files into a
    /// folder, and changes no file that exists.
    Recipe(SourcesRecipeArgs),
    /// Send test webhooks through the public URL: valid, duplicate, forged and too large
    ///
    /// Exit 5 if one of them had an unexpected result. The event that the test stores is an
    /// ordinary event; the audit log records its id as a test.
    Test(SourcesTestArgs),
    /// Add a new secret beside the old one; later, remove the old one
    ///
    /// Both secrets are accepted until you pass --finish or --abort. --finish removes the old
    /// secret, unless it is still in use. --abort removes the new secret. Mitt removes
    /// no secret automatically. --overlap sets a reminder, which `sources list` shows when the time
    /// is over.
    RotateSecret(SourcesRotateArgs),
    /// Pause the events of a source, without using up attempts
    ///
    /// Webhooks are still received and stored. A worker finishes the event that it has started.
    Pause(SourcesPauseArgs),
    /// Resume a paused source, starting with the events that waited
    Resume(SourcesResumeArgs),
    /// Remove a source from the sources file
    ///
    /// Its events stay. Open events wait until a source has this name again.
    Remove(SourcesRemoveArgs),
    /// End the trial of a source: from then on, Mitt processes its events
    Promote(SourcesPromoteArgs),
    /// Put a sources file into force without a deployment
    ///
    /// Checks the file, shows what changes, asks, and writes a new version into the table. The
    /// functions use it within a minute. Exit 7 if another operator applied a version in the
    /// meantime, or if a change needs a flag. Requires the stack parameter Sources=table.
    Apply(SourcesApplyArgs),
    /// Compare a sources file with the sources in force
    ///
    /// Exit 0 if they are equal, 2 if they differ. Prints names of settings, no values.
    Diff(SourcesDiffArgs),
    /// List the applied versions of the sources, or show one
    History(SourcesHistoryArgs),
    /// Put the file of an earlier version into force again, as a new version
    Rollback(SourcesRollbackArgs),
    /// Print the sources file in force
    Export,
}

/// The configuration that a command reads.
#[derive(Debug, Clone, Default, Args)]
pub struct SourcesAt {
    /// Use this sources file, and read no inbox
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SourcesListArgs {
    #[command(flatten)]
    pub at: SourcesAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesShowArgs {
    /// Name of the source
    pub source: String,
    /// Number of recent events to check for the secret that verified them
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub events: u32,
    /// Also print the live secrets; the audit log first records who did it and why
    #[arg(long, requires = "reason", conflicts_with = "file")]
    pub reveal: bool,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY", requires = "reveal")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub at: SourcesAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesPresetsArgs {
    /// Show this preset in full: variants, signed message, window, handshake, answer, retries
    pub preset: Option<String>,
    /// Print the page infra/docs/presets.md
    #[arg(long, conflicts_with = "preset")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct SourcesSettingsArgs {
    /// Show this setting, such as `timeout` or `source[].retry.waits`, or those that contain the text
    #[arg(value_name = "SETTING")]
    pub setting: Option<String>,
    /// Print the page infra/docs/configuration.md
    #[arg(long, conflicts_with = "setting")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct SourcesCheckArgs {
    /// File to check [default: sources.toml if it exists, or infra/sources.toml]
    pub file: Option<PathBuf>,
    /// Also check whether the functions of the deployment could use the file: its format, its hosts
    /// and its timeouts
    #[arg(long)]
    pub deployed: bool,
}

/// The public URL of a deployment. A running `dev` provides its own.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct ApiAt {
    /// Address that providers send to (stack output `ApiUrl`)
    #[arg(
        long = "api-url",
        value_name = "URL",
        env = "MITT_API_URL",
        hide_env = true
    )]
    pub api_url: Option<String>,
}

/// Where to read a new secret. A secret is never an argument.
#[derive(Debug, Clone, Default, Args)]
pub struct NewSecretArgs {
    /// Where to read the secret: `-` (stdin), `file:PATH` or `env:NAME` [default: prompt for it]
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from)]
    pub secret_from: Option<SecretFrom>,
    /// Create a secret, and write it to this new file, for you to give to the provider
    #[arg(long, value_name = "FILE", conflicts_with = "secret_from")]
    pub new_secret: Option<PathBuf>,
}

/// Where a secret is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// SSM Parameter Store, with a slot for each value
    ParameterStore,
    /// AWS Secrets Manager, with a label for each version
    SecretsManager,
}

/// How the requests to a new destination are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SignMode {
    /// As Standard Webhooks, with the egress secret
    Standard,
    /// As the provider signs its webhooks, with the egress secret
    Provider,
}

impl NewSecretArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.secret_from.is_some() || self.new_secret.is_some()
    }
}

#[derive(Debug, Args)]
pub struct SourcesAddArgs {
    /// Name of the source: 1 to 40 of a-z, 0-9 and -
    pub source: String,
    /// Preset of the provider; `sources presets` lists them
    #[arg(long, value_name = "PRESET")]
    pub preset: String,
    /// Variant of the preset, if it has several [default: default]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::assignment)]
    pub param: Vec<Assignment>,
    /// URL that the events are posted to [default: the events are only stored]
    ///
    /// Also adds the host to the allowed hosts. The requests are signed with the egress secret that
    /// has the name of the source. To store it: webhookctl secrets put NAME --egress
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Signature of the requests to the URL [default: standard]
    ///
    /// With `provider`, a service that already verifies the provider's webhooks needs no change.
    #[arg(long, value_name = "MODE", value_enum, requires = "to")]
    pub sign: Option<SignMode>,
    /// Where to store the secret [default: parameter-store]
    #[arg(long, value_name = "STORE", value_enum)]
    pub secret_store: Option<Store>,
    /// Sources file [default: that of the running dev, sources.toml, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Change only the file, and store no secret
    #[arg(long, conflicts_with_all = ["secret_from", "new_secret"])]
    pub no_secret: bool,
    #[command(flatten)]
    pub new_secret: NewSecretArgs,
    #[command(flatten)]
    pub api_at: ApiAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesRemoveArgs {
    /// Name of the source
    pub source: String,
    /// The source name again, to confirm
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Also delete its secrets
    #[arg(long)]
    pub with_secrets: bool,
    /// Sources file [default: that of the running dev, sources.toml, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesRecipeArgs {
    /// Name of the source
    pub source: String,
    /// Framework or service that receives the events
    #[arg(long = "for", value_name = "FRAMEWORK", value_parser = recipes::names())]
    pub framework: String,
    /// Folder to write the files to [default: print them]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Sources file [default: that of the running dev, sources.toml, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SourcesPromoteArgs {
    /// Name of the source
    pub source: String,
    /// Also if the route accepted requests that Mitt would have rejected, or no event proves that
    /// Mitt can verify the source
    #[arg(long)]
    pub anyway: bool,
    /// Sources file [default: that of the running dev, sources.toml, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SourcesTestArgs {
    /// Name of the source
    pub source: String,
    #[command(flatten)]
    pub api_at: ApiAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesRotateArgs {
    /// Name of the source
    pub source: String,
    /// How long both secrets should be accepted: 24h, 7d
    #[arg(long, value_name = "TIME", value_parser = overlap, default_value = "24h",
          conflicts_with_all = ["finish", "abort"])]
    pub overlap: Duration,
    /// End the overlap: accept only the new secret
    #[arg(long, conflicts_with = "abort")]
    pub finish: bool,
    /// Cancel the rotation: accept only the old secret
    #[arg(long)]
    pub abort: bool,
    /// The source name again, to remove a secret that is still in use
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub new_secret: NewSecretArgs,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesPauseArgs {
    /// Name of the source
    pub source: String,
    /// Reason; `sources show` prints it
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct SourcesResumeArgs {
    /// Name of the source
    pub source: String,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
}

fn overlap(text: &str) -> Result<Duration, CliError> {
    let wrong = || {
        CliError::usage("usage.overlap", format!("invalid duration '{text}'"))
            .tip("write 24h or 7d")
    };
    match When::parse(text) {
        Ok(When::Ago(span)) => Duration::try_from(span).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}
