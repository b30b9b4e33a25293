//! Extends the leases while the agent runs, and releases them at its end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::Worker;
use super::held::Left;
use crate::output::{CliError, Exit};
use crate::verbs::work::client::Asked;

/// How long the end of the process waits for a claim under way, and for the releases. Clients of
/// the protocol end the process after some seconds.
const PATIENCE: Duration = Duration::from_secs(5);

impl Worker {
    /// Extends a lease at each third of it, for as long as it is held.
    pub(super) async fn keep(self: Arc<Self>, lease: String) {
        while let Some((at, length_s)) = self.held.extension(&lease) {
            if Instant::now() < at {
                // The agent can extend the lease, or end the work, during the wait.
                sleep_until(at).await;
                continue;
            }
            // A failure is tried again, and the agent learns of a lost lease at its next call.
            let _ = self.extend(&lease, length_s).await;
        }
    }

    /// Extends a lease, and records the answer.
    pub(super) async fn extend(
        &self,
        lease: &str,
        length_s: Option<u64>,
    ) -> Result<Asked, CliError> {
        let mut body = json!({ "lease": lease });
        if let Some(length_s) = length_s {
            body["lease_s"] = length_s.into();
        }
        let asked = Instant::now();
        let answer = self.client.ask("extend", &body).await;
        match &answer {
            Ok(Asked::Answered(answer)) => self.held.extended(lease, asked, left(answer)),
            Ok(Asked::Refused { reason, .. }) if reason == "max_hold" => {
                self.held.extends_no_more(lease);
            }
            Ok(Asked::Refused { error, .. }) if error.exit == Exit::NotFound => {
                self.held.remove(lease);
            }
            Ok(Asked::Refused { .. }) | Err(_) => self.held.extends_again(lease, Instant::now()),
        }
        answer
    }

    /// Ends the work. Releases the events without an open effect; those with one return when their
    /// leases end, because a call can still be under way. Returns what was done, for people.
    pub(super) async fn release(&self) -> Vec<String> {
        let claim = timeout(PATIENCE, self.claims.lock()).await;
        let left = self.held.close();
        drop(claim);
        let released = join_all(left.iter().map(|left| self.release_one(left)));
        let released = timeout(PATIENCE, released).await;
        released.unwrap_or_else(|_| vec!["events were not released: no answer".to_owned()])
    }

    async fn release_one(&self, left: &Left) -> String {
        let id = &left.id;
        if !left.open.is_empty() {
            let open = left.open.join(", ");
            return format!("{id} left to its lease: the result of {open} is open");
        }
        let body = json!({ "lease": left.lease, "outcome": "release" });
        match self.client.ask("finish", &body).await {
            Ok(Asked::Answered(_)) => format!("{id} released"),
            Ok(Asked::Refused { error, .. }) | Err(error) => {
                format!("{id} was not released: {}", error.message)
            }
        }
    }
}

/// Returns the time that is left of a lease.
fn left(answer: &Value) -> Duration {
    Duration::from_millis(answer["lease_ms"].as_u64().unwrap_or_default())
}
