//! `sources test`: tests a source through its real URL, from the signature to the outcome.

mod certificate;
mod step;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::secrets::Secrets;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FlagKind, Row};
use shared::sources::Source;
use shared::webhook::event::EventKey;
use shared::webhook::preset::Scheme;
use shared::webhook::sign::{Means, means};

use super::{api_url, find};
use crate::audit::Change;
use crate::cli::{Global, SourcesTestArgs};
use crate::output::count::thousands;
use crate::output::time::duration;
use crate::output::{CliError, Exit, Printer};
use crate::samples::{self, Draft, Signed, Signer};
use crate::target::Deployment;
use crate::verbs::quarantine::reach;
use crate::verbs::send::post;
use crate::verbs::send::target::{self, Target};
use step::{Step, Tested, text};

/// The timeout of one request. It is as long as the timeout of API Gateway.
const ANSWER: Duration = Duration::from_secs(35);

/// The time limit until the event is settled.
const PATIENCE: Duration = Duration::from_secs(60);

/// The inputs of the test: the source, the secret or key of its provider, and the inbox with the
/// results.
struct Ends<'e> {
    inbox: &'e Deployment,
    source: &'e Source,
    scheme: &'e Scheme,
    http: reqwest::Client,
    target: Target,
}

/// An answer from the URL of the source.
struct Answer {
    status: u16,
    took: Duration,
}

pub(super) async fn test(
    args: SourcesTestArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("send test events")?;
    let source = find(&inbox.config, &args.source)?;
    let base = api_url(Some(&inbox), &args.api_at);
    if base.contains('<') {
        return Err(
            CliError::usage("sources.no_url", "the URL of the source is unknown")
                .tip("pass --api-url URL, the output ApiUrl of the stack")
                .into(),
        );
    }
    let store = reach::store(&inbox, global, &args.secrets_at)?;
    let ends = Ends::find(&inbox, source, &store, &base).await?;
    let mut steps = Vec::new();
    if ends.target.url.starts_with("https://") {
        steps.push(ends.reach().await);
    }
    let id = ends.deliver(&mut steps).await?;
    steps.push(ends.forged().await?);
    steps.push(ends.large().await?);
    let count = |result: &str| steps.iter().filter(|step| step.result == result).count();
    let tested = Tested {
        source: source.name.clone(),
        url: ends.target.url.clone(),
        id,
        passed: count("pass"),
        failed: count("fail"),
        steps,
    };
    out.document("sources.test", &tested, &tested.source, &text(&tested))?;
    Ok(match tested.failed {
        0 => Exit::Done,
        _ => Exit::No,
    })
}

impl<'e> Ends<'e> {
    async fn find(
        inbox: &'e Deployment,
        source: &'e Source,
        store: &Secrets,
        base: &str,
    ) -> anyhow::Result<Self> {
        let verifier = &source.verifier;
        let scheme = verifier.preset.scheme(&verifier.variant);
        let scheme = scheme.context("find the scheme of the source")?;
        let live = store.live(&source.secret, UnixMillis::now()).await?;
        let no_secret = || {
            CliError::failed(
                "sources.no_secret",
                format!("no secret of {} is stored", source.name),
            )
            .tip(format!("webhookctl sources rotate-secret {}", source.name))
        };
        let signer = match means(scheme) {
            Means::Secret => Signer::Secret(live.first().cloned().ok_or_else(no_secret)?),
            Means::Nothing => Signer::Unsigned,
            Means::KeyPair(_) => Signer::KeyPair(key_pair(inbox, source).await?),
            Means::No(why) => return Err(cannot(source, why).into()),
        };
        let url = format!("{base}/in/{}", source.name);
        let signed_url = target::signed_url(verifier, || match &inbox.local {
            Some(local) if local.url == base => target::as_received(&url),
            _ => url.clone(),
        });
        Ok(Self {
            inbox,
            source,
            scheme,
            http: shared::aws::outbound::unguarded(ANSWER)?,
            target: Target {
                url,
                signed_url,
                verifier: verifier.clone(),
                signer,
                stored: live.to_vec(),
                inbox: None,
            },
        })
    }

    /// Checks DNS and the certificate: whether senders accept the certificate, and how long it is
    /// valid.
    async fn reach(&self) -> Step {
        let host = self.target.url.split('/').nth(2).unwrap_or_default();
        match self.http.get(&self.target.url).send().await {
            Ok(response) => {
                let words = certificate::words(&response, UnixMillis::now());
                Step::pass("DNS, TLS", format!("{host}, {words}"))
            }
            Err(error) => Step::fail("DNS, TLS", format!("{host}: {}", post::cause(error))),
        }
    }

    /// Sends a valid request, waits for its event, and sends the request again. Returns the id of
    /// the event.
    async fn deliver(&self, steps: &mut Vec<Step>) -> anyhow::Result<Option<String>> {
        let draft = self.draft()?;
        let signed = self.sign(&draft, &self.target.signer)?;
        let (since, began) = (UnixMillis::now(), Instant::now());
        let answer = self.post(&signed).await?;
        steps.push(Step::of(
            "good request",
            (200..300).contains(&answer.status),
            answer.text(),
        ));
        let Some(key) = self
            .target
            .event_key(&signed)
            .filter(|_| answer.status < 300)
        else {
            return Ok(None);
        };
        let Some(row) = self.ended(&key, since).await? else {
            steps.push(Step::fail("stored, done", "nothing was stored".to_owned()));
            return Ok(None);
        };
        self.log(&row).await?;
        steps.push(self.stored(&row, began.elapsed()).await?);
        if row.key.id().starts_with("at:") {
            let why = "the request has no event id, so each delivery is a new event";
            steps.push(Step::skip("same again", why));
            return Ok(Some(row.id().as_str().to_owned()));
        }
        let again = self.post(&signed).await?;
        let same = self.inbox.ledger.event(&row.key).await?;
        let untouched = same.is_some_and(|now| (now.epoch, now.run) == (row.epoch, row.run));
        let detail = if untouched {
            format!("{}, dropped as a duplicate", again.status)
        } else {
            format!("{}, but the event was processed again", again.status)
        };
        steps.push(Step::of(
            "same again",
            untouched && again.status < 300,
            detail,
        ));
        Ok(Some(row.id().as_str().to_owned()))
    }

    async fn stored(&self, row: &Row, took: Duration) -> anyhow::Result<Step> {
        let id = row.id();
        let paused = self
            .inbox
            .ledger
            .operations()
            .flag(FlagKind::Pause(&self.source.name));
        if row.is_open() && paused.await?.is_some() {
            return Ok(Step::pass(
                "stored",
                format!("{id}, waiting: the source is paused"),
            ));
        }
        let state = row.state.as_str();
        let done = state == "done";
        let detail = match (done, &row.error) {
            (true, _) => format!("{id} in {:.1}s", took.as_secs_f64()),
            (false, Some(error)) => format!("{id} is {state}: {error}"),
            (false, None) => format!("{id} is {state} after {}", duration(60)),
        };
        Ok(Step::of("stored, done", done, detail))
    }

    /// Waits until the event is settled, at most for [`PATIENCE`]. Returns the last state of its
    /// row.
    async fn ended(&self, key: &EventKey, since: UnixMillis) -> anyhow::Result<Option<Row>> {
        let paused = FlagKind::Pause(&self.source.name);
        let waits = self.inbox.ledger.operations().flag(paused).await?.is_some();
        let ended = |row: &Row| waits || !row.is_open();
        post::reached(self.inbox, key, since, PATIENCE, ended).await
    }

    async fn forged(&self) -> anyhow::Result<Step> {
        const NAME: &str = "forged request";
        if matches!(self.target.signer, Signer::Unsigned) {
            return Ok(Step::skip(
                NAME,
                "the provider signs nothing, so nothing can be forged",
            ));
        }
        let Ok(stranger) = Signer::random(self.scheme) else {
            return Ok(Step::skip(NAME, "the CLI cannot generate another key"));
        };
        let forged = self.sign(&self.draft()?, &stranger)?;
        let before = self.refused().await?;
        let answer = self.post(&forged).await?;
        let refused = (400..500).contains(&answer.status);
        let kept = if self.refused().await? > before {
            ", in quarantine"
        } else {
            ""
        };
        let detail = if refused {
            format!("{}{kept}", answer.status)
        } else {
            format!("{}: the request was not rejected", answer.status)
        };
        Ok(Step::of(NAME, refused, detail))
    }

    async fn refused(&self) -> anyhow::Result<u32> {
        let (name, now) = (&self.source.name, UnixMillis::now());
        let tally = self.inbox.quarantine.tally(name, now).await?;
        Ok(tally.map_or(0, |tally| tally.requests))
    }

    async fn large(&self) -> anyhow::Result<Step> {
        // The catcher can compute the size of a base64 body only to within two bytes.
        let size = self.source.max_body + 3;
        let large = Signed {
            url: self.target.signed_url.clone(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: Bytes::from(vec![b' '; size]),
        };
        let answer = self.post(&large).await?;
        let detail = format!("{} to {} bytes", answer.status, thousands(size));
        Ok(Step::of("too large a body", answer.status == 413, detail))
    }

    fn draft(&self) -> anyhow::Result<Draft> {
        let verifier = &self.source.verifier;
        samples::draft(
            &verifier.preset,
            &verifier.variant,
            None,
            None,
            UnixMillis::now(),
        )
    }

    fn sign(&self, draft: &Draft, signer: &Signer) -> anyhow::Result<Signed> {
        self.target.sign(draft, signer, UnixMillis::now())
    }

    async fn post(&self, signed: &Signed) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let response = post::request(&self.http, &self.target, signed).await;
        let response = response.map_err(|error| {
            CliError::failed(
                "sources.unreachable",
                format!("{} is unreachable: {}", self.target.url, post::cause(error)),
            )
        })?;
        Ok(Answer {
            status: response.status().as_u16(),
            took: began.elapsed(),
        })
    }

    /// Records in the audit log that this event was a test. Only an operator can write such an
    /// entry, so a sender cannot pretend that an event is a test.
    async fn log(&self, row: &Row) -> anyhow::Result<()> {
        let change = Change {
            what: "source.test",
            why: "",
            selection: row.key.to_string(),
            count: 1,
        };
        change.record(self.inbox).await?;
        Ok(())
    }
}

/// Returns the key pair that `dev` has generated. Returns an error for a deployment, because only
/// the provider has the private key.
async fn key_pair(
    inbox: &Deployment,
    source: &Source,
) -> anyhow::Result<shared::webhook::sign::KeyPair> {
    let pair = match &inbox.local {
        Some(local) => target::made_by_dev(local, &source.secret).await?,
        None => None,
    };
    let why = "only the provider has the private key";
    Ok(pair.ok_or_else(|| cannot(source, why))?)
}

fn cannot(source: &Source, why: &str) -> CliError {
    CliError::refused(
        "sources.cannot_sign",
        format!("cannot sign a test webhook of {}: {why}", source.name),
    )
    .tip("let the provider send a test webhook; most have a button for it")
}

impl Answer {
    fn text(&self) -> String {
        format!("{} in {}ms", self.status, self.took.as_millis())
    }
}
