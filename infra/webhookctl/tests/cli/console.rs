//! The reads of the console: each response is what the command prints in a terminal.

use std::io::{BufRead as _, BufReader, Write as _};

use anyhow::{Context as _, ensure};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::support::page::Page;
use crate::support::world::{Dev, World};

const SOURCES: &str = r#"
    schema = 1
    [[source]]
    name = "acme"
    preset = "generic-hmac"
    [[source.action]]
    name = "keep"
    kind = "keep"

    [[source]]
    name = "it-s"
    preset = "stripe"
    [[source.action]]
    name = "keep"
    kind = "keep"
"#;

/// Reads and their flags. `ID` is the id of an event.
const READS: [&str; 32] = [
    "status",
    "inbox.list",
    "inbox.list?limit=1",
    "inbox.list?limit=1&reverse",
    "inbox.list?status=done&status=failed&source=acme",
    "inbox.list?type=it%27s%20%24(id)",
    "inbox.list?source=nothing",
    "inbox.list?since=soon",
    "inbox.list?where=a.b%3D1",
    "inbox.inspect?id=ID",
    "inbox.inspect?id=ID&full",
    "inbox.inspect?id=nothing",
    "inbox.trace?id=ID",
    "inbox.body?id=ID",
    "inbox.diff?a=ID&b=ID",
    "inbox.stats",
    "inbox.stats?by=hour&since=3h",
    "dlq.list",
    "dlq.inspect?error=abcdef",
    "quarantine.list",
    "quarantine.list?flat",
    "sources.list",
    "sources.show?name=acme",
    "sources.presets?name=stripe",
    "sync.status",
    "sync.gaps?since=7d",
    "sync.coverage",
    "reconcile.list",
    "replay.log",
    "log?limit=5",
    "doctor?only=sources",
    "verify?id=ID",
];

#[test]
fn each_read_is_what_its_command_prints() -> anyhow::Result<()> {
    let world = World::start("console-reads", SOURCES)?;
    world.text(&["send", "acme", "--wait"])?;
    world.refused(&["send", "acme", "--tamper", "body"])?;
    let list = world.json(&["inbox", "list"])?;
    let id = list["items"][0]["id"].as_str().context("an id")?;
    let page = Page::open(&world, &[])?;
    for read in READS {
        let path = format!("/api/{}", read.replace("ID", id));
        let mut differs = None;
        // Ages change with the second.
        for _ in 0..5 {
            differs = compare(&world, &page, &path)?;
            if differs.is_none() {
                break;
            }
        }
        if let Some((ours, theirs)) = differs {
            let mut pairs = ours.lines().zip(theirs.lines());
            let first = pairs.find(|(ours, theirs)| ours != theirs);
            anyhow::bail!("{path}: {first:?}\n{ours}\n{theirs}");
        }
    }
    Ok(())
}

/// Returns the two outputs if they differ.
fn compare(world: &World, page: &Page, path: &str) -> anyhow::Result<Option<(String, String)>> {
    let answer = page.get(path)?;
    let command = answer.header("x-command").context("a command")?;
    let command = percent_decode_str(command).decode_utf8()?;
    let shell = world.webhookctl(&[]);
    let program = shell.get_program().to_owned();
    let folder = std::path::Path::new(&program)
        .parent()
        .context("a folder")?
        .to_owned();
    let mut sh = std::process::Command::new("sh");
    sh.arg("-c")
        .arg(format!("{command} -o json"))
        .current_dir(world.path());
    for (name, value) in shell.get_envs() {
        match value {
            Some(value) => sh.env(name, value),
            None => sh.env_remove(name),
        };
    }
    let path_of =
        std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(env!("PATH"))))?;
    let output = sh.env("PATH", path_of).output()?;
    let printed =
        if answer.header("x-exit").and_then(|exit| exit.parse().ok()) == output.status.code() {
            let stream = if output.stdout.is_empty() {
                &output.stderr
            } else {
                &output.stdout
            };
            String::from_utf8_lossy(stream).into_owned()
        } else {
            format!(
                "exit {:?}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )
        };
    let (ours, theirs) = (timeless(&answer.body), timeless(&printed));
    Ok((ours != theirs).then_some((ours, theirs)))
}

/// Leaves out the time and the cost of the read. The console reads the version of the sources only
/// now and then, so a read of it has fewer calls.
fn timeless(document: &str) -> String {
    // The range of the document ends at the time of the read.
    let times = ["  \"as_of\"", "  \"since\"", "  \"until\""];
    let is_time = |line: &&str| times.iter().any(|time| line.starts_with(time));
    let lines = document.lines().filter(|line| !is_time(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let cost = text.split_once(",\n  \"cost\": {");
    match cost.and_then(|(before, after)| Some((before, after.split_once('}')?.1))) {
        Some((before, after)) => format!("{before}{after}"),
        None => text,
    }
}

#[test]
fn a_stream_has_a_line_for_each_change() -> anyhow::Result<()> {
    let world = World::start("console-tail", SOURCES)?;
    let page = Page::open(&world, &[])?;
    let mut stream = page.connect()?;
    let head = page.headers().join("\r\n");
    write!(
        stream,
        "GET /api/inbox.tail?source=acme HTTP/1.1\r\n{head}\r\n\r\n"
    )?;
    let mut lines = BufReader::new(stream).lines();
    // The first line of the stream is empty: now the console listens.
    for line in &mut lines {
        if line?.trim() == "1" {
            break;
        }
    }
    world
        .text(&["send", "stripe", "--source", "it-s", "--wait"])
        .ok();
    world.text(&["send", "acme", "--wait"])?;
    let mut seen = Vec::new();
    for line in lines {
        let Ok(change) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if !change.is_object() {
            continue;
        }
        ensure!(change["source"] == "acme", "{change}");
        seen.push(change["change"].clone());
        if seen.last() == Some(&"done".into()) {
            break;
        }
    }
    assert_eq!(seen.first(), Some(&"stored".into()), "{seen:?}");
    Ok(())
}

#[test]
fn a_body_is_a_download_with_a_name_of_ours() -> anyhow::Result<()> {
    let world = World::start("console-body", SOURCES)?;
    world.text(&["send", "acme", "--wait"])?;
    let list = world.json(&["inbox", "list"])?;
    let id = list["items"][0]["id"].as_str().context("an id")?;
    let page = Page::open(&world, &[])?;
    let body = page.get(&format!("/api/body/{id}"))?;
    assert_eq!(body.status, 200);
    assert_eq!(
        body.header("content-type"),
        Some("application/octet-stream")
    );
    let name = format!("attachment; filename=\"{id}.bin\"");
    assert_eq!(body.header("content-disposition"), Some(name.as_str()));
    assert_eq!(body.body, world.text(&["inbox", "body", id])?);
    assert_eq!(page.get("/api/body/-")?.code(), "console.flag");
    assert_eq!(page.get("/api/body/nothing")?.status, 404);
    Ok(())
}

#[test]
fn dev_serves_the_console_too() -> anyhow::Result<()> {
    use std::process::Stdio;
    let folder = crate::support::folder::Folder::new("console-dev")?;
    folder.write("sources.toml", SOURCES)?;
    let mut dev = folder.webhookctl(&["dev", "--port", "0", "-o", "jsonl"]);
    let mut dev = Dev(dev.stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    let stdout = dev.0.stdout.take().context("stdout is piped")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line)?;
    let console = ready["console"].as_str().context("an address")?;
    ensure!(
        console.starts_with("http://127.0.0.1:") && console.contains("/#code="),
        "{line}"
    );
    Ok(())
}
