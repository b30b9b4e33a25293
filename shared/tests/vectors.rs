//! Signature vectors of the providers: what a verifier must say of each request.
//!
//! Values tagged `published` are the providers' own; the others were made to their documented
//! schemes with throw-away keys. Each request is fed as it was sent, and once more with repeated
//! headers joined by commas, as API Gateway joins them: both must reach the same verdict.

#![expect(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use shared::clock::Millis;
use shared::envelope::Envelope;
use shared::preset::Preset;
use shared::secrets::Secret;
use shared::verify::{Arrival, Reason, Verifier};

#[test]
fn every_vector_meets_its_verdict() {
    let file: Value = serde_json::from_str(include_str!("data/vectors.json")).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for vector in vectors {
        for joined in [false, true] {
            checked += 1;
            if let Err(said) = check(vector, joined) {
                wrong.push(format!(
                    "{} (joined: {joined}): {said}",
                    vector["id"].as_str().unwrap()
                ));
            }
        }
    }
    assert_eq!(
        checked,
        2 * usize::try_from(file["count"].as_u64().unwrap()).unwrap()
    );
    assert!(checked > 300);
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn check(vector: &Value, joined: bool) -> Result<(), String> {
    let preset = Preset::embedded(vector["provider"].as_str().unwrap(), &BTreeMap::new()).unwrap();
    let verifier = Verifier {
        source: "source".into(),
        preset,
        variant: vector["variant"].as_str().unwrap().into(),
        config: "test".into(),
    };
    let secrets: Vec<Secret> = vector["secrets"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, value)| Secret::new(index.to_string(), value.as_str().unwrap()))
        .collect();
    let envelope = envelope(vector, joined);
    let answer = verifier.verify(&envelope, &secrets);
    let expect = &vector["expect"];
    let verdict = expect["verdict"].as_str().unwrap();
    match (verdict, &answer) {
        ("valid", Ok(Arrival::Event(event))) => {
            if let Some(index) = expect["matched_secret"].as_u64() {
                same(
                    "matched secret",
                    Some(index.to_string().as_str()),
                    event.secret(),
                )?;
            }
            let named = &expect["event"];
            if let Some(id) = named["id"].as_str() {
                same("id", id, event.key().id())?;
            }
            if let Some(kind) = named["type"].as_str() {
                same("type", kind, event.kind())?;
            }
            same("body", &envelope.body, event.body())
        }
        ("invalid", Err(rejected)) => {
            let allowed: Vec<&str> = expect["reason"].as_str().unwrap().split('|').collect();
            let said = rejected.0.as_str();
            if allowed.contains(&said) {
                Ok(())
            } else {
                Err(format!("{said}, not {allowed:?}"))
            }
        }
        // Reasonable engines differ here; ours must give the same answer each time.
        ("policy", _) => {
            let again = verifier.verify(&envelope, &secrets);
            same("verdict", answer.is_ok(), again.is_ok())
        }
        ("handshake", Ok(Arrival::Handshake(reply))) => {
            same(
                "status",
                expect["response"]["status"].as_u64(),
                Some(reply.status.into()),
            )?;
            same(
                "body",
                expect["response"]["body"].as_str(),
                Some(reply.body.as_str()),
            )
        }
        ("handshake", Err(rejected)) if expect["response"]["status"] == 401 => {
            same("reason", Reason::MissingHeader, rejected.0)
        }
        _ => Err(format!("{verdict} expected, but {answer:?}")),
    }
}

fn envelope(vector: &Value, joined: bool) -> Envelope {
    let request = &vector["request"];
    let mut headers: Vec<(String, String)> = Vec::new();
    for pair in request["headers"].as_array().unwrap() {
        let (name, value) = (
            pair[0].as_str().unwrap().to_lowercase(),
            pair[1].as_str().unwrap(),
        );
        match headers
            .iter_mut()
            .find(|(known, _)| joined && *known == name)
        {
            Some((_, known)) => *known = format!("{},{}", known.trim(), value.trim()),
            None => headers.push((name, value.to_owned())),
        }
    }
    Envelope {
        method: request["method"].as_str().unwrap().into(),
        url: request["url"].as_str().unwrap().into(),
        headers: headers.into_iter().collect(),
        body: body(request).into(),
        received_at: Millis::from_secs(vector["now"].as_i64().unwrap()),
    }
}

fn body(request: &Value) -> Vec<u8> {
    let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let rule = &request["body_rule"];
    if rule.is_null() {
        return decoded(&request["body_b64"]);
    }
    let mut body = decoded(&rule["prefix_b64"]);
    for _ in 0..rule["count"].as_u64().unwrap() {
        body.extend(decoded(&rule["unit_b64"]));
    }
    body.extend(decoded(&rule["suffix_b64"]));
    assert_eq!(body.len() as u64, rule["length"].as_u64().unwrap());
    body
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "what is compared reads better so"
)]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: {expected:?} expected, {found:?} found"))
    }
}
