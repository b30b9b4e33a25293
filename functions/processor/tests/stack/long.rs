//! A long action with the real functions: the processor sends its message on, and the function for
//! long actions waits for a destination that answers later than the processor would wait.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::HeaderMap;
use local::Options;

use super::support::{Inbox, options, unique};

/// Longer than the default timeout of an action.
const SLOW: Duration = Duration::from_secs(22);

/// Starts a destination. Returns its URL, and the idempotency keys of its requests.
async fn destination() -> (String, Arc<Mutex<Vec<String>>>) {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let answer = async move |headers: HeaderMap| {
        let key = headers["idempotency-key"].to_str().unwrap().to_owned();
        seen.lock().unwrap().push(key);
        tokio::time::sleep(SLOW).await;
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer);
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    (url, keys)
}

#[tokio::test]
async fn a_destination_that_answers_after_22_seconds_is_called_once() {
    let (url, keys) = destination().await;
    let folder = std::env::temp_dir().join(format!("mitt-long-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let sources = folder.join("sources.toml");
    let text = format!(
        "schema = 1\n[forward]\nallow_loopback = true\n\
         [[source]]\nname = \"github-main\"\npreset = \"github\"\n\
         [[source.action]]\nkind = \"http\"\nurl = \"{url}/hook\"\nsign = \"none\"\n\
         timeout = \"30s\"\n"
    );
    std::fs::write(&sources, text).unwrap();
    let inbox = Inbox::start(Options {
        sources_file: Some(sources),
        mappings: true,
        parameters: [("LongActions".to_owned(), "true".to_owned())].into(),
        ..options()
    })
    .await;
    let key = inbox.new_event().await;
    let began = Instant::now();
    let row = loop {
        let row = inbox.row(&key).await;
        let state = row["st"].as_s().unwrap();
        if !["received", "processing"].contains(&state.as_str()) {
            break row;
        }
        assert!(began.elapsed() < 4 * SLOW, "{row:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(row["st"].as_s().unwrap(), "done", "{row:?}");
    assert_eq!(row["att"].as_n().unwrap(), "1");
    assert!(began.elapsed() > SLOW);
    assert_eq!(keys.lock().unwrap().len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}
