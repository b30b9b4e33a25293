//! Opens the resources that `reverify` needs in addition to the table: the secrets, the queue and
//! the bucket.

use std::collections::BTreeMap;

use anyhow::Context;
use shared::aws::secrets::{Live, Secrets, is_same};
use shared::aws::{Aws, CallPolicy};
use shared::base::clock::UnixMillis;
use shared::inbox::Inbox as Door;
use shared::inbox::ledger::Ledger;
use shared::inbox::queue::Queue;

use crate::cli::{DoorAt, Global, SecretsAt};
use crate::output::CliError;
use crate::target::{Deployment, Names};

/// The live secrets of each source. A command reads them once.
pub(in crate::verbs) struct Keys(BTreeMap<String, Live>);

impl Keys {
    pub(in crate::verbs) async fn read(
        inbox: &Deployment,
        global: &Global,
        at: &SecretsAt,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let secrets = store(inbox, global, at)?;
        let mut keys = BTreeMap::new();
        for source in inbox.config.sources() {
            let live = secrets.live(&source.secret, now).await?;
            inbox.keyring.load_keys(&source.verifier, now).await?;
            keys.insert(source.name.clone(), live);
        }
        Ok(Self(keys))
    }

    pub(in crate::verbs) fn of(&self, source: &str) -> &[shared::aws::secrets::Secret] {
        self.0.get(source).map_or(&[], |live| live)
    }

    /// Returns the time when the secret with this label was stored.
    pub(super) fn added(&self, source: &str, label: &str) -> Option<UnixMillis> {
        let mut secrets = self.of(source).iter();
        secrets
            .find(|secret| is_same(secret.label(), label))?
            .since()
    }
}

/// Returns the store of the catcher's secrets.
pub(in crate::verbs) fn store(
    inbox: &Deployment,
    global: &Global,
    at: &SecretsAt,
) -> anyhow::Result<Secrets> {
    let secrets = match &inbox.local {
        Some(local) => local.secrets(),
        None => Secrets::new(aws(global)?.ssm(), path(inbox.names(), at)?),
    };
    Ok(secrets.with_managed(inbox.managed()))
}

/// Returns the inbox for writing. It is built in the same way as in the catcher.
pub(in crate::verbs) fn door(
    inbox: &Deployment,
    global: &Global,
    at: &DoorAt,
) -> anyhow::Result<Door> {
    if inbox.local.is_some() {
        return inbox.door();
    }
    let names = inbox.names();
    let queue = at.queue_url.as_ref().or(names.queue_url.as_ref());
    let bucket = at.bodies_at.body_bucket.as_ref().or(names.bucket.as_ref());
    let (Some(queue), Some(bucket), Some(table)) = (queue, bucket, &names.table) else {
        return Err(CliError::usage(
            "quarantine.no_queue",
            "the queue and the bucket of the inbox are unknown; verified requests need both",
        )
        .note("the outputs QueueUrl and BodyBucket of the stack name them; --dry-run needs neither")
        .tip(
            "pass --queue-url URL --body-bucket NAME, or run \
             `webhookctl context add NAME --stack STACK`",
        )
        .into());
    };
    let aws = aws(global)?;
    let bodies = (aws.s3(), bucket.clone());
    Ok(Door {
        ledger: Ledger::new(aws.dynamodb(), table, Some(bodies)).with_sources(&inbox.config),
        queue: Queue::new(aws.sqs(), queue),
    })
}

fn aws(global: &Global) -> anyhow::Result<Aws> {
    crate::target::aws(&global.target, CallPolicy::LONG)
}

/// Returns the SSM path of the catcher's secrets.
fn path(names: &Names, at: &SecretsAt) -> anyhow::Result<String> {
    let given = Names {
        secrets_path: at.secrets_path.clone().filter(|path| !path.is_empty()),
        ..Names::default()
    };
    given.or(names).secrets("ingress").context(
        CliError::usage(
            "quarantine.no_secrets_path",
            "the path of the secrets cannot be derived from the table's name",
        )
        .tip("pass --secrets-path PATH, the output SecretsPath of the stack"),
    )
}
