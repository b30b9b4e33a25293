//! Fetches the objects that unsigned notices name, and stores the responses as events.
//!
//! Anyone can send a notice, so no content of a notice goes into an event. Each source has a share
//! of the calls and of the time. Objects that were never tried come first, and the networks of the
//! senders alternate. Each invented name therefore costs one call, and a sender of invented names
//! delays an object of another network by one call in each round.

mod turns;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use shared::aws::outbound::{Answer, SendError};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::fetch_back::{Wait, event};
use shared::sources::Source;
use shared::webhook::preset::{Fetch, FetchAuth};

use crate::BackupSync;
use turns::{in_turn, is_due};

/// The time in a run during which calls can start, for all sources together.
const BUDGET: Duration = Duration::from_secs(20);

/// The maximum number of calls for one source in one run.
const MOST: usize = 400;

/// The number of parallel calls for one source.
const AT_ONCE: usize = 8;
/// The time after which an unknown object is dropped. No provider repeats a notice after this time,
/// and Mitt has acknowledged no notice about the object.
const GIVE_UP: Duration = Duration::from_secs(7 * 24 * 3600);

/// The result for all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FetchReport {
    /// Calls to providers' APIs.
    pub asked: u64,
    /// Events that were stored.
    pub new: u64,
    /// Object states that were already stored.
    pub known: u64,
    /// Objects that the provider does not have. The run drops their notices.
    pub unknown: u64,
    /// Objects that could not be fetched and wait for a later run. The log names each of them.
    pub failed: u64,
    /// Objects that this run did not reach.
    pub left: u64,
}

#[derive(Default)]
struct Tally {
    asked: AtomicU64,
    new: AtomicU64,
    known: AtomicU64,
    unknown: AtomicU64,
    failed: AtomicU64,
    left: AtomicU64,
}

/// One source in one run.
struct Run<'r> {
    source: &'r Source,
    fetch: &'r Fetch,
    /// The name of the API key.
    name: &'r str,
    key: Secret,
    ends: UnixMillis,
    /// Whether the provider rejects the key or is busy. The other objects then wait for the next
    /// run.
    stopped: AtomicBool,
    tally: &'r Tally,
}

/// The result of a call.
enum Said {
    Object(bytes::Bytes),
    /// The object does not exist.
    Nothing,
    /// The call failed. `others_may` tells whether calls for other objects can succeed.
    Failed {
        error: String,
        others_may: bool,
    },
}

impl BackupSync {
    /// Fetches the objects of all sources. Logs the error of a source, and continues with the
    /// others.
    pub(crate) async fn fetch_back(&self) -> FetchReport {
        let tally = Tally::default();
        let ends = (self.clock)() + BUDGET;
        let config = self.services.sources.config();
        let mut sources: Vec<&Source> = config.sources().collect();
        sources.retain(|source| source.verifier.fetch().is_some());
        // Each run begins with another source, so that a slow provider is not always the first.
        if !sources.is_empty() {
            let turn = (self.clock)().secs() / 60;
            let turn = usize::try_from(turn).unwrap_or(0) % sources.len();
            sources.rotate_left(turn);
        }
        for source in sources {
            if let Err(error) = self.fetch_of(source, ends, &tally).await {
                tally.failed.fetch_add(1, Relaxed);
                tracing::error!(
                    source = source.name,
                    fetch_failed = 1,
                    error = format!("{error:#}"),
                    "could not fetch the objects that the notices of {} name",
                    source.name
                );
            }
        }
        tally.report()
    }

    async fn fetch_of(
        &self,
        source: &Source,
        ends: UnixMillis,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        let Some(fetch) = source.verifier.fetch() else {
            return Ok(());
        };
        let now = (self.clock)();
        let waits = self.services.fetch_back.waits(&source.name).await?;
        let waits = self.without_old(source, waits, now).await?;
        let mut due = in_turn(waits.into_iter().filter(|wait| is_due(wait, now)).collect());
        if due.is_empty() {
            return Ok(());
        }
        let more = due.len().saturating_sub(MOST);
        due.truncate(MOST);
        tally.left.fetch_add(more as u64, Relaxed);
        let name = source.verifier.trust.api_secret.as_deref();
        let name =
            name.context("trust.api_secret is missing; set it to the name of the API key")?;
        let run = Run {
            source,
            fetch,
            name,
            key: self.api_key(name).await?,
            ends,
            stopped: AtomicBool::new(false),
            tally,
        };
        stream::iter(due)
            .for_each_concurrent(AT_ONCE, |wait| Box::pin(self.fetch_object(&run, wait)))
            .await;
        Ok(())
    }

    /// Drops objects that are still unknown after a week. Keeps known objects, because Mitt has
    /// acknowledged their notices.
    async fn without_old(
        &self,
        source: &Source,
        waits: Vec<Wait>,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<Wait>> {
        let is_old = |wait: &Wait| !wait.known && now.since(wait.at) > GIVE_UP;
        let (old, kept): (Vec<_>, Vec<_>) = waits.into_iter().partition(is_old);
        for wait in &old {
            tracing::error!(
                source = source.name,
                object = wait.object,
                tries = wait.tries,
                error = wait.error,
                "stopped fetching {}: each fetch of the last week failed",
                wait.object
            );
            self.services.fetch_back.end(&source.name, wait).await?;
        }
        Ok(kept)
    }

    async fn fetch_object(&self, run: &Run<'_>, mut wait: Wait) {
        if run.stopped.load(Relaxed) || (self.clock)() >= run.ends {
            run.tally.left.fetch_add(1, Relaxed);
            return;
        }
        if let Err(error) = Box::pin(self.fetch_one(run, &mut wait)).await {
            run.failed(&wait, &format!("{error:#}"));
        }
    }

    async fn fetch_one(&self, run: &Run<'_>, wait: &mut Wait) -> anyhow::Result<()> {
        let (store, source) = (&self.services.fetch_back, run.source.name.as_str());
        if !store.begin(source, wait, (self.clock)()).await? {
            return Ok(());
        }
        run.tally.asked.fetch_add(1, Relaxed);
        match self.ask_for(run, &wait.object).await {
            Said::Nothing => {
                run.tally.unknown.fetch_add(1, Relaxed);
                tracing::warn!(
                    source,
                    object = wait.object,
                    "a notice of {source} names {}, but the provider does not have this object",
                    wait.object
                );
                store.end(source, wait).await
            }
            Said::Failed { error, others_may } => {
                if !others_may {
                    run.stopped.store(true, Relaxed);
                }
                run.failed(wait, &error);
                store.failed(source, wait, &error).await
            }
            Said::Object(body) => match run.fetch.read(&wait.object, &body) {
                Ok(state) => {
                    let now = (self.clock)();
                    let config = &run.source.verifier.config;
                    let event = event(run.source, &state, body, config, now);
                    let kept = self.services.inbox.accept(&event, now).await?;
                    let new = kept.iter().any(|kept| kept.received.is_new());
                    let counter = if new {
                        &run.tally.new
                    } else {
                        &run.tally.known
                    };
                    counter.fetch_add(1, Relaxed);
                    tracing::info!(event.id = %event.id(), event.key = %event.key(), source, kind = event.kind(), new, "fetched {}", event.key());
                    store.done(source, wait, now).await
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    run.failed(wait, &error);
                    store.failed(source, wait, &error).await
                }
            },
        }
    }

    async fn ask_for(&self, run: &Run<'_>, object: &str) -> Said {
        let url = run
            .source
            .verifier
            .trust
            .fetch_url(&run.fetch.url_of(object));
        let key = match run.fetch.auth {
            FetchAuth::Bearer => format!("Bearer {}", run.key.expose().trim_end()),
        };
        let headers = [
            ("authorization", key.as_str()),
            ("accept", "application/json"),
        ];
        let answer = self.outbound.get(&url, &[], &headers, (self.clock)());
        said(answer.await, run.name)
    }
}

impl Run<'_> {
    fn failed(&self, wait: &Wait, error: &str) {
        self.tally.failed.fetch_add(1, Relaxed);
        tracing::error!(
            source = self.source.name,
            fetch_failed = 1,
            object = wait.object,
            tries = wait.tries,
            error,
            "could not fetch {} for {}",
            wait.object,
            self.source.name
        );
    }
}

impl Tally {
    fn report(&self) -> FetchReport {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        FetchReport {
            asked: of(&self.asked),
            new: of(&self.new),
            known: of(&self.known),
            unknown: of(&self.unknown),
            failed: of(&self.failed),
            left: of(&self.left),
        }
    }
}

/// Converts a response to a result. An error contains the status and the name of the key, but
/// nothing of the body.
fn said(answer: Result<Answer, SendError>, key: &str) -> Said {
    let failed = |error: String, others_may: bool| Said::Failed { error, others_may };
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(error)) => return failed(error, false),
        Err(SendError::OutcomeUnknown(error)) => return failed(error, true),
    };
    let status = answer.status;
    match (status, answer.body) {
        (200, Some(body)) => Said::Object(body),
        (200, None) => failed("the response is larger than 16 MiB".to_owned(), true),
        (404 | 410, _) => Said::Nothing,
        (401 | 403, _) => failed(
            format!("the API answered {status}: API key {key:?} is invalid or lacks a permission"),
            false,
        ),
        (429 | 503, _) => failed(format!("the API answered {status}"), false),
        _ => failed(format!("the API answered {status}"), true),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_status_says_whether_the_run_goes_on() {
        let of = |status| {
            let answer = Answer {
                status,
                body: Some(Bytes::new()),
                ..Answer::default()
            };
            match said(Ok(answer), "mollie") {
                Said::Object(_) => "object",
                Said::Nothing => "nothing",
                Said::Failed {
                    others_may: true, ..
                } => "failed",
                Said::Failed { .. } => "stop",
            }
        };
        for (status, expected) in [
            (200, "object"),
            (404, "nothing"),
            (410, "nothing"),
            (401, "stop"),
            (403, "stop"),
            (429, "stop"),
            (503, "stop"),
            (500, "failed"),
            (204, "failed"),
            (301, "failed"),
            (422, "failed"),
        ] {
            assert_eq!(of(status), expected, "{status}");
        }
    }
}
