//! A stack with a few events, and commands that reach the stack through the recorder.

use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_ssm::types::ParameterType;
use local::{Options, Stack};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use tokio::process::Command;
use webhookctl::target::{Local, Names};

use crate::provider;
use crate::recorder::{Call, Recorder, Service};

/// The prefix of names in Secrets Manager.
pub(crate) const PREFIX: &str = "prod/webhooks";

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) ledger: Ledger,
    pub(crate) now: UnixMillis,
    pub(crate) folder: PathBuf,
    recorder: Recorder,
}

impl World {
    pub(crate) async fn start() -> Self {
        let world = Self::with(&SOURCES.replace("{provider}", &provider::serve())).await;
        for (function, name) in [
            ("Catcher", "stripe-main"),
            ("Catcher", "acme"),
            ("BackupSync", "stripe-main"),
            ("BackupSync", "app"),
        ] {
            let path = world.stack.secrets_path(function).unwrap();
            let name = format!("{path}/{name}/current");
            world.secret(&name, SECRET).await;
        }
        world
    }

    /// Starts a stack that has these sources, without their secrets.
    pub(crate) async fn with(sources: &str) -> Self {
        let folder = folder();
        let file = folder.join("sources.toml");
        std::fs::write(&file, sources).unwrap();
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
        let program = PathBuf::from(env!("CARGO_BIN_EXE_webhookctl"));
        let options = Options {
            sources_file: Some(file),
            parameters: [
                ("SecretsManagerPrefix".to_owned(), PREFIX.to_owned()),
                ("Sources".to_owned(), "table".to_owned()),
                ("LongActions".to_owned(), "true".to_owned()),
            ]
            .into(),
            ..Options::new(template, program.parent().unwrap())
        };
        let stack = Stack::start(options).await.unwrap();
        let world = Self {
            ledger: Ledger::new(stack.clients().dynamodb, stack.table().unwrap(), None),
            now: UnixMillis::now(),
            stack,
            folder,
            recorder: Recorder::new(),
        };
        world.announce().await;
        world
    }

    pub(crate) async fn secret(&self, name: &str, value: &str) {
        let put = self.stack.clients().ssm.put_parameter().name(name);
        let put = put.value(value).r#type(ParameterType::SecureString);
        put.overwrite(true).send().await.unwrap();
    }

    /// Writes the file that describes the stack to commands, with the recorder in front of each
    /// service.
    async fn announce(&self) {
        let at = self.stack.endpoints();
        let before = async |service, url: &str| self.recorder.stand_before(service, url).await;
        let local = Local {
            pid: std::process::id(),
            url: self.stack.front_url(),
            dynamodb: before(Service::DynamoDb, &at.dynamodb).await,
            sqs: before(Service::Sqs, &at.sqs).await,
            s3: before(Service::S3, &at.s3).await,
            ssm: before(Service::Ssm, &at.ssm).await,
            secrets_manager: before(Service::SecretsManager, &at.secrets_manager).await,
            table: self.table().to_owned(),
            bucket: self.stack.bucket("Bodies").unwrap().to_owned(),
            queue_url: self.stack.queue_url("WorkQueue").unwrap().to_owned(),
            secrets_path: self.stack.secrets_path("Catcher").unwrap().to_owned(),
            sources: self.folder.join("sources.toml"),
            lambda: Some(before(Service::Lambda, self.stack.lambda_url()).await),
            backup_sync: Some(self.backup_sync()),
            names: Names {
                secrets_manager_prefix: Some(PREFIX.to_owned()),
                ..Names::default()
            },
        };
        let place = self.folder.join(".mitt");
        std::fs::create_dir_all(&place).unwrap();
        let text = serde_json::to_string(&local).unwrap();
        std::fs::write(place.join("local.json"), text).unwrap();
    }

    pub(crate) fn table(&self) -> &str {
        self.stack.table().unwrap()
    }

    pub(crate) fn backup_sync(&self) -> String {
        let template = self.stack.template();
        template.function("BackupSync").unwrap().name.clone()
    }

    /// Runs a command. Its stdout and stderr are not terminals.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command.args(args).current_dir(&self.folder);
        command.env_remove("MITT_TABLE").env_remove("NO_COLOR");
        command.stdin(std::process::Stdio::null());
        command.output().await.unwrap()
    }

    /// Returns the stdout of a command, which must succeed.
    pub(crate) async fn text(&self, args: &[&str]) -> String {
        let output = self.run(args).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let text = self.text(&[args, &["-o", "json"]].concat()).await;
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the calls since the last time.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.recorder.take()
    }

    /// Stores an event that was received at this time, as the catcher does.
    pub(crate) async fn put(&self, source: &str, id: &str, kind: &str, at: UnixMillis) -> EventKey {
        let event = Event::fetched(Fetched {
            source,
            provider: "stripe",
            preset: "stripe",
            id,
            kind,
            body: format!(r#"{{"id":"{id}","type":"{kind}"}}"#).into(),
            now: at,
            via: Via::Webhook,
            config: "test",
        });
        self.ledger.receive(&event, at).await.unwrap();
        event.key().clone()
    }

    pub(crate) async fn invoke(&self, task: &str) -> Value {
        let task = json!({ "task": task });
        let invocation = self.stack.invoke("BackupSync", &task).await.unwrap();
        invocation.json().unwrap()
    }

    pub(crate) fn ago(&self, seconds: u64) -> UnixMillis {
        self.now - Duration::from_secs(seconds)
    }

    pub(crate) async fn end(self) {
        let folder = self.folder.clone();
        self.stack.stop().await;
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The secret of both sources.
const SECRET: &str = "whsec_bWl0dC1kZW1vLXNlY3JldA==";

const SOURCES: &str = r#"
schema = 1
[forward]
allow_loopback = true

[[source]]
name = "acme"
preset = "standard-webhooks"
[[source.action]]
kind = "keep"

[[source]]
name = "pubsub"
preset = "google-pubsub"
params = { audience = "https://in.example.test/pubsub", email = "push@project.iam.gserviceaccount.com" }
[[source.action]]
kind = "keep"

[[source]]
name = "stripe-main"
preset = "stripe"
params = { api = "{provider}" }
order = { mode = "strict" }
[[source.action]]
kind = "keep"
[source.sync]
[source.endpoint]
url = "https://hooks.example.test/in/stripe-main"
api = "{provider}"
events = ["invoice.paid"]
[[source.reconcile]]
objects = "subscriptions"
fields = [{ name = "status" }]
[source.reconcile.local]
kind = "http"
url = "{provider}/state"
secret = "app"
"#;

fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("commands-{}-{number}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
