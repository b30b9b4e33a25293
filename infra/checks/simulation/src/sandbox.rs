//! Runs the functions as Lambda runs them, each with its own memory and its own clock.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use aws_credential_types::Credentials;
use backup_sync::BackupSync;
use catcher::Catcher;
use processor::Processor;
use shared::aws::outbound::{Inside, Outbound};
use shared::aws::secrets::Secrets;
use shared::aws::{Aws, CallPolicy};
use shared::inbox::Inbox;
use shared::inbox::current_sources::CurrentSources;
use shared::inbox::fetch_back::FetchBack;
use shared::inbox::keyring::Keyring;
use shared::inbox::ledger::Ledger;
use shared::inbox::queue::Queue;
use shared::inbox::rejected::RejectedRequests;
use shared::inbox::spill::Spill;
use shared::services::Services;
use shared::sources::Config;

use crate::agents;
use crate::clock;
use crate::destination;
use crate::scenario::Without;
use crate::webhook::{self, EBAY};
use crate::wire;
use crate::world::{SECRETS_PATH, Shared};

/// The only source of a run without an attacker.
pub const SOURCE: &str = "stripe-main";

const TABLE: &str = "inbox";

/// The name of the credentials for the API that returns keys.
pub const API_SECRET: &str = "ebay-api";

/// Creates functions.
pub struct Sandboxes {
    world: Shared,
    outbound: Outbound,
}

/// A function and the error of its clock.
pub struct Sandbox<F> {
    pub function: F,
    pub skew_ms: i64,
}

impl Sandboxes {
    pub fn new(world: &Shared) -> anyhow::Result<Self> {
        Ok(Self {
            world: world.clone(),
            outbound: Outbound::to_inside(destination::inside(world)),
        })
    }

    pub fn catcher(&self) -> anyhow::Result<Rc<Sandbox<Catcher>>> {
        let parts = self.parts(CallPolicy::SHORT)?;
        Ok(self.sandbox(Catcher::new(parts, clock::read)))
    }

    pub fn processor(&self) -> anyhow::Result<Rc<Sandbox<Processor>>> {
        let parts = self.parts(CallPolicy::LONG)?;
        Ok(self.sandbox(Processor::with_outbound(
            parts,
            self.outbound.clone(),
            clock::read,
        )))
    }

    pub fn backup_sync(&self) -> anyhow::Result<Rc<Sandbox<BackupSync>>> {
        let parts = self.parts(CallPolicy::LONG)?;
        Ok(self.sandbox(BackupSync::with_outbound(
            parts,
            self.outbound.clone(),
            clock::read,
        )))
    }

    /// Returns a backup-sync with other sources and with a provider.
    pub fn backup_sync_of(
        &self,
        sources: &str,
        provider: Inside,
    ) -> anyhow::Result<Rc<Sandbox<BackupSync>>> {
        let parts = self.parts_of(sources, CallPolicy::LONG)?;
        let outbound = Outbound::to_inside(provider);
        Ok(self.sandbox(BackupSync::with_outbound(parts, outbound, clock::read)))
    }

    /// Returns a processor with other sources and with a destination.
    pub fn processor_of(
        &self,
        sources: &str,
        destination: Inside,
        runs_long_actions: bool,
    ) -> anyhow::Result<Rc<Sandbox<Processor>>> {
        let parts = Services {
            runs_long_actions,
            ..self.parts_of(sources, CallPolicy::LONG)?
        };
        let outbound = Outbound::to_inside(destination);
        Ok(self.sandbox(Processor::with_outbound(parts, outbound, clock::read)))
    }

    /// Returns the ledger, for tests that read it.
    pub fn ledger(&self) -> anyhow::Result<Ledger> {
        Ok(self.inbox()?.ledger)
    }

    /// Returns the ledger and the queues, as an operator uses them.
    pub fn inbox(&self) -> anyhow::Result<Inbox> {
        Ok(self.parts(CallPolicy::LONG)?.inbox)
    }

    fn sandbox<F>(&self, function: F) -> Rc<Sandbox<F>> {
        let mut world = self.world.lock();
        let most = world.scenario.skew_ms;
        let span = u64::try_from(2 * most).unwrap_or(0);
        let skew_ms = i64::try_from(world.dice.between(0, span)).unwrap_or(0) - most;
        Rc::new(Sandbox { function, skew_ms })
    }

    fn parts(&self, patience: CallPolicy) -> anyhow::Result<Services> {
        self.parts_of(&sources(&self.world), patience)
    }

    fn parts_of(&self, sources: &str, patience: CallPolicy) -> anyhow::Result<Services> {
        let aws = self.aws(patience);
        let config = Config::parse(sources).context("parse the sources of the simulation")?;
        let bodies = Some((aws.s3(), "bodies".to_owned()));
        let ledger = Ledger::new(aws.table(), TABLE, bodies).with_sources(&config);
        Ok(Services {
            runs_long_actions: false,
            sources: CurrentSources::fixed(config),
            secrets: Secrets::new(aws.parameters(), SECRETS_PATH),
            egress: None,
            answer_timeout: std::time::Duration::from_secs(10),
            longest_wait: std::time::Duration::from_secs(30 * 60),
            ingress: Some(Secrets::new(aws.parameters(), SECRETS_PATH)),
            keyring: Keyring::new(aws.table(), TABLE),
            fetch_back: FetchBack::new(aws.table(), TABLE),
            quarantine: RejectedRequests::new(aws.table(), TABLE),
            spill: Spill::new(aws.queues(), "https://simulated/spill"),
            table: TABLE.to_owned(),
            inbox: Inbox {
                ledger,
                queue: Queue::new(aws.queues(), "https://simulated/work")
                    .with_backlog(Some("https://simulated/backlog".to_owned())),
            },
            aws,
        })
    }

    /// Each process has a separate retry quota. The SDK stores this quota by region.
    fn aws(&self, patience: CallPolicy) -> Aws {
        static PROCESSES: AtomicU64 = AtomicU64::new(0);
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        Aws::over(
            wire::client(&self.world),
            format!("simulated-{process}"),
            Credentials::from_keys("simulated", "simulated", None),
            Some("https://simulated".to_owned()),
            patience,
        )
    }
}

fn sources(world: &Shared) -> String {
    let (mode, strangers) = {
        let scenario = &world.lock().scenario;
        if scenario.agents {
            let rule = scenario.without != Some(Without::Rule);
            return format!("schema = 1\n{}", agents::sources(rule));
        }
        let mode = scenario.order.map_or("none", |order| order.mode);
        (mode, scenario.stranger.is_some())
    };
    let head = format!(
        r#"
        schema = 1
        [forward]
        allow_hosts = ["destination.example"]
        {}
        order = {{ mode = "{mode}" }}
        {ACTION}
        "#,
        source(SOURCE)
    );
    let others = webhook::SOURCES.iter().filter(|name| **name != SOURCE);
    let others = others.filter(|_| strangers).map(|name| {
        let trust = if *name == EBAY {
            format!("trust = {{ api_secret = \"{API_SECRET}\" }}")
        } else {
            String::new()
        };
        format!("{}\n{trust}\n{ACTION}", source(name))
    });
    head + &others.collect::<String>()
}

/// Returns the settings of the source with this name. The name determines the preset.
fn source(name: &str) -> String {
    let preset = name.trim_end_matches("-main");
    let preset = if preset == "woo" {
        "woocommerce"
    } else {
        preset
    };
    format!("[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\nsecret = \"{name}\"")
}

const ACTION: &str = r#"
[[source.action]]
kind = "http"
url = "https://destination.example/hook"
secret = "destination"
"#;
