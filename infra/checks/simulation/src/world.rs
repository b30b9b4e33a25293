//! Everything outside the production code: the stores, the destination, random faults, and an
//! observer of all of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use crate::agents::Tracker;
use crate::clock;
use crate::crash_injection::Role;
use crate::destination::Destination;
use crate::observer::Witness;
use crate::rng::Dice;
use crate::scenario::{Scenario, Without};
use crate::webhook;
use crate::wire::dynamodb::{Refusal, Table, Value};
use crate::wire::fate::{Down, Fate, Service};
use crate::wire::sqs::{Name, Queues};
use crate::wire::{Call, Reply};

/// The path of all secrets.
pub const SECRETS_PATH: &str = "/simulated";

pub struct World {
    pub scenario: Scenario,
    pub table: Table,
    pub queues: Queues,
    /// A signal that a message was sent.
    pub rung: Arc<Notify>,
    /// The number of messages that a processor moved to the backlog queue.
    pub moved: u64,
    pub secrets: BTreeMap<String, String>,
    objects: HashMap<String, Vec<u8>>,
    pub destination: Destination,
    pub tracker: Tracker,
    pub witness: Witness,
    pub dice: Dice,
    /// A hash over all events of the run, in their order.
    pub trace: u64,
    /// The number of calls to stores.
    pub calls: u64,
    invocations: u64,
    /// Requests that the simulated stores do not support. The list must be empty.
    pub unknown: Vec<String>,
}

/// The shared world. Only one thread uses it, so the lock is never contended.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    pub fn new(scenario: Scenario) -> Self {
        Self(Arc::new(Mutex::new(World::new(scenario))))
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    fn new(scenario: Scenario) -> Self {
        Self {
            table: Table::new(scenario.weakness),
            queues: Queues::default(),
            rung: Arc::default(),
            moved: 0,
            secrets: BTreeMap::new(),
            objects: HashMap::new(),
            destination: Destination::new(&scenario),
            tracker: Tracker::default(),
            witness: Witness::of(&scenario),
            dice: Dice::new(scenario.seed, 1),
            trace: 0xcbf2_9ce4_8422_2325,
            calls: 0,
            invocations: 0,
            unknown: Vec::new(),
            scenario,
        }
    }

    /// Records the answer to a genuine sender. Without a stranger, only a fault of the inbox
    /// rejects a genuine request.
    pub fn told(&mut self, event: usize, status: Option<u16>) {
        if self.scenario.stranger.is_some() {
            let kid = webhook::source_of(&self.scenario, event) == webhook::EBAY;
            let kid = kid.then(|| webhook::kid_of(&self.scenario, event));
            self.witness.told(status, kid);
        }
    }

    /// Returns the number of a new invocation, starting at 1.
    pub fn next_invocation(&mut self) -> u64 {
        self.invocations += 1;
        self.invocations
    }

    /// Returns the fault of a call, if any, and its latency.
    pub fn fate(&mut self, service: Service) -> (Fate, Duration) {
        self.calls += 1;
        let latency = Duration::from_millis(self.dice.between(1, self.scenario.latency_ms));
        if self.is_down(Down::Service(service)) {
            let fate = if self.dice.hits(5_000) {
                Fate::Hangs
            } else {
                Fate::Refused(500, "InternalServerError")
            };
            return (fate, latency);
        }
        (self.scenario.odds.draw(service, &mut self.dice), latency)
    }

    pub fn is_down(&self, what: Down) -> bool {
        let now = i64::try_from(clock::elapsed().as_millis()).unwrap_or(i64::MAX);
        self.scenario
            .outages
            .iter()
            .any(|outage| outage.covers(what, now))
    }

    /// Executes a call.
    pub fn apply(&mut self, call: &Call) -> Reply {
        let now = clock::true_ms();
        let reply = match call.service {
            Service::DynamoDb => self.dynamodb(call, now),
            Service::Sqs => self.sqs(call, now),
            Service::Ssm => self.ssm(call),
            Service::S3 => self.s3(call),
        };
        self.note(
            format!(
                "{now} {:?} {} {}",
                call.service, call.operation, reply.status
            )
            .as_bytes(),
        );
        reply
    }

    /// Adds to the hash over all events of the run.
    pub fn note(&mut self, what: &[u8]) {
        for byte in what {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn dynamodb(&mut self, call: &Call, now: i64) -> Reply {
        let answer = self.table.answer(&call.operation, &call.body, now);
        for changed in std::mem::take(&mut self.table.changed) {
            self.note(changed.pk.as_bytes());
            for (name, value) in changed.new.iter().flatten() {
                if let Value::S(text) | Value::N(text) = value {
                    self.note(name.as_bytes());
                    self.note(text.as_bytes());
                }
            }
            self.witness.saw(&changed, call.invocation);
        }
        match answer {
            Ok(body) => ok(body),
            Err(refusal) => {
                if let Refusal::Unknown(what) | Refusal::Invalid(what) = &refusal {
                    self.unknown.push(what.clone());
                }
                Reply {
                    status: 400,
                    body: refusal.body().into_bytes(),
                }
            }
        }
    }

    fn sqs(&mut self, call: &Call, now: i64) -> Reply {
        let lost = self.dice.hits(self.scenario.message_loss);
        if call.operation == "GetQueueAttributes"
            && self.scenario.without == Some(Without::DepthGate)
        {
            return ok(json!({ "Attributes": { "ApproximateNumberOfMessages": "0" } }).to_string());
        }
        let answer = self
            .queues
            .answer(&call.operation, &call.body, now, &mut self.dice);
        let done = match answer {
            Ok(done) => done,
            Err(what) => return self.untaught(format!("SQS: {what}")),
        };
        // A message of the spill queue is the event itself, so SQS never loses it here.
        let sends = matches!(&*call.operation, "SendMessage" | "SendMessageBatch");
        if sends && done.queue != Name::Spill {
            let moves = done.queue == Name::Backlog && call.role == Role::Processor;
            self.moved += u64::from(moves);
            if lost {
                self.queues.get(done.queue).lose_last();
            }
            self.rung.notify_one();
        }
        ok(done.answer)
    }

    fn ssm(&mut self, call: &Call) -> Reply {
        if call.operation != "GetParametersByPath" {
            return self.untaught(format!("SSM {}", call.operation));
        }
        let parameters: Vec<_> = self
            .secrets
            .iter()
            .map(|(name, value)| {
                json!({
                    "Name": format!("{SECRETS_PATH}/{name}/current"),
                    "Type": "SecureString",
                    "Value": value,
                    "Version": 1,
                    "LastModifiedDate": 1_767_000_000,
                })
            })
            .collect();
        ok(json!({ "Parameters": parameters }).to_string())
    }

    fn s3(&mut self, call: &Call) -> Reply {
        match call.operation.as_str() {
            "PUT" => {
                self.objects.insert(call.path.clone(), call.body.clone());
                ok(String::new())
            }
            "PUT tagging" if self.objects.contains_key(&call.path) => ok(String::new()),
            "GET" => match self.objects.get(&call.path) {
                Some(body) => Reply {
                    status: 200,
                    body: body.clone(),
                },
                None => no_such_key(),
            },
            "PUT tagging" => no_such_key(),
            other => self.untaught(format!("S3 {other}")),
        }
    }

    fn untaught(&mut self, what: String) -> Reply {
        let body = json!({ "__type": "ValidationException", "message": what }).to_string();
        self.unknown.push(what);
        Reply {
            status: 400,
            body: body.into_bytes(),
        }
    }
}

fn ok(body: String) -> Reply {
    Reply {
        status: 200,
        body: body.into_bytes(),
    }
}

fn no_such_key() -> Reply {
    Reply {
        status: 404,
        body: b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>".to_vec(),
    }
}
