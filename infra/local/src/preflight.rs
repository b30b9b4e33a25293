//! Checks an emulator before a test suite relies on it.
//!
//! The ledger depends on a few guarantees of DynamoDB and SQS. Many emulators break these
//! guarantees, especially with concurrent calls. The results of a test suite on such an emulator
//! have no meaning. The checks take clients, so they work with any emulator.

mod ledger;
mod queue;

use std::{fmt, time::Duration};

use anyhow::Context;
use tokio::time::Instant;

use super::clients::Clients;

/// The checks that passed, with their durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub proved: Vec<Proof>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The guarantee, as a sentence.
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

/// The number of rounds of the race checks, and of concurrent calls in a round.
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

/// Checks all guarantees. Fails at the first guarantee that the emulator breaks. Creates its own
/// table and queues, and deletes them.
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

/// Runs a check, measures its duration, and adds its claim to the error.
async fn check(
    claim: &'static str,
    holds: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Proof> {
    let start = Instant::now();
    Box::pin(holds)
        .await
        .with_context(|| format!("the emulator failed the check \"{claim}\""))?;
    Ok(Proof {
        claim,
        took: start.elapsed(),
    })
}
