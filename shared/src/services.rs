//! Reads the settings from the environment, and creates the services of a function from them.

use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::aws::secrets::{Managed, Secrets};
use crate::aws::{Aws, CallPolicy, TableClient};
use crate::base::env::env_var;
use crate::inbox::Inbox;
use crate::inbox::current_sources::CurrentSources;
use crate::inbox::fetch_back::FetchBack;
use crate::inbox::keyring::Keyring;
use crate::inbox::ledger::Ledger;
use crate::inbox::queue::Queue;
use crate::inbox::rejected::RejectedRequests;
use crate::inbox::source_versions::SourceVersions;
use crate::inbox::spill::Spill;
use crate::sources::{Bounds, Config};

/// The last part of the path of the webhook secrets. Only these secrets can be in Secrets Manager.
const SENDERS: &str = "/ingress";

/// The default time limit of the catcher, in seconds.
const ANSWER_TIMEOUT: u64 = 10;

/// The default time after which an open event counts as waiting too long, in minutes.
const WAITING_MINUTES: u64 = 30;

/// The settings of a function, from environment variables that `template.yaml` sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `MITT_TABLE`: the name of the inbox table.
    pub table: String,
    /// `MITT_QUEUE_URL`: the work queue.
    pub queue_url: String,
    /// `MITT_BACKLOG_QUEUE_URL`: the backlog queue. Only the functions that send messages to this
    /// queue have the setting.
    pub backlog_queue_url: Option<String>,
    /// `MITT_LONG_QUEUE_URL`: the queue for long actions, if the stack has one. Only the processor,
    /// which sends messages to it, and backup-sync, which reports it to operators, have the setting.
    pub long_queue_url: Option<String>,
    /// `MITT_LONG_ACTIONS`: `true` for the function that runs long actions.
    pub runs_long_actions: bool,
    /// `MITT_SPILL_QUEUE_URL`: the spill queue, for events that are not in the ledger yet.
    pub spill_queue_url: String,
    /// `MITT_BODY_BUCKET`: the bucket of large bodies.
    pub body_bucket: String,
    /// `MITT_SECRETS_PATH`: the path of this function's secrets in Parameter Store.
    pub secrets_path: String,
    /// `MITT_EGRESS_PATH`: the path of the secrets of destinations, if it differs from
    /// `secrets_path`. With a trial, the catcher signs requests for the route.
    pub egress_path: Option<String>,
    /// `MITT_ANSWER_TIMEOUT`: the time limit of the catcher in seconds, 10 by default.
    pub answer_timeout: Duration,
    /// `MITT_WAITING_MINUTES`: the health report of backup-sync names events that have been open for
    /// longer, 30 minutes by default.
    pub longest_wait: Duration,
    /// `MITT_INGRESS_PATH`: the path of the webhook secrets, if it differs from `secrets_path`.
    /// backup-sync reads these secrets to verify requests that waited for a certificate.
    pub ingress_path: Option<String>,
    /// `MITT_SECRETS_MANAGER_PREFIX`: the prefix of the webhook secrets in Secrets Manager, if the
    /// function may read them.
    pub secrets_manager_prefix: Option<String>,
    /// `MITT_SOURCES_FILE`: a sources file that replaces the embedded file. The local stack and
    /// deployments with the file in a Lambda layer use this setting.
    pub sources_file: Option<String>,
    /// `MITT_SOURCES`: `table` if the function follows the versions of the sources in the inbox
    /// table. With `embedded`, or without a value, it uses only its file.
    pub follows_table: bool,
    /// `MITT_ALLOWED_HOSTS`: the hosts that a version in the table may allow.
    pub allowed_hosts: String,
}

impl Settings {
    /// Reads the settings from the environment. The error names the missing variable.
    pub fn from_env() -> anyhow::Result<Self> {
        Ok(Self {
            table: required("MITT_TABLE")?,
            queue_url: required("MITT_QUEUE_URL")?,
            backlog_queue_url: env_var("MITT_BACKLOG_QUEUE_URL"),
            long_queue_url: env_var("MITT_LONG_QUEUE_URL"),
            runs_long_actions: env_var("MITT_LONG_ACTIONS").as_deref() == Some("true"),
            spill_queue_url: required("MITT_SPILL_QUEUE_URL")?,
            body_bucket: required("MITT_BODY_BUCKET")?,
            secrets_path: required("MITT_SECRETS_PATH")?,
            egress_path: env_var("MITT_EGRESS_PATH").filter(|path| !path.is_empty()),
            answer_timeout: answer_timeout(env_var("MITT_ANSWER_TIMEOUT").as_deref())?,
            longest_wait: longest_wait(env_var("MITT_WAITING_MINUTES").as_deref())?,
            ingress_path: env_var("MITT_INGRESS_PATH"),
            secrets_manager_prefix: env_var("MITT_SECRETS_MANAGER_PREFIX"),
            sources_file: env_var("MITT_SOURCES_FILE"),
            follows_table: follows_table(env_var("MITT_SOURCES").as_deref())?,
            allowed_hosts: env_var("MITT_ALLOWED_HOSTS").unwrap_or_default(),
        })
    }

    /// Reads the configuration of the sources that the deployment contains.
    pub fn config(&self) -> anyhow::Result<Config> {
        let Some(path) = &self.sources_file else {
            return Config::parse(crate::sources::EMBEDDED).context("parse the embedded sources");
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read MITT_SOURCES_FILE {path}"))?;
        Config::parse(&text).with_context(|| format!("parse MITT_SOURCES_FILE {path}"))
    }

    /// Returns the current sources, which begin with the configuration of the deployment.
    fn sources(
        &self,
        config: Config,
        dynamodb: &TableClient,
        ledger: &Ledger,
        managed: Managed,
        is_local: bool,
    ) -> CurrentSources {
        let bounds = Bounds::new(&self.allowed_hosts, &config).or_loopback(is_local);
        let sources = CurrentSources::fixed(config);
        if !self.follows_table {
            return sources;
        }
        let versions = SourceVersions::new(dynamodb.clone(), &self.table);
        sources.following(versions, bounds, ledger.clone(), managed)
    }
}

/// Returns whether the versions in the table are in force.
fn follows_table(sources: Option<&str>) -> anyhow::Result<bool> {
    match sources {
        None | Some("embedded") => Ok(false),
        Some("table") => Ok(true),
        Some(_) => bail!("invalid MITT_SOURCES; use embedded or table"),
    }
}

fn answer_timeout(seconds: Option<&str>) -> anyhow::Result<Duration> {
    let seconds = seconds.map_or(Ok(ANSWER_TIMEOUT), str::parse);
    let seconds = seconds.context("invalid MITT_ANSWER_TIMEOUT; use a number of seconds")?;
    Ok(Duration::from_secs(seconds))
}

fn longest_wait(minutes: Option<&str>) -> anyhow::Result<Duration> {
    let minutes = minutes.map_or(Ok(WAITING_MINUTES), str::parse);
    let minutes = minutes.context("invalid MITT_WAITING_MINUTES; use a number of minutes")?;
    Ok(Duration::from_secs(minutes.saturating_mul(60)))
}

/// The clients and modules that every function uses.
pub struct Services {
    pub sources: CurrentSources,
    /// Creates the clients that only one function needs.
    pub aws: Aws,
    /// The name of the table.
    pub table: String,
    pub secrets: Secrets,
    /// The webhook secrets, if the function's own secrets have another path.
    pub ingress: Option<Secrets>,
    /// The secrets of destinations, for a catcher that signs requests for the route of a trial.
    pub egress: Option<Secrets>,
    /// The time limit of the catcher.
    pub answer_timeout: Duration,
    /// The age from which an open event counts as waiting too long.
    pub longest_wait: Duration,
    pub keyring: Keyring,
    pub fetch_back: FetchBack,
    pub inbox: Inbox,
    pub spill: Spill,
    pub quarantine: RejectedRequests,
    /// Whether this function runs long actions.
    pub runs_long_actions: bool,
}

impl Services {
    /// Creates the services from the environment, without a network call.
    pub fn from_env(patience: CallPolicy) -> anyhow::Result<Self> {
        let settings = Settings::from_env()?;
        let aws = Aws::from_env(patience)?;
        let config = settings.config()?;
        let (dynamodb, sqs, ssm) = (aws.table(), aws.queues(), aws.parameters());
        let ledger = Ledger::new(dynamodb.clone(), &settings.table, None)
            .with_bucket(aws.later(Aws::s3), &settings.body_bucket)
            .with_sources(&config);
        let prefix = settings.secrets_manager_prefix.as_deref();
        let managed = Managed::new(config.managed_secrets(), prefix);
        let secrets = |path: &String| {
            let secrets = Secrets::new(ssm.clone(), path);
            if path.ends_with(SENDERS) {
                secrets.with_managed(managed.clone())
            } else {
                secrets
            }
        };
        Ok(Self {
            secrets: secrets(&settings.secrets_path),
            egress: settings.egress_path.as_ref().map(secrets),
            answer_timeout: settings.answer_timeout,
            longest_wait: settings.longest_wait,
            ingress: settings.ingress_path.as_ref().map(secrets),
            sources: settings.sources(config, &dynamodb, &ledger, managed.clone(), aws.is_local()),
            keyring: Keyring::new(dynamodb.clone(), &settings.table),
            fetch_back: FetchBack::new(dynamodb.clone(), &settings.table),
            quarantine: RejectedRequests::new(dynamodb, &settings.table),
            spill: Spill::new(sqs.clone(), &settings.spill_queue_url),
            inbox: Inbox {
                ledger,
                queue: Queue::new(sqs, &settings.queue_url)
                    .with_backlog(settings.backlog_queue_url.clone())
                    .with_long(settings.long_queue_url.clone()),
            },
            table: settings.table,
            runs_long_actions: settings.runs_long_actions,
            aws,
        })
    }
}

fn required(name: &str) -> anyhow::Result<String> {
    env_var(name).with_context(|| {
        format!(
            "{name} is not set; template.yaml sets it for each function, and `webhookctl dev` \
             writes it to .mitt/sam-env.json and .mitt/lambda.env for local runs"
        )
    })
}
