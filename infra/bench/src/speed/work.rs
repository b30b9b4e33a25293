//! The job of each function, with checks of the results.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::speed::functions::{Bench, apply_sources, batch, webhook};
use crate::speed::runtime::{Answer, Running};
use crate::speed::stores::Stores;

/// The number of messages in a batch, as in the template.
pub(crate) const BATCH: usize = 10;

/// The job of a measured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Webhooks,
    /// The sources are in the table, in another version than the built-in file.
    Followed,
    /// Each webhook has already been received and processed.
    Duplicates,
    Batches,
    Sweeps,
}

impl Job {
    /// Does the job once. `number` is the count of previous steps.
    pub(crate) fn step(
        self,
        running: &mut Running,
        stores: &Stores,
        number: u64,
    ) -> anyhow::Result<Answer> {
        match self {
            Self::Webhooks | Self::Followed | Self::Duplicates => catch(running, number),
            Self::Batches => {
                let done = process(running, stores)?.context("no messages")?;
                ensure!(
                    done.work_messages == BATCH,
                    "a batch of {}",
                    done.work_messages
                );
                ensure!(done.again == 0, "{} messages of a batch failed", done.again);
                Ok(done.answer)
            }
            Self::Sweeps => running.invoke(json!({ "task": "sweep" }).to_string()),
        }
    }

    /// Prepares the stores for `times` steps of this job.
    pub(crate) fn prepare(
        self,
        bench: &Bench,
        functions: &Path,
        stores: &Stores,
        times: u64,
    ) -> anyhow::Result<()> {
        let webhooks = match self {
            Self::Webhooks => return Ok(()),
            Self::Followed => return apply_sources(stores),
            Self::Duplicates => times,
            Self::Batches => times * BATCH as u64,
            Self::Sweeps => 10 * BATCH as u64,
        };
        let mut catcher = Running::start(&bench.function(functions, "catcher", stores)?)?;
        for number in 0..webhooks {
            catch(&mut catcher, number)?;
        }
        if self == Self::Batches {
            return Ok(());
        }
        let mut processor = Running::start(&bench.function(functions, "processor", stores)?)?;
        while process(&mut processor, stores)?.is_some() {}
        if self == Self::Sweeps {
            // The first sweep of an inbox scans the last hour. The number of its steps depends on
            // the current minute.
            let mut sweeping =
                Running::start(&bench.function(functions, "backup-sync", stores)?)?;
            self.step(&mut sweeping, stores, 0)?;
        }
        Ok(())
    }
}

pub(crate) fn catch(catcher: &mut Running, number: u64) -> anyhow::Result<Answer> {
    catch_event(catcher, webhook(number)?)
}

/// Passes an event of the HTTP API to a catcher.
pub(crate) fn catch_event(catcher: &mut Running, event: String) -> anyhow::Result<Answer> {
    let answer = catcher.invoke(event)?;
    let said: Value = serde_json::from_slice(&answer.body).context("the answer is not JSON")?;
    ensure!(said["statusCode"] == 200, "a webhook was answered {said}");
    Ok(answer)
}

/// The result of a batch.
pub(crate) struct Batch {
    work_messages: usize,
    /// Messages that failed because another worker holds their event.
    pub(crate) again: usize,
    answer: Answer,
}

/// Processes a batch from the queue. Returns `None` if the queue is empty.
pub(crate) fn process(processor: &mut Running, stores: &Stores) -> anyhow::Result<Option<Batch>> {
    let messages = stores.receive(BATCH);
    if messages.is_empty() {
        return Ok(None);
    }
    let answer = processor.invoke(batch(&messages))?;
    let said: Value = serde_json::from_slice(&answer.body).context("the answer is not JSON")?;
    let failed = said["batchItemFailures"].as_array();
    stores.delete(&messages);
    Ok(Some(Batch {
        work_messages: messages.len(),
        again: failed.map_or(0, Vec::len),
        answer,
    }))
}
