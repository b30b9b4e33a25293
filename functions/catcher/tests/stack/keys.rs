//! Certificates and key sets. Only backup-sync fetches them, and only those that a preset allows. A
//! request that waits for one is not lost. This file also tests secrets that a handshake sets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, stream};
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::RejectedRequests;
use shared::webhook::event::EventKey;

use super::here;
use super::support::{Answer, Headers, Inbox, headers, hex, options, request, unique};

/// A request from the published file of test vectors.
struct Vector(Value);

impl Vector {
    fn find(id: &str) -> Self {
        let file = include_str!("../../../../shared/tests/data/vectors.json");
        let file: Value = serde_json::from_str(file).unwrap();
        let mut all = file["vectors"].as_array().unwrap().iter();
        Self(all.find(|vector| vector["id"] == id).unwrap().clone())
    }

    fn headers(&self) -> Headers {
        let pairs = self.0["request"]["headers"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
    }

    fn body(&self) -> Vec<u8> {
        let body = self.0["request"]["body_b64"].as_str().unwrap();
        STANDARD.decode(body).unwrap()
    }

    fn documents(&self) -> BTreeMap<String, String> {
        let certificates = self.0["params"]["certs"].as_object().into_iter().flatten();
        let path = |url: &str| url.splitn(4, '/').nth(3).map(|path| format!("/{path}"));
        certificates
            .map(|(url, pem)| (path(url).unwrap(), pem.as_str().unwrap().to_owned()))
            .collect()
    }
}

/// Plays the hosts of all providers, and records the requests.
#[derive(Clone, Default)]
struct Mirror(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    documents: BTreeMap<String, String>,
    paths: Vec<String>,
}

impl Mirror {
    async fn start(documents: BTreeMap<String, String>) -> (Self, String) {
        let mirror = Self::default();
        mirror.0.lock().unwrap().documents = documents;
        let router = Router::new().fallback(serve).with_state(mirror.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        (mirror, url)
    }

    /// Returns the requests since the last call of this function.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().paths)
    }
}

async fn serve(
    State(mirror): State<Mirror>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> impl IntoResponse {
    let mut asked = mirror.0.lock().unwrap();
    asked.paths.push(uri.to_string());
    // Some providers require this authorization.
    let authorization = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap());
    let allowed = match uri.path() {
        "/identity/v1/oauth2/token" => {
            authorization == Some(&format!("Basic {}", STANDARD.encode(CREDENTIALS)))
                && body.starts_with("grant_type=client_credentials&scope=")
        }
        path if path.contains("public_key") => authorization == Some("Bearer v^1.1#token"),
        "/webhook_verification_key/get" => {
            let asked: Value = serde_json::from_str(&body).unwrap();
            let (id, secret) = CREDENTIALS.split_once(':').unwrap();
            asked["client_id"] == id && asked["secret"] == secret && asked["key_id"] == PLAID_KID
        }
        _ => true,
    };
    if !allowed {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    match asked.documents.get(uri.path()) {
        Some(text) => (StatusCode::OK, text.clone()),
        None => (StatusCode::NOT_FOUND, String::new()),
    }
}

const CREDENTIALS: &str = "client-id:client-secret-of-the-api";
const PLAID_KID: &str = "bfbd5111-8e33-4643-8ced-b2e642a72f3c";

// The published example of eBay's own SDK.
// <https://github.com/eBay/event-notification-nodejs-sdk/blob/main/test/test.json>
const EBAY_HEADER: &str = "eyJhbGciOiJlY2RzYSIsImtpZCI6Ijk5MzYyNjFhLTdkN2ItNDYyMS1hMGYxLTk2Y2NiNDI4YWY0OSIsInNpZ25hdHVyZSI6Ik1FWUNJUUNmeGZJV3V4bVdjSUJRSjljNS9YN2lHREpxczJSQ0dzQkVhQWppbnlycmZBSWhBSVY2d0djVGlCdVY1S0pVaWYyaG9reXJMK1E5c3NIa2FkK214Mm5FRTI1dyIsImRpZ2VzdCI6IlNIQTEifQ==";
const EBAY_KID: &str = "9936261a-7d7b-4621-a0f1-96ccb428af49";
const EBAY_KEY: &str = "-----BEGIN PUBLIC KEY-----MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEZhhxXKtR+TOvtDbgTPCkSof02qgBB7IsYOyf76ilExJ/upAa/vKIKheOoCyOpcLmi4t0b4uepb7LLjmMr90FUg==-----END PUBLIC KEY-----";
const EBAY_BODY: &str = r#"{"metadata":{"topic":"MARKETPLACE_ACCOUNT_DELETION","schemaVersion":"1.0","deprecated":false},"notification":{"notificationId":"49feeaeb-4982-42d9-a377-9645b8479411_33f7e043-fed8-442b-9d44-791923bd9a6d","eventDate":"2021-03-19T20:43:59.462Z","publishDate":"2021-03-19T20:43:59.679Z","publishAttemptCount":1,"data":{"username":"test_user","userId":"ma8vp1jySJC","eiasToken":"nY+sHZ2PrBmdj6wVnY+sEZ2PrA2dj6wJnY+gAZGEpwmdj6x9nY+seQ=="}}}"#;

struct World {
    inbox: Inbox,
    mirror: Mirror,
    _folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl World {
    async fn start(options: Options) -> Self {
        let sns = Vector::find("sns/valid-v2#s");
        let paypal = Vector::find("paypal/valid#s");
        let mut documents = sns.documents();
        documents.extend(paypal.documents());
        let pubsub = Vector::find("google-pubsub/valid#s");
        let jwks = pubsub.0["params"]["jwks"].to_string();
        documents.insert("/oauth2/v3/certs".to_owned(), jwks);
        let plaid = Vector::find("plaid/valid#s");
        let key = json!({"key": plaid.0["params"]["jwks"]["keys"][0], "request_id": "r"});
        documents.insert("/webhook_verification_key/get".to_owned(), key.to_string());
        let token = json!({"access_token": "v^1.1#token", "expires_in": 7200});
        documents.insert("/identity/v1/oauth2/token".to_owned(), token.to_string());
        let key = json!({"key": EBAY_KEY, "algorithm": "ECDSA", "digest": "SHA1"});
        let path = format!("/commerce/notification/v1/public_key/{EBAY_KID}");
        documents.insert(path, key.to_string());
        // SNS answers a confirmation with XML.
        documents.insert("/".to_owned(), "<ConfirmSubscriptionResponse/>".to_owned());
        let (mirror, url) = Mirror::start(documents).await;
        let folder = Folder(std::env::temp_dir().join(format!("mitt-keys-{}", unique())));
        std::fs::create_dir_all(&folder.0).unwrap();
        let sources = folder.0.join("sources.toml");
        let text = std::fs::read_to_string(here().join("keys.toml")).unwrap();
        let roots = sns.0["params"]["roots_pem"].as_str().unwrap();
        let text = text.replace("{mirror}", &url).replace("{pem}", roots);
        std::fs::write(&sources, text).unwrap();
        let inbox = Inbox::start(Options {
            sources_file: Some(sources),
            ..options
        })
        .await;
        let world = Self {
            inbox,
            mirror,
            _folder: folder,
        };
        for (name, vector) in [("sns-main", &sns), ("paypal-main", &paypal)] {
            let secret = vector.0["secrets"][0].as_str().unwrap();
            world.put("Catcher", name, "current", secret).await;
        }
        for name in ["ebay", "plaid"] {
            world.put("BackupSync", name, "current", CREDENTIALS).await;
        }
        world.inbox.must_not_log("client-secret-of-the-api");
        world
    }

    async fn put(&self, function: &str, name: &str, slot: &str, value: &str) {
        let path = self.inbox.stack.secrets_path(function).unwrap();
        let ssm = self.inbox.stack.clients().ssm;
        let put = ssm.put_parameter().name(format!("{path}/{name}/{slot}"));
        let put = put.value(value).r#type(ParameterType::SecureString);
        put.send().await.unwrap();
    }

    async fn post(&self, source: &str, vector: &str) -> Answer {
        let vector = Vector::find(vector);
        let (headers, body) = (vector.headers(), vector.body());
        self.inbox.post(source, &headers, &body).await
    }

    /// Runs the task that the schedule runs every minute.
    async fn fetch_keys(&self) -> Value {
        let task = json!({"task": "keys"});
        let invocation = self.inbox.invoke("BackupSync", &task).await;
        invocation.json().unwrap()
    }

    async fn waiting(&self, source: &str) -> usize {
        let clients = self.inbox.stack.clients();
        let table = self.inbox.stack.table().unwrap();
        let quarantine = RejectedRequests::new(clients.dynamodb, table);
        let now = UnixMillis::now();
        let from = now - Duration::from_secs(3600);
        let held = quarantine.held(source, from, now, now).await.unwrap();
        let waits = |held: &&_| {
            let held: &shared::inbox::rejected::RejectedRequest = held;
            held.reason == "not_fetched" && held.released.is_none()
        };
        held.iter().filter(waits).count()
    }
}

#[tokio::test]
async fn a_webhook_waits_for_its_certificate_and_is_lost_no_more_than_any_other() {
    let world = World::start(options()).await;
    let key = EventKey::new("sns-main", "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324");

    let before = UnixMillis::now();
    let answer = world.post("sns-main", "sns/valid-v2#s").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    assert_eq!(world.waiting("sns-main").await, 1);
    assert_eq!(
        world.mirror.asked(),
        [] as [&str; 0],
        "the catcher never fetches"
    );
    assert_eq!(world.inbox.find(&key).await, None);

    // The request enters the inbox without a retry by the provider, as of its time of receipt.
    let report = world.fetch_keys().await;
    assert_eq!(
        (&report["released"], &report["waiting"]),
        (&json!(1), &json!(0)),
        "{report}"
    );
    let asked = world.mirror.asked();
    let path = "/SimpleNotificationService-0000000000000000000000.pem";
    assert!(asked.iter().any(|asked| asked == path), "{asked:?}");
    let row = world.inbox.row(&key).await;
    let received: i64 = row["rcv"].as_n().unwrap().parse().unwrap();
    assert!(received >= before.0 && received <= UnixMillis::now().0);
    assert_eq!(world.waiting("sns-main").await, 0);

    // After this, no request waits, and no document is fetched.
    world.inbox.kill_catcher().await;
    let answer = world.post("sns-main", "sns/valid-v1-sha1#s").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = world.post("sns-main", "sns/tampered-message#s").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let report = world.fetch_keys().await;
    assert_eq!(report["fetched"], 0, "{report}");
    assert_eq!(world.mirror.asked(), [] as [&str; 0]);

    let answer = world.post("paypal-main", "paypal/valid#s").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    assert_eq!(world.fetch_keys().await["released"], 1);
    let key = EventKey::new("paypal-main", "WH-2WR32451HC0233532-67976317FL4543714");
    assert!(world.inbox.find(&key).await.is_some());
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn what_a_request_names_is_fetched_only_where_the_provider_publishes() {
    let world = World::start(options()).await;
    world.fetch_keys().await;
    assert_eq!(
        world.mirror.asked(),
        ["/oauth2/v3/certs"],
        "a fixed URL is fetched in advance"
    );
    for trick in [
        "host-suffix",
        "http",
        "userinfo",
        "path-trick",
        "s3-bucket-named-sns",
    ] {
        let answer = world.post("sns-main", &format!("sns/cert-{trick}#s")).await;
        assert_eq!(answer.status, 401, "{trick}: {answer:?}");
    }
    // The SNS topic is not allowed, so the request causes no fetch.
    let answer = world.post("sns-main", "sns/foreign-topic#s").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let report = world.fetch_keys().await;
    assert_eq!(
        (&report["fetched"], &report["waiting"]),
        (&json!(0), &json!(0)),
        "{report}"
    );
    assert_eq!(world.mirror.asked(), [] as [&str; 0]);

    // The host is allowed, but the document does not exist. It is requested once, not in each run.
    let vector = Vector::find("paypal/valid#s");
    for n in 0..9 {
        let forged = vector
            .headers()
            .into_iter()
            .map(|(name, value)| match name.as_str() {
                "PAYPAL-CERT-URL" => (name, format!("{value}{n}")),
                _ => (name, value),
            });
        let forged: Headers = forged.collect();
        let answer = world
            .inbox
            .post("paypal-main", &forged, &vector.body())
            .await;
        assert!(answer.asks_for_another_try(), "{answer:?}");
    }
    let report = world.fetch_keys().await;
    assert_eq!(
        (&report["failed"], &report["waiting"]),
        // The quarantine keeps the requests for the first four documents that a sender names.
        (&json!(9), &json!(4)),
        "{report}"
    );
    assert_eq!(world.mirror.asked().len(), 9);
    world.fetch_keys().await;
    assert_eq!(world.mirror.asked(), [] as [&str; 0]);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn junk_keeps_no_certificate_from_being_fetched() {
    let world = World::start(options()).await;
    // The sender posts more requests than the source keeps in a day, and none of them names a
    // certificate.
    let junk: Vec<String> = (0..412).map(|n| format!("{{\"n\":{n}}}")).collect();
    let unsigned = headers(&[("content-type", "application/json")]);
    let post = |body: &String| {
        let body = body.clone();
        let (world, unsigned) = (&world, &unsigned);
        async move {
            let post = world.inbox.post("paypal-main", unsigned, body.as_bytes());
            post.await.status
        }
    };
    let answers: Vec<u16> = stream::iter(&junk)
        .map(post)
        .buffer_unordered(8)
        .collect()
        .await;
    assert!(answers.iter().all(|status| *status == 401), "{answers:?}");

    let answer = world.post("paypal-main", "paypal/valid#s").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    assert_eq!(world.waiting("paypal-main").await, 1);
    let report = world.fetch_keys().await;
    assert_eq!(report["released"], 1, "{report}");
    let key = EventKey::new("paypal-main", "WH-2WR32451HC0233532-67976317FL4543714");
    assert!(world.inbox.find(&key).await.is_some());
    world.inbox.is_unharmed();
}

/// Returns a request to a source of eBay that comes from this address and names this key.
fn of_ebay(address: &str, kid: &str) -> Value {
    let header = STANDARD.decode(EBAY_HEADER).unwrap();
    let mut header: Value = serde_json::from_slice(&header).unwrap();
    header["kid"] = json!(kid);
    let header = STANDARD.encode(header.to_string());
    let sent = headers(&[
        ("x-ebay-signature", &header),
        ("content-type", "application/json"),
        ("x-forwarded-for", address),
    ]);
    let mut event = request("POST", "/in/ebay-main", &sent);
    event["body"] = json!(EBAY_BODY);
    event
}

#[tokio::test]
async fn a_genuine_key_is_asked_for_whatever_strangers_name() {
    let world = World::start(options()).await;
    // Ten addresses each name more keys than allowed, and all of these keys sort before the genuine
    // one.
    for stranger in 0..10 {
        for n in 0..40 {
            let kid = format!("00000000-0000-4000-8000-{stranger:04}{n:08}");
            let event = of_ebay(&format!("198.51.100.{stranger}"), &kid);
            assert!(world.inbox.catch(&event).await.asks_for_another_try());
        }
    }
    let event = of_ebay("203.0.113.9", EBAY_KID);
    assert!(world.inbox.catch(&event).await.asks_for_another_try());
    let report = world.fetch_keys().await;
    assert_eq!(report["released"], 1, "{report}");
    // Each run requests at most this many keys of eBay. An unknown key costs two calls.
    let asked = world.mirror.asked();
    let asked = asked.iter().filter(|path| path.contains("public_key"));
    assert_eq!(asked.count(), 12);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_key_behind_junk_of_its_sender_waits_three_runs() {
    let world = World::start(options()).await;
    for n in 0..31 {
        let event = of_ebay("203.0.113.9", &format!("00000000-{n:04}"));
        assert!(world.inbox.catch(&event).await.asks_for_another_try());
    }
    let event = of_ebay("203.0.113.9", EBAY_KID);
    assert!(world.inbox.catch(&event).await.asks_for_another_try());
    let mut runs = 0;
    loop {
        runs += 1;
        world.fetch_keys().await;
        let asked = world.mirror.asked();
        if asked.iter().any(|path| path.ends_with(EBAY_KID)) {
            break;
        }
        assert!(runs < 3, "the key was not requested: {asked:?}");
    }
    assert_eq!(runs, 3);
    world.inbox.kill_catcher().await;
    let answer = world.inbox.catch(&event).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_token_is_judged_by_the_key_set_that_was_fetched() {
    let world = World::start(options()).await;
    let answer = world.post("pubsub-main", "google-pubsub/valid#s").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    let report = world.fetch_keys().await;
    assert_eq!(report["fetched"], 1, "{report}");
    // The published token is from 2024, so the catcher rejects the request once the key is fetched.
    assert_eq!(
        (&report["released"], &report["waiting"]),
        (&json!(0), &json!(0)),
        "{report}"
    );
    world.inbox.kill_catcher().await;
    let answer = world.post("pubsub-main", "google-pubsub/valid#s").await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn a_key_that_is_given_out_by_name_is_asked_for_with_credentials() {
    let world = World::start(options()).await;
    let signed = headers(&[("x-ebay-signature", EBAY_HEADER)]);
    let send = async || {
        world
            .inbox
            .post("ebay-main", &signed, EBAY_BODY.as_bytes())
            .await
    };
    let answer = send().await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    let answer = world.post("plaid-main", "plaid/valid#s").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    // The token of Plaid is from 2024. The token of eBay has no time.
    let report = world.fetch_keys().await;
    assert_eq!(
        (&report["released"], &report["waiting"]),
        (&json!(1), &json!(0)),
        "{report}"
    );
    assert_eq!(report["failed"], 0, "{report}");
    world.inbox.kill_catcher().await;
    let answer = send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = world.post("plaid-main", "plaid/valid#s").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let answer = world.post("plaid-main", "plaid/wrong-key#s").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_subscription_is_confirmed_once_it_is_kept() {
    let world = World::start(Options {
        mappings: true,
        ..options()
    })
    .await;
    let key = EventKey::new("sns-main", "165545c9-2a5c-472c-8df2-7ff2be2b3b1b");
    world.post("sns-main", "sns/valid-subscription#s").await;
    assert_eq!(world.fetch_keys().await["released"], 1);
    world.is_done(&key).await;
    let visits = |asked: Vec<String>| {
        let visits = asked
            .into_iter()
            .filter(|path| path.contains("ConfirmSubscription"));
        visits.collect::<Vec<_>>()
    };
    let confirm = "/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-east-1:123456789012:orders&Token=2336412f37";
    assert_eq!(visits(world.mirror.asked()), [confirm]);
    let row = world.inbox.row(&key).await;
    let effects = row["fx"].as_m().unwrap();
    assert!(effects.contains_key("confirm"), "{effects:?}");
    assert!(!effects.contains_key("keep"));
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_handshake_sets_the_secret_once_and_for_all() {
    let world = World::start(Options {
        parameters: [("AllowArming".to_owned(), "true".to_owned())].into(),
        ..options()
    })
    .await;
    let secrets = ["first-secret-of-asana", "second-secret-of-asana"];
    for secret in secrets {
        world.inbox.must_not_log(secret);
    }
    let hello = |secret: &str| headers(&[("x-hook-secret", secret)]);
    let answer = world
        .inbox
        .post("asana-main", &hello(secrets[0]), b"{}")
        .await;
    assert_eq!(
        (answer.status, answer.header("x-hook-secret")),
        (200, Some(secrets[0]))
    );
    // A second handshake changes nothing, in this process or in another one.
    for _ in 0..2 {
        let answer = world
            .inbox
            .post("asana-main", &hello(secrets[1]), b"{}")
            .await;
        assert_eq!((answer.status, answer.header("x-hook-secret")), (401, None));
        world.inbox.kill_catcher().await;
    }
    let body = br#"{"events":[{"action":"changed"}]}"#;
    for (secret, status) in [(secrets[0], 200), (secrets[1], 401)] {
        let signature = hex(secret.as_bytes(), &[body]);
        world.inbox.must_not_log(&signature);
        let signed = headers(&[("x-hook-signature", &signature)]);
        let answer = world.inbox.post("asana-main", &signed, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    // Two parallel handshakes both find no secret. The store accepts only the first write.
    let unknown = headers(&[("x-hook-signature", "00")]);
    let answer = world.inbox.post("asana-late", &unknown, body).await;
    assert!(answer.asks_for_another_try(), "no secret is stored yet");
    let late = world.put("Catcher", "asana-late", "handshake", secrets[0]);
    late.await;
    let answer = world
        .inbox
        .post("asana-late", &hello(secrets[1]), b"{}")
        .await;
    assert_eq!((answer.status, answer.header("x-hook-secret")), (401, None));
    world.inbox.tells_nothing();
}

impl World {
    async fn is_done(&self, key: &EventKey) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let row = self.inbox.row(key).await;
            let state = row["st"].as_s().unwrap();
            if state == "done" {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "it is still {state}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
