//! A running inbox, and senders that sign without the code under test.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use local::{Invocation, Options, Outcome, Stack};
use serde_json::{Value, json};
use sha2::Sha256;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::webhook::event::EventKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rights;

/// The throw-away secret that the files of `infra/events` are signed with. As base64 it is a key
/// of Standard Webhooks too.
pub(crate) const DEMO_SECRET: &str = "bWl0dC1kZW1vLXNlY3JldA==";

/// The secret of GitHub's published example.
pub(crate) const EVERYBODY: &str = "It's a Secret to Everybody";

/// Throw-away keys in hex, as Adyen gives them.
pub(crate) const ADYEN_KEYS: [&str; 2] = [
    "6d6974742d64656d6f2d61647965e26e",
    "6d6974742d64656d6f2d61647965e26f",
];

/// Name, slot and value of every secret.
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
    // Of nobody: neither may turn up anywhere.
    ("other", "current", "secret-of-another-source"),
    ("other", "previous", "older-secret-of-another-source"),
];

/// Headers as a sender gives them, repeated ones included.
pub(crate) type Headers = Vec<(String, String)>;

pub(crate) type Item = std::collections::HashMap<String, AttributeValue>;

/// The stack with its secrets, and what must not be found in its logs.
pub(crate) struct Inbox {
    pub(crate) stack: Stack,
    catcher: Mutex<Option<u32>>,
    canaries: Mutex<BTreeSet<String>>,
}

impl Inbox {
    /// The one that tests share while any of them runs.
    pub(crate) async fn shared() -> Arc<Self> {
        static SHARED: tokio::sync::Mutex<Weak<Inbox>> = tokio::sync::Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(inbox) = shared.upgrade() {
            return inbox;
        }
        let inbox = Arc::new(Self::start(options()).await);
        *shared = Arc::downgrade(&inbox);
        inbox
    }

    pub(crate) async fn start(options: Options) -> Self {
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

    /// A word for a body, that is in no log.
    pub(crate) fn canary(&self) -> String {
        let word = format!("canary-{}", unique());
        self.must_not_log(&word);
        word
    }

    pub(crate) fn must_not_log(&self, text: &str) {
        assert!(text.len() >= 8, "{text:?} may stand there by chance");
        self.canaries.lock().unwrap().insert(text.to_owned());
    }

    /// The catcher still is the process that it was at first, and no log tells a secret, a body
    /// or a signature.
    pub(crate) fn is_unharmed(&self) {
        let now = self.stack.function_processes("Catcher").unwrap();
        let first = self.catcher.lock().unwrap();
        // None was noted where a test speaks to the socket itself.
        if first.is_some() {
            assert_eq!(now, first.as_slice(), "the catcher was restarted");
        }
        self.tells_nothing();
    }

    /// No log tells a secret, a body or a signature.
    pub(crate) fn tells_nothing(&self) {
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

    /// Posts to a source over HTTP.
    pub(crate) async fn post(
        &self,
        source: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Answer {
        self.request("POST", &format!("/in/{source}"), headers, body)
            .await
    }

    pub(crate) async fn request(
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

    /// Hands an event to the catcher, past the HTTP front.
    pub(crate) async fn catch(&self, event: &Value) -> Answer {
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

    pub(crate) async fn invoke(&self, function: &str, event: &Value) -> Invocation {
        let invocation = self.stack.invoke(function, event).await.unwrap();
        self.note_process();
        invocation
    }

    /// The text of the error that the function answers with.
    pub(crate) async fn error(&self, function: &str, event: &Value) -> String {
        match self.invoke(function, event).await.outcome {
            Outcome::Failed(error) => error.to_string(),
            Outcome::Answered(answer) => panic!("{event} was answered: {answer:?}"),
        }
    }

    /// The next request meets a cold start.
    pub(crate) async fn kill_catcher(&self) {
        self.stack.kill_function_processes("Catcher").await.unwrap();
        *self.catcher.lock().unwrap() = None;
    }

    fn note_process(&self) {
        let now = self.stack.function_processes("Catcher").unwrap();
        let mut first = self.catcher.lock().unwrap();
        *first = first.or(now.first().copied());
    }

    /// A new event of GitHub, posted and kept.
    pub(crate) async fn new_event(&self) -> EventKey {
        let id = unique();
        let body = format!(r#"{{"word":"{}"}}"#, self.canary());
        let headers = self.github(&id, body.as_bytes());
        let answer = self.post("github-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new("github-main", &id)
    }

    /// What a sender adds to a request to `github-main`.
    pub(crate) fn github(&self, id: &str, body: &[u8]) -> Headers {
        let signature = hex(DEMO_SECRET.as_bytes(), &[body]);
        self.must_not_log(&signature);
        headers(&[
            ("content-type", "application/json"),
            ("x-github-delivery", id),
            ("x-github-event", "push"),
            ("x-hub-signature-256", &format!("sha256={signature}")),
        ])
    }

    /// The same for the sources whose scheme signs a time, whatever is given as one.
    pub(crate) fn timed(&self, source: &str, id: &str, at: &str, body: &[u8]) -> Headers {
        let secret = DEMO_SECRET.as_bytes();
        let at_dot = format!("{at}.");
        let given = match source {
            "stripe-main" => {
                let signature = hex(secret, &[at_dot.as_bytes(), body]);
                self.must_not_log(&signature);
                headers(&[("stripe-signature", &format!("t={at},v1={signature}"))])
            }
            "slack-main" => {
                let signature = hex(secret, &[format!("v0:{at}:").as_bytes(), body]);
                self.must_not_log(&signature);
                headers(&[
                    ("x-slack-request-timestamp", at),
                    ("x-slack-signature", &format!("v0={signature}")),
                ])
            }
            "standard-main" => {
                let key = STANDARD.decode(DEMO_SECRET).unwrap();
                let message = format!("{id}.{at}.");
                let signature = STANDARD.encode(mac(&key, &[message.as_bytes(), body]));
                self.must_not_log(&signature);
                headers(&[
                    ("webhook-id", id),
                    ("webhook-timestamp", at),
                    ("webhook-signature", &format!("v1,{signature}")),
                ])
            }
            _ => panic!("{source} signs no time"),
        };
        [given, headers(&[("content-type", "application/json")])].concat()
    }

    /// The exact bytes that were kept of an event.
    pub(crate) async fn kept(&self, key: &EventKey) -> Option<Bytes> {
        let body = self.ledger().event_body(key).await.unwrap()?;
        Some(body.expect("the body can be read").0)
    }

    /// The state row as it stands in the table.
    pub(crate) async fn row(&self, key: &EventKey) -> Item {
        self.find(key).await.expect("the event has a row")
    }

    pub(crate) async fn find(&self, key: &EventKey) -> Option<Item> {
        let get = self.stack.clients().dynamodb.get_item();
        let get = get
            .table_name(self.stack.table().unwrap())
            .consistent_read(true);
        let [pk, sk] = state_row(key);
        get.key("pk", pk).key("sk", sk).send().await.unwrap().item
    }

    pub(crate) async fn put(&self, item: Item) {
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

/// What a sender is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The sender is asked to try again.
    pub(crate) fn asks_for_another_try(&self) -> bool {
        self.status == 503 && self.header("retry-after").is_some()
    }
}

/// HTTP/1.1 on a socket, so that nothing is added to what is said here.
pub(crate) async fn http(
    front: &str,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Answer {
    use std::fmt::Write as _;
    let address = front.strip_prefix("http://").unwrap();
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    write!(
        head,
        "content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    // A refusal may come before all of the body is read.
    let _ = socket.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.expect("an answer has a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let (status, fields) = head.split_once("\r\n").unwrap();
    Answer {
        status: status.split(' ').nth(1).unwrap().parse().unwrap(),
        headers: fields
            .split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .filter(|(name, _)| name != "date")
            .collect(),
        body: bytes.split_off(end + 4).into(),
    }
}

/// A request as the HTTP API hands it to the catcher (payload format 2.0).
pub(crate) fn request(method: &str, path: &str, headers: &[(String, String)]) -> Value {
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

pub(crate) fn options() -> Options {
    Options {
        sources_file: Some(here().join("sources.toml")),
        // Messages stay where they are; the tests ring themselves.
        mappings: false,
        // So that a restart shows.
        max_processes: 1,
        rights: Some(rights::enforced()),
        ..Options::new(root().join("template.yaml"), binaries())
    }
}

pub(crate) fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions")
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Cargo builds the binaries of this package for its tests, but not those of the functions.
pub(crate) fn binaries() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_webhookctl"))
        .parent()
        .unwrap();
    for name in ["catcher", "processor", "backup-sync"] {
        let path = folder.join(name);
        assert!(
            path.exists(),
            "{} is missing: run `cargo build --workspace` first",
            path.display()
        );
    }
    folder.to_owned()
}

pub(crate) fn headers(headers: &[(&str, &str)]) -> Headers {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    headers.iter().map(owned).collect()
}

/// The headers with one of them changed, or added.
pub(crate) fn with(mut headers: Headers, name: &str, value: &str) -> Headers {
    headers.retain(|(known, _)| known != name);
    headers.push((name.to_owned(), value.to_owned()));
    headers
}

pub(crate) fn hex(key: &[u8], message: &[&[u8]]) -> String {
    hex::encode(mac(key, message))
}

pub(crate) fn mac(key: &[u8], message: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for piece in message {
        mac.update(piece);
    }
    mac.finalize().into_bytes().to_vec()
}

/// The time in seconds, and so many later.
pub(crate) fn seconds_from_now(later: i64) -> String {
    (UnixMillis::now().secs() + later).to_string()
}

pub(crate) fn unique() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    hex::encode(bytes)
}

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn state_row(key: &EventKey) -> [AttributeValue; 2] {
    [s(key.pk()), s("M")]
}
