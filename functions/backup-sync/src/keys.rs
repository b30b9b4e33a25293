//! Fetches certificates and key sets for requests that cannot be verified without them.
//!
//! The catcher answered these requests with 503, recorded the documents (certificates or key sets)
//! that they name, and stored some of the requests. This task fetches the documents if the preset
//! allows it, and then verifies the requests as of their time of receipt. A genuine request enters
//! the inbox, whether or not the provider tries again.
//!
//! Any sender can name documents that do not exist. The senders therefore alternate, and the senders
//! with the fewest failed fetches in the last day come first. This order limits the wait of a sender
//! without a failed fetch:
//!
//! - The first document of the sender waits only for first documents that other senders without a
//!   failed fetch named earlier. An hour has fewer than
//!   [`SENDERS`](shared::inbox::rejected::SENDERS) of these senders, so the task requests the
//!   document within six runs. The number of documents that other senders name makes no difference.
//! - A second document of the sender waits for the documents that the sender named before it. A
//!   sender names at most [`DOCUMENTS`](shared::inbox::rejected::DOCUMENTS) in an hour, which takes
//!   three runs.

mod by_kid;
mod choice;

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use shared::aws::outbound::{Answer, SendError};
use shared::aws::secrets::Live;
use shared::base::clock::UnixMillis;
use shared::base::timing::GRACE;
use shared::inbox::keyring::{Fetched, LARGEST};
use shared::inbox::rejected::{NAMED, RejectedRequest, Verdict};
use shared::sources::Source;
use shared::webhook::verify::{Reason, Wanted};
use tokio::time::Instant;

use crate::deadline::{cut, from_anywhere};
use crate::{BackupSync, RunTime};
use choice::{Choice, choose};

/// The number of documents of one source that are requested in parallel.
const AT_ONCE: usize = 4;

/// The number of sources whose documents are fetched in parallel. A slow source then does not delay
/// the others.
const SOURCES: usize = 8;

/// The time in one run for the documents of one source. The next run continues.
const FETCHING: Duration = Duration::from_secs(45);

/// The maximum age of the rejected requests that a run reads.
const BACK: Duration = Duration::from_secs(24 * 3600);

/// The maximum time between the receipt of a rejected request and its storage.
const LATE: Duration = Duration::from_secs(10);

/// The result for all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeysReport {
    /// Documents that were fetched.
    pub fetched: u64,
    /// Requests that entered the inbox.
    pub released: u64,
    /// Requests that still wait for a document.
    pub waiting: u64,
    /// Sources or documents that failed. The log has a line for each of them.
    pub failed: u64,
}

impl KeysReport {
    fn add(&mut self, other: &Self) {
        self.fetched += other.fetched;
        self.released += other.released;
        self.waiting += other.waiting;
        self.failed += other.failed;
    }
}

impl BackupSync {
    /// Fetches the keys of all sources. An error of a source is logged, and does not affect the
    /// others. A slow host uses only the time of its own source.
    pub(crate) async fn keys(&self, time: RunTime, ends: Instant) -> KeysReport {
        let config = self.services.sources.config();
        let sources = config.sources();
        let sources = sources.filter(|source| source.verifier.fetches());
        let sources = from_anywhere(sources.collect()).unwrap_or_default();
        let fetching = sources.into_iter();
        let fetching = fetching.map(|source| self.keys_and_trouble(source, time, ends));
        let reports = stream::iter(fetching).buffer_unordered(SOURCES);
        let reports: Vec<KeysReport> = reports.collect().boxed_local().await;
        let mut all = KeysReport::default();
        for report in &reports {
            all.add(report);
        }
        all
    }

    /// Boxed, because otherwise the type of the nested futures is too deep for the compiler.
    fn keys_and_trouble<'k>(
        &'k self,
        source: &'k Source,
        time: RunTime,
        ends: Instant,
    ) -> LocalBoxFuture<'k, KeysReport> {
        async move {
            let mut report = KeysReport::default();
            if Instant::now() >= ends {
                tracing::warn!(
                    source = source.name,
                    "no time was left in this run for the keys of {}",
                    source.name
                );
                return report;
            }
            let turn = ends.min(Instant::now() + time.scaled(FETCHING));
            let keys = self.keys_of(source, turn, &mut report);
            if let Err(error) = cut(turn + time.scaled(GRACE), "the fetch", keys).await {
                report.failed += 1;
                tracing::error!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "could not fetch the keys of {}",
                    source.name
                );
            }
            report
        }
        .boxed_local()
    }

    async fn keys_of(
        &self,
        source: &Source,
        turn: Instant,
        report: &mut KeysReport,
    ) -> anyhow::Result<()> {
        let now = (self.clock)();
        let quarantine = &self.services.quarantine;
        let before = self.services.keyring.read(&source.name).await?;
        source.verifier.trust.learn(before.documents());
        let mut fetched = before.clone();
        let held = self.waiting(source, &fetched, now).await?;
        let named = quarantine.named(&source.name, now - NAMED, now).await?;
        let choices = choose(source, &named, &held, &fetched, now);
        for (choice, text) in self.fetch_all(source, &choices, now, turn).await {
            let name = choice.document.name();
            match text {
                Ok(text) => {
                    report.fetched += 1;
                    tracing::info!(source = source.name, document = %name, "fetched {name}");
                    fetched.add(&choice.document, text, now);
                }
                Err(error) => {
                    report.failed += 1;
                    tracing::warn!(
                        source = source.name,
                        document = %name,
                        error = format!("{error:#}"),
                        "could not fetch {name}"
                    );
                    match choice.named {
                        Some(named) => quarantine.note_try(named, now).await?,
                        None => fetched.add_failure(&choice.document, now),
                    }
                }
            }
        }
        source.verifier.trust.learn(fetched.documents());
        let judged = self.judge(source, &held, &mut fetched, report).await;
        if let Ok(Some(seen)) = &judged {
            fetched.seen = Some(*seen);
        }
        // The run stores the documents even if the verification failed, so that the next run does
        // not repeat the fetches. If another run has stored documents in the meantime, that run has
        // fetched the same documents.
        if fetched != before && !self.services.keyring.write(&source.name, &fetched).await? {
            tracing::info!(
                source = source.name,
                "another run has fetched the keys of {}",
                source.name
            );
        }
        judged.map(drop)
    }

    /// Fetches documents while time is left. A document whose fetch did not start is not in the
    /// result, and the next run chooses it again.
    async fn fetch_all<'c>(
        &self,
        source: &Source,
        choices: &'c [Choice<'c>],
        now: UnixMillis,
        ends: Instant,
    ) -> Vec<(&'c Choice<'c>, anyhow::Result<String>)> {
        let fetching = choices.iter().map(|choice| {
            async move {
                if Instant::now() >= ends {
                    return None;
                }
                let fetch = self.fetch(source, &choice.document, now);
                let text = tokio::time::timeout_at(ends, fetch).await;
                let text = text.unwrap_or_else(|_| Err(anyhow!("the request timed out")));
                Some((choice, text))
            }
            .boxed_local()
        });
        let fetched: Vec<_> = stream::iter(fetching)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        fetched.into_iter().flatten().collect()
    }

    /// Returns the rejected requests that wait for a document, oldest first.
    async fn waiting(
        &self,
        source: &Source,
        fetched: &Fetched,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<RejectedRequest>> {
        let from = fetched
            .seen
            .map_or(now - BACK, |seen| (seen - LATE).max(now - BACK));
        let held = self
            .services
            .quarantine
            .held(&source.name, from, now, now)
            .await?;
        let mut waiting: Vec<RejectedRequest> = held
            .into_iter()
            .filter(|held| held.released.is_none() && held.reason == Reason::NotFetched.as_str())
            .collect();
        waiting.reverse();
        Ok(waiting)
    }

    async fn fetch(
        &self,
        source: &Source,
        wanted: &Wanted,
        now: UnixMillis,
    ) -> anyhow::Result<String> {
        let trust = &source.verifier.trust;
        let text = match wanted {
            Wanted::Certificate(url) | Wanted::KeySet(url) | Wanted::PublicKey(url) => text(
                self.outbound
                    .get(&trust.fetch_url(url), &[], &[], now)
                    .await,
            )?,
            Wanted::Key(kid) => {
                let name = trust.api_secret.as_ref();
                let name = name.context(
                    "trust.api_secret is missing; set it to the name of the credentials",
                )?;
                let live = self.services.secrets.live(name, now).await?;
                let secret = live.first();
                let secret = secret.with_context(|| format!("credentials {name:?} not found"))?;
                let provider = by_kid::Provider {
                    outbound: &self.outbound,
                    trust,
                    credentials: by_kid::Credentials::read(secret)?,
                    now,
                };
                provider.key(&source.verifier.preset.id, kid).await?
            }
        };
        wanted.check(&text)?;
        Ok(text)
    }

    /// Stores the genuine requests. Returns the time of receipt of the first request that still
    /// waits, or `None` if no request waits.
    async fn judge(
        &self,
        source: &Source,
        held: &[RejectedRequest],
        fetched: &mut Fetched,
        report: &mut KeysReport,
    ) -> anyhow::Result<Option<UnixMillis>> {
        if held.is_empty() {
            return Ok(None);
        }
        let secrets = self.senders(source).await?;
        let mut waits_from = None;
        for held in held {
            let now = (self.clock)();
            match held.verdict(&source.verifier, &secrets) {
                Verdict::Genuine(event) => {
                    let quarantine = &self.services.quarantine;
                    let entered = quarantine
                        .release(&self.services.inbox, held, &event, now)
                        .await?;
                    report.released += 1;
                    if let Some(document) = document_of(source, held) {
                        fetched.add_proof(&document);
                    }
                    tracing::info!(event.id = %event.id(), event.key = %event.key(), source = source.name, entered = ?entered, "a request that waited for a key is genuine: {}", event.key());
                }
                Verdict::Handshake => {
                    let mark = self.services.quarantine.mark_released(held, None, now);
                    mark.await?;
                }
                Verdict::Refused(reason) if reason.is_undecided() => {
                    if is_in_vain(source, held, fetched) {
                        continue;
                    }
                    report.waiting += 1;
                    waits_from.get_or_insert(held.received_at);
                }
                // The request stays in the quarantine, where the operator can see it.
                Verdict::Refused(_) | Verdict::Damaged => {}
            }
        }
        let newest = held.last().map(|held| held.received_at);
        Ok(waits_from.or(newest))
    }

    async fn senders(&self, source: &Source) -> anyhow::Result<Live> {
        let secrets = self.services.ingress.as_ref();
        let secrets = secrets.context("MITT_INGRESS_PATH is not set")?;
        secrets.live(&source.secret, (self.clock)()).await
    }
}

/// Returns the document in a response. An error contains nothing of the response's body.
fn text(answer: Result<Answer, SendError>) -> anyhow::Result<String> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(error) | SendError::OutcomeUnknown(error)) => bail!("{error}"),
    };
    ensure!(
        answer.status == 200,
        "the server answered {}",
        answer.status
    );
    let body = answer.body.filter(|body| body.len() <= LARGEST);
    let body = body.with_context(|| format!("the document is larger than {LARGEST} bytes"))?;
    String::from_utf8(body.into()).context("the document is not valid UTF-8")
}

/// Returns the document that a stored request names.
fn document_of(source: &Source, held: &RejectedRequest) -> Option<Wanted> {
    let envelope = held.envelope().ok()?;
    source.verifier.wanted(&envelope)
}

/// Returns whether a further wait has no use: the request names no document, or its document was
/// fetched after the request arrived.
fn is_in_vain(source: &Source, held: &RejectedRequest, fetched: &Fetched) -> bool {
    document_of(source, held).is_none_or(|document| {
        let at = fetched.fetched_at(&document);
        at.is_some_and(|at| at > held.received_at + choice::NEWEST)
    })
}
