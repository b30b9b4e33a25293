//! A new provider, configured with the lines from the documentation page about adding a provider.

use serde_json::json;

use super::inbox::Inbox;
use super::play::{Asked, KEY, Play, Skip, Webhook, secs};

const PAGE: &str = include_str!("../../../../infra/docs/sync/event-log.md");

/// The URL of the list in the documentation.
const THERE: &str = "https://api.acme.example";

const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgd2ViaG9va3M=";

/// Returns the list exactly as in the documentation, from which a person copies it.
fn dozen_lines() -> String {
    let (_, after) = PAGE.split_once("[source.sync.list]\n").unwrap();
    let (lines, _) = after.split_once("```").unwrap();
    let count = lines.lines().count();
    assert!(count <= 12, "{count} lines");
    assert!(lines.contains(THERE));
    lines.replace(THERE, "BASE")
}

fn acme() -> Play {
    Play {
        params: "",
        settings: format!("[source.sync.list]\n{}", dozen_lines()),
        asked: |request| {
            if !(request.is("GET", "/events") && request.is_bearer(KEY)) {
                return Err(401);
            }
            Ok(Asked {
                since: secs(request.query("from")),
                skip: Skip::after(request.query("after")),
            })
        },
        item: |event| json!({"id": event.id, "created": event.secs(), "type": "order.paid"}),
        page: |page| json!({"data": page.items, "has_more": page.more}).into(),
        webhook: Some((SECRET, |event| {
            let body = json!({"created": event.secs(), "type": "order.paid"});
            Webhook::json(&[("webhook-id", &event.id)], &body)
        })),
        kind: |_| "order.paid".to_owned(),
        ..Play::of("standard-webhooks")
    }
}

#[tokio::test]
async fn a_made_up_provider_is_synced_by_a_dozen_lines() {
    let inbox = Inbox::start(acme()).await;
    let count = inbox.play().size * 2 + 1;
    let events: Vec<_> = (0..count).map(|n| inbox.happen(n, count)).collect();
    assert!(inbox.deliver(&events[0]).await);
    let report = inbox.sync().await;
    assert_eq!(report["found"], count - 1, "{report}");
    assert_eq!(report["complete"], true);
    // A webhook that arrives late has the same id as the event in the list.
    assert!(inbox.deliver(&events[1]).await);
    assert_eq!(inbox.events().await, count);
    let row = inbox.row(&events[2]).await.unwrap();
    assert_eq!(row.kind, "order.paid");
    inbox.end().await;
}
