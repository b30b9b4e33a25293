//! Checks the webhook subscriptions of an app at a Shopify shop: one for each topic. Shopify
//! deletes a subscription whose deliveries fail, so `enable` creates it again. Shopify signs with
//! the app's secret.
//! <https://shopify.dev/docs/api/admin-graphql/latest/queries/webhookSubscriptions>
//! <https://shopify.dev/docs/api/admin-graphql/latest/mutations/webhookSubscriptionCreate>

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::aws::outbound::Method;
use shared::monitoring::endpoint::{Finding, Health, Subscription};
use shared::sources::Endpoint;

use super::by_hand;
use crate::api::{Api, Change};

const LIST: &str = "query { webhookSubscriptions(first: 250) { nodes { id topic uri } pageInfo { hasNextPage } } }";

const CREATE: &str = "mutation ($topic: WebhookSubscriptionTopic!, $webhookSubscription: WebhookSubscriptionInput!) \
    { webhookSubscriptionCreate(topic: $topic, webhookSubscription: $webhookSubscription) \
    { webhookSubscription { id } userErrors { message } } }";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    webhook_subscriptions: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    nodes: Vec<Node>,
    page_info: PageInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    topic: String,
    uri: String,
}

pub(super) async fn list(
    api: &Api<'_>,
    endpoint: &Endpoint,
    version: &str,
) -> anyhow::Result<Vec<Subscription>> {
    let data = ask(api, endpoint, version, &json!({ "query": LIST })).await?;
    let list: List = serde_json::from_value(data)
        .map_err(|_| anyhow::anyhow!("invalid list of webhook subscriptions"))?;
    let Connection { nodes, page_info } = list.webhook_subscriptions;
    ensure!(
        !page_info.has_next_page,
        "the provider has more webhook subscriptions than fit on one page"
    );
    let subscription = |node: Node| Subscription {
        id: node.id,
        url: node.uri,
        enabled: true,
        events: vec![node.topic],
        note: None,
    };
    Ok(nodes.into_iter().map(subscription).collect())
}

pub(super) async fn enable(
    api: &Api<'_>,
    endpoint: &Endpoint,
    version: &str,
    finding: &Finding,
) -> anyhow::Result<String> {
    let gone = matches!(finding.health, Health::Missing | Health::EventsMissing);
    if !gone || finding.missing_events.is_empty() {
        return Err(by_hand(finding, "list the topics in `events = [..]`"));
    }
    for topic in &finding.missing_events {
        let subscription = json!({ "uri": endpoint.url, "format": "JSON" });
        let variables = json!({ "topic": topic, "webhookSubscription": subscription });
        let question = json!({ "query": CREATE, "variables": variables });
        let made = ask(api, endpoint, version, &question).await?;
        let errors = &made["webhookSubscriptionCreate"]["userErrors"];
        if errors.as_array().is_none_or(|errors| !errors.is_empty()) {
            let said = errors[0]["message"].as_str().unwrap_or("no reason given");
            bail!("Shopify did not create a subscription to {topic}: {said}");
        }
    }
    Ok(format!(
        "created subscriptions to {}",
        finding.missing_events.join(", ")
    ))
}

async fn ask(
    api: &Api<'_>,
    endpoint: &Endpoint,
    version: &str,
    question: &Value,
) -> anyhow::Result<Value> {
    let url = format!("{}/admin/api/{version}/graphql.json", endpoint.api);
    let change = Change {
        method: Method::Post,
        content_type: "application/json",
        body: question.to_string(),
    };
    let answer = api.change(&url, &change).await?;
    let mut answer: Value = serde_json::from_slice(&answer)
        .map_err(|_| anyhow::anyhow!("invalid response from Shopify"))?;
    if let Some(errors) = answer.get("errors") {
        let said = errors[0]["message"].as_str().unwrap_or("no reason given");
        bail!("Shopify rejected the request: {said}");
    }
    answer
        .get_mut("data")
        .map(Value::take)
        .context("the response from Shopify has no data")
}
