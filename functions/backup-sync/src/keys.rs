//! Certificates and key sets, fetched for requests that cannot be judged without them.
//!
//! The catcher has answered those with 503 and put them aside. What they name is fetched here if
//! their preset allows it, and then they are judged as of their time of receipt: whether or not
//! the provider tries again, what is genuine enters the inbox.

mod by_kid;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use shared::clock::Millis;
use shared::config::Source;
use shared::keyring::{Fetched, LARGEST};
use shared::outbound::{Answer, Trouble};
use shared::quarantine::{Held, Verdict};
use shared::secrets::Live;
use shared::verify::{Reason, Wanted};

use crate::BackupSync;

/// Documents of one source that are asked for in one run.
const MOST: usize = 5;

/// A URL that gave nothing is tried again after this time, and so often in all.
const WAIT: Duration = Duration::from_secs(600);
const TRIES: u32 = 5;

/// A key set is fetched again after this time.
const STALE: Duration = Duration::from_secs(6 * 3600);

/// And when a request names a key that it lacks, but not more often than this.
const NEWEST: Duration = Duration::from_secs(300);

/// How far back requests that were put aside are looked at.
const BACK: Duration = Duration::from_secs(24 * 3600);

/// A request is put aside a moment after it was received.
const LATE: Duration = Duration::from_secs(10);

/// What was done for all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeysReport {
    /// Documents that were fetched.
    pub fetched: u64,
    /// Requests that entered the inbox.
    pub released: u64,
    /// Requests that still wait for a document.
    pub waiting: u64,
    /// Sources or documents that failed; each is in the log.
    pub failed: u64,
}

impl BackupSync {
    /// Each source's trouble stays its own, and is in the log.
    pub(crate) async fn keys(&self) -> KeysReport {
        let mut report = KeysReport::default();
        for source in self.parts.config.sources() {
            if !source.verifier.fetches() {
                continue;
            }
            if let Err(error) = self.keys_of(source, &mut report).await {
                report.failed += 1;
                tracing::error!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "could not fetch the keys of {}",
                    source.name
                );
            }
        }
        report
    }

    async fn keys_of(&self, source: &Source, report: &mut KeysReport) -> anyhow::Result<()> {
        let now = (self.clock)();
        let before = self.parts.keyring.read(&source.name).await?;
        source.verifier.trust.learn(before.documents());
        let mut fetched = before.clone();
        let held = self.waiting(source, &fetched, now).await?;
        for wanted in wanted(source, &held, &fetched, now) {
            match self.fetch(source, &wanted, now).await {
                Ok(text) => {
                    report.fetched += 1;
                    let name = wanted.name();
                    tracing::info!(source = source.name, document = %name, "fetched {name}");
                    fetched.add(&wanted, text, now);
                }
                Err(error) => {
                    report.failed += 1;
                    let name = wanted.name();
                    tracing::warn!(
                        source = source.name,
                        document = %name,
                        error = format!("{error:#}"),
                        "could not fetch {name}"
                    );
                    fetched.add_failure(&wanted, now);
                }
            }
        }
        source.verifier.trust.learn(fetched.documents());
        let judged = self.judge(source, &held, &fetched, report).await;
        if let Ok(Some(seen)) = &judged {
            fetched.seen = Some(*seen);
        }
        // Also when nobody could judge: what was fetched, or could not be, is not asked for again.
        // Whoever else has written has fetched as well; the next run sees it.
        if fetched != before && !self.parts.keyring.write(&source.name, &fetched).await? {
            tracing::info!(
                source = source.name,
                "another run has fetched the keys of {}",
                source.name
            );
        }
        judged.map(drop)
    }

    /// The requests that were put aside for want of a document, oldest first.
    async fn waiting(
        &self,
        source: &Source,
        fetched: &Fetched,
        now: Millis,
    ) -> anyhow::Result<Vec<Held>> {
        let from = fetched
            .seen
            .map_or(now - BACK, |seen| (seen - LATE).max(now - BACK));
        let held = self
            .parts
            .quarantine
            .held(&source.name, from, now, now)
            .await?;
        let mut waiting: Vec<Held> = held
            .into_iter()
            .filter(|held| held.released.is_none() && held.reason == Reason::NotFetched.as_str())
            .collect();
        waiting.reverse();
        Ok(waiting)
    }

    async fn fetch(&self, source: &Source, wanted: &Wanted, now: Millis) -> anyhow::Result<String> {
        let trust = &source.verifier.trust;
        let text = match wanted {
            Wanted::Certificate(url) | Wanted::KeySet(url) => text(
                self.outbound
                    .get(&trust.fetch_url(url), &[], &[], now)
                    .await,
            )?,
            Wanted::Key(kid) => {
                let name = trust.api_secret.as_ref();
                let name = name.context("trust.api_secret names no credentials")?;
                let live = self.parts.secrets.live(name, now).await?;
                let secret = live.first();
                let secret =
                    secret.with_context(|| format!("there are no credentials {name:?}"))?;
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

    /// Lets in what is genuine. The time up to which nothing waits any more, if anything did.
    async fn judge(
        &self,
        source: &Source,
        held: &[Held],
        fetched: &Fetched,
        report: &mut KeysReport,
    ) -> anyhow::Result<Option<Millis>> {
        if held.is_empty() {
            return Ok(None);
        }
        let secrets = self.senders(source).await?;
        let mut waits_from = None;
        for held in held {
            let now = (self.clock)();
            match held.verdict(&source.verifier, &secrets) {
                Verdict::Genuine(event) => {
                    let quarantine = &self.parts.quarantine;
                    let entered = quarantine
                        .release(&self.parts.inbox, held, &event, now)
                        .await?;
                    report.released += 1;
                    tracing::info!(event.id = %event.id(), event.key = %event.key(), source = source.name, entered = ?entered, "a request that waited for a key is genuine: {}", event.key());
                }
                Verdict::Handshake => {
                    let mark = self.parts.quarantine.mark_released(held, None, now);
                    mark.await?;
                }
                Verdict::Refused(reason) if reason.is_undecided() => {
                    if hopeless(source, held, fetched) {
                        continue;
                    }
                    report.waiting += 1;
                    waits_from.get_or_insert(held.received_at);
                }
                // It stays where it is, for the operator to see.
                Verdict::Refused(_) | Verdict::Damaged => {}
            }
        }
        let newest = held.last().map(|held| held.received_at);
        Ok(waits_from.or(newest))
    }

    async fn senders(&self, source: &Source) -> anyhow::Result<Live> {
        let secrets = self.parts.ingress.as_ref();
        let secrets = secrets.context("MITT_INGRESS_PATH is not set")?;
        secrets.live(&source.secret, (self.clock)()).await
    }
}

/// The document in an answer. Nothing of an answer that is none gets into the error.
fn text(answer: Result<Answer, Trouble>) -> anyhow::Result<String> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Trouble::NotSent(error) | Trouble::Unclear(error)) => bail!("{error}"),
    };
    ensure!(answer.status == 200, "it answered {}", answer.status);
    let body = answer.body.filter(|body| body.len() <= LARGEST);
    let body = body.with_context(|| format!("it is larger than {LARGEST} bytes"))?;
    String::from_utf8(body.into()).context("it is no text")
}

/// What is worth asking for now.
fn wanted(source: &Source, held: &[Held], fetched: &Fetched, now: Millis) -> Vec<Wanted> {
    let of_requests = held
        .iter()
        .filter_map(|held| Some((held.envelope().ok()?, held.received_at)))
        .filter_map(|(envelope, at)| Some((source.verifier.wanted(&envelope)?, at)));
    let mut wanted = BTreeSet::new();
    for (document, asked_at) in of_requests {
        // A certificate does not change, nor does a named key. A key set that came before the request may lack its key.
        let have = fetched
            .fetched_at(&document)
            .is_some_and(|at| match document {
                Wanted::Certificate(_) | Wanted::Key(_) => true,
                Wanted::KeySet(_) => at > asked_at || now.since(at) < NEWEST,
            });
        if !have {
            wanted.insert(document);
        }
    }
    if let Some(document) = source.verifier.wanted_always()
        && fetched
            .fetched_at(&document)
            .is_none_or(|at| now.since(at) > STALE)
    {
        wanted.insert(document);
    }
    wanted.retain(|document| {
        fetched.failed(document).is_none_or(|(tries, at)| {
            let always = source.verifier.wanted_always().as_ref() == Some(document);
            (tries < TRIES || always) && now.since(at) >= WAIT
        })
    });
    wanted.into_iter().take(MOST).collect()
}

/// Whether nobody will ask any more for what a request waits for.
fn hopeless(source: &Source, held: &Held, fetched: &Fetched) -> bool {
    let wanted = held
        .envelope()
        .ok()
        .and_then(|envelope| source.verifier.wanted(&envelope));
    wanted.is_none_or(|wanted| {
        let failed = fetched.failed(&wanted);
        failed.is_some_and(|(tries, _)| tries >= TRIES)
            || fetched
                .fetched_at(&wanted)
                .is_some_and(|at| at > held.received_at + NEWEST)
    })
}
