//! A running inbox.

mod sender;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, Weak},
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use bytes::Bytes;
use local::{Invocation, Options, Outcome, Stack};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::webhook::event::EventKey;

use crate::{programs, rights, root, template};
pub use sender::{Answer, Headers, headers, hex, http, mac, with};

/// The test secret with which the files in `infra/events` are signed. The value is valid
/// base64, so it is also a valid Standard Webhooks key.
pub const DEMO_SECRET: &str = "bWl0dC1kZW1vLXNlY3JldA==";

/// The secret of GitHub's published example.
pub const EVERYBODY: &str = "It's a Secret to Everybody";

/// Test keys in hex, as Adyen issues them.
pub const ADYEN_KEYS: [&str; 2] = [
    "6d6974742d64656d6f2d61647965e26e",
    "6d6974742d64656d6f2d61647965e26f",
];

/// The name, slot and value of every secret.
const SECRETS: [(&str, &str, &str); 15] = [
    ("github-main", "current", DEMO_SECRET),
    ("stripe-main", "current", DEMO_SECRET),
    ("slack-main", "current", DEMO_SECRET),
    ("fireflies-main", "current", DEMO_SECRET),
    ("standard-main", "current", DEMO_SECRET),
    ("generic-main", "current", DEMO_SECRET),
    ("gocardless-main", "current", DEMO_SECRET),
    ("adyen-main", "current", ADYEN_KEYS[0]),
    ("adyen-main", "previous", ADYEN_KEYS[1]),
    ("github-vectors", "current", EVERYBODY),
    ("github-vectors", "previous", "mysecret"),
    ("fireflies-vectors", "current", "ff-A-16chars-min"),
    ("misconfigured", "current", "whsec_no/base64!at-all"),
    // Secrets that no sender uses. They must not appear in any log.
    ("other", "current", "secret-of-another-source"),
    ("other", "previous", "older-secret-of-another-source"),
];

pub type Item = std::collections::HashMap<String, AttributeValue>;

/// The stack with its secrets, and the texts that must not appear in its logs.
pub struct Inbox {
    pub stack: Stack,
    catcher: Mutex<Option<u32>>,
    canaries: Mutex<BTreeSet<String>>,
}

impl Inbox {
    /// Returns the inbox that all running tests share.
    pub async fn shared() -> Arc<Self> {
        static SHARED: tokio::sync::Mutex<Weak<Inbox>> = tokio::sync::Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(inbox) = shared.upgrade() {
            return inbox;
        }
        let inbox = Arc::new(Self::start(options()).await);
        *shared = Arc::downgrade(&inbox);
        inbox
    }

    pub async fn start(options: Options) -> Self {
        let stack = Stack::start(options).await.expect("the stack starts");
        let path = stack.secrets_path("Catcher").unwrap().to_owned();
        let ssm = stack.clients().ssm;
        for (name, slot, value) in SECRETS {
            let put = ssm.put_parameter().name(format!("{path}/{name}/{slot}"));
            put.value(value)
                .r#type(ParameterType::SecureString)
                .send()
                .await
                .unwrap();
        }
        let canaries = SECRETS.map(|(_, _, value)| value.to_owned());
        Self {
            stack,
            catcher: Mutex::default(),
            canaries: Mutex::new(canaries.into()),
        }
    }

    /// Returns a unique word to put into a body. The test fails if a log contains the word.
    pub fn canary(&self) -> String {
        let word = format!("canary-{}", unique());
        self.must_not_log(&word);
        word
    }

    pub fn must_not_log(&self, text: &str) {
        assert!(
            text.len() >= 8,
            "{text:?} is too short: a log can contain it by chance"
        );
        self.canaries.lock().unwrap().insert(text.to_owned());
    }

    /// Checks that the catcher is still the first process, and that no log contains a secret, a
    /// body or a signature.
    pub fn is_unharmed(&self) {
        let now = self.stack.function_processes("Catcher").unwrap();
        let first = self.catcher.lock().unwrap();
        // No process is recorded if a test writes directly to the socket.
        if first.is_some() {
            assert_eq!(now, first.as_slice(), "the catcher was restarted");
        }
        self.tells_nothing();
    }

    /// Checks that no log contains a secret, a body or a signature.
    pub fn tells_nothing(&self) {
        for function in ["Catcher", "Processor", "BackupSync"] {
            let log = self.stack.log_file(function).unwrap();
            let log = std::fs::read_to_string(log).unwrap_or_default();
            assert!(!log.contains("panicked"), "{log}");
            for canary in self.canaries.lock().unwrap().iter() {
                let at = log.find(canary.as_str());
                let around = at.map(|at| log[..at].chars().rev().take(300).collect::<String>());
                let around = around.map(|around| around.chars().rev().collect::<String>());
                assert_eq!(around, None, "{function} logged {canary:?} after this");
            }
        }
    }

    /// Posts a request to a source over HTTP.
    pub async fn post(&self, source: &str, headers: &[(String, String)], body: &[u8]) -> Answer {
        self.request("POST", &format!("/in/{source}"), headers, body)
            .await
    }

    pub async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Answer {
        let answer = http(&self.stack.front_url(), method, target, headers, body).await;
        self.note_process();
        answer
    }

    /// Passes an event to the catcher, without the HTTP API.
    pub async fn catch(&self, event: &Value) -> Answer {
        let answer = self.invoke("Catcher", event).await.json().unwrap();
        Answer {
            status: answer["statusCode"].as_u64().unwrap().try_into().unwrap(),
            headers: answer["headers"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            body: Bytes::copy_from_slice(answer["body"].as_str().unwrap().as_bytes()),
        }
    }

    pub async fn invoke(&self, function: &str, event: &Value) -> Invocation {
        let invocation = self.stack.invoke(function, event).await.unwrap();
        self.note_process();
        invocation
    }

    /// Returns the error text in the function's response.
    pub async fn error(&self, function: &str, event: &Value) -> String {
        match self.invoke(function, event).await.outcome {
            Outcome::Failed(error) => error.to_string(),
            Outcome::Answered(answer) => panic!("{event} was answered: {answer:?}"),
        }
    }

    /// Makes the next request a cold start.
    pub async fn kill_catcher(&self) {
        self.stack.kill_function_processes("Catcher").await.unwrap();
        *self.catcher.lock().unwrap() = None;
    }

    fn note_process(&self) {
        let now = self.stack.function_processes("Catcher").unwrap();
        let mut first = self.catcher.lock().unwrap();
        *first = first.or(now.first().copied());
    }

    /// Posts a new GitHub event, which must be stored.
    pub async fn new_event(&self) -> EventKey {
        let id = unique();
        let body = format!(r#"{{"word":"{}"}}"#, self.canary());
        let headers = self.github(&id, body.as_bytes());
        let answer = self.post("github-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new("github-main", &id)
    }

    /// Returns the stored bytes of an event.
    pub async fn kept(&self, key: &EventKey) -> Option<Bytes> {
        let body = self.ledger().event_body(key).await.unwrap()?;
        Some(body.expect("the body is readable").0)
    }

    /// Returns the state row of the event.
    pub async fn row(&self, key: &EventKey) -> Item {
        self.find(key).await.expect("the event has a row")
    }

    pub async fn find(&self, key: &EventKey) -> Option<Item> {
        let get = self.stack.clients().dynamodb.get_item();
        let get = get
            .table_name(self.stack.table().unwrap())
            .consistent_read(true);
        let [pk, sk] = state_row(key);
        get.key("pk", pk).key("sk", sk).send().await.unwrap().item
    }

    pub async fn put(&self, item: Item) {
        let put = self.stack.clients().dynamodb.put_item();
        let put = put.table_name(self.stack.table().unwrap());
        put.set_item(Some(item)).send().await.unwrap();
    }

    fn ledger(&self) -> Ledger {
        let clients = self.stack.clients();
        let bucket = self.stack.bucket("Bodies").unwrap().to_owned();
        let table = self.stack.table().unwrap();
        Ledger::new(clients.dynamodb, table, Some((clients.s3, bucket)))
    }
}

/// Returns a request as the HTTP API passes it to the catcher (payload format 2.0).
pub fn request(method: &str, path: &str, headers: &[(String, String)]) -> Value {
    let headers: BTreeMap<_, _> = headers.iter().cloned().collect();
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
            "http": { "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "test" },
            "requestId": "id=",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1_767_225_600_000_i64,
        },
        "isBase64Encoded": false,
    })
}

pub fn options() -> Options {
    Options {
        sources_file: Some(root().join("infra/testkit/sources.toml")),
        // Messages stay in the queues; the tests send their own.
        mappings: false,
        // With one process, a restart is visible.
        max_processes: 1,
        rights: Some(rights::enforced()),
        ..Options::new(template(), programs())
    }
}

/// Returns the current time plus this many seconds.
pub fn seconds_from_now(later: i64) -> String {
    (UnixMillis::now().secs() + later).to_string()
}

pub fn unique() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    hex::encode(bytes)
}

pub fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub fn state_row(key: &EventKey) -> [AttributeValue; 2] {
    [s(key.pk()), s("M")]
}

/// Returns the body of a message in the work queue.
pub fn work_message(key: &EventKey) -> String {
    json!({ "v": 1, "key": key.pk(), "run": 0 }).to_string()
}

pub fn record(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "handle",
        "body": body,
        "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": UnixMillis::now().0.to_string() },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:mitt-WorkQueue",
        "awsRegion": "us-east-1",
    })
}

/// Returns the ids of the messages that the queue will deliver again.
pub async fn failures(inbox: &Inbox, records: &[Value]) -> Vec<String> {
    let answer = inbox
        .invoke("Processor", &json!({ "Records": records }))
        .await
        .json()
        .unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    let ids = failures
        .iter()
        .map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned());
    ids.collect()
}
