//! Where a command finds the inbox that it talks about: the local stack that is running, or a
//! deployment.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use shared::aws::{Aws, Patience};
use shared::config::{Config, EMBEDDED};
use shared::keyring::Keyring;
use shared::ledger::Ledger;
use shared::quarantine::Quarantine;
use shared::secrets::Secrets;

use crate::cli::Global;
use crate::output::CliError;
use crate::stack::Endpoints;

/// Where `dev` tells other commands of itself, below the folder it was started in.
const FILE: &str = ".mitt/local.json";

/// What a running `dev` says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Local {
    pub pid: u32,
    /// `{url}/in/{source}` takes webhooks.
    pub url: String,
    pub dynamodb: String,
    pub sqs: String,
    pub s3: String,
    pub ssm: String,
    pub table: String,
    pub bucket: String,
    /// Where doorbells ring.
    pub queue_url: String,
    /// SSM path of the catcher's secrets.
    pub secrets_path: String,
    pub sources: PathBuf,
    /// Where Lambda is.
    #[serde(default)]
    pub lambda: Option<String>,
    /// The name of backup-sync.
    #[serde(default)]
    pub backup_sync: Option<String>,
}

/// An inbox, and what is known of its sources.
pub struct Inbox {
    /// The name of the context, for documents and footers.
    pub name: String,
    pub ledger: Ledger,
    pub quarantine: Quarantine,
    /// The public keys that were fetched.
    pub keyring: Keyring,
    pub config: Config,
    pub local: Option<Local>,
}

impl Local {
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            dynamodb: self.dynamodb.clone(),
            sqs: self.sqs.clone(),
            s3: self.s3.clone(),
            ssm: self.ssm.clone(),
        }
    }

    /// Tells of a running `dev`; the file goes when the guard does.
    pub fn announce(&self) -> anyhow::Result<Announced> {
        let path = PathBuf::from(FILE);
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        std::fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Announced(path))
    }

    /// The `dev` that runs in this folder, if one does.
    pub fn find() -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(FILE),
        };
        let local: Self = serde_json::from_str(&text)
            .with_context(|| format!("{FILE} is not what dev writes"))?;
        Ok(local.is_running().then_some(local))
    }

    /// A killed `dev` leaves its file behind. Where there is no /proc to look at, the first
    /// call will tell.
    fn is_running(&self) -> bool {
        let proc = Path::new("/proc");
        !proc.join("self").exists() || proc.join(self.pid.to_string()).exists()
    }

    fn config(&self) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(&self.sources)
            .with_context(|| format!("read the sources of dev, {}", self.sources.display()))?;
        Config::parse(&text).with_context(|| self.sources.display().to_string())
    }

    /// The secrets of the sources.
    pub fn secrets(&self) -> Secrets {
        Secrets::new(self.endpoints().clients().ssm, &self.secrets_path)
    }
}

/// The file that tells of a running `dev`.
pub struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // Who is not there any more must not be found; a file that stays is recognised by its pid.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Inbox {
    /// The inbox that the global options name: `-c local` or none is the running `dev`, unless a
    /// table is named.
    pub fn open(global: &Global) -> anyhow::Result<Self> {
        match (global.context.as_deref(), &global.table) {
            (Some("local"), _) | (None, None) => Self::local(global.context.is_some()),
            (Some(name), None) => Err(CliError::usage(
                "context.unknown",
                format!("there is no context '{name}'"),
            )
            .note("`local` is the running dev; a deployment is named by --table and --region")
            .tip("webhookctl --table NAME --region REGION inbox list")
            .into()),
            (_, Some(table)) => Self::deployed(global, table),
        }
    }

    fn local(asked_for: bool) -> anyhow::Result<Self> {
        let Some(local) = Local::find()? else {
            let message = if asked_for {
                "no local stack is running in this folder"
            } else {
                "no inbox is named and no local stack is running in this folder"
            };
            return Err(CliError::failed("context.none", message)
                .note(format!("looked at: --table, MITT_TABLE, {FILE}"))
                .tip("webhookctl dev")
                .into());
        };
        let clients = local.endpoints().clients();
        let quarantine = Quarantine::new(clients.dynamodb.clone(), &local.table);
        let keyring = Keyring::new(clients.dynamodb.clone(), &local.table);
        let ledger = Ledger::new(
            clients.dynamodb,
            &local.table,
            Some((clients.s3, local.bucket.clone())),
        );
        let config = local.config()?;
        Ok(Self {
            name: "local".to_owned(),
            ledger: ledger.keeping(config.retentions()).ordering(&config),
            quarantine,
            keyring,
            config,
            local: Some(local),
        })
    }

    fn deployed(global: &Global, table: &str) -> anyhow::Result<Self> {
        let aws = Aws::for_operator(
            global.region.clone(),
            global.endpoint_url.clone(),
            Patience::LONG,
        )?;
        let config = Config::parse(EMBEDDED)?;
        Ok(Self {
            name: table.to_owned(),
            ledger: Ledger::new(aws.dynamodb(), table, None).keeping(config.retentions()),
            quarantine: Quarantine::new(aws.dynamodb(), table),
            keyring: Keyring::new(aws.dynamodb(), table),
            config,
            local: None,
        })
    }

    /// The names of the sources that are configured.
    pub fn sources(&self) -> Vec<&str> {
        self.config
            .sources()
            .map(|source| source.name.as_str())
            .collect()
    }
}
