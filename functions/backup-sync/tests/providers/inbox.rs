//! A running inbox with one source, and a server that plays its provider.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_ssm::types::ParameterType;
use local::{Options, Stack};
use serde_json::{Value, json};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Item, Ledger, Listed, Row, State};
use shared::sources::Config;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::event::EventKey;
use shared::webhook::sign;
use shared::webhook::verify::Arrival;

use super::play::{Happened, Play, Webhook};
use super::stand_in::StandIn;

pub(crate) struct Inbox {
    play: Arc<Play>,
    stand_in: StandIn,
    stack: Stack,
    ledger: Ledger,
    config: Config,
    folder: PathBuf,
    began: UnixMillis,
}

impl Inbox {
    pub(crate) async fn start(play: Play) -> Self {
        let play = Arc::new(play);
        let stand_in = StandIn::start(play.clone()).await;
        let unique = format!(
            "{}-{}",
            stand_in.base.rsplit_once(':').unwrap().1,
            std::process::id()
        );
        let folder = std::env::temp_dir().join(format!("mitt-providers-{unique}"));
        std::fs::create_dir_all(&folder).unwrap();
        let text = sources(&play, &stand_in.base);
        let config = Config::parse(&text).unwrap();
        let file = folder.join("sources.toml");
        std::fs::write(&file, &text).unwrap();
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
        let stack = Stack::start(Options {
            sources_file: Some(file),
            ..Options::new(template, testkit::programs())
        })
        .await
        .unwrap();
        let clients = stack.clients();
        let bodies = (clients.s3, stack.bucket("Bodies").unwrap().to_owned());
        let ledger = Ledger::new(clients.dynamodb, stack.table().unwrap(), Some(bodies));
        let inbox = Self {
            play,
            stand_in,
            stack,
            ledger,
            config,
            folder,
            began: UnixMillis::now(),
        };
        inbox.put("BackupSync", inbox.play.key).await;
        if let Some(secret) = inbox.play.secret() {
            inbox.put("Catcher", secret).await;
        }
        inbox
    }

    pub(crate) fn play(&self) -> &Play {
        &self.play
    }

    pub(crate) fn stand_in(&self) -> &StandIn {
        &self.stand_in
    }

    /// Stores a secret of the source for a function.
    pub(crate) async fn put(&self, function: &str, value: &str) {
        let path = self.stack.secrets_path(function).unwrap();
        let put = self.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/s/current")).value(value);
        put.r#type(ParameterType::SecureString)
            .send()
            .await
            .unwrap();
    }

    /// Adds event `number` of `of`, within the last minutes and in whole seconds.
    pub(crate) fn happen(&self, number: usize, of: usize) -> Happened {
        self.happened_ago(
            number,
            u64::try_from(of.saturating_sub(number)).unwrap() + 5,
        )
    }

    /// Adds an event of this many seconds ago.
    pub(crate) fn happened_ago(&self, number: usize, ago: u64) -> Happened {
        let ago = Duration::from_secs(ago);
        let event = Happened {
            id: format!("evt-{number:04}"),
            number: 70_000 + number,
            at: UnixMillis::from_secs((self.began - ago).secs()),
            status: 502,
        };
        self.stand_in.happen(event.clone());
        event
    }

    /// Returns the webhook of an event, signed as the provider signs it.
    pub(crate) fn webhook(&self, event: &Happened) -> Option<Envelope> {
        let Webhook { headers, body } = self.play.webhook_of(event)?;
        let now = UnixMillis::now();
        let envelope = Envelope {
            method: "POST".to_owned(),
            // The URL of the gateway, which is part of some providers' signatures.
            url: "https://127.0.0.1/in/s".to_owned(),
            headers: headers.into_iter().collect::<Headers>(),
            body,
            received_at: now,
        };
        let verifier = &self.config.source("s").unwrap().verifier;
        let scheme = verifier.preset.scheme("default").unwrap();
        let signed = match (self.play.pair(), self.play.secret()) {
            (Some(pair), _) => sign::signed_by(scheme, pair, envelope, now),
            (None, secret) => {
                let secret = Secret::new("test", secret.unwrap_or_default());
                sign::signed(scheme, &secret, envelope, now)
            }
        };
        Some(signed.unwrap())
    }

    /// Sends the webhook. Returns `false` if only the provider can sign.
    pub(crate) async fn deliver(&self, event: &Happened) -> bool {
        let Some(envelope) = self.webhook(event) else {
            return false;
        };
        let http = shared::aws::outbound::unguarded(Duration::from_secs(30)).unwrap();
        let front = format!("{}/in/s", self.stack.front_url());
        let mut request = http.post(front).body(envelope.body.clone());
        for (name, value) in envelope.headers.iter() {
            request = request.header(name, value);
        }
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        true
    }

    /// Returns the key that the catcher gives the webhook of an event.
    fn key(&self, event: &Happened) -> EventKey {
        let Some(envelope) = self.webhook(event) else {
            return EventKey::new("s", &event.id);
        };
        let secret = self.play.secret().unwrap();
        let verifier = &self.config.source("s").unwrap().verifier;
        let stored = [Secret::new("test", secret)];
        match verifier.verify(&envelope, &stored) {
            Ok(Arrival::Event(event)) => event.key().clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn row(&self, event: &Happened) -> Option<Row> {
        self.ledger.event(&self.key(event)).await.unwrap()
    }

    /// Waits until all actions of the event are done.
    pub(crate) async fn done(&self, event: &Happened) {
        for _ in 0..600 {
            if self
                .row(event)
                .await
                .is_some_and(|row| row.state == State::Done)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", self.row(event).await);
    }

    pub(crate) async fn body(&self, event: &Happened) -> Value {
        let body = self.ledger.event_body(&self.key(event)).await.unwrap();
        let Some(Ok(body)) = body else {
            panic!("no body of {}", event.id);
        };
        serde_json::from_slice(&body.0).unwrap()
    }

    /// Returns all events of the inbox, whatever their keys.
    pub(crate) async fn listed(&self) -> Vec<Listed> {
        let now = UnixMillis::now();
        let hour = |at: UnixMillis| at.0.div_euclid(3_600_000);
        let mut listed = Vec::new();
        for hour in hour(self.began)..=hour(now) {
            let from = UnixMillis(hour * 3_600_000);
            let to = UnixMillis(from.0 + 3_599_999);
            listed.extend(
                self.ledger
                    .received_in_hour("s", from, to, 1_000)
                    .await
                    .unwrap(),
            );
        }
        listed
    }

    pub(crate) async fn events(&self) -> usize {
        self.listed().await.len()
    }

    /// Runs a sync, which must succeed, and returns its report.
    pub(crate) async fn sync(&self) -> Value {
        let invocation = self
            .stack
            .invoke("BackupSync", &json!({"task": "sync"}))
            .await
            .unwrap();
        if let Some(error) = invocation.error() {
            panic!("{}: {}", self.play.preset, error.message);
        }
        invocation.json().unwrap()["sources"][0].clone()
    }

    pub(crate) async fn sync_error(&self) -> String {
        let invocation = self
            .stack
            .invoke("BackupSync", &json!({"task": "sync"}))
            .await
            .unwrap();
        invocation.error().unwrap().message.clone()
    }

    /// Returns the cursor of the sync.
    pub(crate) async fn cursor(&self) -> Option<UnixMillis> {
        self.ledger.sync().sync_state("s").await.unwrap()?.cursor
    }

    /// Returns the names of faults in the log lines from which the template creates the metric of
    /// failed syncs.
    pub(crate) fn faults(&self) -> Vec<String> {
        let log = self.stack.log_file("BackupSync").unwrap();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let failed = lines.filter(|line| line["fields"]["sync_failed"] == 1);
        failed
            .map(|line| line["fields"]["fault"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns all items of the table.
    pub(crate) async fn table(&self) -> Vec<Item> {
        #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
        let all = self.stack.clients().dynamodb.scan();
        let all = all.table_name(self.stack.table().unwrap()).send();
        let mut items = all.await.unwrap().items.unwrap();
        let place = |item: &Item| ["pk", "sk"].map(|name| item[name].as_s().unwrap().clone());
        items.sort_by_key(place);
        items
    }

    /// Returns the report of a dry run.
    pub(crate) async fn look(&self) -> Value {
        let task = json!({"task": "sync", "dry_run": true});
        let invocation = self.stack.invoke("BackupSync", &task).await.unwrap();
        assert!(invocation.error().is_none(), "{:?}", invocation.error());
        invocation.json().unwrap()["sources"][0].clone()
    }

    pub(crate) async fn end(self) {
        let log = self.stack.log_file("BackupSync").unwrap();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        assert!(!log.contains(self.play.key), "the key is in the log");
        self.stack.stop().await;
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn sources(play: &Play, base: &str) -> String {
    format!(
        "schema = 1\n[forward]\nallow_loopback = true\n[[source]]\nname = \"s\"\n\
         preset = \"{}\"\nparams = {{ {} }}\n[[source.action]]\nkind = \"keep\"\n\
         [source.sync]\nfirst_lookback_line\n{}\n",
        play.preset,
        play.params.replace("BASE", base),
        play.settings.replace("BASE", base),
    )
    .replace(
        "first_lookback_line",
        if play.looks_back {
            "first_lookback = \"1h\""
        } else {
            ""
        },
    )
}
