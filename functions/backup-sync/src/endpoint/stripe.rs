//! Checks and enables the webhook endpoints of a Stripe account.
//! <https://docs.stripe.com/api/webhook_endpoints>

use serde::Deserialize;
use shared::aws::outbound::Method;
use shared::monitoring::endpoint::{Finding, Health, Subscription};
use shared::sources::Endpoint;

use super::{May, by_hand, named, types};
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
    let list: List = api.list(&url, &query, super::json).await?;
    anyhow::ensure!(
        !list.has_more,
        "the provider has more webhook endpoints than fit on one page"
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
    may: May,
) -> anyhow::Result<String> {
    let (body, did) = match (finding.health, &finding.subscription, may) {
        (Health::Disabled, Some(id), _) => (
            "disabled=false".to_owned(),
            format!("enabled webhook endpoint {id}"),
        ),
        (Health::EventsMissing, Some(id), May::AddTypes) => {
            // Stripe replaces the event types of the endpoint with those in the request.
            let one = named(list(api, endpoint).await?, id)?;
            let missing = finding.missing_events.join(", ");
            let events = types(one, finding);
            (
                form(&events),
                format!("added {missing} to webhook endpoint {id}"),
            )
        }
        _ => return Err(by_hand(finding, "add an endpoint in Stripe's dashboard")),
    };
    let id = finding.subscription.as_deref().unwrap_or_default();
    let change = Change {
        method: Method::Post,
        content_type: "application/x-www-form-urlencoded",
        body,
    };
    api.change(
        &format!("{}/v1/webhook_endpoints/{id}", endpoint.api),
        &change,
    )
    .await?;
    Ok(did)
}

fn form(events: &[String]) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let pairs = events.iter().map(|event| {
        let event = utf8_percent_encode(event, NON_ALPHANUMERIC);
        format!("enabled_events%5B%5D={event}")
    });
    pairs.collect::<Vec<_>>().join("&")
}
