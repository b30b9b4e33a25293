//! Proves an emulator before a suite trusts it.
//!
//! The ledger stands on a handful of promises of DynamoDB and SQS. Emulators break them
//! more often than one would think, most of all under races, and a suite on a broken one
//! says nothing. Takes clients, so that it judges any emulator.

mod ledger;
mod queue;

use std::{fmt, time::Duration};

use anyhow::Context;
use tokio::time::Instant;

use super::clients::Clients;

/// What was proved, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub proved: Vec<Proof>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// A sentence that held.
    pub claim: &'static str,
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for proof in &self.proved {
            writeln!(f, "{:>6} ms  {}", proof.took.as_millis(), proof.claim)?;
        }
        Ok(())
    }
}

/// How often and how wide the races are run.
#[derive(Debug, Clone, Copy)]
pub struct Races {
    pub rounds: usize,
    pub racers: usize,
}

impl Default for Races {
    fn default() -> Self {
        Self {
            rounds: 200,
            racers: 16,
        }
    }
}

/// Fails with the first promise that is broken. Makes a table and queues of its own, and
/// removes them.
pub async fn preflight(clients: &Clients) -> anyhow::Result<Report> {
    Box::pin(preflight_with(clients, Races::default())).await
}

pub async fn preflight_with(clients: &Clients, races: Races) -> anyhow::Result<Report> {
    let (ledger, queue) = tokio::try_join!(
        ledger::prove(&clients.dynamodb, races),
        queue::prove(&clients.sqs),
    )?;
    Ok(Report {
        proved: ledger.into_iter().chain(queue).collect(),
    })
}

/// Times a check and puts its claim before the error.
async fn check(
    claim: &'static str,
    holds: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Proof> {
    let start = Instant::now();
    Box::pin(holds)
        .await
        .with_context(|| format!("this emulator cannot be trusted: not true that {claim}"))?;
    Ok(Proof {
        claim,
        took: start.elapsed(),
    })
}
