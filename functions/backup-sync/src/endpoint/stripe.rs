//! Webhook endpoints of an account. <https://docs.stripe.com/api/webhook_endpoints>

use serde::Deserialize;
use shared::config::Endpoint;
use shared::endpoint::{Finding, Health, Subscription};
use shared::outbound::Method;

use super::by_hand;
use crate::api::{Api, Change};

#[derive(Deserialize)]
struct List {
    data: Vec<WebhookEndpoint>,
    has_more: bool,
}

#[derive(Deserialize)]
struct WebhookEndpoint {
    id: String,
    url: String,
    status: String,
    enabled_events: Vec<String>,
}

pub(super) async fn list(api: &Api<'_>, endpoint: &Endpoint) -> anyhow::Result<Vec<Subscription>> {
    let url = format!("{}/v1/webhook_endpoints", endpoint.api);
    let query = [("limit".to_owned(), "100".to_owned())];
    let list: List = serde_json::from_slice(&api.list(&url, &query).await?)
        .map_err(|_| anyhow::anyhow!("the list of webhook endpoints cannot be read"))?;
    anyhow::ensure!(
        !list.has_more,
        "there are more webhook endpoints than one page holds"
    );
    let subscription = |one: WebhookEndpoint| Subscription {
        id: one.id,
        url: one.url,
        enabled: one.status == "enabled",
        events: one.enabled_events,
        note: None,
    };
    Ok(list.data.into_iter().map(subscription).collect())
}

/// <https://docs.stripe.com/api/webhook_endpoints/update>
pub(super) async fn enable(
    api: &Api<'_>,
    endpoint: &Endpoint,
    finding: &Finding,
) -> anyhow::Result<String> {
    let (Health::Disabled, Some(id)) = (finding.health, &finding.subscription) else {
        return Err(by_hand(finding, "add an endpoint in Stripe's dashboard"));
    };
    let change = Change {
        method: Method::Post,
        content_type: "application/x-www-form-urlencoded",
        body: "disabled=false".to_owned(),
    };
    api.change(
        &format!("{}/v1/webhook_endpoints/{id}", endpoint.api),
        &change,
    )
    .await?;
    Ok(format!("enabled webhook endpoint {id}"))
}
