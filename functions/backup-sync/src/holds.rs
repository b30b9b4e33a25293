//! Ends the holds that no operator decided in time, and reports holds that wait for long.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, HoldDecision, Through};
use shared::sources::Source;
use shared::sources::rules::Verdict;
use shared::webhook::event::EventKey;

use crate::BackupSync;

/// The most holds of a source that one sweep ends.
const MOST: i32 = 200;

/// The number of holds that end in parallel.
const AT_ONCE: usize = 16;

/// The most holds of a source that the health check reads.
const READ: i32 = 25;

/// The part of each hour in which the sweep also reads the sources without a rule that holds. Such a
/// source can have held events from an earlier configuration.
const OTHERS: Duration = Duration::from_secs(300);
const HOUR_MS: i64 = 3_600_000;

/// A time after the end of each hold.
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);

impl BackupSync {
    /// Makes events whose hold has expired dead letters. `began` is the start of the sweep. After an
    /// error, the next sweep tries again.
    pub(crate) async fn end_holds(&self, began: UnixMillis) {
        let config = self.services.sources.config();
        let all = Duration::from_millis(began.0.rem_euclid(HOUR_MS).unsigned_abs()) < OTHERS;
        let sources = config.sources().filter(|source| all || can_hold(source));
        for source in sources {
            if let Err(error) = self.end_holds_of(&source.name).await {
                tracing::error!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "could not end the expired holds of source {}",
                    source.name
                );
            }
        }
    }

    async fn end_holds_of(&self, source: &str) -> anyhow::Result<()> {
        let (ledger, now) = (&self.services.inbox.ledger, (self.clock)());
        let (keys, _) = ledger.held(source, (UnixMillis(0), now), MOST).await?;
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let action = AuditAction {
            what: "hold.expire",
            who: "backup-sync".to_owned(),
            through: Through::Schedule,
            why: "not approved in time".to_owned(),
            selection: match keys.len() {
                1 => first.to_string(),
                more => format!("{first} and {} more", more - 1),
            },
            count: keys.len(),
        };
        ledger.operations().log(&action, now).await?;
        let ending = keys.iter().map(|key| self.end_hold(key, now));
        stream::iter(ending)
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
        Ok(())
    }

    async fn end_hold(&self, key: &EventKey, now: UnixMillis) {
        match self.services.inbox.ledger.expire_hold(key, now).await {
            Ok(HoldDecision::Made(row)) => {
                // A metric counts these lines.
                tracing::error!(
                    event.key = %key,
                    source = key.source(),
                    outcome = "dead_letter",
                    reason = row.reason.as_deref(),
                    "event {key} is a dead letter: its hold expired"
                );
            }
            // An operator decided in the meantime, or the index is behind the table.
            Ok(HoldDecision::Moved(_) | HoldDecision::Expired | HoldDecision::Missing) => {}
            Err(error) => tracing::error!(
                event.key = %key,
                error = format!("{error:#}"),
                "could not end the hold of event {key}; the next sweep tries again"
            ),
        }
    }

    /// Returns the sources with an event that has waited for an approval for more than half of its
    /// time.
    pub(crate) async fn late_approvals(&self, now: UnixMillis) -> anyhow::Result<BTreeSet<String>> {
        let ledger = &self.services.inbox.ledger;
        let config = self.services.sources.config();
        let mut late = BTreeSet::new();
        for source in config.sources().filter(|source| can_hold(source)) {
            let times = (UnixMillis(0), now + FAR);
            let (keys, _) = ledger.held(&source.name, times, READ).await?;
            if keys.is_empty() {
                continue;
            }
            let (rows, _) = ledger.rows(&keys).await?;
            let mut holds = rows.iter().filter_map(|stored| stored.row.hold.as_ref());
            if holds.any(|hold| now.since(hold.at) > hold.expires.since(hold.at) / 2) {
                late.insert(source.name.clone());
            }
        }
        Ok(late)
    }
}

/// Returns whether a rule of the source can hold an event.
fn can_hold(source: &Source) -> bool {
    let mut rules = source.policy.iter();
    rules.any(|rule| rule.verdict == Verdict::Hold)
}
