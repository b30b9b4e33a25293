//! What reverifying needs beside the table: the secrets, the queue, the bucket.

use std::collections::BTreeMap;

use anyhow::Context;
use shared::aws::{Aws, Patience};
use shared::clock::Millis;
use shared::inbox::Inbox as Door;
use shared::ledger::Ledger;
use shared::queue::Queue;
use shared::secrets::{Live, Secrets};

use crate::cli::{DoorAt, Global, SecretsAt};
use crate::output::CliError;
use crate::place::Inbox;

/// The live secrets of each source, read once for a command.
pub(in crate::verbs) struct Keys(BTreeMap<String, Live>);

impl Keys {
    pub(in crate::verbs) async fn read(
        inbox: &Inbox,
        global: &Global,
        at: &SecretsAt,
        now: Millis,
    ) -> anyhow::Result<Self> {
        let secrets = store(inbox, global, at)?;
        let mut keys = BTreeMap::new();
        for source in inbox.config.sources() {
            let live = secrets.live(&source.secret, now).await?;
            inbox.keyring.teach(&source.verifier, now).await?;
            keys.insert(source.name.clone(), live);
        }
        Ok(Self(keys))
    }

    pub(in crate::verbs) fn of(&self, source: &str) -> &[shared::secrets::Secret] {
        self.0.get(source).map_or(&[], |live| live)
    }
}

/// Where the catcher's secrets are.
pub(in crate::verbs) fn store(
    inbox: &Inbox,
    global: &Global,
    at: &SecretsAt,
) -> anyhow::Result<Secrets> {
    Ok(match &inbox.local {
        Some(local) => local.secrets(),
        None => Secrets::new(aws(global)?.ssm(), path(global, at)?),
    })
}

/// The door of the inbox, as the catcher has it.
pub(in crate::verbs) fn door(inbox: &Inbox, global: &Global, at: &DoorAt) -> anyhow::Result<Door> {
    if let Some(local) = &inbox.local {
        let sqs = local.endpoints().clients().sqs;
        return Ok(Door {
            ledger: inbox.ledger.clone(),
            queue: Queue::new(sqs, &local.queue_url),
        });
    }
    let (Some(queue), Some(bucket), Some(table)) = (&at.queue_url, &at.body_bucket, &global.table)
    else {
        return Err(CliError::usage(
            "quarantine.no_queue",
            "what is genuine enters the inbox: name its queue and its bucket",
        )
        .note("the outputs QueueUrl and BodyBucket of the stack; --dry-run needs neither")
        .tip("webhookctl quarantine reverify --queue-url URL --body-bucket NAME")
        .into());
    };
    let aws = aws(global)?;
    let bodies = (aws.s3(), bucket.clone());
    Ok(Door {
        ledger: Ledger::new(aws.dynamodb(), table, Some(bodies))
            .keeping(inbox.config.retentions())
            .ordering(&inbox.config),
        queue: Queue::new(aws.sqs(), queue),
    })
}

pub(crate) fn aws(global: &Global) -> anyhow::Result<Aws> {
    Aws::for_operator(
        global.region.clone(),
        global.endpoint_url.clone(),
        Patience::LONG,
    )
}

/// The catcher's path. CloudFormation calls the table `<stack>-Inbox-<random>`.
fn path(global: &Global, at: &SecretsAt) -> anyhow::Result<String> {
    let given = at.secrets_path.clone().filter(|path| !path.is_empty());
    let by_table = || {
        let (stack, _) = global.table.as_deref()?.rsplit_once("-Inbox-")?;
        Some(format!("/{stack}"))
    };
    let path = given.or_else(by_table).context(
        CliError::usage(
            "quarantine.no_secrets_path",
            "the table's name does not say where its secrets are",
        )
        .tip("--secrets-path PATH, the output SecretsPath of the stack"),
    )?;
    let path = path.trim_end_matches('/');
    Ok(if path.ends_with("/ingress") {
        path.to_owned()
    } else {
        format!("{path}/ingress")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_path_of_the_secrets_is_given_or_follows_from_the_table() {
        let said = |table: &str, given: Option<&str>| {
            let line = ["webhookctl", "--table", table, "quarantine", "list"];
            let global = crate::cli::Cli::try_parse_from(line).unwrap().global;
            let at = SecretsAt {
                secrets_path: given.map(str::to_owned),
            };
            path(&global, &at).ok()
        };
        let stack = "/mitt-prod/ingress";
        assert_eq!(said("mitt-prod-Inbox-1ABC", None).as_deref(), Some(stack));
        for given in ["/mitt-prod", "/mitt-prod/", "/mitt-prod/ingress"] {
            assert_eq!(said("other", Some(given)).as_deref(), Some(stack));
        }
        assert_eq!(said("other", None), None);
    }
}
