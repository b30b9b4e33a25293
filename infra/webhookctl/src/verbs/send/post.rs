//! Posts a webhook and reads the outcome of its event.

use std::time::{Duration, Instant};

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;
use shared::webhook::event::{EventKey, Sha};

use super::Told;
use super::target::Target;
use super::watch::Watch;
use crate::forward::Address;
use crate::output::time::HOUR_MS;
use crate::output::{CliError, Exit};
use crate::poll;
use crate::samples::{Draft, Signed};
use crate::target::Deployment;

/// The maximum time that `--wait` waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// The maximum number of bytes of a response that are kept.
const LARGEST_ANSWER: usize = 16 * 1024;

pub(super) async fn post(
    http: &reqwest::Client,
    target: &Target,
    draft: &Draft,
    signed: &Signed,
    watch: &Watch,
) -> anyhow::Result<Told> {
    let (since, began) = (UnixMillis::now(), Instant::now());
    watch.sends(&target.url);
    let mut told = deliver(http, target, draft, signed).await?;
    watch.answered(told.status, told.took_ms);
    if let (Some(inbox), 200..=299) = (&target.inbox, told.status)
        && let Some(key) = target.event_key(signed)
    {
        follow(inbox, &key, since, watch, &mut told).await?;
        told.outcome_ms = Some(began.elapsed().as_millis());
    }
    if let (Some(inbox), 401) = (&target.inbox, told.status) {
        told.quarantined = quarantined(inbox, target, signed, since).await?;
    }
    Ok(told)
}

/// Posts the webhook and returns the response.
pub(super) async fn deliver(
    http: &reqwest::Client,
    target: &Target,
    draft: &Draft,
    signed: &Signed,
) -> anyhow::Result<Told> {
    let began = Instant::now();
    let response = request(http, target, signed).await.map_err(|error| {
        CliError::failed(
            "send.failed",
            format!("cannot reach {}: {}", target.url, cause(error)),
        )
    })?;
    let mut told = Told {
        url: target.url_of(signed),
        preset: draft.preset.clone(),
        kind: draft.kind.clone(),
        provider_id: draft.id.clone(),
        bytes: signed.body.len(),
        status: response.status().as_u16(),
        took_ms: began.elapsed().as_millis(),
        ..Told::default()
    };
    if target.inbox.is_none() {
        let body = response.bytes().await.unwrap_or_default();
        let shown = body.get(..LARGEST_ANSWER).unwrap_or(&body);
        told.response = Some(String::from_utf8_lossy(shown).into_owned());
    }
    Ok(told)
}

/// Posts the webhook.
pub(in crate::verbs) async fn request(
    http: &reqwest::Client,
    target: &Target,
    signed: &Signed,
) -> reqwest::Result<reqwest::Response> {
    let mut request = http.post(target.url_of(signed)).body(signed.body.clone());
    for (name, value) in &signed.headers {
        request = request.header(name, value);
    }
    request.send().await
}

/// Returns the cause of a failed request without the URL, because the URL can contain a secret.
pub(in crate::verbs) fn cause(error: reqwest::Error) -> String {
    let error = anyhow::Error::from(error.without_url());
    error.root_cause().to_string()
}

/// Returns an HTTP client for this URL. If the URL is on this machine, the client uses no proxy.
pub(super) fn client(url: &str) -> anyhow::Result<reqwest::Client> {
    let patience = Duration::from_secs(35);
    if Address::parse(url, None).is_ok() {
        shared::aws::outbound::to_this_machine(url, patience)
    } else {
        shared::aws::outbound::unguarded(patience)
    }
}

/// Returns the id in the quarantine of the request that was just rejected.
pub(super) async fn quarantined(
    inbox: &Deployment,
    target: &Target,
    signed: &Signed,
    since: UnixMillis,
) -> anyhow::Result<Option<String>> {
    let now = UnixMillis::now();
    let from = since - Duration::from_secs(1);
    let source = &target.verifier.source;
    let held = inbox.quarantine.held(source, from, now, now).await?;
    let sha = Sha::of(&signed.body);
    let this = held.into_iter().find(|held| held.sha == sha);
    Ok(this.map(|held| held.id.as_str().to_owned()))
}

async fn follow(
    inbox: &Deployment,
    key: &EventKey,
    since: UnixMillis,
    watch: &Watch,
    told: &mut Told,
) -> anyhow::Result<()> {
    let enough = |row: &Row| {
        watch.sees(row);
        !watch.waits || !row.is_open()
    };
    let row = reached(inbox, key, since, PATIENCE, enough).await?;
    let Some(row) = row.filter(enough) else {
        return Err(CliError::new(
            "send.timeout",
            Exit::Partial,
            format!("event {key} did not finish within {} s", PATIENCE.as_secs()),
        )
        .tip(format!("webhookctl inbox inspect {key}"))
        .into());
    };
    told.id = Some(row.id().as_str().to_owned());
    told.outcome = Some(row.state.to_string());
    told.attempts = Some(row.attempts);
    Ok(())
}

/// Waits until the row of the event meets the condition, or until `patience` has passed. Returns
/// the last state of the row.
pub(in crate::verbs) async fn reached(
    inbox: &Deployment,
    key: &EventKey,
    since: UnixMillis,
    patience: Duration,
    enough: impl Fn(&Row) -> bool,
) -> anyhow::Result<Option<Row>> {
    let read = async || row(inbox, key, since).await;
    let enough = |row: &Option<Row>| row.as_ref().is_some_and(&enough);
    poll::until(Duration::from_millis(50), patience, read, enough).await
}

/// Returns the row of the event. An event key can contain the time of arrival, which this program
/// does not know. In that case, it searches the recent events for one with the same body hash.
async fn row(inbox: &Deployment, key: &EventKey, since: UnixMillis) -> anyhow::Result<Option<Row>> {
    let at = key.id().strip_prefix("at:");
    if let Some((_, body)) = at.and_then(|id| id.split_once(':')) {
        let is_it = |id: &str| id.starts_with("at:") && id.ends_with(body);
        return recent(inbox, key.source(), since, is_it).await;
    }
    let row = inbox.ledger.event(key).await?;
    if row.is_some() {
        return Ok(row);
    }
    // If the body or the signature is known under another id, the event is in the quarantine.
    let quarantined = |id: &str| {
        id.strip_prefix(key.id())
            .is_some_and(|rest| rest.starts_with('~'))
    };
    recent(inbox, key.source(), since, quarantined).await
}

/// Searches the events of this hour.
async fn recent(
    inbox: &Deployment,
    source: &str,
    since: UnixMillis,
    is_it: impl Fn(&str) -> bool,
) -> anyhow::Result<Option<Row>> {
    let now = UnixMillis::now();
    let from = since.max(UnixMillis(now.0.div_euclid(HOUR_MS) * HOUR_MS));
    let listed = inbox.ledger.received_in_hour(source, from, now, 100);
    let found = listed.await?.into_iter();
    match found.map(|event| event.key).find(|key| is_it(key.id())) {
        Some(key) => inbox.ledger.event(&key).await,
        None => Ok(None),
    }
}
