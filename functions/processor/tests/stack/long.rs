//! Long actions with the real functions: the processor sends their messages on, and the function for
//! long actions waits for a destination that answers later than the processor would wait.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::HeaderMap;
use local::Options;
use serde_json::json;
use shared::webhook::event::EventKey;

use super::support::{Inbox, Item, options, unique};

/// Longer than the default timeout of an action.
const SLOW: Duration = Duration::from_secs(22);

const MINUTE: Duration = Duration::from_secs(60);

/// A destination that answers after a time, and the idempotency keys of its requests.
struct Destination {
    url: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Destination {
    async fn start(takes: Duration) -> Self {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&keys);
        let answer = async move |headers: HeaderMap| {
            let key = headers["idempotency-key"].to_str().unwrap().to_owned();
            seen.lock().unwrap().push(key);
            tokio::time::sleep(takes).await;
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer);
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, keys }
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

/// Starts an inbox whose events go to the destination. Returns it with the folder of its sources.
async fn inbox(destination: &Destination, timeout: &str) -> (Inbox, PathBuf) {
    let folder = std::env::temp_dir().join(format!("mitt-long-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let sources = folder.join("sources.toml");
    let text = format!(
        "schema = 1\n[forward]\nallow_loopback = true\n\
         [[source]]\nname = \"github-main\"\npreset = \"github\"\n\
         [[source.action]]\nkind = \"http\"\nurl = \"{}/hook\"\nsign = \"none\"\n\
         timeout = \"{timeout}\"\n",
        destination.url
    );
    std::fs::write(&sources, text).unwrap();
    let inbox = Inbox::start(Options {
        sources_file: Some(sources),
        mappings: true,
        parameters: [("LongActions".to_owned(), "true".to_owned())].into(),
        ..options()
    })
    .await;
    (inbox, folder)
}

/// Waits until the event is done, failed or a dead letter. Runs the sweep each minute, as the
/// template does.
async fn outcome(inbox: &Inbox, key: &EventKey, patience: Duration) -> Item {
    let (began, mut swept) = (Instant::now(), Instant::now());
    loop {
        let row = inbox.row(key).await;
        let state = row["st"].as_s().unwrap();
        if !["received", "processing"].contains(&state.as_str()) {
            return row;
        }
        assert!(began.elapsed() < patience, "{row:?}");
        if swept.elapsed() > MINUTE {
            inbox.invoke("BackupSync", &json!({"task": "sweep"})).await;
            swept = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn assert_done_after(row: &Item, attempts: &str) {
    assert_eq!(row["st"].as_s().unwrap(), "done", "{row:?}");
    assert_eq!(row["att"].as_n().unwrap(), attempts);
}

#[tokio::test]
async fn a_destination_that_answers_after_22_seconds_is_called_once() {
    let destination = Destination::start(SLOW).await;
    let (inbox, folder) = inbox(&destination, "30s").await;
    let began = Instant::now();
    let key = inbox.new_event().await;
    let row = outcome(&inbox, &key, 4 * SLOW).await;
    assert_done_after(&row, "1");
    assert!(began.elapsed() > SLOW);
    assert_eq!(destination.keys().len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
#[ignore = "takes minutes: make long-actions"]
async fn a_handler_of_eight_minutes_is_called_once() {
    let destination = Destination::start(8 * MINUTE).await;
    let (inbox, folder) = inbox(&destination, "10m").await;
    let began = Instant::now();
    let key = inbox.new_event().await;
    let row = outcome(&inbox, &key, 12 * MINUTE).await;
    assert_done_after(&row, "1");
    assert!(began.elapsed() > 8 * MINUTE);
    assert_eq!(destination.keys().len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
#[ignore = "takes minutes: make long-actions"]
async fn after_a_kill_a_handler_of_eight_minutes_is_called_with_the_same_key() {
    let destination = Destination::start(8 * MINUTE).await;
    let (inbox, folder) = inbox(&destination, "10m").await;
    let key = inbox.new_event().await;
    let began = Instant::now();
    while destination.keys().is_empty() {
        assert!(began.elapsed() < MINUTE, "the destination was not called");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // By now, the worker has renewed its lease three times.
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!(inbox.row(&key).await["st"].as_s().unwrap(), "processing");
    let kill = inbox.stack.kill_function_processes("LongProcessor");
    assert_eq!(kill.await.unwrap(), 1);
    let killed = Instant::now();
    let row = outcome(&inbox, &key, 14 * MINUTE).await;
    assert_done_after(&row, "2");
    println!(
        "killed after 3 minutes; done {} s after the kill",
        killed.elapsed().as_secs()
    );
    let keys = destination.keys();
    assert_eq!(keys.len(), 2, "two calls");
    assert_eq!(keys[0], keys[1], "with one key");
    std::fs::remove_dir_all(folder).unwrap();
}
