//! The demo: sends webhooks with different outcomes to a running deployment, and follows them.
//!
//! The demo reads each result from the ledger and from the requests that the downstream received.
//! It does not assume that a request had its expected result. The journey test asserts on the same
//! results.

mod agent;
mod cases;
pub mod downstream;
mod drift;
pub mod provider;
mod trouble;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Row};
use shared::inbox::queue::Queue;
use shared::inbox::rejected::RejectedRequests;
use shared::sources::Config;
use shared::webhook::event::EventKey;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::samples::random_hex;
use downstream::Downstream;
use provider::Provider;
pub use trouble::{Crash, Outage, Trouble};

const SOURCES: &str = include_str!("demo/sources.toml");

/// The source of the case `agent`.
const SOURCE_OF_AGENT: &str = include_str!("demo/agent.toml");

/// The sources file for a downstream with a fault.
const SOURCES_IN_TROUBLE: &str = include_str!("demo/trouble.toml");

/// The maximum time until a webhook reaches its final state.
const PATIENCE: Duration = Duration::from_secs(90);

/// The secrets of the demo, created for each run.
#[derive(Clone, Debug)]
pub struct DemoSecrets(BTreeMap<String, String>);

/// The deployment that the demo sends webhooks to, and where it reads their results.
pub struct Deployment<'d> {
    /// `{url}/in/{source}` is the address of a source.
    pub url: String,
    pub ledger: Ledger,
    pub quarantine: RejectedRequests,
    pub secrets: DemoSecrets,
    /// The work queue. A repair sends messages for its events to this queue.
    pub queue: Queue,
    /// Runs a task of backup-sync, such as `sync`, as its schedule does.
    pub task: &'d (dyn Fn(&'static str) -> BoxFuture<'d, anyhow::Result<()>> + Sync),
}

/// The emulated provider and downstream, as servers on this machine.
pub struct StandIns {
    pub downstream: Downstream,
    pub provider: Provider,
    /// The sources file with the URLs of these servers.
    pub sources: String,
    /// The URLs of the downstream and of the provider.
    pub urls: [String; 2],
    servers: Vec<JoinHandle<()>>,
}

/// The result of one webhook, and whether it is the expected result.
#[derive(Clone, Debug)]
pub struct Fate {
    pub at: UnixMillis,
    /// `good`, `duplicate`, `forged`, `flaky`, `poison`, `missed`, `drift` or `agent`.
    pub case: &'static str,
    pub preset: &'static str,
    pub kind: &'static str,
    /// The catcher's status; `None` if the webhook was never delivered.
    pub status: Option<u16>,
    pub took: Duration,
    /// `done`, `dropped`, `refused`, `dead_letter`, `waiting`, `held`
    pub end: &'static str,
    pub detail: String,
    pub key: Option<EventKey>,
    /// The differences from the expected result.
    pub wrong: Vec<String>,
}

impl DemoSecrets {
    pub fn random() -> anyhow::Result<Self> {
        let mut secrets = BTreeMap::new();
        for name in [
            "stripe-main",
            "github-main",
            "slack-main",
            "fireflies-main",
            "acme",
        ] {
            secrets.insert(format!("ingress/{name}"), random_hex(20)?);
        }
        // The base64 form of 24 bytes needs no padding, as in secrets of Standard Webhooks.
        let downstream =
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, random_hex(12)?);
        secrets.insert(
            "egress/downstream".to_owned(),
            format!("whsec_{downstream}"),
        );
        secrets.insert("provider-api/app".to_owned(), random_hex(20)?);
        secrets.insert(
            "provider-api/stripe-main".to_owned(),
            format!("rk_test_{}", random_hex(12)?),
        );
        Ok(Self(secrets))
    }

    /// Adds the secret of the case `agent`.
    pub fn with_agent(mut self) -> anyhow::Result<Self> {
        let name = format!("ingress/{}", agent::SOURCE);
        self.0.insert(name, random_hex(20)?);
        Ok(self)
    }

    /// Returns these secrets with the values that an earlier run has stored, by `path/name`.
    #[must_use]
    pub fn or_kept(mut self, mut kept: BTreeMap<String, String>) -> Self {
        for (name, value) in &mut self.0 {
            if let Some(kept) = kept.remove(name) {
                *value = kept;
            }
        }
        self
    }

    /// Parses the secrets from lines of the form `path/name=value`.
    pub fn parse(lines: &str) -> anyhow::Result<Self> {
        let secrets = lines
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| {
                line.split_once('=')
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
            })
            .collect::<Option<_>>();
        Ok(Self(secrets.context(
            "invalid line of secrets, expected path/name=value",
        )?))
    }

    /// Returns the path below the stack, the name and the value of each secret.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().filter_map(|(full, value)| {
            let (path, name) = full.split_once('/')?;
            Some((path, name, value.as_str()))
        })
    }

    fn get(&self, full: &str) -> anyhow::Result<Secret> {
        let value = self
            .0
            .get(full)
            .with_context(|| format!("the demo has no secret {full}"))?;
        Ok(Secret::new("demo", value))
    }
}

impl StandIns {
    /// Starts both servers on 127.0.0.1. With port 0, the operating system selects a free port.
    pub fn start(
        secrets: &DemoSecrets,
        downstream_port: u16,
        provider_port: u16,
    ) -> anyhow::Result<Self> {
        Self::start_with(SOURCES, secrets, downstream_port, provider_port)
    }

    /// Starts both servers on free ports, with the source of the case `agent`.
    pub fn with_agent(secrets: &DemoSecrets) -> anyhow::Result<Self> {
        Self::start_with(&format!("{SOURCES}\n{SOURCE_OF_AGENT}"), secrets, 0, 0)
    }

    /// Starts both servers. The retries of the sources last longer than the fault of the
    /// downstream.
    pub fn in_trouble(secrets: &DemoSecrets) -> anyhow::Result<Self> {
        Self::start_with(SOURCES_IN_TROUBLE, secrets, 0, 0)
    }

    fn start_with(
        sources: &str,
        secrets: &DemoSecrets,
        downstream_port: u16,
        provider_port: u16,
    ) -> anyhow::Result<Self> {
        let (egress, app) = (
            secrets.get("egress/downstream")?,
            secrets.get("provider-api/app")?,
        );
        let downstream = Downstream::new(egress, app);
        let provider = Provider::new(secrets.get("provider-api/stripe-main")?.expose());
        let (downstream_url, one) = serve(downstream_port, downstream.router())?;
        let (provider_url, two) = serve(provider_port, provider.router())?;
        let sources = sources
            .replace("{downstream}", &downstream_url)
            .replace("{provider}", &provider_url);
        Config::parse(&sources).context("parse the sources of the demo")?;
        Ok(Self {
            downstream,
            provider,
            sources,
            urls: [downstream_url, provider_url],
            servers: vec![one, two],
        })
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

/// Serves on 127.0.0.1 until the task is aborted. Returns the URL.
pub(crate) fn serve(port: u16, router: axum::Router) -> anyhow::Result<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("listen on 127.0.0.1:{port}"))?;
    listener.set_nonblocking(true)?;
    let url = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let server = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(error = %error, "server of the demo failed");
        }
    });
    Ok((url, server))
}

/// Sends all webhooks of the demo, and calls `tell` with each result. Returns all results.
pub async fn run<'d>(
    deployment: &'d Deployment<'d>,
    stand_ins: &'d StandIns,
    mut tell: impl FnMut(&Fate) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Fate>> {
    let config = Config::parse(&stand_ins.sources)?;
    let (fates, mut heard) = mpsc::unbounded_channel();
    let http = shared::aws::outbound::unguarded(Duration::from_secs(30))?;
    let demo = cases::Demo {
        deployment,
        stand_ins,
        config,
        http,
        fates,
    };
    let mut all = Box::pin(demo.run());
    let mut told = Vec::new();
    let mut ended = None;
    loop {
        tokio::select! {
            result = &mut all, if ended.is_none() => ended = Some(result),
            fate = heard.recv() => match fate {
                Some(fate) => {
                    tell(&fate)?;
                    told.push(fate);
                }
                None => break,
            },
        }
    }
    ended.unwrap_or(Ok(())).map(|()| told)
}

/// Waits until the row of an event satisfies `there`, and returns the row.
async fn wait_for(
    ledger: &Ledger,
    key: &EventKey,
    there: impl Fn(&Row) -> bool,
) -> anyhow::Result<Row> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let row = ledger.event(key).await?;
        match row {
            Some(row) if there(&row) => return Ok(row),
            row if tokio::time::Instant::now() > deadline => {
                let stands =
                    row.map_or("not in the ledger".to_owned(), |row| row.state.to_string());
                anyhow::bail!(
                    "event {key} is still {stands} after {} s",
                    PATIENCE.as_secs()
                );
            }
            _ => tokio::time::sleep(Duration::from_millis(40)).await,
        }
    }
}
