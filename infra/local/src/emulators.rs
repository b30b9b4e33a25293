//! The emulated services, without functions.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;

use super::{
    clients::{Clients, Endpoints},
    dynamodb,
    names::random_hex,
    runtime::Engine,
    s3,
    secret_changes::Changes,
    secrets_manager, sqs, ssm, state_dir,
    template::{Template, create_table},
};

/// DynamoDB, SQS, S3, SSM and Secrets Manager on loopback ports. They run until this value is
/// dropped.
///
/// With a folder, the table, the objects and the parameters are stored. Messages are never stored.
pub struct Emulators {
    pub(super) engine: Engine,
    endpoints: Endpoints,
    state: State,
    pub(super) changes: Changes,
}

impl Emulators {
    /// Starts the services. `state` is the folder for stored data. With `None`, nothing is stored.
    pub fn start(state: Option<&Path>) -> anyhow::Result<Self> {
        let state = State::open(state)?;
        let engine = Engine::start()?;
        let handle = engine.handle();
        let kept = |name: &str| state.kept.then(|| state.folder.join(name));
        let changes = Changes::new();
        let secrets = secrets_manager::Store::open(kept("secrets.json"), changes.clone())?;
        let endpoints = Endpoints {
            dynamodb: dynamodb::serve(&handle, kept("dynamodb.sqlite").as_deref())?,
            sqs: sqs::serve(&handle)?,
            s3: s3::serve(&handle, state.folder.join("s3"))?,
            ssm: ssm::serve(
                &handle,
                kept("ssm.json"),
                Arc::clone(&secrets),
                changes.clone(),
            )?,
            secrets_manager: secrets_manager::serve(&handle, secrets)?,
        };
        Ok(Self {
            engine,
            endpoints,
            state,
            changes,
        })
    }

    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Creates clients for use on the current runtime.
    pub fn clients(&self) -> Clients {
        self.endpoints.clients()
    }

    /// Returns the state folder, or a temporary one.
    pub fn folder(&self) -> &Path {
        &self.state.folder
    }

    /// Creates the tables, queues and buckets of the template that do not exist.
    pub async fn provision(&self, template: &Template) -> anyhow::Result<()> {
        let clients = self.clients();
        for table in template.tables.values() {
            create_table(&clients.dynamodb, table, &table.name).await?;
        }
        for queue in template.queues.values() {
            clients
                .sqs
                .create_queue()
                .queue_name(&queue.name)
                .set_attributes(Some(
                    queue
                        .attributes
                        .iter()
                        .map(|(name, value)| (name.as_str().into(), value.clone()))
                        .collect(),
                ))
                .send()
                .await
                .with_context(|| format!("create the queue {}", queue.name))?;
        }
        for bucket in template.buckets.values() {
            clients
                .s3
                .create_bucket()
                .bucket(bucket)
                .send()
                .await
                .with_context(|| format!("create the bucket {bucket}"))?;
        }
        Ok(())
    }
}

/// The state folder. A temporary folder is deleted at the end.
struct State {
    folder: PathBuf,
    kept: bool,
    /// The lock file, which is locked while the folder is in use.
    _lock: File,
}

impl State {
    fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let kept = folder.is_some();
        let folder = folder.map_or_else(
            || std::env::temp_dir().join(format!("mitt-{}", random_hex(8))),
            Path::to_path_buf,
        );
        let prepare = || -> std::io::Result<PathBuf> {
            fs::create_dir_all(folder.join("logs"))?;
            // Functions get paths in this folder and run in another working directory.
            folder.canonicalize()
        };
        let folder =
            prepare().with_context(|| format!("create the state folder {}", folder.display()))?;
        Ok(Self {
            _lock: state_dir::lock(&folder)?,
            folder,
            kept,
        })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
