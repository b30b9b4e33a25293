//! Mitt stores rejected requests for a limited time, within limits. An operator can release them
//! later.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use aws_sdk_ssm::types::ParameterType;
use futures::{StreamExt as _, stream};
use local::{Options, names};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Row, State};
use shared::inbox::rejected::{DailyQuota, RejectedRequest, RejectedRequests};
use shared::webhook::event::EventKey;
use tokio::process::Command;

use super::bad_input::noise;
use super::here;
use super::sts::{WHO, sts};
use super::support::{Answer, Headers, Inbox, headers, hex, options, request, unique, with};

/// The number of requests: more than any source stores.
const FLOOD: usize = 1_000;

async fn start(options: Options) -> Inbox {
    Inbox::start(Options {
        sources_file: Some(here().join("quarantine.toml")),
        ..options
    })
    .await
}

fn quarantine(inbox: &Inbox) -> RejectedRequests {
    RejectedRequests::new(inbox.stack.clients().dynamodb, inbox.stack.table().unwrap())
}

async fn held(inbox: &Inbox, source: &str) -> Vec<RejectedRequest> {
    let now = UnixMillis::now();
    let from = now - Duration::from_secs(3600);
    let held = quarantine(inbox).held(source, from, now, now).await;
    held.unwrap()
}

async fn tally(inbox: &Inbox, source: &str) -> Option<DailyQuota> {
    let tally = quarantine(inbox).tally(source, UnixMillis::now()).await;
    tally.unwrap()
}

/// Returns headers that are signed with a secret of no source.
fn forged(inbox: &Inbox, body: &[u8]) -> Headers {
    let signature = hex(b"another secret", &[body]);
    inbox.must_not_log(&signature);
    let signed = inbox.github(&unique(), body);
    with(
        signed,
        "x-hub-signature-256",
        &format!("sha256={signature}"),
    )
}

/// Runs `webhookctl` as an operator runs it against a deployment.
async fn webhookctl(inbox: &Inbox, line: &str) -> Output {
    let at = inbox.stack.endpoints();
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    Command::new(testkit::webhookctl())
        .args(line.split(' '))
        .current_dir(inbox.stack.folder())
        .env("AWS_REGION", names::REGION)
        .env("AWS_ACCESS_KEY_ID", names::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", names::SECRET_KEY)
        .env("AWS_ENDPOINT_URL_DYNAMODB", &at.dynamodb)
        .env("AWS_ENDPOINT_URL_SQS", &at.sqs)
        .env("AWS_ENDPOINT_URL_S3", &at.s3)
        .env("AWS_ENDPOINT_URL_SSM", &at.ssm)
        .env("AWS_ENDPOINT_URL_STS", sts().await.unwrap())
        .env("MITT_TABLE", inbox.stack.table().unwrap())
        .env(
            "MITT_QUEUE_URL",
            inbox.stack.queue_url("WorkQueue").unwrap(),
        )
        .env("MITT_BODY_BUCKET", inbox.stack.bucket("Bodies").unwrap())
        .env("MITT_SECRETS_PATH", path)
        .output()
        .await
        .unwrap()
}

async fn says(inbox: &Inbox, line: &str) -> Value {
    let output = webhookctl(inbox, &format!("{line} -o json")).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_refused(answer: &Answer) {
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(answer.text(), r#"{"error":"not verified"}"#);
}

#[tokio::test]
async fn a_forged_request_is_kept_byte_for_byte_and_not_for_long() {
    let inbox = start(options()).await;
    let mut body = noise(3_000);
    body.extend(inbox.canary().as_bytes());
    let cookie = inbox.canary();
    let sent = with(forged(&inbox, &body), "cookie", &cookie);
    let sent = with(sent, "content-type", "application/octet-stream");
    let before = UnixMillis::now();
    is_refused(
        &inbox
            .request("POST", "/in/github-main?a=1", &sent, &body)
            .await,
    );

    let held = held(&inbox, "github-main").await;
    let [held] = held.as_slice() else {
        panic!("{held:?}")
    };
    let envelope = held.envelope().unwrap();
    assert_eq!(envelope.body, body);
    assert!(held.received_at >= before && held.received_at <= UnixMillis::now());
    assert_eq!(
        (envelope.method.as_str(), held.reason.as_str()),
        ("POST", "bad_signature")
    );
    assert!(
        envelope.url.ends_with("/in/github-main?a=1"),
        "{}",
        envelope.url
    );
    for (name, value) in sent.iter().filter(|(name, _)| name != "cookie") {
        assert_eq!(
            envelope.headers.one(name),
            Ok(Some(value.as_str())),
            "{name}"
        );
    }
    assert_eq!(envelope.headers.one("cookie"), Ok(None));
    let now = UnixMillis::now().secs();
    let week = 7 * 24 * 3600;
    for (_, ttl) in times_to_live(&inbox, "Q#github-main").await {
        assert!((now + week - 60..=now + week).contains(&ttl), "{ttl}");
    }
    let listed = says(&inbox, "quarantine list --flat").await;
    assert_eq!(listed["items"][0]["id"], json!(held.id.as_str()));
    assert_eq!(listed["items"][0]["finding"], "still bad_signature");
    inbox.is_unharmed();
}

#[tokio::test]
async fn what_is_our_own_fault_or_not_wanted_or_too_large_is_not_kept() {
    let inbox = start(options()).await;
    let body = inbox.canary();
    let signed = inbox.github(&unique(), body.as_bytes());
    let answer = inbox.post("secretless", &signed, body.as_bytes()).await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    is_refused(&inbox.post("slack-main", &signed, body.as_bytes()).await);
    for source in ["secretless", "slack-main"] {
        assert!(held(&inbox, source).await.is_empty(), "{source}");
        assert_eq!(tally(&inbox, source).await, None, "{source}");
    }
    let large = noise(70_000);
    let sent = with(
        forged(&inbox, &large),
        "content-type",
        "application/octet-stream",
    );
    is_refused(&inbox.post("github-main", &sent, &large).await);
    assert!(held(&inbox, "github-main").await.is_empty());
    let tally = tally(&inbox, "github-main").await.unwrap();
    assert_eq!((tally.requests, tally.too_large, tally.bytes), (1, 1, 0));
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_flood_leaves_no_more_than_its_bound_and_learns_nothing() {
    let inbox = start(Options {
        max_processes: 4,
        ..options()
    })
    .await;
    let small = inbox.canary().into_bytes();
    let large = noise(3_000);
    for (source, body) in [("github-main", small), ("stripe-main", large)] {
        let sent = match source {
            "github-main" => forged(&inbox, &body),
            _ => with(
                inbox.timed(source, "", &UnixMillis::now().secs().to_string(), b"other"),
                "content-type",
                "application/octet-stream",
            ),
        };
        let posts = (0..FLOOD).map(|_| inbox.post(source, &sent, &body));
        let answers: Vec<Answer> = stream::iter(posts).buffer_unordered(16).collect().await;
        assert_eq!(answers.len(), FLOOD);
        is_refused(&answers[0]);
        assert!(answers.iter().all(|answer| answer == &answers[0]));
    }
    let processes = inbox.stack.function_processes("Catcher").unwrap();
    assert!(processes.len() > 1, "{processes:?}");

    let requests = held(&inbox, "github-main").await;
    let quota = tally(&inbox, "github-main").await.unwrap();
    assert_eq!((requests.len(), quota.requests), (60, 60));
    let requests = held(&inbox, "stripe-main").await;
    let bytes: u64 = requests.iter().map(|request| request.stored).sum();
    assert!((20..=33).contains(&requests.len()), "{}", requests.len());
    assert!((90_000..=100_000).contains(&bytes), "{bytes}");
    assert_eq!(tally(&inbox, "stripe-main").await.unwrap().bytes, bytes);
    // The table contains the requests and the counters, and nothing else.
    assert_eq!(
        times_to_live(&inbox, "Q#").await.len(),
        60 + requests.len() + 2
    );
    inbox.tells_nothing();

    let listed = webhookctl(&inbox, "quarantine list").await;
    let told = String::from_utf8(listed.stderr).unwrap();
    assert!(
        told.contains("github-main") && told.contains("the daily limit is reached"),
        "{told}"
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn a_secret_that_comes_later_lets_the_genuine_ones_in() {
    let inbox = start(Options {
        mappings: true,
        ..options()
    })
    .await;
    let new_secret = inbox.canary();
    let signed = |id: &str, body: &[u8]| {
        let signature = hex(new_secret.as_bytes(), &[body]);
        inbox.must_not_log(&signature);
        let signed = inbox.github(id, body);
        with(
            signed,
            "x-hub-signature-256",
            &format!("sha256={signature}"),
        )
    };
    // Three requests whose secret is not stored yet, one of them too large for a row, and one with
    // an invalid signature.
    let large = [noise(40_000), b" large".to_vec()].concat();
    let sent: Vec<(String, Vec<u8>)> = [b"one".to_vec(), b"two".to_vec(), large]
        .map(|body| (unique(), body))
        .into();
    for (id, body) in &sent {
        let headers = with(signed(id, body), "content-type", "application/octet-stream");
        is_refused(&inbox.post("github-main", &headers, body).await);
    }
    is_refused(
        &inbox
            .post("github-main", &forged(&inbox, b"forged"), b"forged")
            .await,
    );
    let received: Vec<UnixMillis> = held(&inbox, "github-main")
        .await
        .iter()
        .map(|held| held.received_at)
        .collect();
    assert_eq!(received.len(), 4);
    let report = says(&inbox, "quarantine reverify -m rotated").await;
    assert_eq!(report["sources"][0]["stay"]["bad_signature"], 4);

    let path = inbox.stack.secrets_path("Catcher").unwrap();
    let put = inbox.stack.clients().ssm.put_parameter();
    let put = put
        .name(format!("{path}/github-main/next"))
        .value(&new_secret);
    put.r#type(ParameterType::SecureString)
        .send()
        .await
        .unwrap();
    // A new process reads the secrets again. The provider retries one of the requests.
    inbox.kill_catcher().await;
    let (id, body) = &sent[1];
    let answer = inbox.post("github-main", &signed(id, body), body).await;
    assert_eq!(answer.status, 200, "{answer:?}");

    let groups = says(&inbox, "quarantine list").await;
    let finding = groups["items"][0]["finding"].as_str().unwrap();
    assert!(
        finding.starts_with("3 of 4 match secret next.1, added "),
        "{finding}"
    );
    let dry = says(&inbox, "quarantine reverify --dry-run").await;
    let dry = &dry["sources"][0];
    assert_eq!(dry["matches"]["next.1"], 3);
    assert_eq!(dry["added"]["next.1"]["after_receipt"], true, "{dry}");
    let key = |at: usize| EventKey::new("github-main", &sent[at].0);
    assert_eq!(inbox.find(&key(0)).await, None, "a dry run changes nothing");

    // In a protected context, the operator has to confirm the number of requests that enter.
    let context = format!(
        "[context.prod]\nregion = \"{}\"\ntable = \"{}\"\nprotected = true\n",
        names::REGION,
        inbox.stack.table().unwrap()
    );
    std::fs::write(inbox.stack.folder().join(".webhookctl.toml"), context).unwrap();
    for (line, said) in [
        (
            "quarantine reverify -m rotated",
            "confirm the count: --confirm 3",
        ),
        (
            "quarantine reverify -m rotated --confirm 4",
            "3 requests would enter the inbox, but --confirm is 4; nothing was changed",
        ),
    ] {
        let refused = webhookctl(&inbox, line).await;
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(7), "{told}");
        assert!(told.contains(said), "{told}");
    }
    assert_eq!(
        inbox.find(&key(0)).await,
        None,
        "the count is not confirmed"
    );

    let counted = "quarantine reverify -m rotated --confirm 3";
    let source = &says(&inbox, counted).await["sources"][0];
    assert_eq!(
        (&source["new"], &source["known"]),
        (&json!(2), &json!(1)),
        "{source}"
    );
    assert_eq!(source["stay"], json!({"bad_signature": 1}));
    for (at, (_, body)) in sent.iter().enumerate() {
        let row = settled(&inbox, &key(at)).await;
        assert_eq!((row.state, row.attempts), (State::Done, 1), "{at}");
        assert_eq!(inbox.kept(&key(at)).await.unwrap(), body, "{at}");
        let at_first = received.contains(&row.received_at);
        assert_eq!(
            at_first,
            at != 1,
            "as of its time of receipt, unless it arrived again"
        );
    }
    let before = inbox.row(&key(0)).await;
    let log = says(&inbox, "log --what quarantine").await;
    let [entry] = log["items"].as_array().unwrap().as_slice() else {
        panic!("the audit log records only releases: {log}")
    };
    assert_eq!(
        (
            &entry["what"],
            &entry["by"],
            &entry["reason"],
            &entry["events"]
        ),
        (
            &json!("quarantine.reverify"),
            &json!(WHO),
            &json!("rotated"),
            &json!(3)
        )
    );
    let unproven = held(&inbox, "github-main").await;
    let unproven = unproven
        .iter()
        .find(|held| held.released.is_none())
        .unwrap();
    let line = format!("quarantine release {} -m trust-me", unproven.id);
    let refused = webhookctl(&inbox, &line).await;
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(7) && told.contains("quarantine.unproven"),
        "{told}"
    );

    let again = says(&inbox, "quarantine reverify -m rotated").await;
    assert_eq!(again["sources"][0]["requests"], 1, "{again}");
    assert_eq!(again["events"], json!([]));
    assert_eq!(inbox.row(&key(0)).await, before);
    inbox.tells_nothing();
}

#[tokio::test]
async fn a_wrong_credential_is_kept_where_it_is_read_and_shown_when_asked_for() {
    let inbox = start(options()).await;
    let body = inbox.canary();
    let credential = inbox.canary();
    let sent = headers(&[
        ("authorization", &"0".repeat(64)),
        ("x-api-key", &credential),
    ]);
    is_refused(&inbox.post("standard-main", &sent, body.as_bytes()).await);
    let held = held(&inbox, "standard-main").await;
    assert_eq!(
        held[0].headers.one("authorization"),
        Ok(Some("0".repeat(64).as_str()))
    );
    assert_eq!(held[0].headers.one("x-api-key"), Ok(None));

    for (line, shown) in [
        ("quarantine inspect ID", false),
        ("quarantine inspect ID --reveal", true),
    ] {
        let line = line.replace("ID", held[0].id.as_str());
        for format in ["", " -o json"] {
            let output = webhookctl(&inbox, &format!("{line}{format}")).await;
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.contains(&"0".repeat(64)), shown, "{text}");
            assert_eq!(text.contains(&body), shown, "{text}");
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn hostile_bytes_are_inert_for_whoever_looks_at_them() {
    let inbox = start(options()).await;
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}31m=1+1\r\n\u{0}";
    let sent = headers(&[
        ("x-hub-signature-256", hostile),
        (&format!("x-{hostile}"), hostile),
        ("content-type", hostile),
        ("x-forwarded-for", hostile),
        ("cookie", hostile),
    ]);
    let mut event = request("POST", "/in/github-main", &sent);
    event["body"] = json!(format!("{hostile}\n{hostile}"));
    event["rawQueryString"] = json!(hostile);
    is_refused(&inbox.catch(&event).await);
    let held = held(&inbox, "github-main").await;
    assert_eq!(
        held[0].headers.one("content-type"),
        Ok(Some(hostile.trim()))
    );

    let id = held[0].id.as_str();
    for line in [
        "quarantine list".to_owned(),
        "quarantine list --flat".to_owned(),
        "quarantine list --flat -o wide".to_owned(),
        "quarantine list --flat -o csv".to_owned(),
        "quarantine reverify --dry-run".to_owned(),
        format!("quarantine inspect {id}"),
        format!("quarantine inspect {id} --reveal"),
        format!("quarantine inspect {id} --reveal -o json"),
        "quarantine purge".to_owned(),
    ] {
        let output = webhookctl(&inbox, &line).await;
        for stream in [output.stdout, output.stderr] {
            let text = String::from_utf8(stream).unwrap();
            let text = text.replace("\r\n", "\n");
            let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(acts), "{line}: {text:?}");
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn only_as_many_are_purged_as_were_shown() {
    let inbox = start(options()).await;
    for _ in 0..3 {
        let body = inbox.canary();
        is_refused(
            &inbox
                .post(
                    "github-main",
                    &forged(&inbox, body.as_bytes()),
                    body.as_bytes(),
                )
                .await,
        );
    }
    is_refused(&inbox.post("github-main", &[], b"").await);
    let purge = "quarantine purge -s github-main --reason bad_signature";
    let asked = webhookctl(&inbox, purge).await;
    let told = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(7));
    assert!(
        told.contains("--confirm 3") && told.contains("3 requests"),
        "{told}"
    );
    let wrong = webhookctl(&inbox, &format!("{purge} --confirm 4")).await;
    assert_eq!(wrong.status.code(), Some(7));
    assert_eq!(held(&inbox, "github-main").await.len(), 4);
    let silent = webhookctl(&inbox, &format!("{purge} --confirm 3")).await;
    assert_eq!(silent.status.code(), Some(2), "a reason is required");
    assert_eq!(held(&inbox, "github-main").await.len(), 4);
    says(&inbox, &format!("{purge} --confirm 3 -m forged")).await;
    let log = says(&inbox, "log --by ANNA --what quarantine.purge").await;
    let entry = &log["items"][0];
    assert_eq!(
        (&entry["events"], &entry["reason"]),
        (&json!(3), &json!("forged"))
    );
    assert_eq!(
        entry["selection"],
        "source=github-main, reason=bad_signature"
    );
    let left = held(&inbox, "github-main").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].reason, "missing_header");
    let id = left[0].id.as_str();
    for (named, found) in [(id, 1), (&id[..20], 1), ("evt_7ZZZ", 0)] {
        let listed = says(&inbox, &format!("quarantine list --flat --id {named}")).await;
        assert_eq!(listed["items"].as_array().unwrap().len(), found, "{named}");
    }
    let unknown = webhookctl(&inbox, "quarantine list -s githubmain").await;
    assert_eq!(unknown.status.code(), Some(2));
    let missing = webhookctl(&inbox, "quarantine inspect evt_01KZ99999999").await;
    assert_eq!(missing.status.code(), Some(3));
}

/// Returns the keys and the times to live of the items under a key.
async fn times_to_live(inbox: &Inbox, prefix: &str) -> BTreeSet<(String, i64)> {
    #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
    let scan = inbox.stack.clients().dynamodb.scan();
    let scan = scan.table_name(inbox.stack.table().unwrap());
    let items = scan.send().await.unwrap().items.unwrap_or_default();
    let text = |item: &super::support::Item, name: &str| item[name].as_s().unwrap().clone();
    let items = items
        .iter()
        .filter(|item| text(item, "pk").starts_with(prefix));
    items
        .map(|item| {
            let ttl = item["ttl"].as_n().unwrap().parse().unwrap();
            (format!("{} {}", text(item, "pk"), text(item, "sk")), ttl)
        })
        .collect()
}

async fn settled(inbox: &Inbox, key: &EventKey) -> Row {
    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
    let patience = UnixMillis::now() + Duration::from_secs(60);
    loop {
        let row = ledger.event(key).await.unwrap();
        match row {
            Some(row) if !row.is_open() => return row,
            row if UnixMillis::now() > patience => panic!("{key} is still {row:?}"),
            _ => tokio::time::sleep(Duration::from_millis(40)).await,
        }
    }
}

/// The command finds the source whose secret signed the request, with the secrets of the
/// deployment.
#[tokio::test]
async fn a_refused_request_and_an_event_are_explained_by_their_ids() {
    let inbox = start(options()).await;
    let theirs = inbox.canary();
    let path = inbox.stack.secrets_path("Catcher").unwrap().to_owned();
    for name in ["stripe-main/next", "github-main-test/current"] {
        let put = inbox.stack.clients().ssm.put_parameter();
        put.name(format!("{path}/{name}"))
            .value(format!("{theirs}-{name}"))
            .r#type(ParameterType::SecureString)
            .send()
            .await
            .unwrap();
    }
    let body = inbox.canary().into_bytes();
    let id = unique();
    for (by, cause, said) in [
        (
            "stripe-main/next",
            "other_source",
            "the request is signed for stripe-main",
        ),
        (
            "github-main-test/current",
            "other_secret",
            "another secret of github-main",
        ),
    ] {
        let secret = format!("{theirs}-{by}");
        let signature = hex(secret.as_bytes(), &[&body]);
        inbox.must_not_log(&signature);
        let sent = with(
            inbox.github(&unique(), &body),
            "x-hub-signature-256",
            &format!("sha256={signature}"),
        );
        is_refused(&inbox.post("github-main", &sent, &body).await);
        let held = held(&inbox, "github-main").await;
        let output = webhookctl(&inbox, &format!("verify {} -o json", held[0].id)).await;
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(5), "{shown}");
        let answer: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(answer["near_miss"]["cause"], cause, "{shown}");
        assert!(shown.contains(said), "{shown}");
        for hidden in [theirs.as_bytes(), signature.as_bytes(), &body] {
            let hidden = std::str::from_utf8(hidden).unwrap();
            assert!(!shown.contains(hidden), "{shown}");
        }
    }

    let sent = inbox.github(&id, &body);
    assert_eq!(inbox.post("github-main", &sent, &body).await.status, 200);
    let answer = says(&inbox, &format!("verify github-main:{id}")).await;
    assert_eq!(
        (&answer["valid"], &answer["source"]),
        (&json!(true), &json!("github-main"))
    );
    let matched = answer["matched_secret"].as_str().unwrap();
    assert!(matched.starts_with("current."), "{matched}");
    inbox.is_unharmed();
}
