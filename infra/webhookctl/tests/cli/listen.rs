//! `webhookctl listen` and `send --event`, as a user runs them: the exact bytes that a local
//! program receives, and what the inbox stores.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::{Duration, Instant};

use crate::support::folder::words;
use crate::support::log::deeds;
use crate::support::receiver::{OK, PATIENCE, Receiver};
use crate::support::world::World;
use anyhow::{Context, ensure};
use serde_json::{Value, json};

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "orders"
preset = "stripe"
action = [{ kind = "keep" }]

[[source]]
name = "issues"
preset = "github"
action = [{ kind = "keep" }]

# A deployment is known by the sources that are built in, of which this is one.
[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep" }]

[[source]]
name = "calls"
preset = "sendgrid"
action = [{ kind = "keep" }]

[[source]]
name = "tenants"
preset = "github"
secret = "issues"
account = ["query:tenant"]
action = [{ kind = "keep" }]
"#;

const SICK: &str =
    "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\nconnection: close\r\n\r\nsick";

fn start(name: &str) -> anyhow::Result<World> {
    World::start(name, SOURCES)
}

impl World {
    /// Sends an event, waits until it is done, and returns its id.
    fn send(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(&[&["send"], arguments, &["--wait", "-o", "json"]].concat())?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{stderr}");
        let told: Value = serde_json::from_slice(&output.stdout)?;
        Ok(told["id"].as_str().context("an id")?.to_owned())
    }

    fn listen(&self, arguments: &[&str]) -> anyhow::Result<Listening> {
        let arguments = [&["listen"], arguments, &["-o", "jsonl"]].concat();
        let mut child = self
            .webhookctl(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Listening {
            lines: lines(child.stdout.take().context("a stdout")?),
            talk: lines(child.stderr.take().context("a stderr")?),
            child,
        })
    }

    fn inspect(&self, id: &str) -> anyhow::Result<Value> {
        let output = self.run(&["inbox", "inspect", id, "-o", "json"])?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn secret(&self, source: &str) -> anyhow::Result<String> {
        let secret = self.read(&format!(".mitt/listen/{source}.secret"))?;
        Ok(secret.trim_end().to_owned())
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Channel<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    told
}

struct Listening {
    child: Child,
    lines: Channel<String>,
    talk: Channel<String>,
}

impl Listening {
    fn delivery(&self) -> anyhow::Result<Value> {
        let line = self.lines.recv_timeout(PATIENCE).context("a delivery")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits until the command prints these words.
    fn says(&self, words: &str) -> anyhow::Result<String> {
        let mut said = String::new();
        loop {
            let line = self.talk.recv_timeout(PATIENCE);
            let line = line.with_context(|| format!("{words:?} is not in {said}"))?;
            if line.contains(words) {
                return Ok(line);
            }
            said = format!("{said}{line}\n");
        }
    }

    fn interrupt(mut self) -> anyhow::Result<(Option<i32>, String)> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status()?;
        let status = self.child.wait()?;
        let said: Vec<String> = self.talk.iter().collect();
        Ok((status.code(), said.join("\n")))
    }

    fn ends(mut self) -> anyhow::Result<(Option<i32>, Vec<String>)> {
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "the command does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.wait()?;
        Ok((status.code(), self.lines.iter().collect()))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn past_and_new_events_reach_a_program_byte_for_byte_and_signed_again() -> anyhow::Result<()> {
    let world = start("listen")?;
    let body = "{\"id\":\"evt_1\",  \"object\":\"event\",\"type\":\"invoice.paid\",\"n\":1.10}";
    let first = world.send(&["orders", "--data", body])?;
    let large = format!("{{\"action\":\"opened\",\"noise\":\"{}\"}}", noise(200_000));
    world.write("large.json", &large)?;
    let second = world.send(&["issues", "--file", "large.json"])?;
    let before = world.inspect(&first)?;

    let app = Receiver::start(OK)?;
    let port = app.port.to_string();
    let to = format!(":{port}/hooks?x=1");
    let listening =
        world.listen(&["-f", &to, "--backfill", "1h", "--resign", "--show-response"])?;
    let told = listening.delivery()?;
    let fields = ["id", "phase", "status", "response", "signed_again"];
    assert_eq!(
        json!(fields.map(|field| &told[field])),
        json!([first, "backfill", 200, "{\"ok\":true}", true])
    );
    let got = app.next()?;
    assert_eq!(
        (got.path.as_str(), got.body.as_slice()),
        ("/hooks?x=1", body.as_bytes())
    );
    assert_eq!(got.header("x-webhookctl-event"), first);
    assert!(
        got.header("x-webhookctl-original-signature")
            .starts_with("t=")
    );
    let secret = world.secret("orders")?;
    assert!(got.verifies("stripe", &app.url(), &secret)?);
    assert!(!got.verifies("stripe", &app.url(), "another")?);

    assert_eq!(listening.delivery()?["id"], second.as_str());
    let got = app.next()?;
    assert_eq!(got.body, large.as_bytes(), "a body from the bucket");
    assert!(got.verifies("github", &app.url(), &world.secret("issues")?)?);
    assert_eq!(got.header("x-github-event"), "issues");

    listening.says("Signing orders again with a local secret")?;
    let third = world.send(&["orders"])?;
    let told = listening.delivery()?;
    assert_eq!(
        (told["id"].as_str(), &told["phase"]),
        (Some(third.as_str()), &"live".into())
    );
    assert!(app.next()?.verifies("stripe", &app.url(), &secret)?);

    // The second listener prints a note about the first. Neither of them changes the inbox.
    let other = world.listen(&["-f", &port, "-s", "orders"])?;
    other.says(&format!(
        "another listener (pid {}) forwards calls, issues, orders, stripe-main, tenants to http://localhost:{port}/hooks",
        listening.child.id()
    ))?;
    assert_eq!(other.interrupt()?.0, Some(130));
    let (exit, said) = listening.interrupt()?;
    assert_eq!(exit, Some(130));
    assert!(said.contains("3 sent · 3 accepted"), "{said}");
    assert_eq!(world.inspect(&first)?, before);
    let notes = std::fs::read_dir(world.path().join(".mitt/listen"))?;
    let mut notes = notes.flatten().map(|file| file.path());
    let is_left = notes.any(|file| file.extension().is_some_and(|end| end == "json"));
    assert!(!is_left, "listeners that have ended left no file");
    Ok(())
}

#[test]
fn events_are_selected_by_a_header_of_their_request() -> anyhow::Result<()> {
    let world = start("listen-header")?;
    let opened = world.send(&["issues", "-t", "issues", "--data", r#"{"action":"opened"}"#])?;
    world.send(&["issues", "-t", "push", "--data", r#"{"ref":"main"}"#])?;
    let app = Receiver::start(OK)?;
    let to = app.port.to_string();
    let wanted = ["--header", "X-GitHub-Event=issues"];
    let listening = world.listen(&[&["-f", &to, "--backfill", "1h"], &wanted[..]].concat())?;
    assert_eq!(listening.delivery()?["id"], opened.as_str());
    let later = world.send(&["issues", "-t", "issues", "--data", r#"{"action":"closed"}"#])?;
    assert_eq!(listening.delivery()?["id"], later.as_str());
    Ok(())
}

#[test]
fn a_program_gets_the_query_and_the_headers_of_the_request() -> anyhow::Result<()> {
    let world = start("listen-query")?;
    let id = world.send(&["tenants", "--account", "acme", "--data", r#"{"n":1}"#])?;
    let app = Receiver::start(OK)?;
    let to = format!(":{}/hooks?x=1", app.port);
    let listening = world.listen(&["-f", &to, "--backfill", "1h", "--resign"])?;
    assert_eq!(listening.delivery()?["id"], id.as_str());
    let got = app.next()?;
    assert_eq!(got.path, "/hooks?x=1&tenant=acme");
    let request = world.inspect(&id)?["request"].clone();
    let user_agent = request["headers"]["user-agent"]
        .as_str()
        .unwrap_or_default();
    assert!(!user_agent.is_empty(), "{request}");
    assert_eq!(got.header("user-agent"), user_agent);
    assert!(got.verifies("github", &app.url(), &world.secret("tenants")?)?);

    let sent = world.run(&["send", "--event", &id, "--to", &app.url()])?;
    ensure!(sent.status.success(), "{sent:?}");
    assert!(app.next()?.path.ends_with("?tenant=acme"));
    // The local stack gets the tenant again, so the event has the same account.
    assert_eq!(world.send(&["--event", &id])?, id);
    Ok(())
}

/// Returns text that is too large for a row even when it is compressed.
fn noise(length: usize) -> String {
    let mut seed = 7_u64;
    let next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + u8::try_from((seed >> 33) % 26).unwrap())
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn what_a_stopped_program_misses_is_held_and_sent_in_order() -> anyhow::Result<()> {
    let world = start("held")?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let to = free.to_string();
    let listening = world.listen(&["-f", &to, "-s", "ord*", "-t", "charge.*"])?;
    listening.says("Forwarding orders from local to http://localhost")?;
    // The read that begins now finds all later events.
    listening.says("Signatures are the providers' own")?;
    let first = world.send(&["orders", "-t", "charge.refunded"])?;
    let said = listening.says("no answer")?;
    assert!(
        said.contains("→ no answer (connection refused), 1 held, retrying"),
        "{said}"
    );
    world.send(&["issues"])?;
    world.send(&["orders", "-t", "payment_intent.succeeded"])?;
    let second = world.send(&["orders", "-t", "charge.refunded"])?;

    let app = Receiver::at(free, SICK)?;
    for id in [&first, &second] {
        let told = listening.delivery()?;
        assert_eq!(
            (&told["id"], &told["status"]),
            (&id.as_str().into(), &500.into())
        );
        assert_eq!(app.next()?.header("x-webhookctl-event"), id);
    }
    let (_, said) = listening.interrupt()?;
    assert!(said.contains("2 sent · 0 accepted · 2 rejected"), "{said}");
    Ok(())
}

#[test]
fn a_span_that_is_over_ends_the_listener() -> anyhow::Result<()> {
    let world = start("span")?;
    let first = world.send(&["orders"])?;
    world.send(&["issues"])?;
    let app = Receiver::start(OK)?;
    let port = app.port.to_string();
    let span = [
        "-f", &port, "--since", "1h", "--until", "0s", "--via", "webhook",
    ];
    let run = |more: &[&str]| world.listen(&[&span, more].concat())?.ends();

    let (exit, lines) = run(&["-s", "orders", "--status", "done"])?;
    assert_eq!((exit, lines.len()), (Some(0), 1));
    let told: Value = serde_json::from_str(&lines[0])?;
    assert_eq!(
        (&told["id"], &told["signed_again"]),
        (&first.as_str().into(), &false.into())
    );
    assert!(app.next()?.header("stripe-signature").starts_with("t="));
    assert_eq!(run(&["--status", "failed"])?, (Some(0), Vec::new()));
    assert_eq!(run(&["--where", "action=opened"])?.1.len(), 1);
    assert_eq!(run(&["--where", "action=closed"])?.1.len(), 0);
    Ok(())
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_read() -> anyhow::Result<()> {
    let world = start("refused")?;
    for (arguments, code, exit) in [
        (vec!["-f", "https://example.com/a"], "forward.elsewhere", 7),
        (vec!["-f", "http://10.1.2.3:80"], "forward.elsewhere", 7),
        (vec!["-f", ""], "forward.url", 2),
        (vec!["-f", "3000", "-s", "ordres"], "usage.source", 2),
        (vec!["-f", "3000", "--id", "evt_1"], "listen.id", 2),
        (vec!["-f", "3000", "--backfill", "40d"], "listen.span", 2),
        (vec!["-f", "3000", "-o", "csv"], "usage.output", 2),
    ] {
        let output = world.run(&[&["listen"], &arguments[..]].concat())?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            stderr.contains(&format!("[{code}]")),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
    }
    let elsewhere = ["send", "--event", "evt_1", "--to", "https://example.com/a"];
    assert_eq!(world.run(&elsewhere)?.status.code(), Some(7));
    Ok(())
}

#[test]
fn a_stored_event_is_sent_once_more_to_a_program_and_to_the_local_stack() -> anyhow::Result<()> {
    let world = start("event")?;
    let body = "{\"id\":\"evt_7\", \"type\":\"invoice.paid\",\"data\":{\"amount\":5}}";
    let id = world.send(&["orders", "--data", body])?;
    let app = Receiver::start(OK)?;
    let url = app.url();

    let sent = world.run(&["send", "--event", &id[..16], "--to", &url])?;
    let text = String::from_utf8(sent.stdout)?;
    ensure!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    for words in [
        "(stored ",
        "in local)",
        "signed again with the secret of this machine",
        "200 OK",
        "{\"ok\":true}",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let got = app.next()?;
    assert_eq!(got.body, body.as_bytes());
    assert!(got.verifies("stripe", &url, &world.secret("orders")?)?);
    assert!(
        got.header("x-webhookctl-original-signature")
            .starts_with("t=")
    );

    // The body is changed, and signed with the secret that the user gave.
    let sent = world
        .webhookctl(&["send", "--event", &id, "--to", &url])
        .args(words("--set data.amount=6 --secret-from env:MINE -o json"))
        .env("MINE", "whsec_mine")
        .output()?;
    let told: Value = serde_json::from_slice(&sent.stdout)?;
    assert_eq!(
        (&told["event"], &told["status"]),
        (&id.as_str().into(), &200.into())
    );
    let got = app.next()?;
    assert!(got.verifies("stripe", &url, "whsec_mine")?);
    let changed: Value = serde_json::from_slice(&got.body)?;
    assert_eq!(changed["data"]["amount"], 6);
    let typo = [
        "send",
        "--event",
        &id,
        "--to",
        &url,
        "--set",
        "data.amuont=6",
    ];
    let typo = String::from_utf8(world.run(&typo)?.stderr)?;
    assert!(typo.contains("did you mean data.amount?"), "{typo}");

    // The local stack treats it as a second delivery of the same event.
    assert_eq!(world.send(&["--event", &id])?, id);
    Ok(())
}

#[test]
fn an_event_of_a_provider_with_a_key_is_signed_with_a_local_one() -> anyhow::Result<()> {
    let world = start("event-key")?;
    let app = Receiver::start(OK)?;
    let url = app.url();
    // The provider publishes a public key, so `send` signs with a local key pair and writes its
    // public key to a file.
    let id = world.send(&["calls"])?;
    let sent = world.run(&["send", "--event", &id, "--to", &url])?;
    ensure!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    let public = world.read(".mitt/listen/calls.pub")?;
    assert!(app.next()?.verifies("sendgrid", &url, public.trim_end())?);
    Ok(())
}

const ALICE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: 249\r\n\
connection: close\r\n\r\n\
<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
<GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/Oncall/alice</Arn>\
<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";

#[tokio::test]
async fn what_is_read_out_of_a_deployment_is_written_down_there() -> anyhow::Result<()> {
    let world = start("deployment")?;
    let large = format!("{{\"id\":\"evt_9\",\"noise\":\"{}\"}}", noise(200_000));
    world.write("large.json", &large)?;
    let id = world.send(&["stripe-main", "--file", "large.json"])?;
    let (app, sts) = (Receiver::start(OK)?, Receiver::start(ALICE)?);
    let url = app.url();
    let bucket = world.local.bucket.clone();

    let event = ["send", "--event", &id, "--to", &url];
    let without = world.deployment(&sts.origin(), &event).output()?;
    let said = String::from_utf8(without.stderr)?;
    assert!(
        said.contains("--body-bucket") && without.status.code() == Some(1),
        "{said}"
    );
    assert_eq!(deeds(&world.dynamodb(), &world.local.table).await?.len(), 0);

    let with = [&event[..], &["--body-bucket", &bucket]].concat();
    let sent = world.deployment(&sts.origin(), &with).output()?;
    ensure!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    assert_eq!(app.next()?.body, large.as_bytes());
    let deeds = deeds(&world.dynamodb(), &world.local.table).await?;
    let [deed] = deeds.as_slice() else {
        anyhow::bail!("{deeds:?}");
    };
    let text = |name: &str| deed[name].as_s().cloned().unwrap_or_default();
    assert_eq!(
        (text("what"), text("who"), text("sel")),
        (
            "send.event".to_owned(),
            "arn:aws:sts::123456789012:assumed-role/Oncall/alice".to_owned(),
            id
        )
    );

    // A user who only listens does not need a permission to write.
    let port = app.port.to_string();
    let span = [
        "listen", "-f", &port, "--since", "1h", "--until", "0s", "-o", "jsonl",
    ];
    let lines = |more: &[&str]| -> anyhow::Result<Value> {
        let output = world
            .deployment(&sts.origin(), &[&span[..], more].concat())
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let left_out = lines(&[])?;
    assert!(
        left_out["error"]
            .as_str()
            .is_some_and(|why| why.contains("--body-bucket"))
    );
    assert_eq!(lines(&["--body-bucket", &bucket])?["status"], 200);
    assert_eq!(app.next()?.body, large.as_bytes());
    Ok(())
}

#[test]
fn what_was_sent_is_told_as_the_design_tells_it() -> anyhow::Result<()> {
    let world = start("told")?;
    let sent = world.run(&["send", "orders", "--wait"])?;
    let text = String::from_utf8(sent.stdout)?;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("POST http://127.0.0.1:"), "{text}");
    assert!(lines[1].contains("with secret current.1 (fp:"), "{text}");
    assert!(
        lines[2].starts_with("200 OK in ") && lines[2].contains("evt_"),
        "{text}"
    );
    assert!(
        lines[3].starts_with("● done in ") && lines[3].ends_with("1 attempt"),
        "{text}"
    );

    let forged = world.run(&["send", "issues", "--tamper", "body", "-o", "json"])?;
    let told: Value = serde_json::from_slice(&forged.stdout)?;
    let id = told["quarantined"]
        .as_str()
        .context("the request is quarantined")?;
    let why = world.run(&["verify", id])?;
    assert_eq!(why.status.code(), Some(5));

    let began = Instant::now();
    let many = world.run(&["send", "orders", "-n", "4", "--rate", "10/s", "-o", "jsonl"])?;
    assert_eq!(String::from_utf8(many.stdout)?.lines().count(), 4);
    assert!(began.elapsed() >= Duration::from_millis(300));
    Ok(())
}
