//! The measured programs, and their events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, Through};
use shared::inbox::source_versions::{Applied, NewVersion, SourceVersions};
use simulation::wire::sqs::{Message, Name};

use crate::machine::Folder;
use crate::speed::runtime::Program;
use crate::speed::stores::Stores;
use crate::speed::tls::{Tls, pem};
use crate::webhook::{SECRET, SOURCE, Shape, Webhook};

/// The size of a webhook's body in bytes.
pub(crate) const SIZE: usize = 2_048;

/// The files of a measurement.
pub(crate) struct Bench {
    folder: Folder,
    processes: AtomicU64,
    tls: Tls,
}

impl Bench {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = Folder::new("bench")?;
        let tls = Tls::new().context("create the certificates")?;
        let all = roots() + &tls.root;
        for (name, certificates) in [(ROOTS, &all), (OWN_ROOT, &tls.root)] {
            std::fs::write(folder.file(name), certificates).context("write the roots")?;
        }
        Ok(Self {
            folder,
            processes: AtomicU64::new(0),
            tls,
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Returns a program with the environment that the template gives to a function. It has one
    /// source, whose events are sent to a destination over HTTP.
    pub(crate) fn program(
        &self,
        name: &'static str,
        command: Vec<String>,
        stores: &Stores,
    ) -> anyhow::Result<Program> {
        let number = stores.url.rsplit(':').next().unwrap_or_default();
        let sources = self.file(&format!("sources-{number}.toml"));
        if !sources.exists() {
            std::fs::write(&sources, sources_for(&stores.url)).context("write the sources")?;
        }
        let sources = sources.display().to_string();
        let queue = |name: &str| format!("{}/123456789012/{name}", stores.url);
        let environment = [
            ("MITT_TABLE", "inbox".to_owned()),
            ("MITT_QUEUE_URL", queue("work")),
            ("MITT_BACKLOG_QUEUE_URL", queue("backlog")),
            ("MITT_SPILL_QUEUE_URL", queue("spill")),
            ("MITT_BODY_BUCKET", "bodies".to_owned()),
            ("MITT_SECRETS_PATH", "/mitt/ingress".to_owned()),
            ("MITT_INGRESS_PATH", "/mitt/ingress".to_owned()),
            ("MITT_SOURCES_FILE", sources),
            // Programs that do not read Parameter Store use this variable.
            ("SIGNING_SECRET", SECRET.to_owned()),
            ("AWS_ENDPOINT_URL", stores.url.clone()),
            ("AWS_REGION", "eu-central-1".to_owned()),
            ("AWS_DEFAULT_REGION", "eu-central-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "a made-up key".to_owned()),
            ("AWS_SESSION_TOKEN", "local".to_owned()),
            ("AWS_LAMBDA_FUNCTION_NAME", "bench".to_owned()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".to_owned()),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON".to_owned()),
            ("AWS_LAMBDA_LOG_LEVEL", "INFO".to_owned()),
            ("_HANDLER", "bootstrap".to_owned()),
            ("SSL_CERT_FILE", self.file(ROOTS).display().to_string()),
            ("LANG", "en_US.UTF-8".to_owned()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("TZ", ":UTC".to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        Ok(Program {
            name,
            command,
            environment: BTreeMap::from(environment),
            log: self.file(&format!("{name}-{process}.log")),
        })
    }

    /// Returns the same program, which calls the stores only with TLS. Each service has its own
    /// address, as on AWS, so a program needs a connection for each service.
    pub(crate) fn over_tls(
        &self,
        mut program: Program,
        stores: &Stores,
    ) -> anyhow::Result<Program> {
        let serve = || stores.serve_tls(self.tls.server.clone());
        let (table, queues, parameters) = (serve()?, serve()?, serve()?);
        let file = |name: &str| self.file(name).display().to_string();
        let environment = [
            ("MITT_QUEUE_URL", format!("{queues}/123456789012/work")),
            ("AWS_ENDPOINT_URL", table.clone()),
            ("AWS_ENDPOINT_URL_DYNAMODB", table),
            ("AWS_ENDPOINT_URL_SQS", queues),
            ("AWS_ENDPOINT_URL_SSM", parameters),
            // Node.js adds this file to its built-in copy of Mozilla's root certificates. The AWS
            // SDK for Python reads only the file in its variable.
            ("NODE_EXTRA_CA_CERTS", file(OWN_ROOT)),
            ("AWS_CA_BUNDLE", file(ROOTS)),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        program.environment.extend(environment);
        Ok(program)
    }

    /// Returns one of the deployed functions.
    pub(crate) fn function(
        &self,
        folder: &Path,
        name: &'static str,
        stores: &Stores,
    ) -> anyhow::Result<Program> {
        let executable = folder.join(name).display().to_string();
        self.program(name, vec![executable], stores)
    }
}

/// The name of the file with all root certificates.
const ROOTS: &str = "roots.pem";

/// The name of the file with only the root certificate of the emulated services.
const OWN_ROOT: &str = "own-root.pem";

/// Returns the root certificates of Mozilla, which Lambda also has.
fn roots() -> String {
    let certificates = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    certificates.map(|certificate| pem(certificate)).collect()
}

pub(crate) fn sources_for(url: &str) -> String {
    format!(
        "schema = 1\n[forward]\nallow_loopback = true\n\n[[source]]\nname = \"{SOURCE}\"\n\
         preset = \"stripe\"\n[[source.action]]\nkind = \"http\"\nurl = \"{url}/hooks\"\n\
         secret = \"destination\"\n"
    )
}

/// Applies a version of the sources that differs from the built-in file.
pub(crate) fn apply_sources(stores: &Stores) -> anyhow::Result<()> {
    let text = format!("{}# version 1\n", sources_for(&stores.url));
    let new = NewVersion {
        text: &text,
        seen: 0,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "bench".to_owned(),
            why: String::new(),
            selection: String::new(),
            count: 0,
        },
    };
    let versions = SourceVersions::new(local::clients::dynamodb(&stores.url), "inbox");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let applied = runtime.block_on(versions.apply(&new, UnixMillis::now()))?;
    ensure!(applied == Applied::Version(1), "{applied:?}");
    Ok(())
}

/// Returns a webhook in the format of the HTTP API. The same number gives the same webhook, with a
/// current signature.
pub(crate) fn webhook(number: u64) -> anyhow::Result<String> {
    webhook_to(SOURCE, number)
}

/// Returns a webhook to a source whose secret is that of the sender.
pub(crate) fn webhook_to(source: &str, number: u64) -> anyhow::Result<String> {
    const EVENT: &str = include_str!("../../../events/catcher-stripe.json");
    let webhook = Webhook::new(number, SIZE, Shape::Documented);
    let mut event: Value = serde_json::from_str(EVENT).context("parse the sample event")?;
    let path = format!("/in/{source}");
    event["rawPath"] = path.clone().into();
    event["requestContext"]["http"]["path"] = path.into();
    event["pathParameters"]["source"] = source.into();
    event["headers"]["stripe-signature"] = webhook.signature()?.into();
    event["headers"]["content-length"] = SIZE.to_string().into();
    event["body"] = String::from_utf8(webhook.body)?.into();
    Ok(event.to_string())
}

/// Returns the event id in a webhook.
pub(crate) fn event_id(number: u64) -> anyhow::Result<String> {
    let webhook = Webhook::new(number, SIZE, Shape::Documented);
    let event: Value = serde_json::from_slice(&webhook.body)?;
    let id = event["id"].as_str().context("the webhook has no id")?;
    Ok(id.to_owned())
}

/// Returns messages in the format of the event source mapping.
pub(crate) fn batch(messages: &[Message]) -> String {
    let now = UnixMillis::now().0.to_string();
    let records = messages.iter().map(|message| {
        json!({
            "messageId": format!("m-{}", message.id),
            "receiptHandle": format!("r-{}", message.id),
            "body": message.body,
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": message.sent_at.to_string(),
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": now,
            },
            "messageAttributes": {},
            "md5OfBody": "04aeadc6efac4c5d4761a4b29b966b1c",
            "eventSource": "aws:sqs",
            "eventSourceARN": Name::Work.arn(),
            "awsRegion": "eu-central-1",
        })
    });
    json!({ "Records": records.collect::<Vec<_>>() }).to_string()
}
