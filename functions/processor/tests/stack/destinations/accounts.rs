//! Events of many accounts behind one source: each reaches every destination with its account.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::webhook::event::EventKey;

use super::super::support::{DEMO_SECRET, headers, mac, unique, with};
use super::World;
use super::signing::SECRET;

const LAMBDA: &str = "/2015-03-31/functions/shops/invocations";

/// An account, and whether the signature covers it.
type Told = (String, bool);

impl World {
    /// Posts an order of a shop to a source, and returns its key.
    async fn order(&self, source: &str, shop: &str) -> EventKey {
        let id = unique();
        let body = json!({ "order": unique() }).to_string();
        let signature = STANDARD.encode(mac(DEMO_SECRET.as_bytes(), &[body.as_bytes()]));
        self.inbox.must_not_log(&signature);
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-shopify-hmac-sha256", &signature),
            ("x-shopify-event-id", &id),
            ("x-shopify-topic", "orders/create"),
            ("x-shopify-shop-domain", shop),
        ]);
        let answer = self.inbox.post(source, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new(source, &id)
    }

    /// Posts an event to the source `tenants`, at this path and query.
    async fn of_tenant(&self, at: &str) -> EventKey {
        let id = unique();
        let body = json!({ "a": unique() }).to_string();
        let headers = self.inbox.github(&id, body.as_bytes());
        let headers = with(headers, "x-github-event", "push");
        let to = format!("tenants{at}");
        let answer = self.inbox.post(&to, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new("tenants", &id)
    }

    /// Processes an event, which ends well.
    async fn run(&self, key: &EventKey) {
        self.server.forget();
        self.ring(&[key]).await;
        let fate = self.fate(key).await;
        assert_eq!(fate.state, "done", "{fate:?}");
    }

    /// The account in the headers of an HTTP request.
    fn http(&self, path: &str) -> Told {
        let call = self.server.only(path);
        let signed = match call.header("mitt-account-signed") {
            "yes" => true,
            "no" => false,
            other => panic!("{other:?}"),
        };
        (call.header("mitt-account").to_owned(), signed)
    }
}

fn in_document(document: &Value) -> Told {
    let account = &document["event"]["account"];
    let value = account["value"].as_str().unwrap();
    (value.to_owned(), account["signed"].as_bool().unwrap())
}

#[tokio::test]
async fn each_shop_of_an_app_reaches_the_handler_by_name() {
    let world = World::start(&["SQS"]).await;
    for shop in ["one.myshopify.com", "two.myshopify.com"] {
        let key = world.order("shops", shop).await;
        world.run(&key).await;
        let told = (shop.to_owned(), false);
        assert_eq!(world.http("/shops"), told);
        let lambda = world.server.only(LAMBDA).json();
        assert_eq!(in_document(&lambda), told);
        assert_eq!(lambda["request"]["headers"]["x-shopify-shop-domain"], shop);
        let sent = world.server.only("AmazonSQS.SendMessage").json();
        let attributes = &sent["MessageAttributes"];
        assert_eq!(attributes["Mitt-Account-Unsigned"]["StringValue"], shop);
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn the_route_of_each_shop_gets_the_request_of_shopify() {
    let world = World::start(&[]).await;
    for shop in ["one.myshopify.com", "two.myshopify.com"] {
        let key = world.order("shop-routes", shop).await;
        world.run(&key).await;
        let route = format!("/shop-routes/{shop}");
        assert_eq!(world.http(&route), (shop.to_owned(), false));
        let call = world.server.only(&route);
        let signature = STANDARD.encode(mac(SECRET.as_bytes(), &[call.body()]));
        for (name, value) in [
            ("x-shopify-shop-domain", shop),
            ("x-shopify-topic", "orders/create"),
            ("x-shopify-event-id", key.id()),
            ("x-shopify-hmac-sha256", &signature),
        ] {
            assert_eq!(call.header(name), value, "{name}");
        }
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_tenant_in_path_or_query_reaches_the_handler() {
    let world = World::start(&["SQS"]).await;
    for (at, tenant) in [
        ("/north/hooks", "north"),
        ("/south", "south"),
        ("?tenant=east", "east"),
        ("/north?tenant=east", "north"),
    ] {
        let key = world.of_tenant(at).await;
        world.run(&key).await;
        let told = (tenant.to_owned(), false);
        assert_eq!(world.http("/tenants"), told, "{at}");
        let put = world.server.only("AWSEvents.PutEvents").json();
        let detail = put["Entries"][0]["Detail"].as_str().unwrap();
        let started = world.server.only("AWSStepFunctions.StartExecution").json();
        let input = started["input"].as_str().unwrap();
        for document in [detail, input] {
            let document: Value = serde_json::from_str(document).unwrap();
            assert_eq!(in_document(&document), told, "{at}");
        }
    }
}

#[tokio::test]
async fn an_event_without_an_account_has_no_header_for_it() {
    let world = World::start(&["SQS"]).await;
    let key = world.of_tenant("").await;
    world.run(&key).await;
    let call = world.server.only("/tenants");
    for name in ["mitt-account", "mitt-account-signed"] {
        assert_eq!(call.find(name), None, "{name}");
    }
}
