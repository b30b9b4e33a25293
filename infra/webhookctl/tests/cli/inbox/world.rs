//! A table for the test, events in every state, and the program that reads them.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use local::{Emulators, Naming, Template, names};
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Claim, Item, Ledger, Settlement};
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::folder::Folder;
pub(crate) use crate::support::folder::stderr;
pub(crate) use testkit::sts::WHO;
use testkit::sts::sts;

/// A minute in seconds.
const MINUTE: u64 = 60;

pub(crate) struct World {
    pub(crate) emulators: Emulators,
    pub(crate) table: String,
    pub(crate) bucket: String,
    pub(crate) ledger: Ledger,
    pub(crate) now: UnixMillis,
    pub(crate) folder: Folder,
    /// The address of DynamoDB that the program uses.
    pub(crate) dynamodb: String,
    sts: String,
}

/// An event to store, and its outcome.
pub(crate) struct New<'a> {
    pub(crate) source: &'a str,
    pub(crate) preset: &'a str,
    pub(crate) id: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) via: Via,
    pub(crate) minutes_ago: u64,
    pub(crate) body: String,
    pub(crate) end: Option<Settlement>,
}

impl<'a> New<'a> {
    pub(crate) fn of(source: &'a str, id: &'a str) -> Self {
        Self {
            source,
            preset: "stripe",
            id,
            kind: "invoice.paid",
            via: Via::Webhook,
            minutes_ago: 1,
            body: format!(r#"{{"id":"{id}","data":{{"object":{{"customer":"cus_{id}"}}}}}}"#),
            end: None,
        }
    }
}

impl World {
    pub(crate) async fn start(name: &str) -> Self {
        let emulators = Emulators::start(None).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
        let template = Template::load(Path::new(path), &Naming::default()).unwrap();
        Box::pin(emulators.provision(&template)).await.unwrap();
        let table = template.tables["Inbox"].name.clone();
        let bucket = template.buckets["Bodies"].clone();
        let clients = emulators.clients();
        let ledger = Ledger::new(clients.dynamodb, &table, Some((clients.s3, bucket.clone())));
        Self {
            dynamodb: emulators.endpoints().dynamodb.clone(),
            emulators,
            table,
            bucket,
            ledger,
            now: UnixMillis::now(),
            folder: Folder::new(&format!("inbox-{name}")).unwrap(),
            sts: sts().await.unwrap(),
        }
    }

    pub(crate) fn ago(&self, minutes: u64) -> UnixMillis {
        self.now - Duration::from_secs(minutes * MINUTE)
    }

    /// Stores the event, and settles it if it has an outcome.
    pub(crate) async fn put(&self, new: New<'_>) -> EventKey {
        self.put_at(self.ago(new.minutes_ago), new).await
    }

    pub(crate) async fn put_at(&self, at: UnixMillis, new: New<'_>) -> EventKey {
        let event = event(&new, at);
        self.ledger.receive(&event, at).await.unwrap();
        if let Some(end) = new.end {
            self.settle(event.key(), at, end).await;
        }
        event.key().clone()
    }

    pub(crate) async fn settle(&self, key: &EventKey, at: UnixMillis, end: Settlement) {
        let lease = Duration::from_secs(35);
        let claim = self
            .ledger
            .claim(key, "processor/7f3c", at, lease, 10)
            .await
            .unwrap();
        let Claim::Leased(lease) = claim else {
            panic!("{claim:?}");
        };
        self.ledger.settle(*lease, end, &[], at).await.unwrap();
    }

    /// Changes the state row directly in the table, without the ledger.
    pub(crate) async fn edit(&self, key: &EventKey, edit: impl FnOnce(&mut Item)) {
        let db = self.emulators.clients().dynamodb;
        let s = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
        let get = db
            .get_item()
            .table_name(&self.table)
            .key("pk", s(&key.pk()))
            .key("sk", s("M"));
        let mut row = get.send().await.unwrap().item.unwrap();
        edit(&mut row);
        let put = db.put_item().table_name(&self.table).set_item(Some(row));
        put.send().await.unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::from(self.folder.webhookctl(arguments));
        command
            .env("AWS_REGION", names::REGION)
            .env("AWS_ACCESS_KEY_ID", names::ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", names::SECRET_KEY)
            .env("AWS_ENDPOINT_URL_DYNAMODB", &self.dynamodb)
            .env("AWS_ENDPOINT_URL_S3", &self.emulators.endpoints().s3)
            .env("AWS_ENDPOINT_URL_STS", &self.sts)
            // No service listens on this port, so a command that calls a queue fails.
            .env("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9")
            .env("MITT_TABLE", &self.table)
            .env("MITT_BODY_BUCKET", &self.bucket)
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    /// Runs a command with this text on stdin.
    pub(crate) async fn run_with(&self, arguments: &[&str], stdin: &str) -> Output {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(stdin.as_bytes()).await.unwrap();
        drop(pipe);
        child.wait_with_output().await.unwrap()
    }

    /// Returns the JSON document that a command prints.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["-o", "json"]].concat()).await;
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns the provider's ids of the listed events, in order.
    pub(crate) async fn listed(&self, arguments: &[&str]) -> Vec<String> {
        let list = self.json(&[&["inbox", "list"], arguments].concat()).await;
        keys(&list)
    }
}

pub(crate) fn keys(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["dedupe_key"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn dead(error: &str) -> Settlement {
    Settlement::DeadLetter {
        reason: "permanent",
        error: error.to_owned(),
    }
}

pub(crate) fn failed(error: &str, due: UnixMillis) -> Settlement {
    Settlement::Retry {
        error: error.to_owned(),
        due,
        resend_after: None,
    }
}

pub(crate) fn event(new: &New<'_>, at: UnixMillis) -> Event {
    Event::fetched(Fetched {
        source: new.source,
        provider: "stripe",
        preset: new.preset,
        id: new.id,
        kind: new.kind,
        body: new.body.clone().into(),
        now: at,
        via: new.via,
        config: "test",
    })
}
