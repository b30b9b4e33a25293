//! Checks and enables the hooks of a GitHub repository or organisation.
//! <https://docs.github.com/en/rest/repos/webhooks>
//! <https://docs.github.com/en/rest/orgs/webhooks>

use serde::Deserialize;
use serde_json::json;
use shared::aws::outbound::Method;
use shared::monitoring::endpoint::{Finding, Health, Subscription};
use shared::sources::Endpoint;

use super::{May, by_hand, hooks, named, types};
use crate::api::{Api, Change};

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
    let hooks: Vec<Hook> = hooks(api, &url).await?;
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
    may: May,
) -> anyhow::Result<String> {
    let (body, did) = match (finding.health, &finding.subscription, may) {
        (Health::Disabled, Some(id), _) => {
            (json!({ "active": true }), format!("activated hook {id}"))
        }
        (Health::EventsMissing, Some(id), May::AddTypes) => {
            // GitHub replaces the event types of a hook with those in the request. Only the hook of
            // a repository also accepts single additions.
            let hook = named(list(api, endpoint, path).await?, id)?;
            let missing = finding.missing_events.join(", ");
            let events = types(hook, finding);
            (
                json!({ "events": events }),
                format!("added {missing} to hook {id}"),
            )
        }
        _ => return Err(by_hand(finding, "add a webhook in the settings at GitHub")),
    };
    let id = finding.subscription.as_deref().unwrap_or_default();
    let change = Change {
        method: Method::Patch,
        content_type: "application/json",
        body: body.to_string(),
    };
    api.change(&format!("{}/{path}/{id}", endpoint.api), &change)
        .await?;
    Ok(did)
}
