//! Configured destinations of the real processor. Each kind gets the event in the form of its API.
//! If a destination is down, slow or at its rate limit, its events lose no attempt and other
//! destinations are not delayed.

mod accounts;
mod context;
mod hold;
mod kept;
mod recipes;
mod refusals;
mod server;
mod signing;
mod trace;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use local::{Options, Rights};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::transition::work_partition;
use shared::webhook::event::EventKey;

use super::here;
use super::rights;
use super::support::{Inbox, options, s, unique, with};
use super::support::{failures, record, work_message};
use server::{Answer, Server};

struct World {
    inbox: Inbox,
    server: Server,
    folder: std::path::PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    /// Starts the stack. `services` are the AWS services that the server plays, in addition to the
    /// destinations.
    async fn start(services: &[&str]) -> Self {
        let server = Server::start().await;
        let folder = std::env::temp_dir().join(format!("mitt-destinations-{}", unique()));
        std::fs::create_dir_all(&folder).unwrap();
        let sources = folder.join("sources.toml");
        let text = std::fs::read_to_string(here().join("destinations.toml")).unwrap();
        std::fs::write(&sources, text.replace("{at}", &server.url)).unwrap();
        let services = ["LAMBDA", "EVENTBRIDGE", "SFN"].iter().chain(services);
        let endpoint = |service: &&str| (format!("AWS_ENDPOINT_URL_{service}"), server.url.clone());
        // The policy that `DestinationPolicyArn` names.
        let orders = json!({
            "Sid": "Orders", "Effect": "Allow", "Action": "sqs:SendMessage",
            "Resource": "arn:aws:sqs:us-east-1:000000000000:orders",
        });
        let inbox = Inbox::start(Options {
            sources_file: Some(sources),
            function_env: services.map(endpoint).collect::<BTreeMap<_, _>>(),
            rights: Some(Rights {
                managed: [("ProcessorRole".to_owned(), vec![orders])].into(),
                ..rights::enforced()
            }),
            ..options()
        })
        .await;
        let path = inbox.stack.secrets_path("Processor").unwrap();
        let put = inbox.stack.clients().ssm.put_parameter();
        put.name(format!("{path}/orders/current"))
            .value("whsec_b3JkZXJzLW9yZGVycy1vcmRlcnM=")
            .r#type(ParameterType::SecureString)
            .send()
            .await
            .unwrap();
        Self {
            inbox,
            server,
            folder,
        }
    }

    /// Adds a received event that no worker has claimed.
    async fn event(&self, source: &str, kind: &str, body: &Value) -> EventKey {
        let id = unique();
        let body = body.to_string();
        let headers = self.inbox.github(&id, body.as_bytes());
        let headers = with(headers, "x-github-event", kind);
        let answer = self.inbox.post(source, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new(source, &id)
    }

    async fn push(&self, source: &str) -> EventKey {
        self.event(source, "push", &json!({ "word": unique() }))
            .await
    }

    /// Sends the messages of events in one batch.
    async fn ring(&self, keys: &[&EventKey]) {
        let records: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(n, key)| record(&n.to_string(), &work_message(key)))
            .collect();
        assert_eq!(failures(&self.inbox, &records).await, [""; 0]);
    }

    async fn fate(&self, key: &EventKey) -> Fate {
        let row = self.inbox.row(key).await;
        let number = |name: &str| {
            let number = row.get(name).and_then(|value| value.as_n().ok());
            number.map_or(0, |number| number.parse().unwrap())
        };
        Fate {
            state: row["st"].as_s().unwrap().clone(),
            attempts: number("att"),
            put_offs: number("off"),
            due: UnixMillis(number("due")),
            reason: row
                .get("reason")
                .map_or_else(String::new, |reason| reason.as_s().unwrap().clone()),
        }
    }

    /// Makes the retry of an event due now.
    async fn make_due(&self, key: &EventKey) {
        let mut row = self.inbox.row(key).await;
        row.insert("due".into(), AttributeValue::N("1".into()));
        self.inbox.put(row).await;
    }

    /// Returns the log lines about circuit breakers. If a circuit breaker cannot be read or
    /// written, calls still pass.
    fn breaker_log(&self) -> String {
        let log = self.inbox.stack.log_file("Processor").unwrap();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let lines = log.lines().filter(|line| line.contains("breaker"));
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn item(&self, sk: &str) -> Option<super::support::Item> {
        let get = self.inbox.stack.clients().dynamodb.get_item();
        let get = get.table_name(self.inbox.stack.table().unwrap());
        get.key("pk", s("SYS"))
            .key("sk", s(sk))
            .send()
            .await
            .unwrap()
            .item
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fate {
    state: String,
    attempts: i64,
    put_offs: i64,
    due: UnixMillis,
    reason: String,
}

impl Fate {
    fn is(&self, state: &str, attempts: i64, put_offs: i64) {
        let found = (self.state.as_str(), self.attempts, self.put_offs);
        assert_eq!(found, (state, attempts, put_offs), "{self:?}");
    }
}

#[tokio::test]
async fn each_kind_of_destination_gets_the_event_in_its_format() {
    let world = World::start(&["SQS"]).await;
    let body = json!({ "customer": "cus_1", "amount": 12 });
    let key = world.event("every-kind", "push", &body).await;
    world.server.forget();
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
    let of = |effect: &str| idempotency_key(&key, effect, 0);

    let http = world.server.only("/http");
    assert_eq!(http.json(), body);
    assert_eq!(http.header("idempotency-key"), of("http"));
    assert_eq!(http.header("mitt-proven"), "body");

    let lambda = world
        .server
        .only("/2015-03-31/functions/orders%3Alive/invocations");
    assert_eq!(lambda.header("x-amz-invocation-type"), "RequestResponse");
    let document = lambda.json();
    assert_eq!(document["body"], body.to_string());
    assert_eq!(document["isBase64"], false);
    assert_eq!(document["event"]["idempotencyKey"], of("lambda"));
    assert_eq!(document["event"]["type"], "push");
    assert_eq!(document["event"]["source"], "every-kind");
    assert_eq!(document["event"]["attempt"], 1);
    assert_eq!(document["event"]["proven"], "body");
    let later = world.server.only(
        "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Areports/invocations",
    );
    assert_eq!(later.header("x-amz-invocation-type"), "Event");
    assert_eq!(later.json()["event"]["idempotencyKey"], of("later"));

    let put = world.server.only("AWSEvents.PutEvents").json();
    let entry = &put["Entries"][0];
    assert_eq!(entry["EventBusName"], "orders");
    assert_eq!(
        (&entry["Source"], &entry["DetailType"]),
        (&json!("mitt.every-kind"), &json!("push"))
    );
    let detail: Value = serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap();
    assert_eq!(detail["body"], body, "rules can match on it");
    assert_eq!(detail["event"]["idempotencyKey"], of("eventbridge"));
    assert_eq!(detail["event"]["proven"], "body");

    let started = world.server.only("AWSStepFunctions.StartExecution").json();
    assert_eq!(started["name"], of("step-functions"));
    let input: Value = serde_json::from_str(started["input"].as_str().unwrap()).unwrap();
    assert_eq!(input["body"], body);
    assert_eq!(input["event"]["proven"], "body");

    queues_got(&world, &body, &of);
    world.inbox.is_unharmed();
}

/// Checks that both queues got the event: one without an order, one in the order of the customer.
fn queues_got(world: &World, body: &Value, of: &impl Fn(&str) -> String) {
    let sent = world.server.all("AmazonSQS.SendMessage");
    let to = |name: &str| {
        let mut sent = sent.iter().map(server::Seen::json);
        sent.find(|sent| sent["QueueUrl"].as_str().unwrap().ends_with(name))
            .unwrap()
    };
    let (plain, in_order) = (to("/orders"), to("/orders.fifo"));
    assert_eq!(plain["MessageBody"], body.to_string());
    assert_eq!(
        plain["MessageAttributes"]["Idempotency-Key"]["StringValue"],
        of("sqs")
    );
    assert_eq!(
        plain["MessageAttributes"]["Mitt-Proven"]["StringValue"],
        "body"
    );
    assert_eq!(plain["MessageGroupId"], Value::Null);
    assert_eq!(in_order["MessageGroupId"], "cus_1");
    assert_eq!(in_order["MessageDeduplicationId"], of("in-order"));
}

#[tokio::test]
async fn a_message_arrives_on_the_embedded_queue() {
    let world = World::start(&[]).await;
    let sqs = world.inbox.stack.clients().sqs;
    let queue = sqs
        .create_queue()
        .queue_name("orders")
        .send()
        .await
        .unwrap();
    let key = world.push("embedded").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
    let received = sqs.receive_message().queue_url(queue.queue_url().unwrap());
    let received = received
        .message_attribute_names("All")
        .send()
        .await
        .unwrap();
    let message = &received.messages()[0];
    let kept = world.inbox.kept(&key).await.unwrap();
    assert_eq!(message.body().unwrap().as_bytes(), kept);
    let attributes = message.message_attributes().unwrap();
    let sent_key = attributes["Idempotency-Key"].string_value().unwrap();
    assert_eq!(sent_key, idempotency_key(&key, "sqs", 0));
}

#[tokio::test]
async fn a_refusal_is_tried_again_unless_the_input_is_to_blame() {
    let world = World::start(&[]).await;
    let [lambda, bus, machine] = [
        "/2015-03-31/functions/refusing/invocations",
        "AWSEvents.PutEvents",
        "AWSStepFunctions.StartExecution",
    ];
    let (done, failed) = (("done", ""), ("failed", ""));
    let dead = ("dead_letter", "permanent");
    let aws = Answer::aws;
    for (place, answer, expected) in [
        (lambda, aws(404, "ResourceNotFoundException"), failed),
        (lambda, aws(429, "TooManyRequestsException"), failed),
        (lambda, aws(413, "RequestTooLargeException"), dead),
        (lambda, Answer::function_error(), failed),
        (bus, Answer::entry_failed("ThrottlingException"), failed),
        (bus, Answer::entry_failed("MalformedDetail"), dead),
        (machine, aws(400, "ExecutionAlreadyExists"), done),
        (machine, aws(400, "InvalidExecutionInput"), dead),
        (machine, aws(400, "AccessDeniedException"), failed),
    ] {
        world.server.answers(place, std::slice::from_ref(&answer));
        let key = world.push("refusing").await;
        world.ring(&[&key]).await;
        let fate = world.fate(&key).await;
        let found = (fate.state.as_str(), fate.reason.as_str());
        assert_eq!(found, expected, "{answer:?}");
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn what_failed_is_tried_again_alone_and_what_was_refused_is_not() {
    let world = World::start(&[]).await;
    world.server.answers("/two/first", &[Answer::status(500)]);
    world.server.answers("/two/second", &[Answer::status(422)]);
    let key = world.push("two").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 1, 0);
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 2, 0);
    assert_eq!(
        fate.reason, "permanent",
        "one of the two effects was never applied"
    );
    assert_eq!(world.server.all("/two/first").len(), 2);
    assert_eq!(world.server.all("/two/second").len(), 1);
}

#[tokio::test]
async fn an_action_is_for_the_events_that_its_filter_names() {
    let world = World::start(&[]).await;
    for (kind, state, by_type, by_value) in [
        ("push", "open", 1, 1),
        ("pull", "closed", 1, 0),
        ("star", "merged", 0, 1),
        ("star", "closed", 0, 0),
    ] {
        world.server.forget();
        let body = json!({ "pull": { "state": state }, "n": unique() });
        let key = world.event("filtered", kind, &body).await;
        world.ring(&[&key]).await;
        world.fate(&key).await.is("done", 1, 0);
        let calls = |name: &str| world.server.all(&format!("/filtered/{name}")).len();
        let found = (calls("by-type"), calls("by-value"), calls("never"));
        assert_eq!(found, (by_type, by_value, 0), "{kind} {state}");
    }
}

#[tokio::test]
async fn a_failure_that_is_stored_under_the_key_is_not_heard_ten_times() {
    let world = World::start(&[]).await;
    world.server.remembers("/remembering", 500);
    let key = world.push("remembering").await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 1, 0);
    assert_eq!(fate.reason, "outcome_unknown");
    assert_eq!(world.server.all("/remembering").len(), 1);

    // Without the setting, only the response shows that the destination replayed it.
    world.server.remembers("/replaying", 500);
    let key = world.push("replaying").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 1, 0);
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 2, 0);
    assert_eq!(fate.reason, "outcome_unknown");
    // A replayed success counts as a success.
    world.server.remembers("/replaying", 200);
    let key = world.push("replaying").await;
    world.server.call_before(&idempotency_key(&key, "http", 0));
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
}

#[tokio::test]
async fn a_destination_that_is_down_is_spared_and_its_events_keep_their_attempts() {
    let world = World::start(&[]).await;
    world.server.answers("/down", &vec![Answer::status(502); 6]);
    let mut keys = Vec::new();
    for _ in 0..8 {
        keys.push(world.push("down").await);
    }
    for key in &keys[..5] {
        world.ring(&[key]).await;
        world.fate(key).await.is("failed", 1, 0);
    }
    let before = UnixMillis::now();
    world.ring(&[&keys[5], &keys[6]]).await;
    assert_eq!(world.server.all("/down").len(), 5);
    for key in &keys[5..7] {
        let fate = world.fate(key).await;
        fate.is("failed", 0, 1);
        let wait = fate.due.since(before).as_secs();
        assert!((20..=70).contains(&wait), "{wait}");
    }

    the_sweep_postpones(&world, &keys).await;

    // After the wait of the breaker, one event probes and the others wait for the result. The sweep
    // sends that event.
    end_wait_of_breaker(&world, "down").await;
    for key in &keys[5..7] {
        world.make_due(key).await;
    }
    world.ring(&[&keys[5], &keys[6], &keys[7]]).await;
    assert_eq!(
        world.server.all("/down").len(),
        6,
        "{}",
        world.breaker_log()
    );
    for key in &keys[5..] {
        assert_eq!(
            world.fate(key).await.attempts,
            0,
            "a probe costs no attempt either"
        );
    }
    let item = world.item("BRK#down").await.unwrap();
    assert_eq!(item["n"].as_n().unwrap(), "2", "the breaker opened again");

    // The destination works again: the next probe closes the breaker, and all events are sent.
    end_wait_of_breaker(&world, "down").await;
    for key in &keys {
        world.make_due(key).await;
    }
    world.ring(&[&keys[7]]).await;
    world.fate(&keys[7]).await.is("done", 1, 1);
    world.ring(&keys[..7].iter().collect::<Vec<_>>()).await;
    for key in &keys[..7] {
        assert_eq!(world.fate(key).await.state, "done");
    }
    assert!(world.item("BRK#down").await.unwrap().contains_key("ttl"));
    world.inbox.is_unharmed();
}

async fn the_sweep_postpones(world: &World, keys: &[EventKey]) {
    for key in keys {
        let mut row = world.inbox.row(key).await;
        let part = work_partition(&key.pk());
        row.insert("gsk".into(), AttributeValue::N("5".into()));
        row.insert("gpk".into(), AttributeValue::S(part));
        world.inbox.put(row).await;
    }
    let swept = world
        .inbox
        .invoke("BackupSync", &json!({ "task": "sweep" }))
        .await;
    let swept = swept.json().unwrap();
    assert_eq!(
        (&swept["skipped_unreachable"], &swept["sent"]),
        (&json!(keys.len()), &json!(0)),
        "{swept}"
    );
}

/// Ends the wait of the circuit breaker.
async fn end_wait_of_breaker(world: &World, destination: &str) {
    let mut item = world.item(&format!("BRK#{destination}")).await.unwrap();
    let rev: u64 = item["rev"].as_n().unwrap().parse().unwrap();
    item.insert("til".into(), AttributeValue::N("5".into()));
    item.insert("rev".into(), AttributeValue::N((rev + 1).to_string()));
    if let Ok(refused) = item["rfs"].as_s() {
        let (_, status) = refused.split_once('|').unwrap();
        item.insert("rfs".into(), s(format!("{}|{status}", rev + 1)));
    }
    world.inbox.put(item).await;
    // Processes cache the state for five seconds.
    tokio::time::sleep(Duration::from_millis(5_100)).await;
}

#[tokio::test]
async fn a_destination_that_hangs_holds_up_nobody_else() {
    let world = World::start(&[]).await;
    world.server.answers("/hanging", &vec![Answer::Never; 7]);
    let mut keys = Vec::new();
    for source in ["hanging"; 7] {
        keys.push(world.push(source).await);
    }
    for source in ["healthy"; 3] {
        keys.push(world.push(source).await);
    }
    let began = UnixMillis::now();
    world.ring(&keys.iter().collect::<Vec<_>>()).await;
    assert!(
        UnixMillis::now().since(began).as_secs() >= 19,
        "the calls hang"
    );
    let late = |path: &str| {
        let seen = world.server.all(path);
        seen.iter().map(|seen| seen.at.since(began)).max().unwrap()
    };
    assert_eq!(world.server.all("/works").len(), 7);
    assert_eq!(world.server.all("/healthy").len(), 3);
    // Two rounds of four events, each of which releases its permits after a second.
    let soon = Duration::from_secs(6);
    assert!(late("/works") < soon, "{:?}", late("/works"));
    assert!(late("/healthy") < soon, "{:?}", late("/healthy"));
    for key in &keys[..7] {
        let row = world.inbox.row(key).await;
        assert_eq!(row["st"].as_s().unwrap(), "failed");
        let works = &row["fx"].as_m().unwrap()["works"].as_m().unwrap()["s"];
        assert_eq!(works.as_s().unwrap(), "done");
    }
    // At this point, the breaker is open.
    let key = world.push("hanging").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 0, 1);
    assert_eq!(world.server.all("/hanging").len(), 7);
    assert_eq!(world.server.all("/works").len(), 8);
}

/// Each process that waits for a destination receives no other messages, so its circuit breaker opens
/// after fewer of such calls.
#[tokio::test]
async fn two_calls_that_hang_open_the_circuit_breaker() {
    let world = World::start(&[]).await;
    world.server.answers("/hanging", &vec![Answer::Never; 3]);
    let keys = [world.push("hanging").await, world.push("hanging").await];
    world.ring(&keys.iter().collect::<Vec<_>>()).await;
    let key = world.push("hanging").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 0, 1);
    assert_eq!(world.server.all("/hanging").len(), 2);
}

#[tokio::test]
async fn a_destination_gets_no_more_than_its_rate() {
    let world = World::start(&[]).await;
    let mut keys = Vec::new();
    for _ in 0..7 {
        keys.push(world.push("rated").await);
    }
    world.ring(&keys.iter().collect::<Vec<_>>()).await;
    // There are more calls only if the hour changed in the meantime.
    let calls = world.server.all("/rated").len();
    assert!(calls == 3 || calls == 6, "{calls}");
    let mut waits = Vec::new();
    for key in &keys {
        let fate = world.fate(key).await;
        if fate.state == "done" {
            continue;
        }
        fate.is("failed", 0, 1);
        waits.push(fate.due);
    }
    assert_eq!(waits.len(), 7 - calls);
    waits.sort();
    let hour = |at: &UnixMillis| at.0 / 3_600_000;
    assert!(hour(&waits[0]) > hour(&UnixMillis::now()));
    assert!(
        waits[0] < waits[waits.len() - 1],
        "the calls are spread over time"
    );
}
