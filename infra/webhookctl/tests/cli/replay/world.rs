//! A stack with dead letters, and the commands as a user runs them.

use std::process::{Output, Stdio};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use local::names::REGION;
use local::{Options, Stack};
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Claim, EffectRow, EffectState, Item, Ledger, Settlement};
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use tokio::process::{Child, Command};
use webhookctl::target::Local;

use super::downstream::Downstream;
use super::line::Line;
use crate::support::folder::Folder;
pub(crate) use crate::support::folder::told;
use crate::support::log::deeds;
use crate::support::stack::{announce, options};
use testkit::sts::sts;

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) ledger: Ledger,
    pub(crate) downstream: Downstream,
    pub(crate) line: Line,
    pub(crate) folder: Folder,
    /// The time when the test began. The events are from the minute before it.
    pub(crate) then: UnixMillis,
}

impl World {
    pub(crate) async fn start() -> Self {
        let downstream = Downstream::start().await;
        let folder = Folder::new("replay").unwrap();
        let sources = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n\
             [[source]]\nname = \"orders\"\npreset = \"stripe\"\n\
             retry = {{ waits = [\"2h\"] }}\n\
             [[source.action]]\nkind = \"http\"\nurl = \"{0}/orders\"\nsecret = \"downstream\"\n\
             [[source]]\nname = \"received\"\npreset = \"stripe\"\n[[source.action]]\nkind = \"http\"\n\
             url = \"{0}/received\"\nsign = \"as-received\"\n\
             [[source]]\nname = \"others\"\npreset = \"stripe\"\n[[source.action]]\nkind = \"keep\"\n\
             [[source]]\nname = \"carts\"\npreset = \"stripe\"\naction = [{{ kind = \"keep\" }}]\n\
             order = {{ mode = \"latest_wins\", entity = \"json:cart\", version = \"json:n\", compare = \"number\" }}\n",
            downstream.url
        );
        folder.write("sources.toml", &sources).unwrap();
        let stack = Stack::start(Options {
            max_processes: 2,
            ..options(&folder)
        });
        let stack = stack.await.unwrap();
        let path = stack.secrets_path("Processor").unwrap();
        let put = stack.clients().ssm.put_parameter();
        put.name(format!("{path}/downstream/current"))
            .value("whsec_dGhyb3ctYXdheSBzZWNyZXQ=")
            .r#type(ParameterType::SecureString)
            .send()
            .await
            .unwrap();
        let line = Line::new();
        let world = Self {
            ledger: Ledger::new(stack.clients().dynamodb, stack.table().unwrap(), None),
            then: UnixMillis::now() - Duration::from_secs(60),
            stack,
            downstream,
            line,
            folder,
        };
        world.announce();
        world
    }

    /// Writes the file that describes the stack to commands, as `dev` does. The addresses are those
    /// of the proxy.
    fn announce(&self) {
        let endpoints = self.stack.endpoints();
        let sources = self.folder.path().join("sources.toml");
        let local = Local {
            dynamodb: self.line.to(&endpoints.dynamodb),
            sqs: self.line.to(&endpoints.sqs),
            ..Local::of(&self.stack, &sources).unwrap()
        };
        announce(&self.folder, &local).unwrap();
    }

    /// Stores an event without a work message. It was received this number of milliseconds after
    /// `then`.
    pub(crate) async fn received(&self, source: &str, number: u64) -> EventKey {
        self.received_at(source, number, self.then + Duration::from_millis(number))
            .await
    }

    pub(crate) async fn received_at(&self, source: &str, number: u64, at: UnixMillis) -> EventKey {
        let id = format!("evt_{number:05}");
        let event = Event::fetched(Fetched {
            source,
            provider: "stripe",
            preset: "stripe",
            id: &id,
            kind: "order.paid",
            body: format!(r#"{{"id":"{id}","cart":"c1","n":{number}}}"#).into(),
            now: at,
            via: Via::Webhook,
            config: "test",
        });
        self.ledger.receive(&event, at).await.unwrap();
        event.key().clone()
    }

    /// Stores an event whose only attempt had this outcome.
    pub(crate) async fn settled(
        &self,
        key: &EventKey,
        settlement: Settlement,
        effects: &[(String, EffectRow)],
    ) {
        let claim = self.ledger.claim(key, "test", UnixMillis::now(), LEASE, 10);
        let Claim::Leased(lease) = claim.await.unwrap() else {
            panic!("{key} cannot be claimed");
        };
        let settled = self
            .ledger
            .settle(*lease, settlement, effects, UnixMillis::now());
        settled.await.unwrap();
    }

    /// Stores dead letters whose effects are known not to have happened.
    pub(crate) async fn dead(&self, numbers: std::ops::Range<u64>) -> Vec<EventKey> {
        let dead = numbers.map(async |number| {
            let key = self.received("orders", number).await;
            let effects = [("http".to_owned(), effect(EffectState::Not, true))];
            self.settled(&key, dead_letter(number), &effects).await;
            key
        });
        futures::future::join_all(dead).await
    }

    pub(crate) async fn row(&self, key: &EventKey) -> Item {
        self.item(&key.pk(), "M").await
    }

    pub(crate) async fn item(&self, pk: &str, sk: &str) -> Item {
        let get = self.stack.clients().dynamodb.get_item();
        let get = get.table_name(self.stack.table().unwrap());
        let get = get.key("pk", s(pk)).key("sk", s(sk)).consistent_read(true);
        get.send().await.unwrap().item.unwrap_or_default()
    }

    /// Makes the lease on the plan expire.
    pub(crate) async fn lease_is_over(&self, plan: &str) {
        let mut row = self.item(&format!("R#{plan}"), "M").await;
        row.insert("lu".to_owned(), AttributeValue::N("1".to_owned()));
        let put = self.stack.clients().dynamodb.put_item();
        let put = put.table_name(self.stack.table().unwrap());
        put.set_item(Some(row)).send().await.unwrap();
    }

    /// Waits until each event has this state.
    pub(crate) async fn all(&self, keys: &[EventKey], state: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        for key in keys {
            loop {
                let row = self.row(key).await;
                let is = row["st"].as_s().unwrap();
                if is == state {
                    break;
                }
                let late = tokio::time::Instant::now() > deadline;
                assert!(!late, "{key} is {is}, not {state}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::from(self.folder.webhookctl(args));
        command
            .env_remove("NO_COLOR")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .kill_on_drop(true);
        command
    }

    /// Runs a command with the same stack as a protected deployment.
    pub(crate) async fn protected(&self, args: &[&str]) -> Command {
        let queue = |id| self.stack.queue_url(id).unwrap();
        let context = format!(
            "[context.prod]\nprotected = true\nregion = \"{REGION}\"\nsources = \"sources.toml\"\n\
             table = \"{}\"\nqueue_url = \"{}\"\nbacklog_queue_url = \"{}\"\n",
            self.stack.table().unwrap(),
            queue("WorkQueue"),
            queue("BacklogQueue")
        );
        self.folder.write("contexts.toml", &context).unwrap();
        let endpoints = self.stack.endpoints();
        let mut command = self.command(args);
        command
            .env(
                "WEBHOOKCTL_CONFIG",
                self.folder.path().join("contexts.toml"),
            )
            .env("WEBHOOKCTL_CONTEXT", "prod")
            .env("AWS_ENDPOINT_URL_DYNAMODB", &endpoints.dynamodb)
            .env("AWS_ENDPOINT_URL_SQS", &endpoints.sqs)
            .env("AWS_ENDPOINT_URL_STS", sts().await.unwrap());
        command
    }

    pub(crate) async fn webhookctl(&self, args: &[&str]) -> Output {
        self.command(args).output().await.unwrap()
    }

    /// Starts a command, and does not wait for its end.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Makes a plan for this selection, and returns it as JSON.
    pub(crate) async fn plan(&self, args: &[&str]) -> Value {
        let line = [
            &["replay", "plan", "-m", "they are back"],
            args,
            &["-o", "json"],
        ]
        .concat();
        document(&self.webhookctl(&line).await, 0)
    }

    pub(crate) async fn show(&self, plan: &str) -> Value {
        let line = ["replay", "show", plan, "-o", "json"];
        document(&self.webhookctl(&line).await, 0)
    }

    /// Returns the outcome of each event of a plan, and what the plan does about its effects.
    pub(crate) async fn events(&self, plan: &str) -> Vec<(String, Vec<String>)> {
        let line = ["replay", "show", plan, "--events", "-o", "json"];
        let shown = document(&self.webhookctl(&line).await, 0);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of_event = |event: &Value| {
            let effects = event["effects"].as_array().unwrap().iter();
            let actions = effects.map(|effect| text(&effect["action"]));
            (text(&event["outcome"]), actions.collect())
        };
        let items = shown["items"].as_array().unwrap();
        items.iter().map(of_event).collect()
    }

    /// Returns the audit log of this month.
    pub(crate) async fn log(&self) -> Vec<Item> {
        let table = self.stack.table().unwrap();
        deeds(&self.stack.clients().dynamodb, table).await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.stack.stop().await;
    }
}

pub(crate) fn effect(state: EffectState, keyed: bool) -> EffectRow {
    EffectRow {
        state,
        key: "wh_key".to_owned(),
        keyed,
        at: UnixMillis::now(),
        run: 0,
        note: String::new(),
        lease: None,
    }
}

pub(crate) fn dead_letter(number: u64) -> Settlement {
    Settlement::DeadLetter {
        reason: "attempts_exhausted",
        error: format!("orders API 502 during booking, request {number}f3"),
    }
}

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Returns the JSON output, and checks that the command ended with this exit code.
pub(crate) fn document(output: &Output, exit: i32) -> Value {
    assert_eq!(output.status.code(), Some(exit), "{}", told(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)))
}

/// Checks the error code of the command.
pub(crate) fn refused(output: &Output, exit: i32, code: &str) {
    assert_eq!(output.status.code(), Some(exit), "{}", told(output));
    assert!(
        told(output).contains(&format!("[{code}]")),
        "{}",
        told(output)
    );
}

pub(crate) fn id(plan: &Value) -> String {
    plan["id"].as_str().unwrap().to_owned()
}

/// Returns the command line of `replay apply` with these options.
pub(crate) fn replay_apply<'l>(plan: &'l str, options: &'l str) -> Vec<&'l str> {
    let mut line = vec!["replay", "apply", plan];
    line.extend(options.split_whitespace());
    line
}
