//! Tests of the HTTP API in front of the catcher.

use base64::{Engine, engine::general_purpose::STANDARD};
use local::{Options, Stack};
use serde_json::{Value, json};

use super::{binaries, stack};

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, wanted: &str) -> Vec<&str> {
        let matching = self.headers.iter().filter(|(name, _)| name == wanted);
        matching.map(|(_, value)| value.as_str()).collect()
    }
}

/// Sends plain HTTP/1.1 over a socket, so that no client library adds headers.
async fn say(stack: &Stack, head: &str, body: &[u8]) -> Answer {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = stack
        .front_url()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let mut socket = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = head.trim().replace('\n', "\r\n");
    let length = body.len();
    let head = format!(
        "{head}\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    // An error response may arrive before the whole body is read.
    let _ = socket.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes).await;
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Answer {
        status,
        headers,
        body: bytes[end + 4..].to_vec(),
    }
}

#[tokio::test]
async fn a_request_reaches_the_function_and_its_answer_comes_back() {
    let stack = stack().await;
    let head =
        "POST /in/stripe?a=1&a=2 HTTP/1.1\nContent-Type: application/json\nX-Twice: 1\nX-Twice: 2";
    let answer = say(&stack, head, b"{\"a\": 1}").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-from"), ["function"]);
    assert_eq!(answer.header("set-cookie"), ["a=1", "b=2"]);
    let event = answer.json();
    assert_eq!(event["routeKey"], "POST /in/{source}");
    assert_eq!(event["pathParameters"], json!({ "source": "stripe" }));
    assert_eq!(event["rawQueryString"], "a=1&a=2");
    assert_eq!(event["headers"]["x-twice"], "1,2");
    assert_eq!(event["body"], "{\"a\": 1}");
    assert_eq!(event["requestContext"]["http"]["sourceIp"], "127.0.0.1");
    let inferred = say(&stack, "POST /in/x HTTP/1.1\nX-Do: infer", b"").await;
    assert_eq!(
        (inferred.status, inferred.json()),
        (200, json!({ "inferred": true }))
    );
}

#[tokio::test]
async fn bytes_go_there_and_back_unchanged() {
    let stack = stack().await;
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for kind in [
        "Content-Type: application/octet-stream",
        "Content-Type: application/zip",
        "X-No: type",
    ] {
        let head = format!("POST /in/x HTTP/1.1\nX-Do: bytes\n{kind}");
        assert_eq!(say(&stack, &head, &all).await.body, all, "{kind}");
        let head = format!("POST /in/x HTTP/1.1\n{kind}");
        let event = say(&stack, &head, &all).await.json();
        assert_eq!(event["isBase64Encoded"], true);
        assert_eq!(
            STANDARD.decode(event["body"].as_str().unwrap()).unwrap(),
            all
        );
    }
}

#[tokio::test]
async fn the_gateway_has_answers_of_its_own() {
    let stack = stack().await;
    for (head, status, message) in [
        ("POST /elsewhere HTTP/1.1", 404, "Not Found"),
        ("DELETE /in/x HTTP/1.1", 404, "Not Found"),
        (
            "POST /in/x HTTP/1.1\nX-Do: error",
            500,
            "Internal Server Error",
        ),
        (
            "POST /in/x HTTP/1.1\nX-Do: crash",
            500,
            "Internal Server Error",
        ),
        (
            "POST /in/x HTTP/1.1\nX-Do: hang",
            500,
            "Internal Server Error",
        ),
    ] {
        let answer = say(&stack, head, b"").await;
        assert_eq!(
            (answer.status, answer.json()),
            (status, json!({ "message": message })),
            "{head}"
        );
    }
    let large = vec![b'x'; 10 * 1024 * 1024 + 1];
    let answer = say(
        &stack,
        "POST /in/x HTTP/1.1\nContent-Type: text/plain",
        &large,
    )
    .await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn the_template_that_is_deployed_runs_here() {
    let template = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    let stack = Stack::start(Options::new(template, binaries()))
        .await
        .unwrap();
    let answer = say(&stack, "POST /in/stripe HTTP/1.1", b"x").await;
    assert_eq!(
        (answer.status, &answer.json()["body"]),
        (200, &json!("eA=="))
    );
    let swept = stack
        .invoke("BackupSync", &json!({ "task": "sweep" }))
        .await
        .unwrap();
    assert_eq!(swept.json().unwrap(), json!({ "task": "sweep" }));
    stack.stop().await;
}
