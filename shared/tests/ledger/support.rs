//! Creates a ledger on a new table, reads the stored rows, and creates events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_types::retry::RetryConfig;
use bytes::Bytes;
use local::clients::{self, Endpoints};
use local::names::{ACCESS_KEY, REGION, SECRET_KEY};
use local::preflight::preflight;
use local::{Emulators, Naming, Template, create_table};
use shared::aws::secrets::Secret;
use shared::aws::{Aws, CallPolicy, TableClient};
use shared::base::clock::UnixMillis;
use shared::base::env::env_var;
use shared::base::timing::LEASE;
use shared::inbox::Inbox;
use shared::inbox::ledger::{Claim, Item, Lease, Ledger, Settled, Settlement, StoredBody};
use shared::inbox::queue::Queue;
use shared::inbox::spill::{Spill, Spilled};
use shared::webhook::envelope::Envelope;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use shared::webhook::preset::Preset;
use shared::webhook::sign::sign;
use shared::webhook::verify::{Arrival, Trust, Verifier};

use crate::cut::Cut;
use crate::proxy::Proxy;

/// The time of the tests. It is so late that no emulator treats a row as expired.
pub(crate) const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

/// The number of attempts of a run.
pub(crate) const ATTEMPTS: u32 = 10;

/// The secret of the requests of [`signed`].
const SECRET: &str = "whsec_dGhyb3ctYXdheSBzZWNyZXQ=";

pub(crate) fn after(ms: u64) -> UnixMillis {
    NOW + Duration::from_millis(ms)
}

/// Returns the end of a lease that began at [`NOW`].
pub(crate) fn lease_end() -> UnixMillis {
    NOW + LEASE
}

/// Returns the time when another worker can take over a lease that began at [`NOW`].
pub(crate) fn lease_over() -> UnixMillis {
    lease_end() + Duration::from_millis(5_001)
}

/// The services that all tests share. They stop after the last test.
struct Services {
    endpoints: Endpoints,
    _emulators: Option<Emulators>,
}

fn services() -> Arc<Services> {
    static RUNNING: Mutex<Weak<Services>> = Mutex::new(Weak::new());
    static PREFLIGHT: OnceLock<Result<(), String>> = OnceLock::new();
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let services = running.upgrade().unwrap_or_else(|| {
        Arc::new(if let Some(url) = env_var("AWS_ENDPOINT_URL") {
            Services {
                endpoints: Endpoints::all_at(&url),
                _emulators: None,
            }
        } else {
            let emulators = Emulators::start(None).expect("the emulators start");
            Services {
                endpoints: emulators.endpoints().clone(),
                _emulators: Some(emulators),
            }
        })
    });
    *running = Arc::downgrade(&services);
    let proof = PREFLIGHT.get_or_init(|| {
        let endpoints = services.endpoints.clone();
        apart(async move {
            let report = preflight(&endpoints.clients()).await;
            report.map(|_| ()).map_err(|error| format!("{error:#}"))
        })
    });
    if let Err(error) = proof {
        panic!("the emulator failed its checks: {error}");
    }
    services
}

/// Returns whether the emulator is the embedded emulator. Other emulators do not report every cost.
pub(crate) fn is_embedded() -> bool {
    env_var("AWS_ENDPOINT_URL").is_none()
}

/// Runs `work` on a separate runtime, even if another runtime is active.
fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime starts");
        runtime.block_on(Box::pin(work))
    });
    thread.join().expect("the thread does not panic")
}

/// The table of one test. Dropping this value deletes the table.
pub(crate) struct Table {
    pub(crate) ledger: Ledger,
    pub(crate) db: aws_sdk_dynamodb::Client,
    pub(crate) name: String,
    pub(crate) bucket: Option<(aws_sdk_s3::Client, String)>,
    services: Arc<Services>,
}

impl Table {
    pub(crate) async fn fresh() -> Self {
        let services = services();
        let db = quick(&services.endpoints.dynamodb);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml");
        let template = Template::load(Path::new(path), &Naming::default()).unwrap();
        let name = format!("ledger-{}", hex::encode(random::<8>()));
        let definition = template.table_definition().unwrap();
        Box::pin(create_table(&db, definition, &name))
            .await
            .unwrap();
        Self {
            ledger: Ledger::new(table_client(&services.endpoints.dynamodb), &name, None),
            db,
            name,
            bucket: None,
            services,
        }
    }

    pub(crate) async fn with_bucket() -> Self {
        let mut table = Self::fresh().await;
        let s3 = clients::s3(&table.services.endpoints.s3);
        let bucket = table.name.clone();
        s3.create_bucket().bucket(&bucket).send().await.unwrap();
        table.bucket = Some((s3, bucket));
        let client = table_client(&table.services.endpoints.dynamodb);
        table.ledger = Ledger::new(client, &table.name, table.bucket.clone());
        table
    }

    /// Returns a proxy in front of the emulator, and a ledger that uses the proxy.
    pub(crate) async fn through_proxy(&self) -> (Proxy, Ledger) {
        let proxy = Proxy::start(&self.services.endpoints.dynamodb).await;
        let ledger = Ledger::new(table_client(&proxy.url), &self.name, self.bucket.clone());
        (proxy, ledger)
    }

    /// Returns an inbox with this ledger and with a queue without consumers.
    pub(crate) fn inbox(&self, ledger: Ledger) -> Inbox {
        let sqs = self.services.endpoints.clients().sqs;
        let queue = Queue::new(sqs, "http://127.0.0.1:9/unknown");
        Inbox { ledger, queue }
    }

    /// Returns an event with a stored body, as it is received from a spill queue.
    pub(crate) async fn spilled(&self, event: Event, placed: StoredBody) -> Spilled {
        let sqs = self.services.endpoints.clients().sqs;
        let made = sqs.create_queue().queue_name(&self.name).send().await;
        let url = made.unwrap().queue_url.unwrap();
        let spill = Spill::new(sqs.clone(), &url);
        let messages = spill.messages(&[Spilled::new(event, Some(placed))]);
        spill.send(messages.unwrap()).await.unwrap();
        let message = spill.receive(NOW).await.unwrap().remove(0);
        sqs.delete_queue().queue_url(url).send().await.unwrap();
        message.events.unwrap().remove(0)
    }

    pub(crate) async fn item(&self, pk: &str, sk: &str) -> Option<Item> {
        let request = self.db.get_item().table_name(&self.name);
        let request = request.key("pk", s(pk)).key("sk", s(sk));
        request.consistent_read(true).send().await.unwrap().item
    }

    /// Returns the stored state row.
    pub(crate) async fn row(&self, key: &EventKey) -> Item {
        let row = self.item(&key.pk(), "M").await;
        row.unwrap_or_else(|| panic!("there is no row for {key}"))
    }

    pub(crate) async fn put(&self, item: Item) {
        let request = self.db.put_item().table_name(&self.name);
        request.set_item(Some(item)).send().await.unwrap();
    }

    pub(crate) async fn delete(&self, pk: &str, sk: &str) {
        let request = self.db.delete_item().table_name(&self.name);
        let request = request.key("pk", s(pk)).key("sk", s(sk));
        request.send().await.unwrap();
    }

    /// Changes the stored state row directly, without the ledger.
    pub(crate) async fn edit(&self, key: &EventKey, edit: impl FnOnce(&mut Item)) -> Item {
        let mut row = self.row(key).await;
        edit(&mut row);
        self.put(row.clone()).await;
        row
    }

    /// Returns all items of a small table.
    pub(crate) async fn all(&self) -> Vec<Item> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test may look at the whole table"
        )]
        let scan = self.db.scan();
        let request = scan.table_name(&self.name).consistent_read(true);
        request.send().await.unwrap().items.unwrap_or_default()
    }

    /// Returns the partition keys of the rows in one partition of an index.
    pub(crate) async fn index(&self, index: &str, hash: &str, part: &str) -> Vec<String> {
        let request = self.db.query().table_name(&self.name).index_name(index);
        let answer = request
            .key_condition_expression("#hash = :part")
            .expression_attribute_names("#hash", hash)
            .expression_attribute_values(":part", s(part))
            .send()
            .await
            .unwrap();
        let keys = answer.items().iter().map(|item| text(item, "pk"));
        keys.collect()
    }

    /// Receives an event at [`NOW`].
    pub(crate) async fn receive(&self, event: &Event) -> EventKey {
        self.ledger.receive(event, NOW).await.unwrap();
        event.key().clone()
    }

    pub(crate) async fn claim(&self, key: &EventKey, now: UnixMillis) -> Claim {
        self.claim_of(key, now, ATTEMPTS).await
    }

    pub(crate) async fn claim_of(&self, key: &EventKey, now: UnixMillis, attempts: u32) -> Claim {
        let claim = self.ledger.claim(key, "worker", now, LEASE, attempts).await;
        claim.unwrap()
    }

    /// Claims a free event at `now`.
    pub(crate) async fn lease(&self, key: &EventKey, now: UnixMillis) -> Lease {
        leased(self.claim(key, now).await)
    }

    pub(crate) async fn settle(&self, lease: Lease, settlement: Settlement) -> Settled {
        let settled = self.ledger.settle(lease, settlement, &[], after(1_000));
        settled.await.unwrap()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let (endpoints, name) = (self.services.endpoints.clone(), self.name.clone());
        let bucket = self.bucket.take().map(|(_, name)| name);
        // The deletion needs a separate runtime, because the test's runtime may have stopped or may
        // be failing.
        apart(async move {
            let clients = endpoints.clients();
            let _ = clients
                .dynamodb
                .delete_table()
                .table_name(name)
                .send()
                .await;
            let Some(bucket) = bucket else { return };
            let listed = clients.s3.list_objects_v2().bucket(&bucket).send().await;
            for object in listed
                .iter()
                .flat_map(aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output::contents)
            {
                let request = clients.s3.delete_object().bucket(&bucket);
                let _ = request.set_key(object.key.clone()).send().await;
            }
            let _ = clients.s3.delete_bucket().bucket(&bucket).send().await;
        });
    }
}

/// Returns a client with the usual number of attempts, but with shorter waits.
pub(crate) fn quick(url: &str) -> aws_sdk_dynamodb::Client {
    let retries = RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(5));
    let config = clients::dynamodb(url).config().to_builder();
    aws_sdk_dynamodb::Client::from_conf(config.retry_config(retries).interceptor(Cut).build())
}

/// Returns the client of the functions, which sends the frequent calls directly. For
/// `infra/tests/clauses.py`, returns a client of the SDK that changes conditions.
pub(crate) fn table_client(url: &str) -> TableClient {
    if env_var("MITT_CUT").is_some() || env_var("MITT_SEEN").is_some() {
        return quick(url).into();
    }
    let credentials = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
    let endpoint = Some(url.to_owned());
    Aws::new(REGION.to_owned(), credentials, endpoint, CallPolicy::LONG).table()
}

pub(crate) fn leased(claim: Claim) -> Lease {
    match claim {
        Claim::Leased(lease) => *lease,
        other => panic!("expected a lease, got {other:?}"),
    }
}

pub(crate) fn retry_at(due: UnixMillis) -> Settlement {
    Settlement::Retry {
        error: "502".into(),
        due,
        resend_after: None,
    }
}

pub(crate) fn dead() -> Settlement {
    Settlement::DeadLetter {
        reason: "permanent",
        error: "404".into(),
    }
}

/// Returns a small event that arrives by webhook.
pub(crate) fn event(id: &str) -> Event {
    event_with(id, Via::Webhook, format!("{{\"id\":\"{id}\"}}"))
}

pub(crate) fn event_with(id: &str, via: Via, body: impl Into<Bytes>) -> Event {
    fetched("stripe-main", id, via, body)
}

/// Returns an event of this source that arrives by webhook.
pub(crate) fn event_of(source: &str, id: &str, body: impl Into<Bytes>) -> Event {
    fetched(source, id, Via::Webhook, body)
}

fn fetched(source: &str, id: &str, via: Via, body: impl Into<Bytes>) -> Event {
    Event::fetched(Fetched {
        source,
        provider: "stripe",
        preset: "stripe",
        id,
        kind: "invoice.paid",
        body: body.into(),
        now: NOW,
        via,
        config: "0123456789ab",
    })
}

/// Returns the event that verification creates from a request that is signed at [`NOW`].
pub(crate) fn signed(preset: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Event {
    signed_at(NOW, preset, headers, body)
}

/// Like [`signed`], for a request that is signed and received at `at`.
pub(crate) fn signed_at(
    at: UnixMillis,
    preset: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Event {
    let secret = Secret::new("current.1", SECRET);
    let verifier = Verifier {
        source: format!("{preset}-main"),
        preset: Preset::embedded(preset, &BTreeMap::new()).unwrap(),
        variant: "default".into(),
        trust: Trust::default(),
        config: "0123456789ab".into(),
    };
    let mut envelope = Envelope {
        method: "POST".into(),
        url: format!("https://hooks.example.test/in/{preset}-main"),
        headers: headers.iter().copied().collect(),
        body: body.into(),
        received_at: at,
    };
    let scheme = verifier.preset.scheme("default").unwrap();
    let proof = sign(scheme, &secret, &envelope, at).unwrap();
    let proof = proof.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    envelope.headers = headers.iter().copied().chain(proof).collect();
    match verifier.verify(&envelope, &[secret]) {
        Ok(Arrival::Event(event)) => *event,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn github(delivery: &str, body: &str) -> Event {
    let headers = [("x-github-event", "push"), ("x-github-delivery", delivery)];
    signed("github", &headers, body.to_owned())
}

/// Returns bytes that cannot be compressed.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    getrandom::fill(&mut noise).unwrap();
    noise
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl std::fmt::Display) -> AttributeValue {
    AttributeValue::N(format!("{number}"))
}

pub(crate) fn ms(time: UnixMillis) -> AttributeValue {
    n(time.0)
}

pub(crate) fn text(item: &Item, name: &str) -> String {
    match item.get(name) {
        Some(AttributeValue::S(text)) => text.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

pub(crate) fn number(item: &Item, name: &str) -> i64 {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap(),
        other => panic!("{name} is {other:?}"),
    }
}
