//! Forged requests, which must be rejected.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::json;
use shared::webhook::event::{EventKey, Sha};

use super::support::{
    Answer, DEMO_SECRET, Headers, Inbox, headers, hex, request, seconds_from_now, unique,
};

/// The kind of forgery, the source, and the headers.
type Forgery = (String, &'static str, Headers);

#[tokio::test]
async fn whatever_is_wrong_with_a_signature_the_sender_learns_nothing_of_it() {
    let inbox = Inbox::shared().await;
    let body = format!(r#"{{"id":"refused","word":"{}"}}"#, inbox.canary());
    let mut answers: Vec<(String, Answer)> = Vec::new();
    let mut over_http = None;
    for (why, source, headers) in unbelievable(&inbox, body.as_bytes()) {
        // Some values are impossible in an HTTP header, or a gateway joins them. The test passes
        // such a request directly to the function.
        let fits = headers
            .iter()
            .all(|(_, value)| value.is_ascii() && value.len() < 8_000);
        if fits {
            let answer = inbox.post(source, &headers, body.as_bytes()).await;
            assert_eq!(answer.status, 401, "{why}: {answer:?}");
            let first = over_http.get_or_insert_with(|| answer.clone());
            assert_eq!(&answer, first, "{why}");
        }
        let names: BTreeSet<_> = headers.iter().map(|(name, _)| name).collect();
        if names.len() == headers.len() {
            let mut event = request("POST", &format!("/in/{source}"), &headers);
            event["body"] = json!(body);
            answers.push((why, inbox.catch(&event).await));
        }
    }
    assert!(answers.len() > 60, "{}", answers.len());
    for (why, answer) in &answers {
        assert_eq!(answer.status, 401, "{why}: {answer:?}");
        assert_eq!(answer, &answers[0].1, "{why}");
    }
    assert_eq!(over_http.unwrap().body, answers[0].1.body);
    for source in ["github-main", "stripe-main", "slack-main", "standard-main"] {
        for key in [
            EventKey::new(source, "refused"),
            named_by_its_body(source, body.as_bytes()),
        ] {
            assert_eq!(inbox.find(&key).await, None, "{key}");
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_time_within_five_minutes_is_believed() {
    let inbox = Inbox::shared().await;
    for source in ["stripe-main", "slack-main", "standard-main"] {
        for later in [-270, 0, 270] {
            let id = unique();
            let body = format!(
                r#"{{"id":"{id}","event_id":"{id}","word":"{}"}}"#,
                inbox.canary()
            );
            let signed = inbox.timed(source, &id, &seconds_from_now(later), body.as_bytes());
            let answer = inbox.post(source, &signed, body.as_bytes()).await;
            assert_eq!(answer.status, 200, "{source}, {later} s: {answer:?}");
            assert_eq!(inbox.kept(&EventKey::new(source, &id)).await.unwrap(), body);
        }
    }
    inbox.is_unharmed();
}

fn unbelievable(inbox: &Inbox, body: &[u8]) -> Vec<Forgery> {
    let mut all = of_github(inbox, body);
    for source in ["stripe-main", "slack-main", "standard-main"] {
        all.extend(out_of_time(inbox, source, body));
        all.extend(out_of_shape(inbox, source, body));
    }
    let now = seconds_from_now(0);
    let good = inbox.timed("stripe-main", "", &now, body)[0].1.clone();
    let (_, signature) = good.split_once(",v1=").unwrap();
    let mut many = String::from("t=1");
    for _ in 0..10_000 {
        write!(many, ",v1={signature}").unwrap();
    }
    for (why, value) in [
        ("10,000 signatures", many),
        ("of an old version", good.replace("v1=", "v0=")),
        ("without a version", good.replace("v1=", "")),
        ("two times", format!("t={now},{good}")),
    ] {
        let headers = headers(&[("stripe-signature", &value)]);
        all.push((format!("stripe: {why}"), "stripe-main", headers));
    }
    all
}

fn of_github(inbox: &Inbox, body: &[u8]) -> Vec<Forgery> {
    let good = inbox.github("refused", body);
    let (others, signature) = (&good[..3], &good[3].1);
    let digest = signature.strip_prefix("sha256=").unwrap();
    let by = |secret: &str, body: &[u8]| format!("sha256={}", hex(secret.as_bytes(), &[body]));
    let mut all: Vec<Forgery> = [
        ("an empty one", String::new()),
        ("no hex", "sha256=no hex".to_owned()),
        ("no prefix", digest.to_owned()),
        ("another prefix", format!("sha1={digest}")),
        ("a byte short", signature[..signature.len() - 2].to_owned()),
        (
            "half a byte short",
            signature[..signature.len() - 1].to_owned(),
        ),
        ("a byte long", format!("{signature}00")),
        ("of nothing", "sha256=".to_owned()),
        ("all zero", format!("sha256={}", "0".repeat(64))),
        ("very long", format!("sha256={}", digest.repeat(1_000))),
        ("two in one", format!("{signature},{signature}")),
        ("of another secret", by("another secret", body)),
        (
            "of a secret of another source",
            by("secret-of-another-source", body),
        ),
        ("of the empty secret", by("", body)),
        ("of another body", by(DEMO_SECRET, b"another body")),
    ]
    .map(|(why, value)| {
        let own = [("x-hub-signature-256".to_owned(), value)];
        (
            format!("github: {why}"),
            "github-main",
            [others, &own].concat(),
        )
    })
    .into();
    all.push(("github: none".to_owned(), "github-main", others.to_vec()));
    let twice = [good.clone(), good[3..].to_vec()].concat();
    all.push(("github: repeated".to_owned(), "github-main", twice));
    // A valid signature for one source is not valid for another source.
    let slack = inbox.timed("slack-main", "", &seconds_from_now(0), body);
    all.push(("github: signed for Slack".to_owned(), "github-main", slack));
    all
}

/// Returns requests with a valid signature and a time that is not accepted.
fn out_of_time(inbox: &Inbox, source: &'static str, body: &[u8]) -> Vec<Forgery> {
    let now = seconds_from_now(0);
    [
        ("too old", seconds_from_now(-330)),
        ("in the future", seconds_from_now(330)),
        ("of 1970", "0".to_owned()),
        ("in milliseconds", format!("{now}000")),
        ("before 1970", "-1".to_owned()),
        ("with a sign", format!("+{now}")),
        ("with a fraction", format!("{now}.0")),
        ("with an exponent", "1e9".to_owned()),
        ("in words", "now".to_owned()),
        ("empty", String::new()),
        ("too long", "9".repeat(19)),
        ("much too long", "9".repeat(10_000)),
        ("in other digits", "١٧٦٧٢٢٥٦٠٠".to_owned()),
        ("in hexadecimal", "0x6955b900".to_owned()),
        (
            "with a space inside",
            format!("{} {}", &now[..5], &now[5..]),
        ),
    ]
    .map(|(why, at)| {
        (
            format!("{source}: {why}"),
            source,
            inbox.timed(source, "msg_1", &at, body),
        )
    })
    .into()
}

/// Returns requests whose signature has a missing, repeated or exchanged part.
fn out_of_shape(inbox: &Inbox, source: &'static str, body: &[u8]) -> Vec<Forgery> {
    let now = seconds_from_now(0);
    let good = inbox.timed(source, "msg_1", &now, body);
    let mut all = Vec::new();
    for (at, (name, _)) in good
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| name != "content-type")
    {
        let mut without = good.clone();
        let part = without.remove(at);
        all.push((format!("{source}: without {name}"), source, without));
        let mut twice = good.clone();
        twice.insert(at, part);
        all.push((format!("{source}: {name} twice"), source, twice));
    }
    let other = inbox.timed(source, "msg_1", &now, b"another body");
    all.push((format!("{source}: of another body"), source, other));
    let mut later = good;
    for (_, value) in &mut later {
        *value = value.replace(&now, &seconds_from_now(7));
    }
    all.push((
        format!("{source}: another time than was signed"),
        source,
        later,
    ));
    all
}

fn named_by_its_body(source: &str, body: &[u8]) -> EventKey {
    EventKey::new(source, &format!("sha256:{}", Sha::of(body).hex()))
}
