//! Requests that anyone on the internet can send to the catcher.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use shared::webhook::event::{EventKey, Sha};

use super::support::{Headers, Inbox, http, options, request, seconds_from_now, unique, with};

const LIMIT: usize = 1024 * 1024;

fn of_github(id: &str) -> EventKey {
    EventKey::new("github-main", id)
}

/// Returns the key of an event without an id from the provider.
fn named_by_its_body(source: &str, body: &[u8]) -> EventKey {
    EventKey::new(source, &format!("sha256:{}", Sha::of(body).hex()))
}

/// Returns a request with a base64 body, which the gateway sends if the body is not text.
fn encoded(path: &str, headers: &Headers, body: &[u8]) -> Value {
    let mut event = request("POST", path, headers);
    event["body"] = json!(STANDARD.encode(body));
    event["isBase64Encoded"] = json!(true);
    event
}

#[tokio::test]
async fn a_body_that_is_said_to_be_base64_and_is_not_is_a_bad_request() {
    let inbox = Inbox::shared().await;
    for body in [
        "%",
        "a",
        "aGVsbG8",
        "aGVs bG8=",
        "aGVsbG8=\n",
        "äöü=",
        "\u{0}",
        "aGVsbG9=",
    ] {
        let mut event = request(
            "POST",
            "/in/github-main",
            &inbox.github("base64", body.as_bytes()),
        );
        event["body"] = json!(body);
        event["isBase64Encoded"] = json!(true);
        let answer = inbox.catch(&event).await;
        assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
    }
    assert_eq!(inbox.find(&of_github("base64")).await, None);
    inbox.is_unharmed();
}

#[tokio::test]
async fn every_byte_of_a_body_is_kept() {
    let inbox = Inbox::shared().await;
    let word = inbox.canary();
    let bodies: [Vec<u8>; 6] = [
        [word.as_bytes(), b"\xff\xfe\x00 not UTF-8 \xc3\x28"].concat(),
        (0..=255).chain(word.bytes()).collect(),
        [
            b"\xef\xbb\xbf{\"bom\": true, \"word\": \"",
            word.as_bytes(),
            b"\"}",
        ]
        .concat(),
        [b"\xed\xa0\x80 a lone surrogate ", word.as_bytes()].concat(),
        [word.as_bytes(), b"\r\n\t{ \"a\" : 1 }\r\n\r\n"].concat(),
        // Random bytes do not compress, so the body does not fit into a row.
        [word.as_bytes(), &noise(200_000)].concat(),
    ];
    for body in bodies {
        for direct in [false, true] {
            let id = unique();
            // The same bytes under two ids would be quarantined.
            let body = [body.as_slice(), id.as_bytes()].concat();
            let headers = with(
                inbox.github(&id, &body),
                "content-type",
                "application/octet-stream",
            );
            let answer = if direct {
                inbox
                    .catch(&encoded("/in/github-main", &headers, &body))
                    .await
            } else {
                inbox.post("github-main", &headers, &body).await
            };
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(inbox.kept(&of_github(&id)).await.unwrap(), body);
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_body_of_the_limit_is_kept_and_one_byte_more_is_too_large() {
    let inbox = Inbox::shared().await;
    let word = inbox.canary();
    for (kind, random) in [
        ("application/json", false),
        ("application/octet-stream", true),
    ] {
        for length in [LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 2, LIMIT + 3, 3 * LIMIT] {
            let id = unique();
            let mut body = format!("{word} {id} ").into_bytes();
            if random {
                body.extend(noise(length - body.len()));
            } else {
                body.resize(length, b'x');
            }
            let headers = with(inbox.github(&id, &body), "content-type", kind);
            let answer = inbox.post("github-main", &headers, &body).await;
            let kept = inbox.find(&of_github(&id)).await;
            if length <= LIMIT {
                assert_eq!(answer.status, 200, "{kind}, {length}: {answer:?}");
                assert_eq!(inbox.kept(&of_github(&id)).await.unwrap(), body);
            } else {
                assert_eq!(answer.status, 413, "{kind}, {length}: {answer:?}");
                assert!(answer.text().contains("1048576"), "{answer:?}");
                assert_eq!(kept, None, "{kind}, {length}");
            }
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn no_body_is_an_empty_body() {
    let inbox = Inbox::shared().await;
    let signed = inbox.github(&unique(), b"");
    assert_eq!(inbox.post("github-main", &signed, b"").await.status, 200);
    let unsigned = with(signed.clone(), "x-hub-signature-256", "sha256=00");
    assert_eq!(inbox.post("github-main", &unsigned, b"").await.status, 401);
    for (body, flag) in [
        (None, None),
        (None, Some(true)),
        (Some(Value::Null), Some(false)),
        (Some(json!("")), Some(false)),
        (Some(json!("")), Some(true)),
    ] {
        for (headers, status) in [(&signed, 200), (&unsigned, 401)] {
            let mut event = request("POST", "/in/github-main", headers);
            let fields = event.as_object_mut().unwrap();
            fields.remove("isBase64Encoded");
            fields.extend(body.clone().map(|body| ("body".to_owned(), body)));
            fields.extend(flag.map(|flag| ("isBase64Encoded".to_owned(), flag.into())));
            let answer = inbox.catch(&event).await;
            assert_eq!(answer.status, status, "{event}: {answer:?}");
        }
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn any_number_of_headers_is_borne_and_few_are_kept() {
    let inbox = Inbox::shared().await;
    let (id, word) = (unique(), inbox.canary());
    let mut all = inbox.github(&id, word.as_bytes());
    for n in 0..10_000 {
        all.push((format!("x-{n}"), format!("{word} {n}")));
    }
    all.push(("x-long".to_owned(), word.repeat(10_000)));
    all.push(("user-agent".to_owned(), "agent ".repeat(10_000)));
    let mut event = request("POST", "/in/github-main", &all);
    event["body"] = json!(word);
    let answer = inbox.catch(&event).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let row = inbox.row(&of_github(&id)).await;
    let kept = row["hdr"].as_m().unwrap();
    assert!(kept.len() <= 4, "{:?}", kept.keys());
    assert!(
        kept.values()
            .all(|value| value.as_s().unwrap().len() <= 512)
    );
    inbox.is_unharmed();
}

#[tokio::test]
async fn long_and_odd_header_values_are_cut_or_hashed() {
    let inbox = Inbox::shared().await;
    let long = "x".repeat(100_000);
    for id in [
        long.as_str(),
        "a#b",
        "~",
        "E#other#1",
        "a b",
        "ä",
        "\u{0}",
        "%23",
        "..",
        "😀",
    ] {
        let body = format!("{} {}", inbox.canary(), unique());
        let mut all = inbox.github(id, body.as_bytes());
        all = with(all, "x-github-event", &"ü".repeat(5_000));
        all = with(all, "content-type", &format!("application/{long}"));
        let mut event = request("POST", "/in/github-main", &all);
        event["body"] = json!(body);
        let answer = inbox.catch(&event).await;
        assert_eq!(answer.status, 200, "{id:?}: {answer:?}");
        let row = inbox.row(&of_github(id)).await;
        assert!(row["pk"].as_s().unwrap().len() < 300);
        assert!(row["ty"].as_s().unwrap().len() <= 128);
        assert!(row["ct"].as_s().unwrap().len() <= 128);
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn deep_json_is_kept_under_whatever_id_can_be_read() {
    let inbox = Inbox::shared().await;
    let word = inbox.canary();
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let id = unique();
    let beside = format!(r#"{{"word":"{word}","id":"{id}","deep":{open}{close}}}"#);
    let at_the_id = format!(r#"{{"word":"{word}","id":{open}{close}}}"#);
    let everywhere = format!(r#"{open}"{word}"{close}"#);
    let unended = format!(r#"{{"word":"{word}","id":{open}"#);
    let nothing_but_objects = format!(r#"{{"word":"{word}","id":{objects},"type":{objects}}}"#);
    for (body, key) in [
        (&beside, Some(EventKey::new("stripe-main", &id))),
        (&at_the_id, None),
        (&everywhere, None),
        (&unended, None),
        (&nothing_but_objects, None),
    ] {
        let body = body.as_bytes();
        let key = key.unwrap_or_else(|| named_by_its_body("stripe-main", body));
        let signed = inbox.timed("stripe-main", "", &seconds_from_now(0), body);
        let answer = inbox.post("stripe-main", &signed, body).await;
        assert_eq!(answer.status, 200, "{key}: {answer:?}");
        assert_eq!(inbox.kept(&key).await.unwrap(), body, "{key}");
        // The catcher parses a body of Slack to detect a handshake.
        let signed = inbox.timed("slack-main", "", &seconds_from_now(0), body);
        let answer = inbox.post("slack-main", &signed, body).await;
        assert_eq!((answer.status, answer.text()), (200, ""), "{key}");
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn the_content_type_decides_nothing() {
    let inbox = Inbox::shared().await;
    for kind in [
        "image/png",
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        ";",
        "",
        "no type",
    ] {
        let id = unique();
        let body = format!(r#"{{"word":"{}"}}"#, inbox.canary());
        let signed = with(inbox.github(&id, body.as_bytes()), "content-type", kind);
        let answer = inbox.post("github-main", &signed, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{kind:?}: {answer:?}");
        assert_eq!(inbox.kept(&of_github(&id)).await.unwrap(), body);
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_path_names_a_source_or_nothing() {
    let inbox = Inbox::shared().await;
    let body = inbox.canary();
    let signed = inbox.github(&unique(), body.as_bytes());
    let long = "a".repeat(100_000);
    for path in [
        "",
        "/",
        "in",
        "/in",
        "/in/",
        "/in//",
        "//",
        "/in/unknown",
        "/in/github-main/",
        "/in/github-main/x",
        "/in//github-main",
        "/in/../in/github-main",
        "/in/GITHUB-MAIN",
        "/in/github-main%00",
        "/in/github%2Dmain",
        "/in/github-main?x=1",
        "/in/github-main ",
        "/in/{source}",
        "/in/\u{0}",
        "/in/äöü",
        "/in/github-main#x",
        "/out/github-main",
        "/in/in/github-main",
        "/in/E#github-main",
        &format!("/in/{long}"),
        &long,
    ] {
        let mut event = request("POST", path, &signed);
        event["body"] = json!(body);
        let answer = inbox.catch(&event).await;
        assert_eq!(answer.status, 404, "{path:?}: {answer:?}");
    }
    // The gateway has a route only for paths with a source.
    for (path, said) in [
        ("/in/unknown", "unknown source"),
        ("/in/unknown?x=/in/github-main", "unknown source"),
        ("/in/GITHUB-MAIN", "unknown source"),
        ("/in/github%2Dmain", "unknown source"),
        ("/in/", "Not Found"),
        ("/", "Not Found"),
        ("/in/github-main/x", "unknown source"),
        ("/in/../in/github-main", "unknown source"),
    ] {
        let answer = inbox.request("POST", path, &signed, body.as_bytes()).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.text().contains(said), "{path}: {answer:?}");
    }
    assert_eq!(inbox.find(&of_github(&signed[1].1)).await, None);
    inbox.is_unharmed();
}

#[tokio::test]
async fn only_posts_are_taken() {
    let inbox = Inbox::shared().await;
    let body = inbox.canary();
    let signed = inbox.github(&unique(), body.as_bytes());
    for source in [
        "github-main",
        "stripe-main",
        "slack-main",
        "standard-main",
        "secretless",
    ] {
        for method in ["GET", "HEAD"] {
            let target = format!("/in/{source}?challenge=abc&hub.challenge=abc");
            let answer = inbox.request(method, &target, &[], b"").await;
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, Some("POST")),
                "{method} {source}"
            );
        }
    }
    for method in [
        "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "post", "", "P OST", "💥",
    ] {
        let mut event = request(method, "/in/github-main", &signed);
        event["body"] = json!(body);
        let answer = inbox.catch(&event).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("POST")),
            "{method:?}"
        );
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = inbox
            .request(method, "/in/github-main", &signed, body.as_bytes())
            .await;
        assert_eq!(
            (answer.status, answer.text()),
            (404, r#"{"message":"Not Found"}"#),
            "{method}"
        );
    }
    assert_eq!(inbox.find(&of_github(&signed[1].1)).await, None);
    inbox.is_unharmed();
}

#[tokio::test]
async fn without_a_usable_secret_nobody_is_refused() {
    let inbox = Inbox::shared().await;
    let body = inbox.canary();
    let at = seconds_from_now(0);
    for (source, headers) in [
        ("secretless", inbox.github("1", body.as_bytes())),
        ("secretless", Vec::new()),
        (
            "misconfigured",
            inbox.timed("standard-main", "1", &at, body.as_bytes()),
        ),
        ("misconfigured", Vec::new()),
    ] {
        let answer = inbox.post(source, &headers, body.as_bytes()).await;
        assert!(answer.asks_for_another_try(), "{source}: {answer:?}");
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn an_event_that_is_no_request_is_an_error_that_names_what_is_missing() {
    let inbox = Inbox::shared().await;
    let word = inbox.canary();
    let without = |path: &[&str]| {
        let mut event = request("POST", "/in/github-main", &[]);
        let (last, rest) = path.split_last().unwrap();
        let parent = rest.iter().fold(&mut event, |value, key| &mut value[*key]);
        parent.as_object_mut().unwrap().remove(*last).unwrap();
        event
    };
    for (event, said) in [
        (json!({}), "rawPath"),
        // Events in the first version of the format, and events of other services.
        (
            json!({ "version": "1.0", "path": "/in/x", "httpMethod": "POST", "body": word }),
            "rawPath",
        ),
        (
            json!({ "Records": [{ "messageId": "1", "body": word }] }),
            "rawPath",
        ),
        (without(&["rawPath"]), "rawPath"),
        (without(&["requestContext"]), "requestContext"),
        (without(&["requestContext", "http"]), "http"),
        (without(&["requestContext", "http", "method"]), "method"),
    ] {
        let error = inbox.error("Catcher", &event).await;
        assert!(
            error.contains("missing field") && error.contains(said),
            "{event}: {error}"
        );
    }
    for event in [
        json!(null),
        json!([]),
        json!(1),
        json!("hello"),
        json!([{}, {}]),
    ] {
        let error = inbox.error("Catcher", &event).await;
        assert!(!error.is_empty(), "{event}");
    }
    let good = request("POST", "/in/github-main", &[]);
    for (field, wrong) in [
        ("body", json!({ "word": word })),
        ("isBase64Encoded", json!("true")),
        ("headers", json!({ "a": ["1", "2"] })),
        ("headers", json!([])),
        ("rawPath", json!(null)),
    ] {
        let mut event = good.clone();
        event[field] = wrong;
        let error = inbox.error("Catcher", &event).await;
        assert!(error.contains("invalid type"), "{event}: {error}");
    }
    // The same process still handles the next request.
    assert_eq!(inbox.catch(&good).await.status, 401);
    inbox.is_unharmed();
}

#[tokio::test]
async fn the_debug_log_has_no_secret_and_no_body() {
    let mut options = options();
    options
        .parameters
        .insert("LogLevel".to_owned(), "DEBUG".to_owned());
    let inbox = Inbox::start(options).await;
    inbox.new_event().await;
    let large = [inbox.canary().as_bytes(), &noise(200_000)].concat();
    let headers = with(
        inbox.github("large", &large),
        "content-type",
        "application/octet-stream",
    );
    assert_eq!(
        inbox.post("github-main", &headers, &large).await.status,
        200
    );
    let refused = with(headers, "x-hub-signature-256", "sha256=00");
    assert_eq!(
        inbox.post("github-main", &refused, &large).await.status,
        401
    );
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    assert!(log.contains(r#""level":"DEBUG""#), "{log}");
    let kept: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("the event is stored"))
        .collect();
    assert!(!kept.is_empty(), "{log}");
    for line in kept {
        let times = line.matches("requestId").count();
        assert_eq!(times, 1, "one line for each event: {line}");
    }
    inbox.is_unharmed();
    inbox.stack.stop().await;
}

#[tokio::test]
async fn half_a_request_is_no_request() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let inbox = Inbox::shared().await;
    let address = inbox.stack.front_url();
    let id = unique();
    let body = inbox.canary();
    for sent in [body.len() / 2, body.len() - 1] {
        let mut head = String::from("POST /in/github-main HTTP/1.1\r\nhost: here\r\n");
        for (name, value) in inbox.github(&id, body.as_bytes()) {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "content-length: {}\r\n\r\n", body.len()).unwrap();
        let mut socket = tokio::net::TcpStream::connect(address.strip_prefix("http://").unwrap())
            .await
            .unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&body.as_bytes()[..sent]).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        assert!(
            !String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 2"),
            "{answer:?}"
        );
    }
    assert_eq!(inbox.find(&of_github(&id)).await, None);
    let whole = inbox.github(&id, body.as_bytes());
    let answer = http(&address, "POST", "/in/github-main", &whole, body.as_bytes()).await;
    assert_eq!(answer.status, 200);
    inbox.is_unharmed();
}

/// Returns incompressible bytes, the same for each call.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(length)
    .collect()
}
