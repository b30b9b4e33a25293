//! Checks and enables the hooks of a GitLab project or group. GitLab disables a hook that fails,
//! temporarily or permanently. GitLab enables the hook again when the endpoint answers a test
//! request with 2xx.
//! <https://docs.gitlab.com/api/project_webhooks/>
//! <https://docs.gitlab.com/user/project/integrations/webhooks/#re-enable-disabled-webhooks>

use serde_json::{Map, Value};
use shared::aws::outbound::Method;
use shared::monitoring::endpoint::{Finding, Health, Subscription};
use shared::sources::Endpoint;

use super::{May, by_hand, hooks, named};
use crate::api::{Api, Change};

/// The event types for which GitLab can send a test request.
const TESTED: &[&str] = &[
    "push_events",
    "tag_push_events",
    "issues_events",
    "confidential_issues_events",
    "note_events",
    "merge_requests_events",
    "job_events",
    "pipeline_events",
    "wiki_page_events",
    "releases_events",
    "emoji_events",
    "resource_access_token_events",
];

pub(super) async fn list(
    api: &Api<'_>,
    endpoint: &Endpoint,
    path: &str,
) -> anyhow::Result<Vec<Subscription>> {
    let url = format!("{}/api/v4/{path}", endpoint.api);
    let hooks: Vec<Map<String, Value>> = hooks(api, &url).await?;
    Ok(hooks.iter().map(subscription).collect())
}

fn subscription(hook: &Map<String, Value>) -> Subscription {
    let text = |name: &str| hook.get(name).and_then(Value::as_str);
    let events = hook
        .iter()
        .filter(|(name, on)| name.ends_with("_events") && on.as_bool() == Some(true));
    Subscription {
        id: hook.get("id").map(Value::to_string).unwrap_or_default(),
        url: text("url").unwrap_or_default().to_owned(),
        // GitLab versions without this field do not disable hooks.
        enabled: text("alert_status").is_none_or(|status| status == "executable"),
        events: events.map(|(name, _)| name.clone()).collect(),
        note: text("disabled_until").map(|until| format!("disabled until {until}")),
    }
}

pub(super) async fn enable(
    api: &Api<'_>,
    endpoint: &Endpoint,
    path: &str,
    finding: &Finding,
    may: May,
) -> anyhow::Result<String> {
    match (finding.health, &finding.subscription, may) {
        (Health::Disabled, Some(id), _) => test(api, endpoint, path, id).await,
        (Health::EventsMissing, Some(id), May::AddTypes) => {
            add(api, endpoint, path, finding, id).await
        }
        _ => Err(by_hand(finding, "add a webhook in the settings at GitLab")),
    }
}

async fn test(api: &Api<'_>, endpoint: &Endpoint, path: &str, id: &str) -> anyhow::Result<String> {
    let mut wanted = endpoint.events.iter().map(String::as_str);
    let trigger = wanted.find(|event| TESTED.contains(event));
    let trigger = trigger.unwrap_or("push_events");
    let change = Change {
        method: Method::Post,
        content_type: "application/json",
        body: "{}".to_owned(),
    };
    let url = format!("{}/api/v4/{path}/{id}/test/{trigger}", endpoint.api);
    api.change(&url, &change).await?;
    Ok(format!("requested a test of {trigger} from hook {id}"))
}

/// GitLab keeps the fields that the request leaves out, but requires the URL.
/// <https://docs.gitlab.com/api/project_webhooks/#edit-a-project-webhook>
async fn add(
    api: &Api<'_>,
    endpoint: &Endpoint,
    path: &str,
    finding: &Finding,
    id: &str,
) -> anyhow::Result<String> {
    let hook = named(list(api, endpoint, path).await?, id)?;
    let mut body = Map::from_iter([("url".to_owned(), Value::from(hook.url))]);
    body.extend(
        finding
            .missing_events
            .iter()
            .map(|event| (event.clone(), Value::from(true))),
    );
    let change = Change {
        method: Method::Put,
        content_type: "application/json",
        body: Value::Object(body).to_string(),
    };
    let url = format!("{}/api/v4/{path}/{id}", endpoint.api);
    api.change(&url, &change).await?;
    Ok(format!(
        "added {} to hook {id}",
        finding.missing_events.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_says_which_events_it_tells_of_and_whether_it_does() {
        let read = |text: &str| subscription(&serde_json::from_str(text).unwrap());
        let hook = read(
            r#"{"id":1,"url":"https://a/in/b","push_events":true,"note_events":false,
                "enable_ssl_verification":true,"alert_status":"executable","disabled_until":null}"#,
        );
        assert_eq!((hook.id.as_str(), hook.enabled), ("1", true));
        assert_eq!(hook.events, ["push_events"]);
        let off = read(
            r#"{"id":1,"url":"x","alert_status":"temporarily_disabled","disabled_until":"2026-11-22T04:00:00Z"}"#,
        );
        assert!(!off.enabled);
        assert_eq!(
            off.note.as_deref(),
            Some("disabled until 2026-11-22T04:00:00Z")
        );
    }
}
