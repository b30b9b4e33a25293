//! The webhooks of the demo, each with its expected result.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::try_join;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State};
use shared::sources::Config;
use shared::webhook::event::{EventKey, Via};
use shared::webhook::verify::Arrival;
use tokio::sync::mpsc::UnboundedSender;

use super::drift::MISSED_AGO;
use super::provider::Failure;
use super::{Deployment, Fate, PATIENCE, StandIns, wait_for};
use crate::samples::{Draft, Sample, Signed, Signer, random_hex};

pub(super) struct Demo<'d> {
    pub(super) deployment: &'d Deployment<'d>,
    pub(super) stand_ins: &'d StandIns,
    pub(super) config: Config,
    pub(super) http: reqwest::Client,
    pub(super) fates: UnboundedSender<Fate>,
}

/// A webhook that was sent.
pub(super) struct Sent {
    signed: Signed,
    pub(super) key: EventKey,
    pub(super) status: u16,
    took: Duration,
}

impl Demo<'_> {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        try_join!(self.quick(), self.flaky(), self.poison(), self.agent()).map(|_| ())
    }

    /// Sends the webhooks that finish quickly, one after the other.
    async fn quick(&self) -> anyhow::Result<()> {
        let stripe = self.good("stripe", "stripe-main").await?;
        self.good("github", "github-main").await?;
        self.good("slack", "slack-main").await?;
        self.good("fireflies", "fireflies-main").await?;
        self.duplicate(&stripe).await?;
        self.forged().await?;
        self.missed(&stripe).await?;
        self.drift().await
    }

    /// Sends a genuine webhook. The catcher stores it, and its effect happens once.
    async fn good(&self, preset: &'static str, source: &str) -> anyhow::Result<Sent> {
        let (sample, sent) = self.send_new(preset, None, source).await?;
        let row = self.settled(&sent.key).await?;
        let mut fate = new_fate("good", sample, Some(&sent), "done", took(&row));
        self.expect(&mut fate, &row, State::Done, 1, 1);
        same(&mut fate, "via", Via::Webhook, row.via);
        self.tell(fate)?;
        Ok(sent)
    }

    /// Sends the same webhook again. The catcher gives the same answer, and no effect happens
    /// twice.
    async fn duplicate(&self, first: &Sent) -> anyhow::Result<()> {
        let before = self.settled(&first.key).await?;
        let sample = find("stripe", None)?;
        let (status, took) = self.post("stripe-main", &first.signed).await?;
        let row = self.settled(&first.key).await?;
        let mut fate = new_fate(
            "duplicate",
            sample,
            None,
            "dropped",
            format!("same event as {}", row.id()),
        );
        (fate.status, fate.took) = (Some(status), took);
        self.expect(&mut fate, &row, State::Done, 1, 1);
        same(
            &mut fate,
            "the row's write",
            before.write_id,
            row.write_id.clone(),
        );
        self.tell(fate)
    }

    /// Sends a webhook signed with a wrong secret. The catcher rejects it and stores it only in the
    /// quarantine.
    async fn forged(&self) -> anyhow::Result<()> {
        let sample = find("github", None)?;
        let secret = Secret::new("forged", random_hex(20)?);
        let draft = sample.draft(None, UnixMillis::now())?;
        let sent = self.send_signed(&draft, "github-main", &secret).await?;
        let mut fate = new_fate(
            "forged",
            sample,
            Some(&sent),
            "refused",
            "no secret matches".into(),
        );
        fate.key = None;
        same(&mut fate, "status", 401, sent.status);
        let row = self.deployment.ledger.event(&sent.key).await?;
        same(&mut fate, "a row in the ledger", false, row.is_some());
        let quarantine = &self.deployment.quarantine;
        let now = UnixMillis::now();
        let held = quarantine.held("github-main", now - PATIENCE, now, now);
        let mut held = held.await?;
        held.retain(|held| held.body().is_ok_and(|body| body == sent.signed.body));
        let reasons: Vec<&str> = held.iter().map(|held| held.reason.as_str()).collect();
        same(&mut fate, "in quarantine", vec!["bad_signature"], reasons);
        self.tell(fate)
    }

    /// Sends a webhook for which the downstream fails twice: three attempts with one idempotency
    /// key, and one effect.
    async fn flaky(&self) -> anyhow::Result<()> {
        let (sample, sent) = self.send_new("github", Some("push"), "github-main").await?;
        let row = self.settled(&sent.key).await?;
        let detail = format!("{} attempts, {}", row.attempts, took(&row));
        let mut fate = new_fate("flaky", sample, Some(&sent), "done", detail);
        self.expect(&mut fate, &row, State::Done, 3, 1);
        self.tell(fate)
    }

    /// Sends a webhook for which the downstream always fails. After the last attempt the event is a
    /// dead letter, and waits for an operator.
    async fn poison(&self) -> anyhow::Result<()> {
        let (sample, sent) = self.send_new("generic-hmac", None, "acme").await?;
        let row = self.settled(&sent.key).await?;
        let detail = format!(
            "{} attempts, {}",
            row.attempts,
            row.error.as_deref().unwrap_or("no error")
        );
        let mut fate = new_fate("poison", sample, Some(&sent), "dead_letter", detail);
        self.expect(&mut fate, &row, State::DeadLetter, 3, 0);
        same(
            &mut fate,
            "reason",
            Some("attempts_exhausted"),
            row.reason.as_deref(),
        );
        self.tell(fate)
    }

    /// Adds an event to Stripe's list, but sends no webhook for it. The list also has an event that
    /// arrived. The first three requests for the list fail.
    async fn missed(&self, arrived: &Sent) -> anyhow::Result<()> {
        let sample = find("stripe", Some("charge.refunded"))?;
        let is_first = self.as_if_synced().await?;
        let draft = sample.draft(None, UnixMillis::now() - MISSED_AGO)?;
        self.stand_ins.provider.happen(&draft.body)?;
        self.stand_ins.provider.happen(&arrived.signed.body)?;
        self.stand_ins.provider.fail_with(&[
            Failure::TooMany,
            Failure::BadPage,
            Failure::ServerError,
        ]);
        let key = EventKey::new("stripe-main", &draft.id);
        let before = self.deployment.ledger.event(&key).await?;
        let began = Instant::now();
        let task = (self.deployment.task)("sync");
        task.await.context("run backup-sync")?;
        let row = self.settled(&key).await?;
        let gap = self.gap(key.id()).await?;
        let late = gap.map_or(String::new(), |late| {
            format!(", a gap of {}m", late.as_secs() / 60)
        });
        let detail = format!("found by the sync{late}");
        let mut fate = new_fate("missed", sample, None, "done", detail);
        (fate.key, fate.took) = (Some(key), began.elapsed());
        if is_first {
            same(&mut fate, "reported as a gap", true, gap.is_some());
        }
        same(&mut fate, "a row before the sync", false, before.is_some());
        same(&mut fate, "via", Via::BackupSync, row.via);
        self.expect(&mut fate, &row, State::Done, 1, 1);
        // The list has other bytes for the event that arrived. The sync recognises this event by
        // its key.
        let known = self.settled(&arrived.key).await?;
        self.expect(&mut fate, &known, State::Done, 1, 1);
        self.tell(fate)
    }

    async fn send_new(
        &self,
        preset: &str,
        kind: Option<&str>,
        source: &str,
    ) -> anyhow::Result<(&'static Sample, Sent)> {
        let sample = find(preset, kind)?;
        let draft = sample.draft(None, UnixMillis::now())?;
        let sent = self.send_draft(&draft, source).await?;
        Ok((sample, sent))
    }

    /// Sends a webhook with the secret of the source. The catcher has to accept it.
    pub(super) async fn send_draft(&self, draft: &Draft, source: &str) -> anyhow::Result<Sent> {
        let secret = self.deployment.secrets.get(&format!("ingress/{source}"))?;
        let sent = self.send_signed(draft, source, &secret).await?;
        if sent.status != 200 {
            bail!(
                "the catcher answered a genuine webhook to {source} with status {}",
                sent.status
            );
        }
        Ok(sent)
    }

    async fn send_signed(
        &self,
        draft: &Draft,
        source: &str,
        secret: &Secret,
    ) -> anyhow::Result<Sent> {
        let configured = self
            .config
            .source(source)
            .with_context(|| format!("the demo has no source {source}"))?;
        let verifier = &configured.verifier;
        let now = UnixMillis::now();
        let url = format!("{}/in/{source}", self.deployment.url);
        let signed = draft.sign(
            &verifier.preset,
            &verifier.variant,
            &Signer::Secret(secret.clone()),
            &url,
            now,
        )?;
        let envelope = signed.envelope(now);
        // Computes the key that the catcher will use.
        let Ok(Arrival::Event(event)) = verifier.verify(&envelope, std::slice::from_ref(secret))
        else {
            bail!("a webhook of the demo does not verify with its own secret");
        };
        let key = event.key().clone();
        let (status, took) = self.post(source, &signed).await?;
        Ok(Sent {
            signed,
            key,
            status,
            took,
        })
    }

    async fn post(&self, source: &str, signed: &Signed) -> anyhow::Result<(u16, Duration)> {
        let url = format!("{}/in/{source}", self.deployment.url);
        let mut request = self.http.post(&url).body(signed.body.clone());
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        let began = Instant::now();
        let response = request
            .send()
            .await
            .with_context(|| format!("post to {url}"))?;
        Ok((response.status().as_u16(), began.elapsed()))
    }

    pub(super) async fn settled(&self, key: &EventKey) -> anyhow::Result<Row> {
        wait_for(&self.deployment.ledger, key, |row| !row.is_open()).await
    }

    /// Compares the row, and the requests that the downstream received for the event, with the
    /// expected values.
    pub(super) fn expect(
        &self,
        fate: &mut Fate,
        row: &Row,
        state: State,
        attempts: u32,
        effects: u32,
    ) {
        same(fate, "state", state, row.state);
        same(fate, "attempts", attempts, row.attempts);
        let seen = self.stand_ins.downstream.seen(row.id().as_str());
        same(fate, "effects at the downstream", effects, seen.effects);
        same(fate, "requests to the downstream", attempts, seen.requests);
    }

    pub(super) fn tell(&self, fate: Fate) -> anyhow::Result<()> {
        self.fates
            .send(fate)
            .ok()
            .context("the receiver of the demo's results is closed")
    }
}

pub(super) fn new_fate(
    case: &'static str,
    sample: &Sample,
    sent: Option<&Sent>,
    end: &'static str,
    detail: String,
) -> Fate {
    Fate {
        at: UnixMillis::now(),
        case,
        preset: sample.preset,
        kind: sample.kind,
        status: sent.map(|sent| sent.status),
        took: sent.map_or(Duration::ZERO, |sent| sent.took),
        end,
        detail,
        key: sent.map(|sent| sent.key.clone()),
        wrong: Vec::new(),
    }
}

pub(super) fn find(preset: &str, kind: Option<&str>) -> anyhow::Result<&'static Sample> {
    Sample::find(preset, kind)
        .with_context(|| format!("the preset {preset} has no sample of this type"))
}

fn took(row: &Row) -> String {
    let took = row
        .done_at
        .unwrap_or(row.received_at)
        .since(row.received_at);
    if took < Duration::from_secs(1) {
        format!("{}ms", took.as_millis())
    } else {
        format!("{:.1}s", took.as_secs_f64())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers are easier to read")]
pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    fate: &mut Fate,
    what: &str,
    expected: T,
    found: T,
) {
    if expected != found {
        fate.wrong
            .push(format!("{what}: {found:?}, expected {expected:?}"));
    }
}
