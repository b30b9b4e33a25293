//! The endpoint check: asks each provider whether its subscription still points to this inbox, and
//! enables the subscription again at an operator's request.

mod github;
mod gitlab;
mod shopify;
mod stripe;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared::base::clock::UnixMillis;
use shared::base::timing::{ASKING, GRACE};
use shared::monitoring::endpoint::{Finding, Health, Status, Subscription};
use shared::sources::{Endpoint, Source, Subscriber};
use tokio::time::Instant;

use crate::api::Api;
use crate::deadline::{cut, from_anywhere, on};
use crate::sync::SyncRequest;
use crate::{BackupSync, RunTime};

/// The maximum time for one endpoint in a full run.
const BUDGET: Duration = Duration::from_secs(60);

/// After `enable`, the sync requests the events since the last check that found the subscription
/// healthy. It begins this much earlier, because an event can be older than the first attempt to
/// deliver it.
const BEFORE: Duration = Duration::from_secs(15 * 60);

/// The page size of a list of hooks: more hooks than GitHub or GitLab allow for one repository,
/// project, organisation or group.
const HOOKS: usize = 100;

/// The change that the operator permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    Enable,
    /// Enable the subscription, and add the missing event types.
    AddTypes,
}

/// The result of `enable`.
#[derive(Clone, Debug, Serialize)]
pub struct Enabled {
    /// The change made at the provider, or `None` if the subscription was healthy.
    pub did: Option<String>,
    pub status: Status,
    /// The result of the sync since the last healthy check, if the source has a sync.
    pub synced: Option<Synced>,
}

/// The result of a sync that begins before the last healthy check.
#[derive(Clone, Debug, Serialize)]
pub struct Synced {
    pub from: String,
    /// `false` if the sync failed or another run holds the lease. The next run then continues.
    pub complete: bool,
    pub found: u64,
}

impl BackupSync {
    /// Checks all configured endpoints, or one. If a check fails, the others still run, and the
    /// error is returned at the end.
    pub(crate) async fn endpoints(
        &self,
        only: Option<&str>,
        time: RunTime,
    ) -> anyhow::Result<Vec<Status>> {
        let mut statuses = Vec::new();
        let mut failed = Vec::new();
        let config = self.services.sources.config();
        let sources = config.sources();
        let chosen = sources.filter(|source| only.is_none_or(|name| name == source.name));
        let chosen = chosen.filter_map(|source| Some((source, source.endpoint.as_ref()?)));
        let chosen = from_anywhere(chosen.collect())?;
        let (count, ends) = (chosen.len(), time.until(ASKING));
        for (index, (source, endpoint)) in chosen.into_iter().enumerate() {
            let waiting = count - index - 1;
            let Some(turn) = time.turn(ends, waiting) else {
                failed.push(format!(
                    "{}: no time was left in this run for this check",
                    source.name
                ));
                continue;
            };
            let turn = turn.min(Instant::now() + time.scaled(BUDGET));
            let look = self.look_at(source, endpoint, turn);
            match cut(turn + time.scaled(GRACE), "the check", look).await {
                Ok(status) => {
                    tell(&status);
                    statuses.push(status);
                }
                Err(error) => {
                    tracing::error!(
                        source = source.name,
                        error = format!("{error:#}"),
                        "could not check the endpoint of {}",
                        source.name
                    );
                    failed.push(format!("{}: {error:#}", source.name));
                }
            }
        }
        if !failed.is_empty() {
            bail!("could not check the endpoint of {}", failed.join("; "));
        }
        if let (Some(name), true) = (only, statuses.is_empty()) {
            bail!("source {name:?} has no [source.endpoint]");
        }
        statuses.sort_by(|one, other| one.source.cmp(&other.source));
        Ok(statuses)
    }

    /// Enables the subscription again, and syncs the events since the last healthy check.
    pub(crate) async fn enable(
        &self,
        name: &str,
        may: May,
        time: RunTime,
    ) -> anyhow::Result<Enabled> {
        let config = self.services.sources.config();
        let source = config.source(name);
        let source = source.with_context(|| format!("source {name:?} is not configured"))?;
        let endpoint = source.endpoint.as_ref();
        let endpoint =
            endpoint.with_context(|| format!("source {name:?} has no [source.endpoint]"))?;
        let turn = || Instant::now() + time.scaled(BUDGET);
        let before = self.look_at(source, endpoint, turn()).await?;
        if before.finding.health == Health::Good {
            return Ok(Enabled {
                did: None,
                status: before,
                synced: None,
            });
        }
        let api = self.api_of(endpoint, turn()).await?;
        let did = match &endpoint.provider {
            Subscriber::Stripe => stripe::enable(&api, endpoint, &before.finding, may).await,
            Subscriber::GitHub(path) => {
                github::enable(&api, endpoint, path, &before.finding, may).await
            }
            Subscriber::GitLab(path) => {
                gitlab::enable(&api, endpoint, path, &before.finding, may).await
            }
            Subscriber::Shopify(version) => {
                shopify::enable(&api, endpoint, version, &before.finding).await
            }
        };
        let did = did.with_context(|| format!("enable the endpoint of {name}"))?;
        let status = self.look_at(source, endpoint, turn()).await?;
        tell(&status);
        let synced = match status.finding.health {
            Health::Good => self.sync_from(source, status.dark_since, time).await,
            _ => None,
        };
        Ok(Enabled {
            did: Some(did),
            status,
            synced,
        })
    }

    async fn look_at(
        &self,
        source: &Source,
        endpoint: &Endpoint,
        ends: Instant,
    ) -> anyhow::Result<Status> {
        let api = self.api_of(endpoint, ends).await?;
        let all = match &endpoint.provider {
            Subscriber::Stripe => stripe::list(&api, endpoint).await?,
            Subscriber::GitHub(path) => github::list(&api, endpoint, path).await?,
            Subscriber::GitLab(path) => gitlab::list(&api, endpoint, path).await?,
            Subscriber::Shopify(version) => shopify::list(&api, endpoint, version).await?,
        };
        let finding = Finding::of(&endpoint.url, &endpoint.events, &all);
        let ledger = &self.services.inbox.ledger;
        let before = ledger.provider_reports().endpoint(&source.name).await?;
        let status = Status::after(&source.name, before.as_ref(), finding, (self.clock)());
        ledger.provider_reports().note_endpoint(&status).await?;
        Ok(status)
    }

    async fn api_of<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        ends: Instant,
    ) -> anyhow::Result<Api<'a>> {
        let (key_header, headers) = match &endpoint.provider {
            Subscriber::GitHub(_) => (None, github::HEADERS.to_vec()),
            Subscriber::Shopify(_) => (Some("x-shopify-access-token"), Vec::new()),
            Subscriber::Stripe | Subscriber::GitLab(_) => (None, Vec::new()),
        };
        Ok(Api {
            outbound: &self.outbound,
            clock: self.clock,
            ends: on(self.clock, ends),
            what: "the list of subscriptions",
            key: self.api_key(&endpoint.secret).await?,
            secret: &endpoint.secret,
            key_header,
            auth: None,
            headers,
        })
    }

    /// Syncs the events since the last healthy check. The endpoint is already enabled, so an error
    /// here is only logged.
    async fn sync_from(
        &self,
        source: &Source,
        dark: Option<UnixMillis>,
        time: RunTime,
    ) -> Option<Synced> {
        source.sync.as_ref()?;
        let from = dark? - BEFORE;
        let ledger = &self.services.inbox.ledger;
        let sent_back = ledger
            .provider_reports()
            .sync_rewind(&source.name, from, (self.clock)())
            .await;
        let run = match sent_back {
            Ok(_) => self.sync_all(&SyncRequest::of(&source.name), time).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &run {
            tracing::error!(
                source = source.name,
                error = format!("{error:#}"),
                "could not sync the events that {} missed while its subscription was unhealthy",
                source.name
            );
        }
        let reports = run.unwrap_or_default();
        Some(Synced {
            from: from.rfc3339(),
            complete: reports.iter().any(|report| report.complete),
            found: reports.iter().map(|report| report.found).sum(),
        })
    }
}

/// Returns the subscription with this id, as the provider lists it now.
fn named(all: Vec<Subscription>, id: &str) -> anyhow::Result<Subscription> {
    let mut all = all.into_iter();
    let found = all.find(|one| one.id == id);
    found.with_context(|| format!("subscription {id} no longer exists"))
}

/// Returns the event types of a subscription, and the missing ones.
fn types(subscription: Subscription, finding: &Finding) -> Vec<String> {
    let missing = finding.missing_events.iter().cloned();
    subscription.events.into_iter().chain(missing).collect()
}

/// Returns all hooks of one repository, organisation, project or group. GitHub and GitLab list them
/// in the same form.
async fn hooks<T: DeserializeOwned>(api: &Api<'_>, url: &str) -> anyhow::Result<Vec<T>> {
    let query = [("per_page".to_owned(), HOOKS.to_string())];
    let hooks: Vec<T> = api.list(url, &query, json).await?;
    ensure!(
        hooks.len() < HOOKS,
        "the provider has more webhooks than fit on one page"
    );
    Ok(hooks)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "Api::list passes the body by value"
)]
fn json<T: DeserializeOwned>(body: Bytes) -> anyhow::Result<T> {
    // An error of serde can contain a part of the response.
    serde_json::from_slice(&body)
        .map_err(|_| anyhow::anyhow!("the response is not valid JSON of the expected form"))
}

/// Returns an error that names the manual step, for a change that the provider's API cannot make or
/// for which Mitt lacks the data.
fn by_hand(finding: &Finding, create: &str) -> anyhow::Error {
    let id = finding.subscription.as_deref().unwrap_or_default();
    match finding.health {
        Health::Missing => anyhow::anyhow!(
            "the subscription does not exist; {create} with a secret, and store this secret in Mitt"
        ),
        Health::WrongUrl => anyhow::anyhow!(
            "subscription {id} points to another URL; correct the URL in the sources file or at the provider"
        ),
        Health::EventsMissing => anyhow::anyhow!(
            "subscription {id} is enabled but lacks event types; use --add-types, or add these types at the provider: {}",
            finding.missing_events.join(", ")
        ),
        Health::Disabled | Health::Good => anyhow::anyhow!("subscription {id} cannot be enabled"),
    }
}

/// Logs one line, from which the template creates a metric.
fn tell(status: &Status) {
    let health = status.finding.health.as_str();
    let dark = u8::from(status.finding.health != Health::Good);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                metric = "endpoint",
                source = status.source,
                dark = dark,
                health = health,
                since = status.since.rfc3339(),
                "the endpoint of {} is {health}",
                status.source,
            )
        };
    }
    if dark > 0 {
        line!(error);
    } else {
        line!(info);
    }
}
