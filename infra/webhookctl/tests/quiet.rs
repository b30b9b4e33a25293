//! The cost of commands in a quiet inbox, and that they find every event. `make bench-scale` measures
//! the same for large inboxes.

#![expect(clippy::unwrap_used, reason = "a failure is the result of a test")]

#[path = "../benches/scale/fill.rs"]
#[expect(dead_code, reason = "the benchmark uses all of it")]
mod fill;

use std::process::Command;

use serde_json::Value;
use shared::base::clock::UnixMillis;

use fill::{Folder, Inbox, announce};

/// The maximum number of calls with ten and with a hundred sources.
const LIMITS: [(usize, u64); 2] = [(10, 60), (100, 200)];

async fn ask(folder: &Folder, line: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
    let words = line.split_whitespace();
    command
        .args(words)
        .args(["-o", "json"])
        .current_dir(&folder.0);
    command.env_remove("MITT_TABLE");
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {told}"))
}

fn calls(document: &Value) -> u64 {
    document["cost"]["calls"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_a_quiet_inbox_are_cheap_and_complete() {
    for (sources, most) in LIMITS {
        for rows in [14, 1_000] {
            let folder = Folder::new(&format!("quiet-{sources}-{rows}"));
            let inbox = Inbox::fill(&folder.0, (rows, sources), UnixMillis::now()).await;
            let services = announce(&folder.0, &inbox.url, &inbox.table, sources).await;
            let inspect = format!("inbox inspect {}", &inbox.an_event[..15]);
            for line in [
                "status",
                "inbox list",
                "sources list",
                "inbox stats",
                &inspect,
            ] {
                let used = calls(&ask(&folder, line).await);
                assert!(
                    used <= most,
                    "{line}: {used} calls, {sources} sources, {rows} rows"
                );
            }
            let listed = ask(&folder, "inbox list --since 30d -n 2000").await;
            assert_eq!(listed["items"].as_array().unwrap().len(), rows);
            let units = listed["cost"]["read_units"].as_f64().unwrap();
            assert!(rows > 14 || units <= 100.0, "{units} read units");
            let hours = ask(&folder, "inbox stats --by hour").await;
            let hours = hours["items"].as_array().unwrap();
            assert_eq!(hours.len(), 25, "every hour has a row");
            assert!(hours.iter().all(|hour| hour["counted"] == true));
            services.stop().await;
        }
    }
}
