//! A local stack with a proxy in front of each service. The stack runs one function call at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_ssm::types::ParameterType;
use local::{Options, Stack};
use serde_json::Value;
use shared::base::calendar;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{HourPart, Ledger};

use super::destination::Outside;
use super::prices::{Assumed, Prices};
use super::proxy::{Count, Proxy};
use super::rows::{Index, Rows};
use super::tally::{Service, Tally};
use crate::machine::{self, Folder};
use crate::webhook::{SECRET, SOURCE};

/// The locations of the inputs.
pub(crate) struct Inputs<'a> {
    pub(crate) template: &'a Path,
    /// The folder with the functions' executables.
    pub(crate) binaries: &'a Path,
    /// Values of template parameters.
    pub(crate) parameters: &'a BTreeMap<String, String>,
    pub(crate) prices: &'a Prices,
}

pub(crate) struct Stand {
    pub(super) stack: Stack,
    pub(super) outside: Outside,
    count: Count,
    scan_url: String,
    _folder: Folder,
}

impl Stand {
    /// Starts the stack. With `forwards`, the inbox sends events to a destination over HTTP.
    /// Otherwise it only stores them.
    pub(crate) async fn start(inputs: &Inputs<'_>, forwards: bool) -> anyhow::Result<Self> {
        let assumed = &inputs.prices.assumed;
        let count = Count::default();
        let outside = Outside::start(milliseconds(assumed.outside_ms.value), &count)?;
        let mut proxies = Vec::new();
        let mut function_env = BTreeMap::new();
        for (service, variable, takes) in services(assumed) {
            let proxy = Proxy::start(service, takes, &count)?;
            function_env.insert(variable.to_owned(), proxy.url.clone());
            proxies.push(proxy);
        }
        let folder = Folder::new("cost")?;
        let options = Options {
            sources_file: Some(sources(&folder, &outside.url, forwards)?),
            function_env,
            parameters: inputs.parameters.clone(),
            // The measurement itself receives batches and starts scheduled tasks, so that it can
            // count them.
            mappings: false,
            // With only one process, all processor time belongs to the current invocation.
            max_processes: 1,
            ..Options::new(inputs.template, inputs.binaries)
        };
        let stack = Stack::start(options).await?;
        let at = stack.endpoints();
        let behind = [&at.dynamodb, &at.sqs, &at.s3, &at.ssm];
        for (proxy, url) in proxies.iter().zip(behind) {
            proxy.forward_to(url);
        }
        let stand = Self {
            stack,
            outside,
            count,
            scan_url: proxies.swap_remove(0).url,
            _folder: folder,
        };
        stand.secrets().await?;
        Ok(stand)
    }

    /// Runs an action that makes `function` work, and returns its cost.
    pub(super) async fn counted<T>(
        &self,
        function: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(T, Tally)> {
        self.count.take();
        let log = self.stack.log_file(function)?;
        let (cpu, written) = (self.cpu(function)?, machine::length(&log));
        let done = work.await?;
        let mut tally = self.count.take();
        tally.cpu = self.cpu(function)?.saturating_sub(cpu);
        for line in machine::lines_since(&log, written) {
            tally.log_lines += 1;
            tally.log_bytes += line.len() as u64;
        }
        Ok((done, tally))
    }

    /// Runs a function once. A failed function is an error.
    pub(super) async fn invoke(&self, function: &str, payload: &Value) -> anyhow::Result<Value> {
        let invocation = self.stack.invoke(function, payload).await?;
        invocation.json().with_context(|| format!("run {function}"))
    }

    /// Makes the same reads as the sweep for events of the last hour: first the index and each
    /// event, and later only the index. The sweep itself would wait until the events are old enough.
    pub(super) async fn look_over(&self) -> anyhow::Result<()> {
        let table = &self.stack.template().table_definition()?.name;
        let client = local::clients::dynamodb(&self.scan_url);
        let ledger = Ledger::new(client, table, None);
        let now = UnixMillis::now();
        for looks_at_rows in [true, false] {
            for (from, to) in calendar::cut(now - Duration::from_secs(3600), now) {
                for part in HourPart::of(SOURCE, from, to) {
                    let mut start = None;
                    loop {
                        let page = ledger.sweep().events_of_part(&part, start).await?;
                        let keys: Vec<_> = page.found.into_iter().map(|event| event.key).collect();
                        for keys in keys.chunks(100).filter(|_| looks_at_rows) {
                            let (open, _) = ledger.sweep().unindexed_keys(keys).await?;
                            anyhow::ensure!(open.is_empty(), "{} events are open", open.len());
                        }
                        start = page.next;
                        if start.is_none() {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the JSON lines in the log of a function.
    pub(super) fn lines(&self, function: &str) -> anyhow::Result<Vec<Value>> {
        let log = self.stack.log_file(function)?;
        let lines = machine::lines_since(&log, 0);
        let lines = lines.iter().map(|line| serde_json::from_str(line));
        Ok(lines.filter_map(Result::ok).collect())
    }

    /// Counts all rows in the table.
    pub(super) async fn rows(&self, now: UnixMillis, overhead: f64) -> anyhow::Result<Rows> {
        let table = self.stack.template().table_definition()?;
        let mut primary: Vec<String> = Vec::new();
        for key in &table.key_schema {
            primary.push(key.attribute_name().to_owned());
        }
        let indexes = table.indexes.iter().map(|index| {
            let own = index.key_schema().iter();
            let own = own.map(|key| key.attribute_name().to_owned());
            Index {
                name: index.index_name().to_owned(),
                keys: primary.iter().cloned().chain(own).collect(),
            }
        });
        let indexes: Vec<Index> = indexes.collect();
        self.count.take_items();
        let client = local::clients::dynamodb(&self.scan_url);
        #[expect(
            clippy::disallowed_methods,
            reason = "the measurement reads the whole table"
        )]
        let scan = client.scan().table_name(&table.name).consistent_read(true);
        let mut pages = scan.into_paginator().send();
        while let Some(page) = pages.next().await {
            page.context("read the table")?;
        }
        Rows::count(&self.count.take_items(), &indexes, now, overhead)
    }

    pub(crate) async fn end(self) {
        self.stack.stop().await;
    }

    fn cpu(&self, function: &str) -> anyhow::Result<Duration> {
        let mut sum = Duration::ZERO;
        for process in self.stack.function_processes(function)? {
            sum += machine::cpu(process)?;
        }
        Ok(sum)
    }

    async fn secrets(&self) -> anyhow::Result<()> {
        let ssm = self.stack.clients().ssm;
        for (function, name) in [
            ("Catcher", SOURCE),
            ("Processor", "destination"),
            ("BackupSync", SOURCE),
        ] {
            let path = self.stack.secrets_path(function)?;
            let put = ssm.put_parameter().name(format!("{path}/{name}/current"));
            let put = put.value(SECRET).r#type(ParameterType::SecureString);
            put.send().await.context("put a secret")?;
        }
        Ok(())
    }
}

/// Returns each service with its endpoint variable and its assumed latency. The table is the first
/// one.
fn services(assumed: &Assumed) -> [(Service, &'static str, Duration); 4] {
    let all = [
        (
            Service::Table,
            "AWS_ENDPOINT_URL_DYNAMODB",
            &assumed.table_ms,
        ),
        (Service::Queue, "AWS_ENDPOINT_URL_SQS", &assumed.queue_ms),
        (Service::Bucket, "AWS_ENDPOINT_URL_S3", &assumed.bucket_ms),
        (
            Service::Parameters,
            "AWS_ENDPOINT_URL_SSM",
            &assumed.parameters_ms,
        ),
    ];
    all.map(|(service, variable, takes)| (service, variable, milliseconds(takes.value)))
}

fn milliseconds(value: f64) -> Duration {
    Duration::from_secs_f64(value / 1000.0)
}

/// Returns the configuration of one source with a sync, whose provider has an empty list.
fn sources(folder: &Folder, outside: &str, forwards: bool) -> anyhow::Result<PathBuf> {
    let action = if forwards {
        format!("kind = \"http\"\nurl = \"{outside}/hooks\"\nsecret = \"destination\"")
    } else {
        "kind = \"keep\"".to_owned()
    };
    let text = format!(
        "schema = 1\n[forward]\nallow_loopback = true\n\n[[source]]\nname = \"{SOURCE}\"\n\
         preset = \"stripe\"\nparams = {{ api = \"{outside}\" }}\n[[source.action]]\n{action}\n\
         [source.sync]\n"
    );
    let path = folder.file("sources.toml");
    std::fs::write(&path, text).context("write the sources")?;
    Ok(path)
}
