//! Reads a rotation: the new secret, the old secrets, and which of them are still in use.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FlagKind, Ledger, Listed, OperatorFlag};
use shared::sources::Config;
use shared::webhook::event::Via;

use super::secrets;
use crate::output::time::{HOUR_MS, duration, rfc3339};

/// How recently a secret must have verified a webhook to count as in use.
pub(super) const LATELY: Duration = Duration::from_secs(600);

/// The maximum number of events that are read. These are the newest events.
const MOST: usize = 500;

/// The content of the operator flag of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::verbs) struct Rotation {
    /// The slot of the new secret.
    pub(super) new: String,
    /// The slots that were live when the rotation began.
    pub(super) old: Vec<String>,
    /// The time at which an operator should end the rotation, in milliseconds.
    pub(super) until: i64,
}

/// A rotation in JSON output.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Told {
    new: String,
    old: Vec<String>,
    until: String,
}

impl Rotation {
    pub(super) fn told(&self) -> Told {
        Told {
            new: self.new.clone(),
            old: self.old.clone(),
            until: rfc3339(self.until),
        }
    }

    /// Returns the rotation of a secret that is in progress, and its operator flag.
    pub(in crate::verbs) async fn under_way(
        ledger: &Ledger,
        secret: &str,
    ) -> anyhow::Result<Option<(Self, OperatorFlag)>> {
        let Some(notice) = ledger.operations().flag(FlagKind::Rotation(secret)).await? else {
            return Ok(None);
        };
        Ok(Some((Self::read(secret, &notice)?, notice)))
    }

    pub(super) fn read(secret: &str, flag: &OperatorFlag) -> anyhow::Result<Self> {
        serde_json::from_str(&flag.doc).with_context(|| format!("read the rotation of {secret}"))
    }

    /// Returns whether the time has come to end the rotation.
    pub(in crate::verbs) fn is_over(&self, now: UnixMillis) -> bool {
        self.until <= now.0
    }

    /// Returns a text such as `rotation ends in 19h`, or for how long the rotation is overdue.
    pub(in crate::verbs) fn note(&self, now: UnixMillis) -> String {
        let seconds = (self.until - now.0) / 1000;
        if seconds > 0 {
            format!("rotation ends in {}", duration(seconds))
        } else {
            format!("rotation should have ended {} ago", duration(-seconds))
        }
    }

    /// Returns the role of a slot in the rotation.
    pub(super) fn part(&self, slot: &str) -> Option<String> {
        if slot == self.new {
            Some("new".to_owned())
        } else if self.old.iter().any(|old| old == slot) {
            Some(format!("until {}", rfc3339(self.until)))
        } else {
            None
        }
    }
}

/// Counts the recent webhooks that each slot verified.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    by_slot: BTreeMap<String, u64>,
    pub(super) looked_at: usize,
}

impl Evidence {
    /// Reads the newest events of all sources that use this secret.
    pub(super) async fn since(
        ledger: &Ledger,
        config: &Config,
        secret: &str,
        from: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let mut evidence = Self::default();
        let sources = config.sources().filter(|source| source.secret == secret);
        for source in sources {
            let events = newest(ledger, &source.name, from, now).await?;
            let rows = secrets::rows(ledger, &events).await?;
            evidence.looked_at += rows.len();
            for row in rows.iter().filter(|row| row.via == Via::Webhook) {
                if let Some(label) = &row.secret {
                    *evidence
                        .by_slot
                        .entry(secrets::slot(label).to_owned())
                        .or_default() += 1;
                }
            }
        }
        Ok(evidence)
    }

    /// Returns the number of webhooks that these slots verified.
    pub(super) fn of<'s>(&self, slots: impl IntoIterator<Item = &'s String>) -> u64 {
        let counts = slots.into_iter().map(|slot| self.by_slot.get(slot));
        counts.flatten().sum()
    }
}

async fn newest(
    ledger: &Ledger,
    source: &str,
    from: UnixMillis,
    now: UnixMillis,
) -> anyhow::Result<Vec<Listed>> {
    let mut found = Vec::new();
    let mut to = now;
    while to >= from && found.len() < MOST {
        let begin = UnixMillis(to.0.div_euclid(HOUR_MS) * HOUR_MS).max(from);
        found.extend(ledger.received_in_hour(source, begin, to, MOST).await?);
        to = UnixMillis(begin.0 - 1);
    }
    found.truncate(MOST);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_says_what_is_left_of_it_and_when_it_is_over() {
        let rotation = Rotation {
            new: "v2".into(),
            old: vec!["current".into()],
            until: 7_200_000,
        };
        assert_eq!(rotation.note(UnixMillis(0)), "rotation ends in 2h");
        assert_eq!(
            rotation.note(UnixMillis(7_260_000)),
            "rotation should have ended 1m ago"
        );
        assert_eq!(rotation.part("v2").as_deref(), Some("new"));
        assert_eq!(
            rotation.part("current").as_deref(),
            Some("until 1970-01-01T02:00:00Z")
        );
        assert_eq!(rotation.part("handshake"), None);
    }
}
