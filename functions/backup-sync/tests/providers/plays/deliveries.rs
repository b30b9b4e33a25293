//! Providers that list their deliveries.

use serde_json::{Value, json};

use super::super::play::{Answer, Asked, Happened, KEY, Page, Play, Request, Skip, Webhook};
use super::{is_basic, refused};

const SECRET: &str = "secret of the webhooks";

fn push(event: &Happened) -> Value {
    json!({"ref": "refs/heads/main", "after": event.id, "n": event.number})
}

/// <https://docs.github.com/en/rest/repos/webhooks#list-deliveries-for-a-repository-webhook>
pub(crate) fn github() -> Play {
    Play {
        settings: "fields = { owner = \"acme\", repo = \"shop\", hook = \"12\" }".to_owned(),
        asked: |request| deliveries(request, "/repos/acme/shop/hooks/12/deliveries", true),
        other: |request, events| one(request, "/repos/acme/shop/hooks/12/deliveries/", events),
        ..github_of()
    }
}

pub(crate) fn github_org() -> Play {
    Play {
        settings: "variant = \"org\"\nfields = { org = \"acme\", hook = \"12\" }".to_owned(),
        asked: |request| deliveries(request, "/orgs/acme/hooks/12/deliveries", true),
        other: |request, events| one(request, "/orgs/acme/hooks/12/deliveries/", events),
        ..github_of()
    }
}

/// A GitHub App authenticates with a token that it has signed itself.
pub(crate) fn github_app() -> Play {
    fn signed(request: &Request) -> bool {
        use base64::Engine as _;
        let token = request.header("authorization").strip_prefix("Bearer ");
        let parts: Vec<&str> = token.unwrap_or_default().split('.').collect();
        let [_, claims, signature] = parts.as_slice() else {
            return false;
        };
        let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let claims: Value = serde_json::from_slice(&engine.decode(claims).unwrap()).unwrap();
        let lives = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
        claims["iss"] == "Iv1.a" && lives <= 600 && engine.decode(signature).unwrap().len() == 256
    }
    Play {
        settings: "variant = \"app\"\nfields = { app = \"Iv1.a\" }".to_owned(),
        key: include_str!("../../../../../shared/tests/data/rsa-test-key.pem"),
        asked: |request| deliveries(request, "/app/hook/deliveries", signed(request)),
        other: |request, events| one(request, "/app/hook/deliveries/", events),
        ..github_of()
    }
}

fn github_of() -> Play {
    Play {
        newest_first: true,
        item: |event| json!({"id": event.number, "guid": event.id, "delivered_at": event.rfc3339(), "redelivery": false, "duration": 0.3, "status": "timed out", "status_code": event.status, "event": "push", "action": null}),
        page: linked,
        webhook: Some((SECRET, |event| {
            let headers = [
                ("x-github-delivery", event.id.as_str()),
                ("x-github-event", "push"),
            ];
            Webhook::json(&headers, &push(event))
        })),
        kind: |_| "push".to_owned(),
        ..Play::of("github")
    }
}

fn deliveries(request: &Request, path: &str, signed: bool) -> Result<Asked, u16> {
    let key = request.is_bearer(KEY) || (path.starts_with("/app/") && signed);
    refused(request.is("GET", path), key)?;
    Ok(Asked {
        since: None,
        skip: Skip::after(request.query("cursor")),
    })
}

/// Returns one delivery with its body, or redelivers it.
fn one(request: &Request, path: &str, events: &[Happened]) -> Option<Answer> {
    let rest = request.path.strip_prefix(path)?;
    let number: usize = rest.split('/').next()?.parse().ok()?;
    let event = events.iter().find(|event| event.number == number)?;
    Some(
        match (request.method.as_str(), rest.ends_with("/attempts")) {
            ("POST", true) => Answer::status(202),
            ("GET", false) => {
                let headers = json!({"X-GitHub-Delivery": event.id});
                json!({"id": number, "guid": event.id, "request": {"headers": headers, "payload": push(event)}, "response": {"headers": {}, "payload": ""}}).into()
            }
            _ => Answer::status(404),
        },
    )
}

fn linked(page: Page<'_>) -> Answer {
    let request = page.request;
    let this = format!("{}{}?per_page=100", request.base, request.path);
    let link = match page.last {
        Some(last) if page.more => format!("<{this}&cursor={last}>; rel=\"next\""),
        _ => format!("<{this}>; rel=\"prev\""),
    };
    Answer {
        headers: vec![("link", link)],
        ..Value::from(page.items).into()
    }
}

/// <https://docs.gitlab.com/api/project_webhooks/#get-a-list-of-project-webhook-events>
pub(crate) fn gitlab() -> Play {
    const PATH: &str = "/api/v4/projects/group/shop/hooks/12/events";
    Play {
        settings: "fields = { project = \"group/shop\", hook = \"12\" }".to_owned(),
        newest_first: true,
        asked: |request| {
            refused(
                request.is("GET", PATH),
                request.header("private-token") == KEY,
            )?;
            Ok(Asked {
                since: None,
                skip: Skip::count(request.query("page").map(|page| match page {
                    "2" => "3",
                    "3" => "6",
                    _ => "9",
                })),
            })
        },
        item: |event| json!({"id": event.number, "url": "https://acme.test", "trigger": "push_hooks", "request_headers": {"Content-Type": "application/json", "Idempotency-Key": event.id, "X-Gitlab-Event": "Push Hook"}, "request_data": push(event), "response_status": event.status.to_string()}),
        page: |page| {
            let request = page.request;
            let path = "/api/v4/projects/group%2Fshop/hooks/12/events";
            let number = page.end.div_ceil(3) + 1;
            let link = if page.more {
                format!(
                    "<{}{path}?page={number}&per_page=100>; rel=\"next\"",
                    request.base
                )
            } else {
                format!("<{}{path}?page=1>; rel=\"first\"", request.base)
            };
            Answer {
                headers: vec![("link", link)],
                ..Value::from(page.items).into()
            }
        },
        webhook: Some((SECRET, |event| {
            let headers = [
                ("idempotency-key", event.id.as_str()),
                ("x-gitlab-event", "Push Hook"),
            ];
            Webhook::json(&headers, &push(event))
        })),
        kind: |_| "Push Hook".to_owned(),
        ..Play::of("gitlab")
    }
}

/// <https://developer.zendesk.com/api-reference/webhooks/webhooks-api/webhooks/#list-webhook-invocations>
pub(crate) fn zendesk() -> Play {
    const PATH: &str = "/api/v2/webhooks/01ABC/invocations";
    fn body(event: &Happened) -> Value {
        json!({"ticket": event.number})
    }
    Play {
        settings: "fields = { subdomain = \"acme\", email = \"a@acme.test\", webhook = \"01ABC\" }"
            .to_owned(),
        asked: |request| {
            let key = is_basic(request, "a@acme.test/token", KEY);
            refused(request.is("GET", PATH), key)?;
            let skip = Skip::count(request.query("page[after]"));
            Ok(Asked { since: None, skip })
        },
        item: |event| json!({"id": event.id, "status": "failed"}),
        page: |page| {
            let base = &page.request.base;
            let next = format!(
                "{base}{PATH}?page%5Bsize%5D=100&page%5Bafter%5D={}",
                page.end
            );
            json!({"invocations": page.items, "meta": {"has_more": page.more, "after_cursor": page.end.to_string()}, "links": {"next": next, "prev": null}}).into()
        },
        other: |request, events| {
            let rest = request.path.strip_prefix(PATH)?.strip_prefix('/')?;
            let id = rest.strip_suffix("/attempts")?;
            let event = events.iter().find(|event| event.id == id)?;
            // The body as text, unchanged.
            let payload = body(event).to_string();
            Some(json!({"attempts": [{"id": "a", "request": {"headers": [], "payload": payload}, "response": {}}]}).into())
        },
        webhook: Some((SECRET, |event| {
            let id = ("x-zendesk-webhook-invocation-id", event.id.as_str());
            Webhook::json(&[id], &body(event))
        })),
        kind: |_| String::new(),
        ..Play::of("zendesk")
    }
}
