//! Writes the history of a run, line by line, into the folder that `infra/tests/history` checks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use local::Stack;
use serde_json::{Map, Value, json};
use shared::base::clock::UnixMillis;

/// The prefix of a short id that is used until the provider's event id is known.
pub(crate) const UNNAMED: &str = "unknown ";

pub(crate) struct History {
    pub(crate) folder: PathBuf,
    /// Event ids by the short ids in the requests.
    names: Mutex<HashMap<String, String>>,
    sent: Lines,
    answers: Lines,
    downstream: Lines,
    writes: Lines,
    deaths: Lines,
    processes: Lines,
    planted: Lines,
    approvals: Lines,
    /// The processes that are already recorded.
    met: Mutex<HashSet<u32>>,
}

struct Lines(Mutex<BufWriter<File>>);

/// The result of the judge.
pub(crate) struct Verdict {
    pub(crate) folder: PathBuf,
    sound: bool,
    text: String,
}

impl Verdict {
    pub(crate) fn is_sound(&self) -> bool {
        self.sound
    }

    /// Returns whether this rule is among the violated ones.
    pub(crate) fn names(&self, rule: &str) -> bool {
        let mut lines = self.text.lines();
        lines.any(|line| line.starts_with(&format!("{rule}: ")))
    }
}

impl History {
    /// Uses a folder of this name in the test folder of the build.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let lines = |name: &str| Lines::new(&folder, name);
        Self {
            sent: lines("sent"),
            answers: lines("answers"),
            downstream: lines("downstream"),
            writes: lines("writes"),
            deaths: lines("deaths"),
            processes: lines("processes"),
            planted: lines("planted"),
            approvals: lines("approvals"),
            met: Mutex::default(),
            folder,
            names: Mutex::default(),
        }
    }

    /// Records the provider's id of the event with this short id.
    pub(crate) fn names(&self, short: &str, id: &str) {
        self.names
            .lock()
            .unwrap()
            .insert(short.to_owned(), id.to_owned());
    }

    /// Replaces short ids by event ids.
    fn name_arrivals(&self) {
        let path = self.folder.join("downstream.jsonl");
        let names = self.names.lock().unwrap();
        let named = |line: &str| {
            let mut arrival: Value = serde_json::from_str(line).unwrap();
            let short = arrival["id"]
                .as_str()
                .and_then(|id| id.strip_prefix(UNNAMED));
            if let Some(id) = short.and_then(|short| names.get(short)) {
                arrival["id"] = json!(id);
            }
            format!("{arrival}\n")
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let text: Vec<String> = text.lines().map(named).collect();
        std::fs::write(path, text.concat()).unwrap();
    }

    pub(crate) fn sent(&self, line: &Value) {
        self.sent.add(line);
    }

    pub(crate) fn answer(&self, line: &Value) {
        self.answers.add(line);
    }

    pub(crate) fn arrival(&self, line: &Value) {
        self.downstream.add(line);
    }

    pub(crate) fn write(&self, line: &Value) {
        self.writes.add(line);
    }

    /// Records that a process is killed, or is stopped for longer than its leases.
    pub(crate) fn death(&self, process: u32, how: &str) {
        let at = UnixMillis::now().0;
        self.deaths
            .add(&json!({ "at": at, "process": process, "how": how }));
    }

    /// Records that a process of this release runs.
    pub(crate) fn process(&self, process: u32, release: &str) {
        if self.met.lock().unwrap().insert(process) {
            self.processes
                .add(&json!({ "process": process, "release": release }));
        }
    }

    /// Records an unknown attribute that the test has written into a row.
    pub(crate) fn planted(&self, line: &Value) {
        self.planted.add(line);
    }

    /// Records that a person approved a held event.
    pub(crate) fn approval(&self, line: &Value) {
        self.approvals.add(line);
    }

    /// Adds the final state to the history, and runs the judge.
    pub(crate) async fn end(&self, stack: &Stack, run: &Value) -> Verdict {
        self.table(stack).await;
        self.logs(stack);
        self.queues(stack).await;
        let path = self.folder.join("run.json");
        std::fs::write(path, run.to_string()).unwrap();
        let said = [&self.sent, &self.answers, &self.downstream];
        let seen = [&self.writes, &self.deaths, &self.processes, &self.planted];
        for lines in said.into_iter().chain(seen).chain([&self.approvals]) {
            lines.0.lock().unwrap().flush().unwrap();
        }
        self.name_arrivals();
        self.judge()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the judge needs all items, not only the items of an index"
    )]
    async fn table(&self, stack: &Stack) {
        let lines = Lines::new(&self.folder, "table");
        let scan = stack.clients().dynamodb.scan();
        let mut pages = scan
            .table_name(stack.table().unwrap())
            .consistent_read(true)
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            for item in page.unwrap().items() {
                let mut line = Map::new();
                for (name, value) in item {
                    line.insert(name.clone(), decoded(name, value));
                }
                lines.add(&Value::Object(line));
            }
        }
        lines.0.lock().unwrap().flush().unwrap();
    }

    fn logs(&self, stack: &Stack) {
        let lines = Lines::new(&self.folder, "functions");
        for function in stack.template().functions.keys() {
            let log = std::fs::read(stack.log_file(function).unwrap()).unwrap_or_default();
            for text in String::from_utf8_lossy(&log).lines() {
                lines.add(&json!({ "function": function, "text": text }));
            }
        }
        lines.0.lock().unwrap().flush().unwrap();
    }

    async fn queues(&self, stack: &Stack) {
        let mut left = BTreeMap::new();
        for id in stack.template().queues.keys() {
            left.insert(id, messages(stack, id).await);
        }
        let path = self.folder.join("queue.json");
        std::fs::write(path, serde_json::to_string(&left).unwrap()).unwrap();
    }

    fn judge(&self) -> Verdict {
        let judge = testkit::root().join("infra/tests/history");
        let output = Command::new("python3")
            .arg(judge)
            .arg(&self.folder)
            .output()
            .expect("the judge needs python3");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        eprintln!("\n{text}{}", String::from_utf8_lossy(&output.stderr));
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "the judge failed to run");
        assert!(!text.is_empty(), "the judge printed nothing");
        Verdict {
            folder: self.folder.clone(),
            sound: code == Some(0),
            text,
        }
    }
}

impl Lines {
    fn new(folder: &Path, name: &str) -> Self {
        let file = File::create(folder.join(format!("{name}.jsonl"))).unwrap();
        Self(Mutex::new(BufWriter::new(file)))
    }

    fn add(&self, line: &Value) {
        writeln!(self.0.lock().unwrap(), "{line}").unwrap();
    }
}

/// Returns the number of messages in a queue, visible or not.
pub(crate) async fn messages(stack: &Stack, queue: &str) -> u64 {
    let answer = stack.clients().sqs.get_queue_attributes();
    let answer = answer
        .queue_url(stack.queue_url(queue).unwrap())
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .unwrap();
    let count = |name| -> u64 {
        let text = answer.attributes().and_then(|all| all.get(&name));
        text.map_or(0, |text| text.parse().unwrap())
    };
    count(QueueAttributeName::ApproximateNumberOfMessages)
        + count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
        + count(QueueAttributeName::ApproximateNumberOfMessagesDelayed)
}

/// Converts an attribute to plain JSON: hashes in hex, other bytes in base64.
fn decoded(name: &str, value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!(text),
        AttributeValue::N(digits) => digits.parse().unwrap_or(Value::Null),
        AttributeValue::B(bytes) if name == "sha" => json!(hex::encode(bytes)),
        AttributeValue::B(bytes) => json!(STANDARD.encode(bytes)),
        AttributeValue::Bool(truth) => json!(truth),
        AttributeValue::L(list) => list.iter().map(|value| decoded("", value)).collect(),
        AttributeValue::M(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), decoded(name, value)))
            .collect::<Map<_, _>>()
            .into(),
        _ => Value::Null,
    }
}

/// Converts an attribute in DynamoDB's JSON: `{"S": "done"}` becomes `"done"`.
pub(crate) fn plain(value: &Value) -> Value {
    let of = value.as_object().and_then(|object| object.iter().next());
    match of.map(|(kind, inner)| (kind.as_str(), inner)) {
        Some(("N", Value::String(digits))) => digits.parse().unwrap_or(Value::Null),
        Some((_, inner)) => inner.clone(),
        None => Value::Null,
    }
}
