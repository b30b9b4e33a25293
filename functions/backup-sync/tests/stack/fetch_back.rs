//! Unsigned notices: no content of a notice becomes an event. backup-sync fetches the objects that
//! notices name from the provider's API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use local::Options;
use serde_json::{Value, json};
use shared::webhook::event::EventKey;

use super::support::{Answer, Inbox, headers, options, request, s, unique};
use super::support::{failures, record, work_message};

const SOURCE: &str = "mollie-main";
const API_KEY: &str = "live_api-key-of-the-shop";

/// Plays Mollie's API as documented: `GET /v2/payments/{id}` with a bearer token.
/// <https://docs.mollie.com/reference/get-payment>
#[derive(Clone, Default)]
struct Mollie(Arc<Mutex<Api>>);

#[derive(Default)]
struct Api {
    payments: BTreeMap<String, Value>,
    /// The status of every response, if set.
    status: Option<u16>,
    asked: Vec<String>,
}

impl Mollie {
    async fn start() -> (Self, String) {
        let mollie = Self::default();
        let router = Router::new().fallback(serve).with_state(mollie.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        (mollie, url)
    }

    fn has(&self, id: &str, status: &str, refunded: &str) {
        let payment = json!({
            "resource": "payment",
            "id": id,
            "mode": "live",
            "status": status,
            "amount": { "value": "10.00", "currency": "EUR" },
            "amountRefunded": { "value": refunded, "currency": "EUR" },
            "_embedded": { "refunds": [], "chargebacks": [] },
            "_links": { "self": { "href": unique() } },
        });
        self.0
            .lock()
            .unwrap()
            .payments
            .insert(id.to_owned(), payment);
    }

    fn answers(&self, status: Option<u16>) {
        self.0.lock().unwrap().status = status;
    }

    /// Returns the requests since the last call of this function.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

async fn serve(State(mollie): State<Mollie>, uri: Uri, headers: HeaderMap) -> impl IntoResponse {
    let mut api = mollie.0.lock().unwrap();
    let Some(id) = uri.path().strip_prefix("/v2/payments/") else {
        return (StatusCode::BAD_REQUEST, String::new());
    };
    api.asked.push(id.to_owned());
    let key = headers
        .get("authorization")
        .and_then(|key| key.to_str().ok());
    if key != Some(&format!("Bearer {API_KEY}")) {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    if let Some(status) = api.status {
        return (StatusCode::from_u16(status).unwrap(), String::new());
    }
    assert_eq!(uri.query(), Some("embed=refunds,chargebacks"));
    match api.payments.get(id) {
        Some(payment) => (StatusCode::OK, payment.to_string()),
        None => (StatusCode::NOT_FOUND, json!({ "status": 404 }).to_string()),
    }
}

struct World {
    inbox: Inbox,
    mollie: Mollie,
    folder: std::path::PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    async fn start() -> Self {
        let (mollie, url) = Mollie::start().await;
        let folder = std::env::temp_dir().join(format!("mitt-fetch-back-{}", unique()));
        std::fs::create_dir_all(&folder).unwrap();
        let sources = folder.join("sources.toml");
        let text = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n[[source]]\nname = \"{SOURCE}\"\n\
             preset = \"mollie\"\nvariant = \"classic\"\n\
             trust = {{ api_secret = \"mollie\", fetch_from = \"{url}\" }}\n\
             action = [{{ kind = \"keep\" }}]\n"
        );
        std::fs::write(&sources, text).unwrap();
        let inbox = Inbox::start(Options {
            sources_file: Some(sources),
            ..options()
        })
        .await;
        let path = inbox.stack.secrets_path("BackupSync").unwrap();
        let put = inbox.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/mollie/current"));
        let put = put.value(API_KEY).r#type(ParameterType::SecureString);
        put.send().await.unwrap();
        inbox.must_not_log(API_KEY);
        Self {
            inbox,
            mollie,
            folder,
        }
    }

    /// Sends a notice as Mollie posts it, and as anyone can post it.
    async fn notice(&self, id: &str) -> Answer {
        let form = headers(&[("content-type", "application/x-www-form-urlencoded")]);
        let body = format!("id={id}");
        self.inbox.post(SOURCE, &form, body.as_bytes()).await
    }

    async fn notice_from(&self, address: &str, id: &str) -> Answer {
        let form = headers(&[("content-type", "text/plain")]);
        let mut event = request("POST", &format!("/in/{SOURCE}"), &form);
        event["requestContext"]["http"]["sourceIp"] = address.into();
        event["body"] = format!("id={id}").into();
        self.inbox.catch(&event).await
    }

    async fn fetch(&self) -> Value {
        let task = json!({"task": "fetch"});
        self.inbox.invoke("BackupSync", &task).await.json().unwrap()
    }

    /// Returns the keys of all events, oldest first.
    async fn events(&self) -> Vec<EventKey> {
        let mut rows = self.rows("E#").await;
        rows.retain(|row| row["sk"].as_s().unwrap() == "M");
        rows.sort_by_key(|row| row["rcv"].as_n().unwrap().parse::<i64>().unwrap());
        let key = |row: &super::support::Item| EventKey::from_pk(row["pk"].as_s().unwrap());
        rows.iter().map(|row| key(row).unwrap()).collect()
    }

    async fn rows(&self, prefix: &str) -> Vec<super::support::Item> {
        #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
        let scan = self.inbox.stack.clients().dynamodb.scan();
        let scan = scan.table_name(self.inbox.stack.table().unwrap());
        let scan = scan
            .filter_expression("begins_with(pk, :prefix)")
            .expression_attribute_values(":prefix", s(prefix));
        let pages = scan.consistent_read(true).into_paginator().items().send();
        pages.try_collect().await.unwrap()
    }

    async fn waits(&self) -> usize {
        let rows = self.rows(&format!("F#{SOURCE}")).await;
        rows.iter()
            .filter(|row| row["sk"].as_s().unwrap().starts_with("W#"))
            .count()
    }

    /// Makes a failed fetch due again at once.
    async fn make_due(&self) {
        for mut row in self.rows(&format!("F#{SOURCE}")).await {
            if row.remove("try").is_some() {
                self.inbox.put(row).await;
            }
        }
    }
}

#[tokio::test]
async fn an_invented_name_never_becomes_an_event() {
    let world = World::start().await;
    for n in 0..3 {
        let answer = world.notice(&format!("tr_invented{n}")).await;
        assert!(answer.asks_for_another_try(), "{answer:?}");
    }
    assert_eq!(world.mollie.asked(), [""; 0], "the catcher never fetches");
    assert_eq!(world.events().await, []);
    let report = world.fetch().await;
    assert_eq!(
        (&report["asked"], &report["unknown"], &report["new"]),
        (&json!(3), &json!(3), &json!(0)),
        "{report}"
    );
    assert_eq!(world.events().await, []);
    // No object waits any more, and no notice was acknowledged.
    assert_eq!(world.waits().await, 0);
    assert_eq!(world.fetch().await["asked"], 0);
    let answer = world.notice("tr_invented0").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    // The catcher rejects an invalid payment id, and nothing requests it.
    for wrong in ["", "tr_", "ord_1", "tr_1%2F..", "tr_1%3Fa=b"] {
        let answer = world.notice(wrong).await;
        assert_eq!(answer.status, 401, "{wrong}: {answer:?}");
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_genuine_notice_is_one_event_made_of_the_answer() {
    let world = World::start().await;
    world.mollie.has("tr_genuine", "paid", "0.00");
    let answer = world.notice("tr_genuine").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    assert_eq!(world.events().await, []);
    let report = world.fetch().await;
    assert_eq!(
        (&report["asked"], &report["new"]),
        (&json!(1), &json!(1)),
        "{report}"
    );
    let events = world.events().await;
    let [event] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(event.id().starts_with("tr_genuine/"), "{event}");
    let row = world.inbox.row(event).await;
    assert_eq!(row["ty"].as_s().unwrap(), "payment.paid");
    assert_eq!(row["prv"].as_s().unwrap(), "origin");
    assert_eq!(row["via"].as_s().unwrap(), "backup_sync");
    let body: Value = serde_json::from_slice(&world.inbox.kept(event).await.unwrap()).unwrap();
    assert_eq!(
        (&body["id"], &body["status"]),
        (&json!("tr_genuine"), &json!("paid"))
    );

    // The provider retries. The catcher acknowledges the notice, and the same state is the same
    // event.
    world.mollie.has("tr_genuine", "paid", "0.00");
    let answer = world.notice("tr_genuine").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let report = world.fetch().await;
    assert_eq!(
        (&report["new"], &report["known"]),
        (&json!(0), &json!(1)),
        "{report}"
    );
    assert_eq!(world.events().await, events);

    // The processor processes the event once.
    let record = record("0", &work_message(event));
    assert_eq!(failures(&world.inbox, &[record]).await, [""; 0]);
    assert_eq!(world.inbox.row(event).await["st"].as_s().unwrap(), "done");

    // A partial refund does not change the status of the payment, but it is another event.
    world.mollie.has("tr_genuine", "paid", "5.00");
    assert_eq!(world.notice("tr_genuine").await.status, 200);
    assert_eq!(world.fetch().await["new"], 1);
    assert_eq!(world.events().await.len(), 2);
    assert_eq!(world.waits().await, 0);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_acknowledged_notice_survives_an_api_that_fails() {
    let world = World::start().await;
    world.mollie.has("tr_known", "open", "0.00");
    world.notice("tr_known").await;
    assert_eq!(world.fetch().await["new"], 1);

    world.mollie.has("tr_known", "paid", "0.00");
    assert_eq!(world.notice("tr_known").await.status, 200);
    let unknown = world.notice("tr_other").await;
    assert!(unknown.asks_for_another_try(), "{unknown:?}");
    for status in [401, 429, 500] {
        world.mollie.answers(Some(status));
        world.make_due().await;
        let report = world.fetch().await;
        assert_ne!(report["failed"], 0, "{status}: {report}");
        assert_eq!(report["new"], 0, "{status}: {report}");
        assert_eq!(world.waits().await, 2, "{status}: none is dropped");
    }
    // The object is not requested again before it is due.
    world.mollie.asked();
    world.fetch().await;
    assert_eq!(world.mollie.asked(), [""; 0]);

    world.mollie.answers(None);
    world.make_due().await;
    let report = world.fetch().await;
    assert_eq!(
        (&report["new"], &report["unknown"]),
        (&json!(1), &json!(1)),
        "{report}"
    );
    assert_eq!(world.events().await.len(), 2);
    assert_eq!(world.waits().await, 0);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_flood_of_names_does_not_keep_a_genuine_one_out() {
    let world = World::start().await;
    world.mollie.has("tr_genuine", "paid", "0.00");
    let most = usize::try_from(shared::inbox::fetch_back::PER_GROUP).unwrap();
    for n in 0..most + 10 {
        let answer = world
            .notice_from("198.51.100.7", &format!("tr_junk{n}"))
            .await;
        assert!(answer.asks_for_another_try(), "{answer:?}");
    }
    assert_eq!(
        world.waits().await,
        most,
        "the limit of one group of networks"
    );
    // Another network has its own limit.
    let answer = world.notice_from("203.0.113.9", "tr_genuine").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    assert_eq!(world.waits().await, most + 1);
    let report = world.fetch().await;
    assert_eq!(report["new"], 1, "{report}");
    let asked = world.mollie.asked();
    let place = asked.iter().position(|id| id == "tr_genuine").unwrap();
    assert!(place < 10, "the object waited for {place} invented ones");
    // The network can name objects again.
    assert_eq!(world.waits().await, 0);
    world.notice_from("198.51.100.7", "tr_another").await;
    assert_eq!(world.waits().await, 1);
}
