//! The stack with proxies in front of its services.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use local::{Options, Stack};

use crate::downstream::Downstream;
use crate::fault_schedule::Sky;
use crate::history::{History, messages};
use crate::proxy::Proxy;
use crate::sender::{Canaries, SOURCES};

/// The maximum number of attempts in a run. An event that does not cause faults itself has fewer
/// failed attempts than this.
pub(crate) const ATTEMPTS: u32 = 20;

/// The number of processes that a function may have.
const PROCESSES: usize = 8;

/// The visibility timeout of all queues. A message of a dead worker becomes visible when its lease
/// ends, and not minutes later.
const VISIBILITY: (&str, &str) = ("VisibilityTimeout: 365", "VisibilityTimeout: 44");

pub(crate) struct Inbox {
    pub(crate) stack: Arc<Stack>,
}

/// What the stack of a run needs in addition to the template.
pub(crate) struct Setup {
    /// The text of `sources.toml`.
    pub(crate) sources: String,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Inbox {
    pub(crate) async fn start(
        sky: &Arc<Sky>,
        history: &Arc<History>,
        canaries: &Canaries,
        downstream: &Downstream,
    ) -> Self {
        let sources = include_str!("sources.toml").replace("{downstream}", &downstream.url);
        let setup = Setup {
            sources,
            parameters: BTreeMap::new(),
        };
        let inbox = Self::of(sky, history, canaries, setup).await;
        let calling = Arc::clone(&inbox.stack);
        downstream.is_called_by(move || calling.function_processes("Processor").unwrap());
        inbox
            .secret("Processor", "downstream", &canaries.downstream)
            .await;
        inbox
    }

    /// Starts the stack with other sources.
    pub(crate) async fn of(
        sky: &Arc<Sky>,
        history: &Arc<History>,
        canaries: &Canaries,
        setup: Setup,
    ) -> Self {
        let mut proxies = Vec::new();
        for service in ["DYNAMODB", "SQS", "S3", "SSM"] {
            proxies.push(Proxy::start(service, sky, history).await);
        }
        let names = ["DYNAMODB", "SQS", "S3", "SSM"].map(|name| format!("AWS_ENDPOINT_URL_{name}"));
        let function_env: BTreeMap<_, _> = names
            .into_iter()
            .zip(proxies.iter().map(|proxy| proxy.url.clone()))
            .collect();
        let options = Options {
            sources_file: Some(sources(&history.folder, &setup.sources)),
            parameters: setup.parameters,
            max_processes: PROCESSES,
            function_env,
            ..Options::new(template(&history.folder), testkit::programs())
        };
        let stack = Arc::new(Stack::start(options).await.expect("the stack starts"));
        let endpoints = stack.endpoints();
        let upstreams = [
            &endpoints.dynamodb,
            &endpoints.sqs,
            &endpoints.s3,
            &endpoints.ssm,
        ];
        for (proxy, upstream) in proxies.iter().zip(upstreams) {
            proxy.stand_before(upstream);
        }
        let calling = Arc::clone(&stack);
        let (told, previous) = (Arc::clone(history), sky.weather.previous.clone());
        // The first proxy is in front of the table.
        proxies[0].is_called_by(move || {
            let functions = ["Catcher", "Processor", "BackupSync"];
            let running = functions.map(|id| calling.function_executables(id).unwrap());
            let running: BTreeMap<_, _> = running.into_iter().flatten().collect();
            if let Some(previous) = &previous {
                for (process, executable) in &running {
                    told.process(*process, previous.release_of(executable).word());
                }
            }
            running.into_keys().collect()
        });
        let inbox = Self { stack };
        for source in SOURCES {
            inbox.secret("Catcher", source, &canaries.secret).await;
        }
        inbox
    }

    async fn secret(&self, function: &str, name: &str, value: &str) {
        let path = self.stack.secrets_path(function).unwrap();
        let put = self.stack.clients().ssm.put_parameter();
        put.name(format!("{path}/{name}/current"))
            .value(value)
            .r#type(ParameterType::SecureString)
            .send()
            .await
            .unwrap();
    }

    /// Makes the next invocations of a function cold starts.
    pub(crate) async fn restart(&self, function: &str) {
        self.stack.kill_function_processes(function).await.unwrap();
    }

    /// Runs the schedules of the template, except the sync, more frequently than the template does.
    pub(crate) async fn keep_schedules(&self, every: Duration) {
        let schedules = &self.stack.template().schedules;
        loop {
            for schedule in schedules.iter().filter(|one| one.input["task"] != "sync") {
                // If a run fails, the next run does its work, as with a real schedule.
                let _ = self.stack.invoke(&schedule.function, &schedule.input).await;
            }
            tokio::time::sleep(every).await;
        }
    }

    /// Waits until no event is open. Returns `false` if this takes too long.
    pub(crate) async fn comes_to_rest(&self, patience: Duration) -> bool {
        let until = tokio::time::Instant::now() + patience;
        while tokio::time::Instant::now() < until {
            if self.open_rows().await.is_empty() && messages(&self.stack, "SpillQueue").await == 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        false
    }

    /// Returns the `pk` of each row whose event is open.
    pub(crate) async fn open_rows(&self) -> Vec<String> {
        self.rows_in(&["received", "processing", "failed"]).await
    }

    /// Returns the `pk` of each row in one of these states.
    pub(crate) async fn rows_in(&self, states: &[&str]) -> Vec<String> {
        let dynamodb = self.stack.clients().dynamodb;
        let names: Vec<String> = states.iter().map(|state| format!(":{state}")).collect();
        let values = states.iter().zip(&names).map(|(state, name)| {
            let value = AttributeValue::S((*state).to_owned());
            (name.clone(), value)
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "no single index contains all open events"
        )]
        let scan = dynamodb
            .scan()
            .table_name(self.stack.table().unwrap())
            .filter_expression(format!("st IN ({})", names.join(", ")))
            .set_expression_attribute_values(Some(values.collect()))
            .projection_expression("pk");
        let mut pages = scan.into_paginator().items().send();
        let mut open = Vec::new();
        while let Some(item) = pages.next().await {
            open.push(item.unwrap()["pk"].as_s().unwrap().clone());
        }
        open
    }

    /// Writes an attribute into a state row while other tasks change the row.
    pub(crate) async fn write(&self, pk: &str, attribute: &str, value: &str) {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let update = self.stack.clients().dynamodb.update_item();
        update
            .table_name(self.stack.table().unwrap())
            .key("pk", text(pk))
            .key("sk", text("M"))
            .condition_expression("attribute_exists(pk)")
            .update_expression("SET #attribute = :value")
            .expression_attribute_names("#attribute", attribute)
            .expression_attribute_values(":value", text(value))
            .send()
            .await
            .unwrap();
    }
}

fn template(folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(testkit::template()).unwrap();
    let (deployed, here) = VISIBILITY;
    assert!(text.contains(deployed), "the template has no {deployed}");
    let path = folder.join("template.yaml");
    std::fs::write(&path, text.replace(deployed, here)).unwrap();
    path
}

fn sources(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("sources.toml");
    let text = text.replace("{attempts}", &ATTEMPTS.to_string());
    std::fs::write(&path, text).unwrap();
    path
}
