//! An in-memory DynamoDB, SQS and Parameter Store, and a destination, on one local port. The stores
//! count their requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use md5::{Digest as _, Md5};
use rustls::ServerConfig;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use simulation::rng::Dice;
use simulation::wire::dynamodb::{Refusal, Table};
use simulation::wire::sqs::{Message, Name, Queues, VISIBILITY_MS};

use crate::http::{self, Message as Http};
use crate::item::{Item, size, units, written};
use crate::webhook::{SECRET, SOURCE};

/// The names of the sender and of the destination, under which their secrets are stored.
const SECRETS: [&str; 2] = [SOURCE, "destination"];

#[derive(Clone)]
pub(crate) struct Stores {
    /// The URL of all services. Each request names its service.
    pub(crate) url: String,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    table: Table,
    queues: Queues,
    dice: Dice,
    tally: Tally,
    /// The time of each event's effect, by event id.
    effects: HashMap<String, Instant>,
    unsupported: Vec<String>,
}

/// Counts since the last call of `take_tally`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) table: u64,
    pub(crate) queue: u64,
    pub(crate) parameters: u64,
    pub(crate) destination: u64,
    pub(crate) write_units: u64,
}

impl Stores {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut table = Table::new(None);
        table.index_lag_ms = 0;
        let inner = Arc::new(Mutex::new(Inner {
            table,
            queues: Queues::default(),
            dice: Dice::new(1, 1),
            tally: Tally::default(),
            effects: HashMap::new(),
            unsupported: Vec::new(),
        }));
        let served = Arc::clone(&inner);
        let address = http::serve(move |request| Some(locked(&served).answer(request)))?;
        Ok(Self {
            url: format!("http://{address}"),
            inner,
        })
    }

    /// Serves the same stores also with TLS, on another port. Returns the URL.
    pub(crate) fn serve_tls(&self, tls: Arc<ServerConfig>) -> std::io::Result<String> {
        let served = Arc::clone(&self.inner);
        let answer = move |request: &Http| Some(locked(&served).answer(request));
        Ok(format!("https://{}", http::serve_tls(tls, answer)?))
    }

    pub(crate) fn take_tally(&self) -> Tally {
        std::mem::take(&mut locked(&self.inner).tally)
    }

    /// Receives messages as the event source mapping does.
    pub(crate) fn receive(&self, most: usize) -> Vec<Message> {
        let inner = &mut *locked(&self.inner);
        let work_messages = inner.queues.get(Name::Work);
        work_messages.receive(most, UnixMillis::now().0, VISIBILITY_MS, &mut inner.dice)
    }

    pub(crate) fn delete(&self, messages: &[Message]) {
        let mut inner = locked(&self.inner);
        for message in messages {
            inner.queues.get(Name::Work).delete(message);
        }
    }

    pub(crate) fn effects(&self) -> HashMap<String, Instant> {
        locked(&self.inner).effects.clone()
    }

    pub(crate) fn has_effect(&self, id: &str) -> bool {
        locked(&self.inner).effects.contains_key(id)
    }

    /// Returns the number of events that had an effect.
    pub(crate) fn effect_count(&self) -> usize {
        locked(&self.inner).effects.len()
    }

    /// Returns the number of events whose state row has the state `done`.
    pub(crate) fn done(&self) -> usize {
        let inner = locked(&self.inner);
        let rows = inner.table.state_rows().into_iter();
        let is_done = |item: &Item| item.get("st").and_then(|st| st.text()) == Some("done");
        rows.filter(|(_, item)| is_done(item)).count()
    }

    /// Fails if the stores received an unsupported request, because the figures would then be
    /// meaningless.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let inner = locked(&self.inner);
        anyhow::ensure!(
            inner.unsupported.is_empty(),
            "the stores received unsupported requests: {}",
            inner.unsupported.join(", ")
        );
        Ok(())
    }
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn answer(&mut self, request: &Http) -> Http {
        match request.operation() {
            Some(("DynamoDB_20120810", operation)) => self.table(operation, &request.body),
            Some(("AmazonSQS", operation)) => self.queue(operation, &request.body),
            Some(("AmazonSSM", "GetParametersByPath")) => self.parameters(&request.body),
            _ if request.path() == "/hooks" => self.effect(&request.body),
            _ => {
                let target = request.header("x-amz-target").unwrap_or_default();
                let (method, path) = (request.method(), request.path());
                self.unsupported(format!("{method} {path} {target}"))
            }
        }
    }

    fn table(&mut self, operation: &str, body: &[u8]) -> Http {
        self.tally.table += 1;
        let answer = self.table.answer(operation, body, UnixMillis::now().0);
        let changes = std::mem::take(&mut self.table.changed);
        let writes = ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];
        match answer {
            Ok(body) => {
                let in_transaction = operation == "TransactWriteItems";
                self.tally.write_units += written(&changes, in_transaction);
                Http::response(200, body)
            }
            Err(Refusal::Unknown(what) | Refusal::Invalid(what)) => self.unsupported(what),
            Err(refusal) => {
                // AWS bills a rejected write by the size of the existing item.
                if let Refusal::Condition(there) = &refusal
                    && writes.contains(&operation)
                {
                    self.tally.write_units += units(there.as_ref().map_or(0, size));
                }
                Http::response(400, refusal.body())
            }
        }
    }

    fn queue(&mut self, operation: &str, body: &[u8]) -> Http {
        self.tally.queue += 1;
        let now = UnixMillis::now().0;
        match self.queues.answer(operation, body, now, &mut self.dice) {
            Ok(done) => Http::response(200, with_digest(&done.answer, body)),
            Err(what) => self.unsupported(format!("SQS: {what}")),
        }
    }

    fn parameters(&mut self, body: &[u8]) -> Http {
        self.tally.parameters += 1;
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let path = asked["Path"].as_str().unwrap_or_default();
        let path = path.trim_end_matches('/');
        // The path of one secret, or of all secrets.
        let one = SECRETS
            .iter()
            .any(|name| path.ends_with(&format!("/{name}")));
        let names = if one {
            vec![format!("{path}/current")]
        } else {
            SECRETS
                .map(|name| format!("{path}/{name}/current"))
                .to_vec()
        };
        let parameters = names.iter().map(|name| {
            json!({"Name": name, "Type": "SecureString", "Value": SECRET, "Version": 1,
                "LastModifiedDate": 1_767_000_000})
        });
        let parameters: Vec<Value> = parameters.collect();
        Http::response(200, json!({ "Parameters": parameters }).to_string())
    }

    fn effect(&mut self, body: &[u8]) -> Http {
        self.tally.destination += 1;
        let event: Value = serde_json::from_slice(body).unwrap_or_default();
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        self.effects.insert(id, Instant::now());
        Http::response(200, "")
    }

    fn unsupported(&mut self, what: String) -> Http {
        let body = json!({ "__type": "ValidationException", "message": what }).to_string();
        self.unsupported.push(what);
        Http::response(400, body)
    }
}

/// Adds the MD5 of the message to the answer. SQS returns it, and some clients compare it.
fn with_digest(answer: &str, request: &[u8]) -> String {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let mut answer: Value = serde_json::from_str(answer).unwrap_or_default();
    if let Some(body) = request["MessageBody"].as_str() {
        answer["MD5OfMessageBody"] = hex::encode(Md5::digest(body)).into();
    }
    answer.to_string()
}
