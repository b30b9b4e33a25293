//! The published signatures, over HTTP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use shared::event::EventKey;

use super::support::{Headers, Inbox, headers, unique, with};

#[tokio::test]
async fn githubs_published_example_is_believed_and_no_other_body() {
    let inbox = Inbox::shared().await;
    let id = unique();
    let signed = headers(&[
        (
            "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
        ("X-GitHub-Event", "ping"),
        ("X-GitHub-Delivery", &id),
        ("Content-Type", "text/plain"),
    ]);
    let body = b"Hello, World!";
    for at in 0..body.len() {
        let mut forged = *body;
        forged[at] ^= 1;
        let answer = inbox.post("github-vectors", &signed, &forged).await;
        assert_eq!(answer.status, 401, "{:?}", String::from_utf8_lossy(&forged));
    }
    assert_eq!(
        inbox.find(&EventKey::new("github-vectors", &id)).await,
        None
    );
    let answer = inbox.post("github-vectors", &signed, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    inbox.is_unharmed();
}

#[tokio::test]
async fn every_valid_vector_without_a_time_is_believed() {
    let inbox = Inbox::shared().await;
    let file = include_str!("../../../../shared/tests/data/vectors.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let mut posted = 0;
    for vector in file["vectors"].as_array().unwrap() {
        let provider = vector["provider"].as_str().unwrap();
        if !matches!(provider, "github" | "fireflies") || vector["expect"]["verdict"] != "valid" {
            continue;
        }
        let request = &vector["request"];
        let body = body(request);
        let mut given: Headers = request["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| {
                (
                    pair[0].as_str().unwrap().into(),
                    pair[1].as_str().unwrap().into(),
                )
            })
            .collect();
        if std::str::from_utf8(&body).is_err() {
            // As text it would not get through the gateway unchanged.
            given.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            given = with(given, "content-type", "application/octet-stream");
        }
        let expected = if body.len() > 1024 * 1024 { 413 } else { 200 };
        let answer = inbox
            .post(&format!("{provider}-vectors"), &given, &body)
            .await;
        assert_eq!(answer.status, expected, "{}: {answer:?}", vector["id"]);
        posted += 1;
    }
    assert!(posted >= 15, "only {posted}");
    inbox.is_unharmed();
}

fn body(request: &Value) -> Vec<u8> {
    let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let rule = &request["body_rule"];
    if rule.is_null() {
        return decoded(&request["body_b64"]);
    }
    let count = rule["count"].as_u64().unwrap().try_into().unwrap();
    [
        decoded(&rule["prefix_b64"]),
        decoded(&rule["unit_b64"]).repeat(count),
        decoded(&rule["suffix_b64"]),
    ]
    .concat()
}
