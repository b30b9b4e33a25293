//! Finds the inbox of a command: the running local stack, or a deployment.

mod caller;
mod clients;
mod credentials;
mod file;
mod managed;
mod names;
mod opened;
mod options;
mod resolve;
mod running;
mod seen;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use local::Endpoints;
use serde::{Deserialize, Serialize};
use shared::aws::secrets::Secrets;
use shared::inbox::keyring::Keyring;
use shared::inbox::ledger::Ledger;
use shared::inbox::rejected::RejectedRequests;
use shared::inbox::source_versions::{Consistency, SourceVersions, VersionFacts};
use shared::sources::{Config, EMBEDDED};

use crate::meter;

pub use caller::Caller;
pub(crate) use caller::Run;
pub use clients::aws;
pub use credentials::Profile;
pub use file::{Context, Contexts};
pub use managed::{Labelled, ManagedSecret};
pub use names::Names;
pub use opened::Opened;
pub(crate) use options::TargetFlags;
pub use options::TargetOptions;
pub use resolve::{Chosen, Deployed};
pub use seen::SeenEvents;
pub(crate) use write::{with_context, with_default};

/// The file in which `dev` describes itself to other commands. The path is relative to the working
/// folder of `dev`.
const FILE: &str = ".mitt/local.json";

/// The operator of the sources that `dev` stores in its table for functions in containers. Commands
/// and the functions of `dev` read the file instead, which can change while `dev` runs.
pub const DEV: &str = "webhookctl dev";

/// The description of a running `dev`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Local {
    pub pid: u32,
    /// The base URL. A webhook for a source goes to `{url}/in/{source}`.
    pub url: String,
    pub dynamodb: String,
    pub sqs: String,
    pub s3: String,
    pub ssm: String,
    #[serde(default)]
    pub secrets_manager: String,
    pub table: String,
    pub bucket: String,
    /// The work queue.
    pub queue_url: String,
    /// The SSM path of the catcher's secrets.
    pub secrets_path: String,
    pub sources: PathBuf,
    /// The Lambda endpoint.
    #[serde(default)]
    pub lambda: Option<String>,
    /// The name of the backup-sync function.
    #[serde(default)]
    pub backup_sync: Option<String>,
    /// The names of the other resources.
    #[serde(default)]
    pub names: Names,
}

/// An inbox and the configuration of its sources. A clone uses the same clients.
#[derive(Clone)]
pub struct Deployment {
    /// The name of the context, for documents and footers.
    pub name: String,
    pub ledger: Ledger,
    pub quarantine: Arc<RejectedRequests>,
    /// The public keys that backup-sync has fetched.
    pub keyring: Arc<Keyring>,
    pub config: Arc<Config>,
    /// The version of the sources that `config` is; `None` if it is a file of this machine.
    pub version: Option<u64>,
    pub local: Option<Local>,
    /// The deployment in AWS; `None` for the local stack.
    pub deployed: Option<Deployed>,
    /// The caller of the command that opened the inbox.
    pub caller: Caller,
    /// The events that lists have shown.
    pub seen: SeenEvents,
}

impl Local {
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            dynamodb: self.dynamodb.clone(),
            sqs: self.sqs.clone(),
            s3: self.s3.clone(),
            ssm: self.ssm.clone(),
            secrets_manager: self.secrets_manager.clone(),
        }
    }

    /// Writes the file of a running `dev`. When the guard is dropped, it removes the file.
    pub fn announce(&self) -> anyhow::Result<Announced> {
        let path = PathBuf::from(FILE);
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        std::fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Announced(path))
    }

    /// Returns the `dev` that runs in this folder, if there is one.
    pub fn find() -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(FILE),
        };
        let local: Self = serde_json::from_str(&text)
            .with_context(|| format!("invalid {FILE}; start dev again"))?;
        Ok(local.is_running().then(|| local.with_names()))
    }

    /// Adds missing `names` from the other fields, because an older `dev` writes fewer names.
    fn with_names(mut self) -> Self {
        let known = Names {
            url: Some(self.url.clone()),
            table: Some(self.table.clone()),
            bucket: Some(self.bucket.clone()),
            queue_url: Some(self.queue_url.clone()),
            secrets_path: Some(self.secrets_path.clone()),
            backup_sync: self.backup_sync.clone(),
            ..Names::default()
        };
        self.names = known.or(&self.names);
        self
    }

    /// Returns whether the process of this `dev` exists. A killed `dev` leaves its file behind. On
    /// a system without /proc, this returns true, and the first request fails if `dev` does not
    /// run.
    fn is_running(&self) -> bool {
        let proc = Path::new("/proc");
        !proc.join("self").exists() || proc.join(self.pid.to_string()).exists()
    }

    fn config(&self) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(&self.sources)
            .with_context(|| format!("read the sources of dev, {}", self.sources.display()))?;
        Config::parse_for_dev(&text).with_context(|| self.sources.display().to_string())
    }

    /// Returns the secrets of the sources.
    pub fn secrets(&self) -> Secrets {
        Secrets::new(self.endpoints().clients().ssm, &self.secrets_path)
    }
}

/// The file of a running `dev`.
pub struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // Other commands must not find a stopped `dev`. If the file cannot be removed, they
        // recognise by the pid that `dev` has stopped.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Deployment {
    /// Returns the inbox that the options, the environment or the files select. If they select
    /// none, returns the running `dev`.
    pub async fn open(target: &TargetOptions) -> anyhow::Result<Self> {
        let chosen = Chosen::find(target)?;
        let mut inbox = match target.opened.inbox(&chosen).await {
            Some(opened) => opened?,
            None => Box::pin(Self::of(chosen)?.with_applied_sources()).await,
        };
        inbox.caller = target.caller.clone();
        Ok(inbox)
    }

    fn of(chosen: Chosen) -> anyhow::Result<Self> {
        match chosen {
            Chosen::Local(local) => Self::local(*local),
            Chosen::Deployed(deployed) => Self::deployed(*deployed),
        }
    }

    /// Uses the version of the sources that an operator applied, if the functions use it. If this
    /// cannot be found out, or if this release cannot read the version, the file stays in use, as
    /// in the functions.
    async fn with_applied_sources(mut self) -> Self {
        if let Ok(Some((version, config))) = self.applied_sources().await {
            self.ledger.follow(&config);
            self.config = Arc::new(config);
            self.version = Some(version);
        }
        self
    }

    async fn applied_sources(&self) -> anyhow::Result<Option<(u64, Config)>> {
        let versions = SourceVersions::beside(&self.ledger);
        let newer = versions.newer(Consistency::Eventual, |_| false).await?;
        let Some((VersionFacts { version, by, .. }, Some(text))) = newer else {
            return Ok(None);
        };
        if by == DEV {
            return Ok(None);
        }
        let report = self.ledger.operations().sources_report().await?;
        if report.is_some_and(|(_, report)| !report.from_table) {
            return Ok(None);
        }
        let config = match self.local {
            Some(_) => Config::parse_for_dev(&text)?,
            None => Config::parse(&text)?,
        };
        Ok(Some((version, config)))
    }

    /// Returns the inbox of a running `dev`.
    pub(crate) fn local(local: Local) -> anyhow::Result<Self> {
        let clients = local.endpoints().clients();
        let dynamodb = meter::dynamodb(&clients.dynamodb);
        let quarantine = RejectedRequests::new(dynamodb.clone(), &local.table);
        let keyring = Keyring::new(dynamodb.clone(), &local.table);
        let bodies = Some((meter::s3(&clients.s3), local.bucket.clone()));
        let ledger = Ledger::new(dynamodb, &local.table, bodies);
        let config = local.config()?;
        Ok(Self {
            name: "local".to_owned(),
            ledger: ledger.with_sources(&config),
            quarantine: Arc::new(quarantine),
            keyring: Arc::new(keyring),
            config: Arc::new(config),
            version: None,
            local: Some(local),
            deployed: None,
            caller: Caller::default(),
            seen: SeenEvents::default(),
        })
    }

    fn deployed(deployed: Deployed) -> anyhow::Result<Self> {
        let aws = deployed.aws(shared::aws::CallPolicy::LONG)?;
        let table = deployed.names.table.clone().unwrap_or_default();
        let config = match &deployed.sources {
            None => Config::parse(EMBEDDED)?,
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("read the sources {}", file.display()))?;
                Config::parse(&text).with_context(|| file.display().to_string())?
            }
        };
        let bucket = deployed.names.bucket.clone();
        let bodies = bucket.map(|bucket| (meter::s3(&aws.s3()), bucket));
        let dynamodb = meter::dynamodb(&aws.dynamodb());
        Ok(Self {
            name: deployed.name.clone(),
            ledger: Ledger::new(dynamodb.clone(), &table, bodies).with_sources(&config),
            quarantine: Arc::new(RejectedRequests::new(dynamodb.clone(), &table)),
            keyring: Arc::new(Keyring::new(dynamodb, &table)),
            config: Arc::new(config),
            version: None,
            local: None,
            deployed: Some(deployed),
            caller: Caller::default(),
            seen: SeenEvents::default(),
        })
    }

    /// Returns the Region of a deployment.
    pub fn region(&self) -> Option<&str> {
        self.deployed.as_ref()?.region.as_deref()
    }

    /// Returns the names of the contexts, and `local` if `dev` runs, except this inbox.
    pub fn others(&self) -> Vec<String> {
        // The command has read the files before. If they are no longer readable, the list is empty.
        let contexts = Contexts::read().unwrap_or_default().all;
        let local = matches!(Local::find(), Ok(Some(_))).then(|| "local".to_owned());
        let names = contexts.into_keys().chain(local);
        names.filter(|name| *name != self.name).collect()
    }

    /// Returns the names of the configured sources whose events workers take from a queue.
    pub fn pulled_sources(&self) -> Vec<&str> {
        let pulled = self.config.pulled();
        pulled.map(|source| source.name.as_str()).collect()
    }

    /// Returns the names of the configured sources.
    pub fn sources(&self) -> Vec<&str> {
        self.config
            .sources()
            .map(|source| source.name.as_str())
            .collect()
    }
}
