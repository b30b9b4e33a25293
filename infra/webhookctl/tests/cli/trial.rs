//! A trial from the first webhook to the promotion: a provider posts to the deployed catcher, and
//! the previous route loses, doubles and delays events by a seeded list.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use futures::stream::{self, StreamExt as _};
use local::{Options, Stack};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use testkit::inbox::{DEMO_SECRET, headers, hex, http};
use webhookctl::target::Local;

use crate::support::folder::{Folder, stderr};
use crate::support::stack::{announce, options};

/// The processes of the catcher, and the requests that the provider sends in parallel.
const PROCESSES: usize = 8;

/// Longer than half of the three seconds for which Slack waits.
const SLOW: Duration = Duration::from_millis(1_600);

/// Longer than any provider retries.
const LATER: Duration = Duration::from_secs(40 * 24 * 3600);

/// Returns the number of events. `make trial DELIVERIES=10000` sets it.
fn events() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a setting of this test")]
    let events = std::env::var("MITT_DELIVERIES").ok();
    events.map_or(400, |events| events.parse().unwrap())
}

/// What happens to an event: one percent each is lost, doubled and slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    Doubled,
    Slow,
    Accepted,
}

/// The multiplier and 100 have no common divisor, so each hundred has each fate.
fn fate(number: usize) -> Fate {
    match (number * 37 + 11) % 100 {
        0 => Fate::Lost,
        1 => Fate::Doubled,
        2 => Fate::Slow,
        _ => Fate::Accepted,
    }
}

fn id(number: usize) -> String {
    format!("Ev{number:06}")
}

fn keys(wanted: Fate) -> BTreeSet<String> {
    let numbers = (0..events()).filter(|number| fate(*number) == wanted);
    numbers.map(id).collect()
}

/// Plays the previous route. It counts the requests.
async fn route(State(asked): State<Arc<Mutex<usize>>>, body: Bytes) -> StatusCode {
    *asked.lock().unwrap() += 1;
    let event: Value = serde_json::from_slice(&body).unwrap();
    let number = event["event_id"].as_str().unwrap()[2..].parse().unwrap();
    match fate(number) {
        Fate::Lost => StatusCode::INTERNAL_SERVER_ERROR,
        Fate::Slow => {
            tokio::time::sleep(SLOW).await;
            StatusCode::OK
        }
        Fate::Doubled | Fate::Accepted => StatusCode::OK,
    }
}

struct Trial {
    stack: Stack,
    folder: Folder,
    asked: Arc<Mutex<usize>>,
}

impl Trial {
    async fn start() -> Self {
        let asked = Arc::<Mutex<usize>>::default();
        let router = Router::new().fallback(route).with_state(Arc::clone(&asked));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/old", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let folder = Folder::new("trial").unwrap();
        let sources = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n\n# The shop.\n[[source]]\n\
             name = \"shop\"\npreset = \"slack\"\nmode = \"tee\" # remove to promote\n\
             [[source.action]]\nkind = \"http\"\nurl = \"{url}\"\nsign = \"none\"\n"
        );
        folder.write("sources.toml", &sources).unwrap();
        let stack = Stack::start(Options {
            max_processes: PROCESSES,
            parameters: [("Trial".to_owned(), "true".to_owned())].into(),
            ..options(&folder)
        });
        let stack = stack.await.unwrap();
        let path = stack.secrets_path("Catcher").unwrap();
        let put = stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/shop/current")).value(DEMO_SECRET);
        let put = put.r#type(ParameterType::SecureString).send();
        put.await.unwrap();
        let local = Local::of(&stack, &folder.path().join("sources.toml")).unwrap();
        announce(&folder, &local).unwrap();
        Self {
            stack,
            folder,
            asked,
        }
    }

    /// Delivers an event as the provider does. Returns the statuses of the answers.
    async fn deliver(&self, number: usize) -> Vec<u16> {
        let body = json!({"event_id": id(number), "team_id": "T1", "event": {"type": "message"}});
        let body = body.to_string();
        let at = UnixMillis::now().secs().to_string();
        let signature = hex(
            DEMO_SECRET.as_bytes(),
            &[format!("v0:{at}:").as_bytes(), body.as_bytes()],
        );
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-slack-request-timestamp", &at),
            ("x-slack-signature", &format!("v0={signature}")),
        ]);
        let tries = match fate(number) {
            Fate::Lost | Fate::Doubled => 2,
            Fate::Slow | Fate::Accepted => 1,
        };
        let mut statuses = Vec::new();
        for _ in 0..tries {
            let front = self.stack.front_url();
            let answer = http(&front, "POST", "/in/shop", &headers, body.as_bytes()).await;
            statuses.push(answer.status);
        }
        statuses
    }

    /// Moves the time of the last answer of each event back, as if the provider's retries had
    /// ended.
    async fn let_time_pass(&self) {
        let then = UnixMillis::now() - LATER;
        let table = self.stack.table().unwrap();
        let db = self.stack.clients().dynamodb;
        let db = &db;
        stream::iter(0..events())
            .for_each_concurrent(PROCESSES, |number| async move {
                let text = |text: String| AttributeValue::S(text);
                let update = db.update_item().table_name(table);
                let update = update
                    .key("pk", text(format!("E#shop#{}", id(number))))
                    .key("sk", text("M".to_owned()))
                    .update_expression("SET tat = :then")
                    .condition_expression("attribute_exists(tat)")
                    .expression_attribute_values(":then", AttributeValue::N(then.0.to_string()));
                update.send().await.unwrap();
            })
            .await;
    }

    fn command(&self, arguments: &[&str]) -> Value {
        let output = self.folder.run(arguments).unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns the keys of the events that `inbox list --tee` prints.
    fn listed(&self, finding: &str) -> BTreeSet<String> {
        let list = [
            "inbox", "list", "-s", "shop", "--tee", finding, "-n", "100000", "-o", "jsonl",
        ];
        let output = self.folder.run(&list).unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let rows = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let keys = rows.filter_map(|row| Some(row["dedupe_key"].as_str()?.to_owned()));
        keys.collect()
    }
}

#[tokio::test]
async fn the_report_names_what_the_route_lost_doubled_and_delayed() {
    let trial = Trial::start().await;
    let begun = Instant::now();
    let statuses: Vec<Vec<u16>> = stream::iter(0..events())
        .map(|number| trial.deliver(number))
        .buffered(PROCESSES)
        .collect()
        .await;
    let requests = statuses.iter().map(Vec::len).sum::<usize>();
    println!("{requests} requests in {} s", begun.elapsed().as_secs());
    for (number, statuses) in statuses.iter().enumerate() {
        let expected = match fate(number) {
            Fate::Lost => 500,
            Fate::Doubled | Fate::Slow | Fate::Accepted => 200,
        };
        assert!(
            statuses.iter().all(|status| *status == expected),
            "{number}"
        );
    }
    assert_eq!(
        *trial.asked.lock().unwrap(),
        requests,
        "each request reaches the route once"
    );
    assert!(
        trial.listed("lost").is_empty(),
        "the provider may still retry"
    );
    trial.let_time_pass().await;
    let report = trial.command(&["trial", "report", "shop", "-o", "json"]);
    for (finding, fate) in [
        ("lost", Fate::Lost),
        ("doubled", Fate::Doubled),
        ("slow", Fate::Slow),
    ] {
        assert_eq!(trial.listed(finding), keys(fate), "{finding}");
        assert_eq!(report[finding]["count"], keys(fate).len(), "{finding}");
        let named = report[finding]["events"].as_array().unwrap().iter();
        let named = named.map(|event| event["dedupe_key"].as_str().unwrap().to_owned());
        assert_eq!(named.collect::<BTreeSet<_>>(), keys(fate), "{finding}");
    }
    assert_eq!(
        (&report["events"], &report["requests"]),
        (&json!(events()), &json!(requests))
    );
    assert_eq!(report["no_outcome"], 0, "{report:#}");
    println!(
        "Mitt added {}, the route took {}",
        report["mitt_added_ms"], report["route_ms"]
    );
    trial.promote();
}

impl Trial {
    /// Ends the trial. The provider then sends a lost event again.
    fn promote(&self) {
        let promoted = self.command(&["sources", "promote", "shop", "-o", "json"]);
        assert_eq!(
            promoted["removed"],
            json!(["mode = \"tee\" # remove to promote"]),
            "{promoted}"
        );
        let file = std::fs::read_to_string(self.folder.path().join("sources.toml")).unwrap();
        assert!(
            !file.contains("tee") && file.contains("# The shop."),
            "{file}"
        );
        let again = self.folder.run(&["sources", "promote", "shop"]).unwrap();
        assert!(
            stderr(&again).contains("sources.no_trial"),
            "{}",
            stderr(&again)
        );
    }
}
