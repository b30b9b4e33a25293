//! Lists the live secrets of a source, and which of them verified recent webhooks. Operators need
//! both during a rotation.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use serde::Serialize;
use shared::aws::secrets::{Secret, is_same};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Listed, Row};
use shared::webhook::event::Via;

use crate::cli::{Global, SecretsAt};
use crate::output::time::rfc3339;
use crate::target::Deployment;
use crate::verbs::quarantine::Keys;

/// The number of rows that are read in parallel.
const AT_ONCE: usize = 20;

/// The live secrets of a source, newest first.
pub(super) type Live = Vec<Secret>;

/// The recent use of a secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Used {
    /// The slot and the version, such as `current.3`. In Secrets Manager, this is the version and
    /// the label, such as `1f2e3d4c.current`.
    pub(super) label: String,
    /// Whether the source still accepts the secret.
    pub(super) live: bool,
    /// A hash that identifies the secret without its value.
    pub(super) fingerprint: Option<String>,
    /// The time when the secret was stored.
    pub(super) since: Option<String>,
    /// The role in a rotation: `new`, or the time until which the secret should be accepted.
    pub(super) rotation: Option<String>,
    /// The number of inspected events that the secret verified.
    pub(super) proved: usize,
    pub(super) last_used_at: Option<String>,
    #[serde(skip)]
    pub(super) last: Option<i64>,
}

/// Returns the live secrets of every source.
pub(super) async fn live(
    inbox: &Deployment,
    global: &Global,
    at: &SecretsAt,
    now: UnixMillis,
) -> anyhow::Result<BTreeMap<String, Live>> {
    let keys = Keys::read(inbox, global, at, now).await?;
    let sources = inbox.config.sources();
    Ok(sources
        .map(|source| (source.name.clone(), keys.of(&source.name).to_vec()))
        .collect())
}

/// Returns the rows of these events.
pub(super) async fn rows(ledger: &Ledger, events: &[Listed]) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::with_capacity(events.len());
    for events in events.chunks(AT_ONCE) {
        let reads = events.iter().map(|event| ledger.event(&event.key));
        rows.extend(try_join_all(reads).await?.into_iter().flatten());
    }
    Ok(rows)
}

/// Returns the use of each secret in these events. The live secrets come first, in their order, and
/// then the secrets that are no longer live.
pub(super) fn used(live: &[Secret], rows: &[Row]) -> Vec<Used> {
    let mut all: Vec<Used> = live
        .iter()
        .map(|secret| Used {
            since: secret.since().map(|at| rfc3339(at.0)),
            ..Used::new(secret.label(), Some(secret.fingerprint()))
        })
        .collect();
    for row in rows.iter().filter(|row| row.via == Via::Webhook) {
        let Some(label) = &row.secret else {
            continue;
        };
        if !all.iter().any(|used| is_same(&used.label, label)) {
            all.push(Used::new(label, None));
        }
        for used in all.iter_mut().filter(|used| is_same(&used.label, label)) {
            used.count(row.received_at);
        }
    }
    all
}

impl Used {
    /// Returns the slot of the secret, or its version in Secrets Manager.
    pub(super) fn slot(&self) -> &str {
        slot(&self.label)
    }

    /// Creates the record for a secret that has verified no event yet. If the secret is no longer
    /// live, it has no fingerprint, because its value cannot be read.
    fn new(label: &str, fingerprint: Option<String>) -> Self {
        Self {
            label: label.to_owned(),
            live: fingerprint.is_some(),
            fingerprint,
            since: None,
            rotation: None,
            proved: 0,
            last_used_at: None,
            last: None,
        }
    }

    fn count(&mut self, at: UnixMillis) {
        self.proved += 1;
        if self.last.is_none_or(|last| last < at.0) {
            self.last = Some(at.0);
            self.last_used_at = Some(rfc3339(at.0));
        }
    }
}

/// Returns the slot in a label, without the version.
pub(super) fn slot(label: &str) -> &str {
    label.rsplit_once('.').map_or(label, |(slot, _)| slot)
}

/// Returns advice about unused live secrets, in sentences.
pub(super) fn advice(used: &[Used], looked_at: usize) -> Vec<String> {
    let live: Vec<&Used> = used.iter().filter(|used| used.live).collect();
    let idle: Vec<&str> = live
        .iter()
        .filter(|used| used.proved == 0)
        .map(|used| used.label.as_str())
        .collect();
    if live.is_empty() || idle.is_empty() || looked_at == 0 {
        return Vec::new();
    }
    let names = idle.join(", ");
    if idle.len() == live.len() {
        return vec![format!(
            "no live secret verified any of the last {looked_at} events"
        )];
    }
    vec![format!(
        "{names} verified none of the last {looked_at} events; old secrets can be removed, and \
         the provider does not use new secrets yet"
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(label: &str, live: bool, proved: usize) -> Used {
        Used {
            live,
            proved,
            ..Used::new(label, None)
        }
    }

    #[test]
    fn a_live_secret_that_proves_nothing_is_named() {
        let said = advice(&[used("v2.1", true, 90), used("v1.1", true, 0)], 90);
        assert!(
            said[0].starts_with("v1.1 verified none of the last 90"),
            "{said:?}"
        );
        let said = advice(&[used("v2.1", true, 0)], 3);
        assert!(said[0].starts_with("no live secret"), "{said:?}");
        assert!(advice(&[used("v2.1", true, 1), used("v1.1", false, 0)], 1).is_empty());
        assert!(
            advice(&[used("v2.1", true, 0)], 0).is_empty(),
            "nothing was sent"
        );
    }
}
