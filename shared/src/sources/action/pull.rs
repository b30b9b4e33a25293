//! Reads an action of kind `pull`, which leaves the events to workers outside of Lambda.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::FileAction;
use crate::base::setting_path::At as _;
use crate::base::timing::LONGEST_WORK_LEASE;
use crate::sources::{address, check_name, duration};

/// The lease of a worker, if the file sets none.
const LEASE: Duration = Duration::from_secs(120);

/// The shortest lease of a worker.
const SHORTEST_LEASE: Duration = Duration::from_secs(30);

/// How long a worker can hold an event, if the file sets no time.
const MAX_HOLD: Duration = Duration::from_secs(3_600);

/// The longest time for which a worker can hold an event.
const LONGEST_HOLD: Duration = Duration::from_secs(12 * 3_600);

/// How workers outside of Lambda take the events of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The name of the queue, which several sources can share.
    pub queue: String,
    /// The lease of a worker that asks for no other length.
    pub lease: Duration,
    /// How long a worker can hold an event by extending its lease.
    pub max_hold: Duration,
    /// The ARNs of the roles that can take the events.
    pub workers: Vec<String>,
}

impl FileAction {
    /// `source` is the name of the source, which is also the default name of the queue.
    pub(super) fn into_pull(self, source: &str) -> anyhow::Result<Pull> {
        self.has_no_rate().at("rate").needs("kind")?;
        let queue = self.queue.unwrap_or_else(|| source.to_owned());
        check_name("a queue's name", &queue)
            .at("queue")
            .needs("kind")?;
        let lease = self.lease.as_deref().map(lease).transpose().at("lease")?;
        let lease = lease.unwrap_or(LEASE);
        let max_hold = self.max_hold.as_deref();
        let max_hold = max_hold.map(|text| hold(text, lease)).transpose();
        let max_hold = max_hold.at("max_hold").needs("lease")?;
        let workers = self.workers.unwrap_or_default();
        for role in &workers {
            address::check_role(role).at("workers")?;
        }
        Ok(Pull {
            queue,
            lease,
            max_hold: max_hold.unwrap_or(MAX_HOLD),
            workers,
        })
    }

    fn has_no_rate(&self) -> anyhow::Result<()> {
        ensure!(
            self.rate.is_none(),
            "rate is not a setting of kind \"pull\", because workers ask for events at their own \
             pace; remove the setting"
        );
        Ok(())
    }
}

fn lease(text: &str) -> anyhow::Result<Duration> {
    let lease = duration::parse(text).context("lease")?;
    ensure!(
        (SHORTEST_LEASE..=LONGEST_WORK_LEASE).contains(&lease),
        "lease = {text:?} is out of range; use 30s to 15m. A worker extends its lease while it works"
    );
    Ok(lease)
}

fn hold(text: &str, lease: Duration) -> anyhow::Result<Duration> {
    let hold = duration::parse(text).context("max_hold")?;
    ensure!(
        (lease..=LONGEST_HOLD).contains(&hold),
        "max_hold = {text:?} is out of range; use the length of the lease to 12h"
    );
    Ok(hold)
}
