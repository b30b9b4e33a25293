//! `webhookctl dev` as a person runs it: the program, its output, and what survives kill -9.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

const README: &str = include_str!("../../../README.md");

/// A folder of the test's own, to run the program in.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("mitt-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn webhookctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .env_remove("MITT_TABLE")
            .env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        self.webhookctl(arguments)
            .output()
            .with_context(|| format!("run {arguments:?}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A `dev` that is running, killed when the test ends.
struct Dev(Child);

impl Dev {
    /// Starts one and waits until it says that it is ready.
    fn start(folder: &Folder) -> anyhow::Result<Self> {
        let state = ["dev", "--state", "state", "--port", "0", "-o", "jsonl"];
        let mut child = folder.webhookctl(&state).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("it has a stdout")?;
        let dev = Self(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.contains("\"ready\""), "{line}");
        Ok(dev)
    }

    fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let block = README
        .split("```")
        .find(|block| block.contains("● done"))
        .context("README shows the demo")?;
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

/// Times, ids and durations are other ones each time.
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
fn what_was_acknowledged_is_there_after_everything_was_killed() -> anyhow::Result<()> {
    let folder = Folder::new("kill")?;
    let dev = Dev::start(&folder)?;
    // Somebody sends without a pause, and the stack dies under it.
    let sender = folder
        .webhookctl(&["send", "stripe", "-n", "400", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut sender = Dev(sender);
    let mut lines = BufReader::new(sender.0.stdout.take().context("it has a stdout")?).lines();
    let mut acknowledged = BTreeSet::new();
    for _ in 0..40 {
        let line: Value = serde_json::from_str(&lines.next().context("it goes on")??)?;
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

    let dev = Dev::start(&folder)?;
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

    let dev = Dev::start(&folder)?;
    let sent = folder.run(&[
        "send",
        "stripe",
        "--set",
        "data.object.amount=4200",
        "--wait",
        "-o",
        "json",
    ])?;
    ensure!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    let told: Value = serde_json::from_slice(&sent.stdout)?;
    assert_eq!(
        (told["status"].as_u64(), told["outcome"].as_str()),
        (Some(200), Some("done"))
    );
    let id = told["id"].as_str().context("it has an id")?;

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
    assert_eq!(ids.len(), 1, "the second one is the same event");

    // By its id, by a prefix of it, by the provider's id, and by source and id.
    let provider_id = told["provider_id"].as_str().context("it has one")?;
    let exact = format!("stripe-main:{provider_id}");
    for name in [id, &id[..20], provider_id, exact.as_str()] {
        let inspected = folder.run(&["inbox", "inspect", name, "-o", "json"])?;
        ensure!(
            inspected.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&inspected.stderr)
        );
        let event: Value = serde_json::from_slice(&inspected.stdout)?;
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

    // Page by page, each event once, newest first.
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let mut arguments = vec!["inbox", "list", "-n", "1", "-o", "json"];
        arguments.extend(
            after
                .iter()
                .flat_map(|cursor: &String| ["--after", cursor.as_str()]),
        );
        let page: Value = serde_json::from_slice(&folder.run(&arguments)?.stdout)?;
        seen.extend(
            page["items"]
                .as_array()
                .context("items")?
                .iter()
                .map(|item| item["id"].to_string()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => after = Some(cursor.to_owned()),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.reverse();
    assert_eq!((seen.len(), &seen), (2, &sorted));

    let missing = folder.run(&["inbox", "inspect", "evt_01KZ99999999"])?;
    assert_eq!(missing.status.code(), Some(3));
    dev.kill()
}

#[test]
fn a_wrong_file_of_sources_is_refused_before_anything_runs() -> anyhow::Result<()> {
    let folder = Folder::new("sources")?;
    std::fs::write(
        folder.0.join("sources.toml"),
        "schema = 1\n[[source]]\nnaem = \"x\"\n",
    )?;
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
