//! Hooks of a repository or an organisation.
//! <https://docs.github.com/en/rest/repos/webhooks>
//! <https://docs.github.com/en/rest/orgs/webhooks>

use serde::Deserialize;
use shared::config::Endpoint;
use shared::endpoint::{Finding, Health, Subscription};
use shared::outbound::Method;

use super::by_hand;
use crate::api::{Api, Change};

/// More hooks than GitHub lets anybody have.
const SIZE: usize = 100;

pub(super) const HEADERS: &[(&str, &str)] = &[
    ("accept", "application/vnd.github+json"),
    ("x-github-api-version", "2022-11-28"),
];

#[derive(Deserialize)]
struct Hook {
    id: u64,
    active: bool,
    events: Vec<String>,
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    url: String,
}

pub(super) async fn list(
    api: &Api<'_>,
    endpoint: &Endpoint,
    path: &str,
) -> anyhow::Result<Vec<Subscription>> {
    let url = format!("{}/{path}", endpoint.api);
    let query = [("per_page".to_owned(), SIZE.to_string())];
    let hooks: Vec<Hook> = serde_json::from_slice(&api.list(&url, &query).await?)
        .map_err(|_| anyhow::anyhow!("the list of hooks cannot be read"))?;
    anyhow::ensure!(
        hooks.len() < SIZE,
        "there are more hooks than one page holds"
    );
    let subscription = |hook: Hook| Subscription {
        id: hook.id.to_string(),
        url: hook.config.url,
        enabled: hook.active,
        events: hook.events,
        note: None,
    };
    Ok(hooks.into_iter().map(subscription).collect())
}

pub(super) async fn enable(
    api: &Api<'_>,
    endpoint: &Endpoint,
    path: &str,
    finding: &Finding,
) -> anyhow::Result<String> {
    let (Health::Disabled, Some(id)) = (finding.health, &finding.subscription) else {
        return Err(by_hand(finding, "add a webhook in the settings at GitHub"));
    };
    let change = Change {
        method: Method::Patch,
        content_type: "application/json",
        body: r#"{"active":true}"#.to_owned(),
    };
    api.change(&format!("{}/{path}/{id}", endpoint.api), &change)
        .await?;
    Ok(format!("made hook {id} active"))
}
