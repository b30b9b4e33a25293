//! A thin event has one effect, whether it arrives by webhook or through the sync. The action gets
//! the object that the event names, and not the event.

use serde_json::Value;
use shared::webhook::event::Via;

use super::inbox::Inbox;
use super::plays::{OBJECT, stripe_thin};

const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgYXBwbGljYXRpb24=";

/// An action, and the order by `related_object`, whose location is in the preset.
const APP: &str = r#"
[[source.action]]
kind = "http"
name = "app"
url = "BASE/app"
secret = "s"
[source.order]
mode = "fetch"
url = "BASE/v1/invoices/{entity}"
secret = "s"
version = "json:revision"
compare = "number"
"#;

#[tokio::test]
async fn a_thin_event_has_one_effect_by_webhook_and_by_sync() {
    let mut play = stripe_thin();
    play.settings.push_str(APP);
    let inbox = Inbox::start(play).await;
    inbox.put("Processor", SECRET).await;

    let by_webhook = inbox.happen(0, 2);
    assert!(inbox.deliver(&by_webhook).await);
    inbox.done(&by_webhook).await;
    let by_sync = inbox.happen(1, 2);
    assert_eq!(inbox.sync().await["found"], 1);
    inbox.done(&by_sync).await;
    assert_eq!(inbox.row(&by_webhook).await.unwrap().via, Via::Webhook);
    assert_eq!(inbox.row(&by_sync).await.unwrap().via, Via::BackupSync);

    // Each event now arrives in the other way, too.
    assert!(inbox.deliver(&by_sync).await);
    assert_eq!(inbox.sync().await["found"], 0);
    inbox.done(&by_sync).await;

    let effects = inbox.stand_in().effects();
    assert_eq!(effects.len(), 2, "{effects:?}");
    assert_ne!(
        effects[0].header("idempotency-key"),
        effects[1].header("idempotency-key")
    );
    for (revision, effect) in [1, 2].into_iter().zip(&effects) {
        assert_eq!(effect.header("mitt-entity"), OBJECT);
        let object: Value = effect.json();
        assert_eq!(object["object"], "invoice");
        assert_eq!(object["revision"], revision);
    }
    inbox.end().await;
}
