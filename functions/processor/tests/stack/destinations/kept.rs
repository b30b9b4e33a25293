//! What is kept of the answers of destinations.

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;

use super::{World, s};
use crate::destinations::server::Answer;
use crate::support::Item;

impl World {
    /// Returns the item of the answer to an attempt.
    async fn kept(&self, key: &EventKey, action: &str, attempt: u32) -> Option<Item> {
        let get = self.inbox.stack.clients().dynamodb.get_item();
        let get = get.table_name(self.inbox.stack.table().unwrap());
        let get = get.key("pk", s(key.pk()));
        let get = get.key("sk", s(format!("A#{action}#0#{attempt}")));
        get.send().await.unwrap().item
    }

    fn processor_log(&self) -> String {
        let log = self.inbox.stack.log_file("Processor").unwrap();
        std::fs::read_to_string(log).unwrap_or_default()
    }
}

#[tokio::test]
async fn the_answer_to_an_attempt_that_failed_is_kept() {
    let world = World::start(&[]).await;
    let body = json!({ "error": "no such order", "token": "abcdefghijklmnop" });
    let headers = vec![("x-request-id", "req_1".to_owned())];
    let failed = Answer::Says(500, headers, body);
    let wait = Answer::Says(429, vec![("retry-after", "60".to_owned())], json!("slow"));
    world.server.answers("/refused", &[failed, wait]);
    let key = world.push("refused").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 1, 0);
    let error = r#"orders: the destination answered 500: {"error":"no such order","token":"***"}"#;
    assert_eq!(world.inbox.row(&key).await["err"], s(error));
    let kept = world.kept(&key, "orders", 1).await.unwrap();
    assert_eq!(kept["s"].as_n().unwrap(), "500");
    assert_eq!(kept["rid"], s("req_1"));
    assert_eq!(kept["ct"], s("application/json"));
    assert_eq!(kept["b"], s(r#"{"error":"no such order","token":"***"}"#));
    let ttl: i64 = kept["ttl"].as_n().unwrap().parse().unwrap();
    let days = (ttl - UnixMillis::now().secs()) / 86_400;
    assert!((29..=30).contains(&days), "{days}");

    // A deferred attempt has the number of the next one, whose answer replaces it.
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 1, 1);
    let kept = world.kept(&key, "orders", 2).await.unwrap();
    assert_eq!(kept["b"], s(r#""slow""#));
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 2, 1);
    assert!(world.kept(&key, "orders", 3).await.is_none());

    let log = world.processor_log();
    assert!(log.contains("the destination answered 500"), "{log}");
    for said in ["no such order", "slow", "abcdefghijklmnop"] {
        assert!(!log.contains(said), "{said}: {log}");
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_source_can_keep_the_status_alone() {
    let world = World::start(&[]).await;
    let failed = Answer::Says(500, Vec::new(), json!("no such order"));
    world.server.answers("/tells-nothing", &[failed]);
    let key = world.push("tells-nothing").await;
    world.ring(&[&key]).await;
    let error = "http: the destination answered 500";
    assert_eq!(world.inbox.row(&key).await["err"], s(error));
    let kept = world.kept(&key, "http", 1).await.unwrap();
    assert_eq!(kept["s"].as_n().unwrap(), "500");
    assert!(!kept.contains_key("b"), "{kept:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_read_to_its_limit() {
    let world = World::start(&[]).await;
    for (status, state) in [
        (500, "failed"),
        (404, "failed"),
        (422, "dead_letter"),
        (200, "done"),
    ] {
        world.server.answers("/refused", &[Answer::Endless(status)]);
        let key = world.push("refused").await;
        let began = UnixMillis::now();
        world.ring(&[&key]).await;
        assert!(UnixMillis::now().since(began).as_secs() < 10, "{status}");
        world.fate(&key).await.is(state, 1, 0);
        let kept = world.kept(&key, "orders", 1).await;
        let text = kept.map(|kept| kept["b"].as_s().unwrap().len());
        assert_eq!(text.is_some(), status != 200, "{status}");
        assert!(
            text.is_none_or(|text| (400..=512).contains(&text)),
            "{text:?}"
        );
        let row = world.inbox.row(&key).await;
        let error = row
            .get("err")
            .map_or(0, |error| error.as_s().unwrap().len());
        assert!(error <= 256, "{error}");
    }
    world.inbox.is_unharmed();
}
