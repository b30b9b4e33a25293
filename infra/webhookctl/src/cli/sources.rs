//! Arguments of `sources`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::quarantine::SecretsAt;
use super::values::{self, Assignment, SecretFrom};
use crate::output::CliError;
use crate::output::time::When;

#[derive(Debug, Subcommand)]
pub enum SourcesCommand {
    /// List the sources: last event, events of a day, what waits, live secrets
    ///
    /// Without an inbox to ask, it lists the configuration alone, and says so.
    #[command(visible_alias = "ls")]
    List(SourcesListArgs),
    /// Show one source: how it is verified, its secrets and which of them arrive
    Show(SourcesShowArgs),
    /// List the presets, or show one whole
    Presets(SourcesPresetsArgs),
    /// Check a sources file: every fault with its line and what was meant
    Check(SourcesCheckArgs),
    /// Add a source to the sources file, and store its secret
    ///
    /// The file keeps its comments and its order. It is checked as a whole before it is written.
    Add(SourcesAddArgs),
    /// Send test webhooks through the real URL: a good one, the same again, a forged, a large one
    ///
    /// Exit 5 if one of them did not meet the fate that it should. What is stored by it stays an
    /// event like any other; its id is written down as a test.
    Test(SourcesTestArgs),
    /// Take a new secret beside the old one, and end the old one when nobody uses it any more
    ///
    /// Both are accepted until --finish, which refuses as long as the old one still arrives, or
    /// --abort, which takes the new one away. Nothing ends by itself: --overlap says when somebody
    /// should end it, and `sources list` says when that is over.
    RotateSecret(SourcesRotateArgs),
    /// Put the events of a source off, without spending their attempts
    ///
    /// Webhooks are received and kept as ever. What a worker has begun it ends.
    Pause(SourcesPauseArgs),
    /// Work on the events of a source again, those that waited first
    Resume(SourcesResumeArgs),
    /// Take a source out of the sources file
    ///
    /// Its events stay. Those that are open wait for as long as no source has this name.
    Remove(SourcesRemoveArgs),
}

/// Which configuration a command is about.
#[derive(Debug, Clone, Default, Args)]
pub struct SourcesAt {
    /// Read this file of sources, and ask no inbox
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
    /// How many of the newest events are looked at, for which secret proved them
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub events: u32,
    /// Also print the live secrets themselves; who did so and why is written down first
    #[arg(long, requires = "reason", conflicts_with = "file")]
    pub reveal: bool,
    /// Why
    #[arg(short = 'm', long, value_name = "WHY", requires = "reveal")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub at: SourcesAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesPresetsArgs {
    /// Show this preset whole: variants, signed message, window, handshake, answer, retries
    pub preset: Option<String>,
    /// Print the page infra/docs/presets.md
    #[arg(long, conflicts_with = "preset")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct SourcesCheckArgs {
    /// File to check
    #[arg(default_value = "infra/sources.toml")]
    pub file: PathBuf,
}

/// The public address of a deployment. A running `dev` says its own.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct ApiAt {
    /// Address that senders deliver to, the output `ApiUrl`
    #[arg(
        long = "api-url",
        value_name = "URL",
        env = "MITT_API_URL",
        hide_env = true
    )]
    pub api_url: Option<String>,
}

/// Where a new secret comes from. It is never an argument itself.
#[derive(Debug, Clone, Default, Args)]
pub struct NewSecretArgs {
    /// Where to read the secret: `-` (stdin), `file:PATH` or `env:NAME` [default: ask for it]
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from)]
    pub secret_from: Option<SecretFrom>,
    /// Make a secret, and write it to this new file for the provider to be told
    #[arg(long, value_name = "FILE", conflicts_with = "secret_from")]
    pub new_secret: Option<PathBuf>,
}

/// Where a secret is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// SSM Parameter Store, with a slot for each value
    ParameterStore,
    /// AWS Secrets Manager, with a label for each version
    SecretsManager,
}

#[derive(Debug, Args)]
pub struct SourcesAddArgs {
    /// Name of the source: 1 to 40 of a-z, 0-9 and -
    pub source: String,
    /// Its provider; `sources presets` lists them
    #[arg(long, value_name = "PRESET")]
    pub preset: String,
    /// How it signs, where the preset knows several ways [default: default]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::assignment)]
    pub param: Vec<Assignment>,
    /// Where its secret is kept [default: parameter-store]
    #[arg(long, value_name = "STORE", value_enum)]
    pub secret_store: Option<Store>,
    /// Sources file [default: that of the running dev, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Change the file alone, and store no secret
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
    /// The name once more
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Delete its secrets as well
    #[arg(long)]
    pub with_secrets: bool,
    /// Sources file [default: that of the running dev, or infra/sources.toml]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
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
    /// For how long both shall be accepted: 24h, 7d
    #[arg(long, value_name = "TIME", value_parser = overlap, default_value = "24h",
          conflicts_with_all = ["finish", "abort"])]
    pub overlap: Duration,
    /// End the overlap: only the new secret is accepted
    #[arg(long, conflicts_with = "abort")]
    pub finish: bool,
    /// Give the rotation up: only the old secret is accepted
    #[arg(long)]
    pub abort: bool,
    /// The name of the source, to do it although the secret that goes is in use
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Why
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
    /// Why; it is shown to whoever looks at the source
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct SourcesResumeArgs {
    /// Name of the source
    pub source: String,
    /// Why
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
}

fn overlap(text: &str) -> Result<Duration, CliError> {
    let wrong = || {
        CliError::usage("usage.overlap", format!("'{text}' is not a span of time"))
            .tip("write 24h or 7d")
    };
    match When::parse(text) {
        Ok(When::Ago(span)) => Duration::try_from(span).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}
