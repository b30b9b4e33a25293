//! A corpus of answers with secrets, and of answers without.

use super::*;

/// Answers, in which `{}` is in the place of the secret, and the secret. The parts of a secret are
/// joined here, so that no scanner takes the test data for real secrets.
const SECRETS: &[(&str, &[&str])] = &[
    ("Bearer {}", &["abcdef", "ghijkl"]),
    ("authorization: Bearer {}", &["0123", "456789.abc-_~+/="]),
    ("you sent `Authorization: Basic {}`", &["dXNlcjpw", "YXNz"]),
    ("bearer {} is not known", &["opaque", "token1"]),
    (
        "{}",
        &["eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxIn0", ".c2lnbmF0dXJl"],
    ),
    (
        "invalid jwt {} (expired)",
        &["eyJ0eXAiOiJKV1QifQ", ".e30", ".abc-_1"],
    ),
    ("cut {}", &["eyJhbGciOiJSUzI1", "NiIsImtpZCI6Ij"]),
    ("No such API key: {}", &["sk_", "live_", "51HabcDEF"]),
    ("{}", &["sk_", "test_", "4eC39HqLyjW"]),
    ("restricted {} may not", &["rk_", "live_", "abc123"]),
    ("publishable {}", &["pk_", "live_", "TYooMQauvdEDq54"]),
    (
        "secret {} does not match",
        &["whsec_", "MfKQ9r8GKYqrTwj", "UPD8ILPZIo2LaLaSw"],
    ),
    ("key {} is not", &["whsk_", "abcdefgh12345"]),
    (
        "expected {} got none",
        &["v1,", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="],
    ),
    ("token {} revoked", &["xoxb-", "123456789012-abcdef"]),
    ("{}", &["xapp-", "1-A0123-456"]),
    ("{}", &["xoxp-", "abcdefghijkl"]),
    ("remote: {} denied", &["ghp_", "abcdefghijklmnopqrst"]),
    ("{}", &["gho_", "16C7e42F292c69"]),
    ("{}", &["ghs_", "abc123def456"]),
    ("{}", &["github_pat_", "11ABCDEFG_abc"]),
    ("{}", &["glpat-", "abcDEF123456"]),
    ("{}", &["npm_", "abcdefghij123"]),
    ("{}", &["pypi-", "AgEIcHlwaS5vcmc"]),
    ("{}", &["shpat_", "0123456789abcdef"]),
    ("{}", &["shpss_", "fedcba9876543210"]),
    ("{}", &["SG.", "abcdefgh12345", ".ijklmnop"]),
    (
        "Incorrect API key provided: {}.",
        &["sk-", "proj-abcdefghijkl"],
    ),
    ("{}", &["sk-", "ant-api03-abcdefgh"]),
    (
        "The AWS Access Key Id {} does not exist",
        &["AKIA", "IOSFODNN7EXAMPLE"],
    ),
    ("{}", &["ASIA", "IOSFODNN7EXAMPLE"]),
    (
        "API key not valid: {}",
        &["AIza", "SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe"],
    ),
    ("{}", &["ya29.", "a0AfH6SMBxyz-123"]),
    ("{}", &["SK", "0123456789abcdef0123456789abcdef"]),
    ("{}", &["AC", "fedcba9876543210fedcba9876543210"]),
    ("password={}", &["hunter2"]),
    ("{\"password\": \"{}\"}", &["hunter2"]),
    ("{\"error\":\"login\",\"passwd\":\"{}\"}", &["abc"]),
    ("pwd: {}", &["letmein"]),
    ("Password : {} is wrong", &["correct-horse"]),
    ("passphrase={}", &["open"]),
    ("{\"client_secret\": \"{}\"}", &["abcdefgh"]),
    ("{\\\"secret\\\":\\\"{}\\\"}", &["quoted-twice"]),
    ("CLIENT_SECRET={}", &["shhh"]),
    ("api_key={}&page=2", &["a1b2c3"]),
    ("GET /v1?access_token={} failed", &["abc123def"]),
    ("{\"token\":\"{}\"}", &["abcdefghijklmnopqrstu"]),
    ("{\"id_token\": \"{}\"}", &["deadbeef01"]),
    ("refresh_token => {}", &["1//0gabc-def"]),
    ("X-Api-Key: {}", &["0a1b2c3d4e5f"]),
    ("private key: {}", &["abcdefghijklmnop"]),
    ("signing_key={}", &["Zm9vYmFyYmF6cXV4"]),
    ("signature={} does not match", &["5257a869e7ecebed"]),
    ("sig={}", &["deadbeef1234"]),
    ("Signature: {}", &["t8Kx+Zm9vYmFyMTI="]),
    ("Set-Cookie: {}", &["sid-abc"]),
    ("cookie={}", &["x"]),
    ("session_id={}", &["f00d1234"]),
    ("sessionid: {}", &["12ab34cd56"]),
    ("credentials={}", &["root1234"]),
    ("invalid token {}", &["0123456789abcdef01"]),
    ("https://{}@db.example.com/", &["root:", "hunter2"]),
    ("redis://{}@cache:6379", &[":", "p4ss"]),
    ("postgres://{}@h/db does not accept", &["admin:", "s3cr3t"]),
    (
        "computed {}",
        &["9f86d081884c7d65", "9a2feaa0c55ad015a3bf4f1b2b0b822c"],
    ),
    (
        "digest sha256={}",
        &["b94d27b9934d3e08", "a52e52d7da7dabfac484efe37a5380ee"],
    ),
    ("got {} instead", &["aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3x"]),
    (
        "{}",
        &[
            "-----BEGIN PRIVATE KEY-----",
            "MIIEvQIBADANBg",
            "-----END PRIVATE KEY-----",
        ],
    ),
    (
        "cut {}",
        &["-----BEGIN RSA PRIVATE KEY----- ", "MIIEvQIBADANBg"],
    ),
];

/// Answers that stay as they are, because operators need them.
const PLAIN: &[&str] = &[
    "",
    "Cannot POST /hooks",
    "404 page not found",
    "{\"message\":\"Internal server error\"}",
    "{\"message\":\"Missing Authentication Token\"}",
    "{\"error\":\"invalid_token\",\"error_description\":\"The access token expired\"}",
    "invalid signature",
    "signature mismatch for order 17",
    "the secret is not set",
    "token expired yesterday",
    "duplicate key value violates unique constraint \"orders_pkey\"",
    "Key (id)=(17) already exists.",
    "no customer cus_NffrFeUfNVxHib",
    "evt_1NG8Du2eZvKYlo2CUI79vXWy is not known",
    "request 8f14e45f-ceea-467f-a0e6-41a2cf7e64c5",
    "TypeError: Cannot read properties of undefined (reading 'id') at /app/src/handlers/order.js:17:3",
    "https://orders.example.com/hooks?page=2",
    "mail anna@example.com",
    "rate limit exceeded: 100 requests per minute",
    "2026-11-20T10:14:41.118Z ERROR upstream connect error or disconnect/reset before headers",
    "é 日本語 \u{202e}",
];

#[test]
fn every_pattern_is_valid() {
    assert_eq!(FORMS.len(), 13);
    for pattern in [&SCHEME, &USER_INFO, &NAMED, &RUN] {
        assert!(pattern.is_some());
    }
}

#[test]
fn no_secret_of_the_corpus_is_shown() {
    assert!(SECRETS.len() >= 60, "{}", SECRETS.len());
    for (answer, parts) in SECRETS {
        let secret = parts.concat();
        let text = answer.replace("{}", &secret);
        for text in [
            text.clone(),
            format!("<p>{text}</p>"),
            format!("a {text}, b"),
        ] {
            let shown = masked(&text);
            assert!(shown.contains(MASK), "{text}: {shown}");
            for part in parts.iter().filter(|part| part.len() > 5) {
                assert!(!shown.contains(part), "{text}: {shown}");
            }
            assert!(!shown.contains(&secret), "{text}: {shown}");
        }
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in PLAIN {
        assert_eq!(masked(text), *text);
    }
}

#[test]
fn what_is_masked_stays_masked() {
    for (answer, parts) in SECRETS {
        let once = masked(&answer.replace("{}", &parts.concat()));
        let twice = masked(&once);
        assert!(
            parts
                .iter()
                .all(|part| part.len() <= 5 || !twice.contains(part))
        );
    }
}
