//! Tests signed tokens (compact JWS). A token that our key did not sign is rejected, and a signed
//! token proves only its claims. The first lines of the input are header, claims and signature. The
//! rest is the body.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::aws::secrets::Secret;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Arrival, Trust, Verifier};

const SECRET: &str = "a secret that is in no corpus";

/// The key of RFC 7515, appendix A.3, under two names.
const KEYS: &str = r#"{"keys":[
    {"kty":"EC","crv":"P-256","kid":"1","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
    {"kty":"EC","crv":"P-256","kid":"2","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

static NETLIFY: LazyLock<Verifier> = LazyLock::new(|| verifier("netlify"));
static PLAID: LazyLock<Verifier> = LazyLock::new(|| verifier("plaid"));
static PUBSUB: LazyLock<Verifier> = LazyLock::new(|| verifier("google-pubsub"));

fn verifier(preset: &str) -> Verifier {
    Verifier {
        source: "s".into(),
        preset: Preset::embedded(preset, &BTreeMap::new()).expect("embedded presets are valid"),
        variant: "default".into(),
        trust: trust(),
        config: "fuzz".into(),
    }
}

/// Returns the trusted keys as a source has them in its configuration.
fn trust() -> Trust {
    serde_json::from_value(json!({ "jwks": KEYS })).expect("the keys are valid")
}

fuzz_target!(|data: &[u8]| {
    let lines = fuzz::line(data).and_then(|(header, rest)| {
        let (claims, rest) = fuzz::line(rest)?;
        let (signature, body) = fuzz::line(rest)?;
        Some((header, claims, signature, body))
    });
    let Some((header, claims, signature, body)) = lines else {
        return;
    };
    let payload = [header, claims]
        .map(|part| URL_SAFE_NO_PAD.encode(part))
        .join(".");
    let secrets = [Secret::new("fuzz", SECRET)];
    let unsigned = [
        format!("{payload}.{signature}"),
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(signature)),
        format!("{header}.{claims}.{signature}"),
    ];
    for token in &unsigned {
        for verifier in [&NETLIFY, &PLAID, &PUBSUB] {
            let answer = verifier.verify(&request(token, body), &secrets);
            assert!(!matches!(answer, Ok(Arrival::Event(_))), "{answer:?}");
        }
    }
    let mac = URL_SAFE_NO_PAD.encode(hmac(SECRET.as_bytes(), payload.as_bytes()));
    let token = format!("{payload}.{mac}");
    if let Ok(Arrival::Event(_)) = NETLIFY.verify(&request(&token, body), &secrets) {
        let [header, claims] = [header, claims]
            .map(|part| -> Value { serde_json::from_str(part).expect("a verified token is JSON") });
        assert_eq!(header["alg"], "HS256");
        assert_eq!(claims["iss"], "netlify");
        // The hash may be in upper case. A sender may omit the hash of an empty body.
        match claims["sha256"].as_str().map(str::to_ascii_lowercase) {
            Some(claimed) => assert_eq!(claimed, hex::encode(Sha256::digest(body))),
            None => assert!(body.is_empty(), "{claims}"),
        }
    }
});

fn request(token: &str, body: &[u8]) -> Envelope {
    let headers = [
        ("x-webhook-signature", token.to_owned()),
        ("plaid-verification", token.to_owned()),
        ("authorization", format!("Bearer {token}")),
    ];
    Envelope {
        method: "POST".into(),
        url: "https://in.example.test/in/s".into(),
        headers: headers.into_iter().collect(),
        body: body.to_vec().into(),
        received_at: fuzz::NOW,
    }
}

/// Computes the HMAC of RFC 2104 with SHA-256, for keys of up to one block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::digest([&block.map(|byte| byte ^ 0x36)[..], message].concat());
    Sha256::digest([&block.map(|byte| byte ^ 0x5c)[..], &inner].concat()).into()
}
