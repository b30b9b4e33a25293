//! `webhookctl dev` as a user runs it: the program, its output, and the state that survives kill
//! -9.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::support::folder::{Folder, words};
use crate::support::world::Dev;
use anyhow::{Context, ensure};
use serde_json::Value;

/// The documentation page with the output of the demo. `infra/docs/demo.svg` in the README shows
/// the same output.
const PAGE: &str = include_str!("../../../docs/getting-started.md");

fn start(folder: &Folder) -> anyhow::Result<Dev> {
    Dev::start_as(folder, &["--state", "state"])
}

#[test]
fn the_demo_prints_what_the_readme_shows() -> anyhow::Result<()> {
    let folder = Folder::new("demo")?;
    let output = folder.run(&["dev", "--demo", "--once", "--port", "0"])?;
    let stdout = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success(),
        "{stdout}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let block = PAGE
        .split("```")
        .find(|block| block.contains("● done"))
        .context("the page shows the demo")?;
    let told = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| {
            line.contains('●')
                || line.contains('◇')
                || line.contains('■')
                || line.contains('○')
                || line.contains(" sent, ")
        });
        lines.map(masked).collect()
    };
    assert_eq!(told(&stdout), told(block), "\n{stdout}");
    assert_eq!(told(block).len(), 11);
    Ok(())
}

/// Masks times, ids and durations, because they differ in each run.
fn masked(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let digits = word.trim_end_matches("ms").trim_end_matches('s');
        if word.starts_with("evt_") {
            "ID"
        } else if word.contains(':')
            && word
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b':' || b == b'.')
        {
            "TIME"
        } else if word.ends_with('s') && digits.parse::<f64>().is_ok() {
            "TOOK"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_port_that_is_taken_is_named() -> anyhow::Result<()> {
    let folder = Folder::new("port")?;
    let other = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = other.local_addr()?.port().to_string();
    let output = folder.run(&["dev", "--port", &port])?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = format!("error: port {port} is in use by another program [dev.port]\n");
    assert!(said.contains(&error), "{said}");
    assert!(said.contains("tip: webhookctl dev --port 0 "), "{said}");
    Ok(())
}

#[test]
fn acknowledged_events_survive_a_kill_of_all_processes() -> anyhow::Result<()> {
    let folder = Folder::new("kill")?;
    let dev = start(&folder)?;
    // The sender sends without a pause while the test kills the stack.
    let sender = folder
        .webhookctl(&["send", "stripe", "-n", "400", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut sender = Dev(sender);
    let mut lines = BufReader::new(sender.0.stdout.take().context("stdout is piped")?).lines();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..40 {
        let line: Value = serde_json::from_str(&lines.next().context("there is a next line")??)?;
        acknowledged.extend(id_if_acknowledged(&line));
    }
    dev.kill()?;
    for line in lines {
        acknowledged.extend(id_if_acknowledged(&serde_json::from_str(&line?)?));
    }
    ensure!(
        acknowledged.len() >= 40,
        "only {} were acknowledged",
        acknowledged.len()
    );

    let dev = start(&folder)?;
    let output = folder.run(&["inbox", "list", "-n", "1000", "-o", "json"])?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let kept: BTreeSet<String> = list["items"]
        .as_array()
        .context("a list")?
        .iter()
        .filter_map(|item| Some(item["id"].as_str()?.to_owned()))
        .collect();
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged events are lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    dev.kill()
}

#[test]
fn a_state_is_emptied_and_it_is_said_of_what() -> anyhow::Result<()> {
    let folder = Folder::new("reset")?;
    let dev = start(&folder)?;
    let text = folder.text(&["send", "stripe", "--wait"])?;
    assert!(text.contains("● done"), "{text}");
    dev.kill()?;
    let dev = start(&folder)?;
    let events = || folder.json(&["inbox", "list"]);
    assert_eq!(events()?["items"].as_array().map(Vec::len), Some(1));

    // While `dev` uses a state folder, a command in any folder refuses to delete it.
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir_all(&elsewhere)?;
    let mut other = folder.webhookctl(&["dev", "--state", "../state", "--reset", "--port", "0"]);
    let output = other.current_dir(&elsewhere).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in ["nothing was deleted", "[dev.reset]"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(events()?["items"].as_array().map(Vec::len), Some(1));
    dev.kill()?;

    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let reset = ["dev", "--state", "state", "--reset", "--port", &port];
    let said = folder.run(&reset)?.stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    for words in [
        "Deleting the state in state, last written ",
        " ago: the table (",
        "the secrets (1 file, ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let dev = start(&folder)?;
    assert_eq!(events()?["items"].as_array().map(Vec::len), Some(0));
    dev.kill()
}

fn id_if_acknowledged(line: &Value) -> Option<String> {
    (line["status"] == 200)
        .then(|| line["id"].as_str().map(str::to_owned))
        .flatten()
}

#[test]
fn a_person_can_send_and_look() -> anyhow::Result<()> {
    let folder = Folder::new("send")?;
    let none = folder.run(&["inbox", "list"])?;
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("[context.none]"));

    let dev = start(&folder)?;
    let told = folder.json(&words("send stripe --set data.object.amount=4200 --wait"))?;
    assert_eq!(
        (told["status"].as_u64(), told["outcome"].as_str()),
        (Some(200), Some("done"))
    );
    let id = told["id"].as_str().context("the event has an id")?;

    for tamper in ["body", "signature", "timestamp", "secret"] {
        let sent = folder.run(&["send", "stripe", "--tamper", tamper, "-o", "json"])?;
        let told: Value = serde_json::from_slice(&sent.stdout)?;
        assert_eq!(told["status"], 401, "{tamper}");
        assert_eq!(told["id"], Value::Null);
    }
    let twice = folder.run(&["send", "github", "--duplicate", "-o", "jsonl"])?;
    let ids: BTreeSet<String> = String::from_utf8(twice.stdout)?
        .lines()
        .map(|line| Ok(serde_json::from_str::<Value>(line)?["id"].to_string()))
        .collect::<anyhow::Result<_>>()?;
    assert_eq!(ids.len(), 1, "the second request is the same event");

    // The commands find the event by its id, by a prefix of the id, by the provider's id, and by
    // source and id.
    let provider_id = told["provider_id"].as_str().context("the event has one")?;
    let exact = format!("stripe-main:{provider_id}");
    for name in [id, &id[..20], provider_id, exact.as_str()] {
        let event = folder.json(&["inbox", "inspect", name])?;
        assert_eq!(
            (event["id"].as_str(), event["next_action"]["code"].as_str()),
            (Some(id), Some("none")),
            "{name}"
        );
    }
    let lines = folder.run(&["inbox", "inspect", id])?;
    let text = String::from_utf8(lines.stdout)?;
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names,
        [
            "provider",
            "status",
            "attempt_count",
            "dedupe_key",
            "claimed_until",
            "last_error",
            "next_action"
        ]
    );

    let seen = page_by_page(&folder)?;
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.reverse();
    assert_eq!((seen.len(), &seen), (2, &sorted), "once, newest first");

    let missing = folder.run(&["inbox", "inspect", "evt_01KZ99999999"])?;
    assert_eq!(missing.status.code(), Some(3));
    dev.kill()
}

/// Returns the ids of all events, read in pages of one event.
fn page_by_page(folder: &Folder) -> anyhow::Result<Vec<String>> {
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let mut line = vec!["inbox", "list", "-n", "1"];
        let cursor = after.iter();
        line.extend(cursor.flat_map(|cursor: &String| ["--after", cursor.as_str()]));
        let page = folder.json(&line)?;
        let items = page["items"].as_array().context("items")?;
        seen.extend(items.iter().map(|item| item["id"].to_string()));
        match page["next_cursor"].as_str() {
            Some(cursor) => after = Some(cursor.to_owned()),
            None => return Ok(seen),
        }
    }
}

#[test]
fn a_wrong_file_of_sources_is_refused_before_anything_runs() -> anyhow::Result<()> {
    let folder = Folder::new("sources")?;
    folder.write("sources.toml", "schema = 1\n[[source]]\nnaem = \"x\"\n")?;
    let checked = folder.run(&["sources", "check", "sources.toml"])?;
    assert_eq!(checked.status.code(), Some(5));
    let stderr = String::from_utf8(checked.stderr)?;
    assert!(
        stderr.contains("line 3") && stderr.contains("naem") && stderr.contains("`name`"),
        "{stderr}"
    );
    let embedded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sources.toml");
    let good = folder.run(&["sources", "check", &embedded.to_string_lossy()])?;
    assert!(good.status.success());
    Ok(())
}

#[test]
fn other_tools_find_the_services_while_dev_runs() -> anyhow::Result<()> {
    let folder = Folder::new("tools")?;
    let mut dev = Dev::start_as(&folder, &["--no-input"])?;
    let local = folder.local()?;
    let sam: Value = serde_json::from_str(&folder.read(".mitt/sam-env.json")?)?;
    for function in ["Catcher", "Processor", "LongProcessor", "BackupSync"] {
        assert_eq!(sam[function]["MITT_TABLE"], local.table.as_str());
        assert_eq!(sam[function]["MITT_SOURCES"], "table");
        let endpoints = sam[function]["MITT_ENDPOINTS"].as_str();
        let port = local.dynamodb.rsplit(':').next().context("a port")?;
        assert!(endpoints.is_some_and(|it| it.contains(port)), "{sam}");
    }
    let lambda = folder.read(".mitt/lambda.env")?;
    let queue = format!("MITT_QUEUE_URL=\"{}\"\n", local.queue_url);
    assert!(lambda.contains(&queue), "{lambda}");

    // The table has the sources for containers. Commands use the file.
    let history = folder.text(&["sources", "history"])?;
    assert!(history.contains("webhookctl dev"), "{history}");
    let changed = folder
        .read(".mitt/sources.toml")?
        .replace("acme", "umbrella");
    folder.write(".mitt/sources.toml", &changed)?;
    let list = folder.text(&["sources", "list"])?;
    assert!(
        list.contains("umbrella") && !list.contains("version"),
        "{list}"
    );

    let pid = dev.0.id().to_string();
    let stopped = std::process::Command::new("kill").arg(&pid).status()?;
    ensure!(stopped.success() && dev.0.wait()?.success(), "dev failed");
    for name in ["sam-env.json", "lambda.env", "local.json"] {
        assert!(!folder.path().join(".mitt").join(name).exists(), "{name}");
    }
    Ok(())
}
