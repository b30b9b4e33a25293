//! Prompts, single keys and colours, as a user sees them at a terminal while `dev` runs.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use testkit::pty::Screen;

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "orders"
preset = "stripe"
action = [{ kind = "keep" }]

[[source]]
name = "code"
preset = "github"
action = [{ kind = "keep" }]
"#;

/// A `dev` in a folder of its own. It is killed when the test ends.
struct World {
    folder: PathBuf,
    dev: Child,
}

impl World {
    fn start(name: &str) -> Self {
        let folder = folder(name);
        let mut dev = command(&folder, &["dev", "--sources", "sources.toml"]);
        dev.args(["--port", "0", "-o", "jsonl"]);
        let mut dev = dev.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = dev.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.contains("\"ready\""), "{line}");
        Self { folder, dev }
    }

    fn at_terminal(&self, arguments: &[&str]) -> Screen {
        Screen::of(command(&self.folder, arguments))
    }

    /// Sends an event, and waits until the event is done.
    fn send(&self, arguments: &[&str]) {
        let line = [&["send"], arguments, &["--wait"]].concat();
        let sent = command(&self.folder, &line).output().unwrap();
        let said = String::from_utf8_lossy(&sent.stderr).into_owned();
        assert!(sent.status.success(), "{said}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.dev.kill();
        let _ = self.dev.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder with the sources file.
fn folder(name: &str) -> PathBuf {
    let name = format!("mitt-terminal-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sources.toml"), SOURCES).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("MITT_TABLE")
        .env_remove("NO_COLOR");
    command
}

/// A local program that accepts requests, and tells the test about each request.
fn program() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if answer(stream).is_some() && tell.send(()).is_err() {
                break;
            }
        }
    });
    (port.to_string(), told)
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(ok.as_bytes()).ok()
}

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn single_keys_send_again_pause_and_stop_and_leave_the_terminal_as_it_was() {
    let world = World::start("keys");
    let (port, requests) = program();
    let mut screen = world.at_terminal(&["listen", "-f", &port, "-s", "orders"]);
    screen
        .shows("r send again   d details   p pause   q stop")
        .await;
    assert!(!screen.is_plain(), "a key counts when it is pressed");
    screen.types("r");
    screen.shows("no event was sent yet").await;
    world.send(&["orders"]);
    screen.shows("→ ").await;
    requests.recv_timeout(PATIENCE).unwrap();
    screen.types("r");
    screen.shows("→ ").await;
    requests.recv_timeout(PATIENCE).unwrap();
    screen.types("p");
    screen.shows("paused, 0 held; p resumes").await;
    screen.types("x");
    screen.types("p");
    screen.shows("resumed").await;
    screen.types("q");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    assert!(ended.text.contains("2 sent · 2 accepted"), "{}", ended.text);
    assert!(screen.is_plain());

    // Ctrl-C still stops the command, and the command restores the terminal.
    let mut screen = world.at_terminal(&["listen", "-f", &port]);
    screen.shows("q stop").await;
    screen.types("\u{3}");
    assert_eq!(screen.ends().await.exit, Some(130));
    assert!(screen.is_plain());
}

#[tokio::test]
async fn arrows_choose_the_event_that_is_sent_again_and_shown() {
    let world = World::start("arrows");
    let (port, requests) = program();
    let mut screen = world.at_terminal(&["listen", "-f", &port]);
    screen.shows("↑↓ select").await;
    screen.types("\u{1b}[A");
    screen.shows("no event was sent yet").await;
    for source in ["orders", "code"] {
        world.send(&[source]);
        screen.shows("→ ").await;
        requests.recv_timeout(PATIENCE).unwrap();
    }
    screen.types("\u{1b}[A");
    screen.shows("  orders  ").await;
    screen.types("d");
    screen.shows("stripe").await;
    screen.shows("next_action").await;
    screen.types("r");
    screen.shows("  orders  ").await;
    screen.shows("  again").await;
    requests.recv_timeout(PATIENCE).unwrap();
    screen.types("\u{1b}[B");
    screen.shows("selected: ").await;
    screen.shows("  code  ").await;
    screen.types("q");
    let ended = screen.ends().await;
    assert!(ended.text.contains("3 sent · 3 accepted"), "{}", ended.text);
    assert!(screen.is_plain());
}

#[tokio::test]
async fn whoever_wants_no_single_keys_has_none() {
    let world = World::start("no-keys");
    let (port, _requests) = program();
    let mut screen = world.at_terminal(&["listen", "-f", &port, "--no-input"]);
    screen.shows("Signatures are the providers' own").await;
    screen.types("q\n");
    world.send(&["orders"]);
    screen.shows("→ ").await;
    assert!(screen.is_plain());
    screen.types("\u{3}");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(130), "{}", ended.text);
    assert!(!ended.text.contains("q stop"), "{}", ended.text);
}

const DEV: [&str; 5] = ["dev", "--sources", "sources.toml", "--port", "0"];

#[tokio::test]
async fn a_key_sends_a_webhook_to_dev_and_another_stops_it() {
    let folder = folder("dev-keys");
    let mut screen = Screen::of(command(&folder, &DEV));
    screen
        .shows("s send a webhook   o open the console   q stop")
        .await;
    assert!(!screen.is_plain(), "a key counts when it is pressed");
    screen.types("s");
    screen.shows("200 in ").await;
    // The command also shows an event that another command sent.
    let sent = command(&folder, &["send", "orders", "--wait"]).output();
    assert!(sent.unwrap().status.success());
    screen.shows("  orders  ").await;
    screen.shows("  done ").await;
    screen.types("cq");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    // `s` uses the first source, by name, that has a secret.
    assert!(
        ended.text.contains("  sent  code  issues  200 in "),
        "{}",
        ended.text
    );
    assert!(screen.is_plain());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_key_mends_what_dev_has_broken_and_breaks_it_again() {
    let folder = folder("dev-chaos");
    let dev = ["dev", "--port", "0", "--chaos", "clock-skew"];
    let mut screen = Screen::of(command(&folder, &dev));
    screen.shows("c turn the fault off or on").await;
    screen.shows("401 in ").await;
    screen.types("c");
    screen.shows("the fault is off").await;
    screen.types("s");
    screen.shows("200 in ").await;
    screen.types("c");
    screen.shows("the fault is on again").await;
    screen.types("s");
    screen.shows("401 in ").await;
    screen.types("q");
    assert_eq!(screen.ends().await.exit, Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_dev_that_is_to_take_no_keys_takes_none() {
    let folder = folder("dev-no-keys");
    let mut screen = Screen::of(command(&folder, &[&DEV[..], &["--no-input"]].concat()));
    screen.shows("Ctrl-C stops it.").await;
    screen.types("q\n");
    let sent = command(&folder, &["send", "orders", "--wait"]).output();
    assert!(sent.unwrap().status.success(), "the command continues");
    assert!(screen.is_plain());
    screen.types("\u{3}");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    assert!(!ended.text.contains("q stop"), "{}", ended.text);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_secret_is_asked_for_and_not_shown() {
    let world = World::start("secret");
    let rotate = ["sources", "rotate-secret", "code", "-m", "somebody left"];
    let asked = async || {
        let mut screen = world.at_terminal(&rotate);
        screen.shows("Secret (hidden): ").await;
        while screen.is_plain() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        screen
    };
    let mut screen = asked().await;
    screen.types("correct\u{3}");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(130), "{}", ended.text);
    assert!(ended.text.contains("nothing was changed"), "{}", ended.text);
    assert!(screen.is_plain(), "Ctrl-C restores the terminal");

    let mut screen = asked().await;
    screen.types("correct horse battery\n");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    assert!(ended.text.contains("accepted within"), "{}", ended.text);
    assert!(!ended.text.contains("horse"), "{}", ended.text);
    assert!(screen.is_plain());

    let abort = ["sources", "rotate-secret", "code", "--abort"];
    assert_eq!(world.at_terminal(&abort).ends().await.exit, Some(0));
    let unasked = [&rotate[..], &["--no-input"]].concat();
    let ended = world.at_terminal(&unasked).ends().await;
    assert_eq!(ended.exit, Some(2), "{}", ended.text);
    for said in ["[sources.no_secret]", "--no-input is given"] {
        assert!(ended.text.contains(said), "{}", ended.text);
    }
}

#[tokio::test]
async fn an_empty_list_says_whether_events_come_at_all() {
    let world = World::start("empty");
    let list = ["inbox", "list", "-s", "code"];
    let empty = world.at_terminal(&list).ends().await;
    let none = "no event arrived in the last 24h; widen the list with --since 7d";
    assert!(empty.text.contains(none), "{}", empty.text);
    world.send(&["orders"]);
    let mut others = world.at_terminal(&list);
    others.shows("the newest event arrived ").await;
    others
        .shows(" ago from orders; widen the list with --since 7d")
        .await;
    assert_eq!(others.ends().await.exit, Some(0));
}

#[tokio::test]
async fn long_work_shows_how_far_it_is_and_leaves_what_came_of_it() {
    let world = World::start("progress");
    for _ in 0..3 {
        world.send(&["orders"]);
    }
    let export = ["inbox", "export", "--with-request", "-f"];
    let file = [&export[..], &["all.jsonl", "-m", "to look at them"]].concat();
    let mut screen = world.at_terminal(&file);
    screen.shows("exported  ").await;
    screen.shows("/3").await;
    screen.shows("3 events, ").await;
    assert_eq!(screen.ends().await.exit, Some(0));

    let shown = [&export[..], &["-", "-m", "to look at them"]].concat();
    let shown = world.at_terminal(&shown).ends().await;
    assert_eq!(shown.exit, Some(0), "{}", shown.text);
    assert!(!shown.text.contains("exported"), "{}", shown.text);
    let quiet = [&export[..], &["quiet.csv", "-m", "to look at them", "-q"]].concat();
    let quiet = world.at_terminal(&quiet).ends().await;
    assert!(!quiet.text.contains("exported"), "{}", quiet.text);

    let list = command(&world.folder, &["inbox", "list", "-o", "ids"]).output();
    let ids = String::from_utf8(list.unwrap().stdout).unwrap();
    let mut erase = vec!["erase", "-m", "they asked", "--confirm", "3"];
    erase.extend(ids.lines().flat_map(|id| ["--id", id]));
    let mut screen = world.at_terminal(&erase);
    screen.shows("erased  ").await;
    screen.shows("/3").await;
    screen.shows("3 events erased by ").await;
    assert_eq!(screen.ends().await.exit, Some(0));
}

#[tokio::test]
async fn a_person_has_colours_and_tips_and_no_hidden_characters() {
    let world = World::start("colours");
    // U+202E makes a terminal reverse the text after it, so an operator would read a wrong value.
    let hidden = r#"{"id":"evt_h","object":"event","type":"invoice.paid","n":"a"#.to_owned()
        + "\u{202e}b\"}";
    world.send(&["orders", "--data", &hidden]);
    let list = world.at_terminal(&["inbox", "list"]).ends().await;
    assert_eq!(list.exit, Some(0), "{}", list.text);
    for shown in ["\u{1b}[", "done", "webhookctl inbox inspect <ID>"] {
        assert!(list.text.contains(shown), "{shown}: {}", list.text);
    }
    let body = ["inbox", "body", "orders:evt_h"];
    let refused = world.at_terminal(&body).ends().await;
    assert_eq!(refused.exit, Some(7), "{}", refused.text);
    assert!(
        refused.text.contains("[inbox.control_bytes]"),
        "{}",
        refused.text
    );
    let raw = [&body[..], &["--raw"]].concat();
    let raw = world.at_terminal(&raw).ends().await;
    assert_eq!(raw.exit, Some(0), "{}", raw.text);
    assert!(raw.text.contains('\u{202e}'), "{}", raw.text);
}

#[tokio::test]
async fn a_person_who_waits_sees_what_happens() {
    let world = World::start("send-wait");
    let ended = world
        .at_terminal(&["send", "orders", "--wait"])
        .ends()
        .await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    for said in ["  sending to http://127.0.0.1:", "  answered 200 in "] {
        assert!(ended.text.contains(said), "{}", ended.text);
    }
    for quiet in [&["-q"][..], &["-o", "json"]] {
        let line = [&["send", "orders", "--wait"], quiet].concat();
        let ended = world.at_terminal(&line).ends().await;
        assert_eq!(ended.exit, Some(0), "{}", ended.text);
        assert!(!ended.text.contains("sending to"), "{}", ended.text);
    }
    let line = ["send", "orders", "--wait"];
    let piped = command(&world.folder, &line).output().unwrap();
    assert_eq!(String::from_utf8(piped.stderr).unwrap(), "");
}
