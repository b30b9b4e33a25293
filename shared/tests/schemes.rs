//! Tests the schemes that need code, and attacks at the boundaries between the parts of a message.
//!
//! Other libraries created the signatures with throw-away keys. Only eBay's signature comes from
//! the provider.

#![expect(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::preset::Preset;
use shared::webhook::verify::{
    Arrival, Certificates, Jwks, Keys, Reason, Rejected, Trust, Verifier, Wanted,
};

/// Wed, 15 Jun 2022 18:52:14 GMT
const NOW: i64 = 1_655_319_134;

fn verifier(preset: &str, variant: &str, params: &[(&str, &str)], trust: Trust) -> Verifier {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let params = params.iter().map(owned).collect();
    Verifier {
        source: "source".into(),
        preset: Preset::embedded(preset, &params).unwrap(),
        variant: variant.into(),
        trust,
        config: "test".into(),
    }
}

fn plain(preset: &str) -> Verifier {
    verifier(preset, "default", &[], Trust::default())
}

fn request(url: &str, headers: &[(&str, &str)], body: &[u8]) -> Envelope {
    Envelope {
        method: "POST".into(),
        url: url.into(),
        headers: headers.iter().copied().collect(),
        body: Bytes::copy_from_slice(body),
        received_at: UnixMillis::from_secs(NOW),
    }
}

fn verify(verifier: &Verifier, envelope: &Envelope, secret: &str) -> Result<Event, Reason> {
    match verifier.verify(envelope, &[Secret::new("current", secret)]) {
        Ok(Arrival::Event(event)) => Ok(*event),
        Ok(Arrival::Handshake(reply)) => panic!("{reply:?}"),
        Err(Rejected(reason)) => Err(reason),
    }
}

fn refused(verifier: &Verifier, envelope: &Envelope, secret: &str) -> Option<Reason> {
    verify(verifier, envelope, secret).err()
}

fn mac(key: &str, message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

const EBAY_HEADER: &str = "eyJhbGciOiJlY2RzYSIsImtpZCI6Ijk5MzYyNjFhLTdkN2ItNDYyMS1hMGYxLTk2Y2NiNDI4YWY0OSIsInNpZ25hdHVyZSI6Ik1FWUNJUUNmeGZJV3V4bVdjSUJRSjljNS9YN2lHREpxczJSQ0dzQkVhQWppbnlycmZBSWhBSVY2d0djVGlCdVY1S0pVaWYyaG9reXJMK1E5c3NIa2FkK214Mm5FRTI1dyIsImRpZ2VzdCI6IlNIQTEifQ==";
const EBAY_KID: &str = "9936261a-7d7b-4621-a0f1-96ccb428af49";
const EBAY_KEY: &str = "-----BEGIN PUBLIC KEY-----MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEZhhxXKtR+TOvtDbgTPCkSof02qgBB7IsYOyf76ilExJ/upAa/vKIKheOoCyOpcLmi4t0b4uepb7LLjmMr90FUg==-----END PUBLIC KEY-----";
const EBAY_BODY: &str = r#"{"metadata":{"topic":"MARKETPLACE_ACCOUNT_DELETION","schemaVersion":"1.0","deprecated":false},"notification":{"notificationId":"49feeaeb-4982-42d9-a377-9645b8479411_33f7e043-fed8-442b-9d44-791923bd9a6d","eventDate":"2021-03-19T20:43:59.462Z","publishDate":"2021-03-19T20:43:59.679Z","publishAttemptCount":1,"data":{"username":"test_user","userId":"ma8vp1jySJC","eiasToken":"nY+sHZ2PrBmdj6wVnY+sEZ2PrA2dj6wJnY+gAZGEpwmdj6x9nY+seQ=="}}}"#;

fn ebay(keys: &[(&str, &str)]) -> Verifier {
    let keys: BTreeMap<_, _> = keys
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    let trust = Trust::default().with_keys(Keys::new(&keys).unwrap());
    verifier("ebay", "default", &[("verification_token", "token")], trust)
}

fn of_ebay(header: &str, body: &str) -> Envelope {
    let headers = [("x-ebay-signature", header)];
    request(
        "https://hooks.example.test/in/ebay",
        &headers,
        body.as_bytes(),
    )
}

#[test]
fn ebay_is_proven_by_the_key_that_it_names() {
    let known = ebay(&[(EBAY_KID, EBAY_KEY)]);
    let genuine = of_ebay(EBAY_HEADER, EBAY_BODY);
    let event = verify(&known, &genuine, "").unwrap();
    assert_eq!(event.kind(), "MARKETPLACE_ACCOUNT_DELETION");
    assert_eq!(event.secret(), Some(EBAY_KID));
    assert!(event.key().id().starts_with("49feeaeb"));
    let wanted = Wanted::Key(EBAY_KID.into());
    assert_eq!(known.wanted(&genuine).as_ref(), Some(&wanted));

    let unknown = ebay(&[("other", EBAY_KEY)]);
    assert_eq!(refused(&unknown, &genuine, ""), Some(Reason::NotFetched));
    unknown.trust.learn([(wanted.name().as_ref(), EBAY_KEY)]);
    assert!(verify(&unknown, &genuine, "").is_ok());

    let changed = EBAY_BODY.replace("test_user", "best_user");
    let changed = of_ebay(EBAY_HEADER, &changed);
    assert_eq!(refused(&known, &changed, ""), Some(Reason::BadSignature));
}

#[test]
fn ebay_is_refused_with_a_header_that_says_something_else() {
    let known = ebay(&[(EBAY_KID, EBAY_KEY)]);
    let json = String::from_utf8(STANDARD.decode(EBAY_HEADER).unwrap()).unwrap();
    let said = |from: &str, to: &str| {
        let header = STANDARD.encode(json.replace(from, to));
        let request = of_ebay(&header, EBAY_BODY);
        (refused(&known, &request, ""), known.wanted(&request))
    };
    assert_eq!(said("SHA1", "MD5").0, Some(Reason::AlgNotAllowed));
    assert_eq!(said("ecdsa", "none").0, Some(Reason::AlgNotAllowed));
    // Mitt must not send these key ids to the provider.
    for kid in ["", "../../other", "a?b=c", "a b", &"x".repeat(129)] {
        assert_eq!(
            said(EBAY_KID, kid),
            (Some(Reason::MalformedSignature), None),
            "{kid}"
        );
    }
    for signature in ["", "MEUCIQ==", "MAYCAQACAQA=", "MAYCAQECAf8="] {
        let from = "MEYCIQCfxfIWuxmWcIBQJ9c5/X7iGDJqs2RCGsBEaAjinyrrfAIhAIV6wGcTiBuV5KJUif2hokyrL+Q9ssHkad+mx2nEE25w";
        let reason = said(from, signature).0;
        assert_eq!(reason, Some(Reason::MalformedSignature), "{signature}");
    }
    for header in ["", "no base64!", "e30=", &"A".repeat(5000)] {
        assert!(
            refused(&known, &of_ebay(header, EBAY_BODY), "").is_some(),
            "{header:.9}"
        );
    }
    assert!(Keys::new(&BTreeMap::from([("k".into(), "no key".into())])).is_err());
}

#[test]
fn ebay_is_answered_with_the_hash_of_its_challenge() {
    let mut challenge = request(
        "https://hooks.example.test/in/ebay?challenge_code=a1b2",
        &[],
        b"",
    );
    challenge.method = "GET".into();
    let reply = ebay(&[]).answer_open_handshake(&challenge).unwrap();
    let hash = hex::encode(Sha256::digest(
        "a1b2tokenhttps://hooks.example.test/in/ebay",
    ));
    assert_eq!(reply.content_type, "application/json");
    assert_eq!(reply.body, format!(r#"{{"challengeResponse":"{hash}"}}"#));
}

const KEYGEN_BODY: &str = r#"{"data":{"id":"e1","attributes":{"event":"license.created"}}}"#;
const KEYGEN_URL: &str = "https://hooks.example.test:443/in/keygen?a=1";
const KEYGEN_KEY: &str = "f130076c18ef8ae6d2b08853907554387ed7dda460073f1993263445e1ff8e24";
const KEYGEN_SIGNATURE: &str =
    "FJl87huT29EeJHJ6ikLtFjZMrAW5OWAgWr4vSxczvXY2ijBhjn+yNhH8rGHgAo5VXxb610j3jwPVQN6p8V+uDA==";
const KEYGEN_EC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJXBh9Fsfi7MY9gBfdaGUGGapvmR5
hHOVl59EEUXoRyV2HNAs4pEf+F3Nr9De4VmSESTYAdNyABFYzOVkJ+dk9w==
-----END PUBLIC KEY-----";
const KEYGEN_EC_SIGNATURE: &str = "MEUCIQCwJ7DyoTXG4+9R06rVWyE32O4rlCSaCqN315qcZ30EPwIgZaO83eQZSs2QVGEJXMXrb1Mu0x5QeFZSq/Guno7NJrc=";
const KEYGEN_RSA_KEY: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAzViJAFVKUAEDI1v+AAgc
51jS2T1eEOtu1Ve71Lt/r68bNilIoTlShhyBIpaPe0+73rocnHVCD85lFEfVI0DC
krIgElYVjwt3V1/FbNqJRyTC/TAxzKc+0ZQfOg0BpKJAa6kWZA229J8SBx99rSMK
qy8jFeNbNE1nUjQkT3OgZkJiA8m8/nROjN1F8woCwLUaD2zCxCJxWvGocxFwslv0
zGrXdKNWTo2r3++XauzolQ4X0+5FDz3hStiZ3T55eoLfRbDlXSDlcGDJOT9RHiMR
cd5sUeXa4iSup8Ifb7Ph8TTcmzNhaj8KnKChoaHvKL9CJy/Rg/NXIII6mM1+KSfB
CQIDAQAB
-----END PUBLIC KEY-----";
const KEYGEN_RSA_SIGNATURE: &str = "x8/zQXaaiBO70JkX6SxjHRoyT6Hwg/QfR+ZDk8yVpayLk8QP5eq9Nj6JBWBKpyvfNNg9M4bLO2oFZUH58UQ2O+rIMrVrCbvdjWQgczcEkSTcGgHuE2Ris/bfMBbnduMRfEkbaYLnQCYwFNq+1bW76EHptS0fb5WEGEGbhkH+4S6VR/mIZyTXNKg2k+h5w5vFYUkalT/Y07HxzBDGsoyJjOV/YvqZ+/2C1V6P92atdAmFWOUCS8bgJyt0FfyfxvBFg95A/GMC8IPdleU5rJerBZrDRvgejptdQKKejguRMy2Em9L3raOPv0KpAOSaFVrRQ6RxBkN/GikZtzpsvX1RSA==";

fn of_keygen(algorithm: &str, signature: &str) -> Envelope {
    let header = format!(
        r#"keyid="account", algorithm="{algorithm}", signature="{signature}", headers="(request-target) host date digest""#
    );
    let headers = [
        ("date", "Wed, 15 Jun 2022 18:52:14 GMT"),
        (
            "digest",
            "sha-256=Gm6jR7lrGVik5Hs7ZaMubqAGbSz/n8tzwPK7BLsdJC8=",
        ),
        ("keygen-signature", &header),
    ];
    request(KEYGEN_URL, &headers, KEYGEN_BODY.as_bytes())
}

#[test]
fn keygen_signs_line_host_date_and_digest() {
    for (variant, algorithm, key, signature) in [
        ("default", "ed25519", KEYGEN_KEY, KEYGEN_SIGNATURE),
        ("rsa", "rsa-sha256", KEYGEN_RSA_KEY, KEYGEN_RSA_SIGNATURE),
        ("ecdsa", "ecdsa-p256", KEYGEN_EC_KEY, KEYGEN_EC_SIGNATURE),
    ] {
        let keygen = verifier("keygen", variant, &[], Trust::default());
        let genuine = of_keygen(algorithm, signature);
        let event = verify(&keygen, &genuine, key).unwrap();
        assert_eq!((event.key().id(), event.kind()), ("e1", "license.created"));
        // The request cannot choose another algorithm.
        let other = of_keygen("rsa-pss-sha256", signature);
        assert_eq!(refused(&keygen, &other, key), Some(Reason::AlgNotAllowed));
    }
}

#[test]
fn keygen_is_refused_once_anything_of_it_changes() {
    let keygen = plain("keygen");
    let genuine = of_keygen("ed25519", KEYGEN_SIGNATURE);
    let with = |change: &dyn Fn(&mut Envelope)| {
        let mut envelope = genuine.clone();
        change(&mut envelope);
        refused(&keygen, &envelope, KEYGEN_KEY)
    };
    let header = |name: &'static str, from: &'static str, to: &'static str| {
        let headers = genuine.headers.iter().map(|(known, value)| {
            let value = if known == name {
                value.replace(from, to)
            } else {
                value.to_owned()
            };
            (known.to_owned(), value)
        });
        let headers = headers.collect();
        with(&|envelope| envelope.headers = Clone::clone(&headers))
    };
    assert_eq!(with(&|_| ()), None);
    assert_eq!(with(&|e| e.url += "&b=2"), Some(Reason::BadSignature));
    assert_eq!(
        with(&|e| e.url = e.url.replace("hooks", "other")),
        Some(Reason::BadSignature)
    );
    assert_eq!(
        with(&|e| e.body = Bytes::from_static(b"{}")),
        Some(Reason::BadBodyHash)
    );
    let later =
        |secs: i64| move |e: &mut Envelope| e.received_at = UnixMillis::from_secs(NOW + secs);
    assert_eq!(with(&later(300)), None);
    assert_eq!(with(&later(301)), Some(Reason::TimestampTooOld));
    assert_eq!(with(&later(-301)), Some(Reason::TimestampInFuture));
    assert_eq!(
        header("date", "14 GMT", "15 GMT"),
        Some(Reason::BadSignature)
    );
    assert_eq!(
        header("date", "Wed, 15", "Wen, 15"),
        Some(Reason::MalformedTimestamp)
    );
    // If the signature does not cover the digest, it does not prove the body.
    let signature = "keygen-signature";
    let less = header(signature, " digest", "");
    assert_eq!(less, Some(Reason::MalformedSignature));
    let twice = header(signature, "keyid=\"account\"", "headers=\"date\"");
    assert_eq!(twice, Some(Reason::MalformedSignature));
    assert_eq!(
        header("digest", "sha-256", "sha-512"),
        Some(Reason::BadBodyHash)
    );
}

#[test]
fn plivo_joins_url_query_form_and_nonce() {
    let signature = "4Qxw9u17nJx5DTyf3GKbKssBeS0w5cbWGsOFZzMla4I=";
    let of = |url: &str, header: &str, nonce: &str, body: &str| {
        let headers = [
            ("x-plivo-signature-v3", header),
            ("x-plivo-signature-v3-nonce", nonce),
        ];
        let request = request(url, &headers, body.as_bytes());
        refused(&plain("plivo"), &request, "auth-token")
    };
    let url = "https://hooks.example.test/in/plivo?a=1";
    let body = "To=%2B2&CallUUID=1";
    assert_eq!(of(url, signature, "nonce-1", body), None);
    let two = format!("{},{signature}", STANDARD.encode([0; 32]));
    assert_eq!(of(url, &two, "nonce-1", body), None);
    for (url, nonce, body) in [
        ("https://hooks.example.test/in/plivo", "nonce-1", body),
        ("https://hooks.example.test/in/plivo?a=2", "nonce-1", body),
        (url, "nonce-2", body),
        (url, "nonce-1", "To=%2B2&CallUUID=2"),
        (url, "nonce-1", ""),
    ] {
        assert_eq!(
            of(url, signature, nonce, body),
            Some(Reason::BadSignature),
            "{body}"
        );
    }
    assert_eq!(of(url, signature, "", body), Some(Reason::MissingHeader));
    assert_eq!(of(url, "", "nonce-1", body), Some(Reason::MissingHeader));
}

const JIRA: &str = "eyJ0eXAiOiAiSldUIiwgImFsZyI6ICJIUzI1NiJ9.eyJpc3MiOiAiY2xpZW50IiwgImlhdCI6IDE2NTUzMTkxMzQsICJleHAiOiAxNjU1MzE5MzE0LCAicXNoIjogIjg2YjYyMTVlNjMyNzk4ZGM1MTllMzg4ODVmMmY0OTlkNmY0ZWIwMzJjNDA3NWMxMGNhNGFlMTc0ZTk3NzA4MDIifQ.xgV4YyekilJEAeWpEppLK9VhRF_AGS2UWhM3m1TitZE";
const JIRA_BELOW_BASE: &str = "eyJ0eXAiOiAiSldUIiwgImFsZyI6ICJIUzI1NiJ9.eyJpc3MiOiAiY2xpZW50IiwgImlhdCI6IDE2NTUzMTkxMzQsICJleHAiOiAxNjU1MzE5MzE0LCAicXNoIjogIjZiYzA2ZTU3MjA2N2M1OWFmNzYxMDgzYmNiMjFjY2NjMjBhOTIyOGQ0MzFiY2IzZjBmMzk1YzQ3ZDgyYTlhNDMifQ.-qK0kcZ4f4DnUZtCH7CkrZTPiHK-Us2esuoTgrngGPU";
const JIRA_OF_A_PAGE: &str = "eyJ0eXAiOiAiSldUIiwgImFsZyI6ICJIUzI1NiJ9.eyJpc3MiOiAiY2xpZW50IiwgImlhdCI6IDE2NTUzMTkxMzQsICJleHAiOiAxNjU1MzE5MzE0LCAicXNoIjogImNvbnRleHQtcXNoIn0.qgkhg4y4pxG70M7T0rlBi1xhw0IbpqU0kbStxktC0Dk";
const JIRA_WITHOUT: &str = "eyJ0eXAiOiAiSldUIiwgImFsZyI6ICJIUzI1NiJ9.eyJpc3MiOiAiY2xpZW50IiwgImlhdCI6IDE2NTUzMTkxMzQsICJleHAiOiAxNjU1MzE5MzE0fQ.dBX3fa0WdImlGDzH976DgwaLX8me1-aVx6KyNxF86-I";

#[test]
fn a_token_of_jira_holds_the_hash_of_path_and_query() {
    let of = |base: &str, token: &str, url: &str| {
        let verifier = verifier(
            "jira-connect",
            "default",
            &[("base_path", base)],
            Trust::default(),
        );
        let token = format!("JWT {token}");
        let envelope = request(url, &[("authorization", &token)], b"{}");
        refused(&verifier, &envelope, "shared-secret-of-the-installation")
    };
    let url = "https://hooks.example.test/in/jira?user_id=1&project=A+B";
    assert_eq!(of("", JIRA, url), None);
    assert_eq!(of("/in", JIRA_BELOW_BASE, url), None);
    assert_eq!(of("/in", JIRA, url), Some(Reason::BadUrlHash));
    assert_eq!(of("", JIRA_BELOW_BASE, url), Some(Reason::BadUrlHash));
    let other = url.replace("user_id=1", "user_id=2");
    assert_eq!(of("", JIRA, &other), Some(Reason::BadUrlHash));
    // Tokens for the pages of an app are not valid for webhooks.
    assert_eq!(of("", JIRA_OF_A_PAGE, url), Some(Reason::BadUrlHash));
    assert_eq!(of("", JIRA_WITHOUT, url), Some(Reason::MissingField));
}

#[test]
fn plaid_says_which_key_it_wants() {
    let header = r#"{"alg":"ES256","kid":"6c5516e1-92dc-479e-a8ff-5a51992e0001"}"#;
    let of = |header: &str| {
        let token = format!("{}.e30.e30", STANDARD.encode(header).trim_end_matches('='));
        request(
            "https://a.test/in/plaid",
            &[("plaid-verification", &token)],
            b"{}",
        )
    };
    let kid = "6c5516e1-92dc-479e-a8ff-5a51992e0001";
    let plaid = plain("plaid");
    assert_eq!(plaid.wanted(&of(header)), Some(Wanted::Key(kid.into())));
    assert_eq!(refused(&plaid, &of(header), ""), Some(Reason::NotFetched));
    for bad in [
        r#"{"alg":"none","kid":"a"}"#,
        r#"{"alg":"ES256","kid":"a/../b"}"#,
        "{}",
    ] {
        assert_eq!(plaid.wanted(&of(bad)), None, "{bad}");
    }
    let of_another =
        format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"{kid}","x":"AQ","y":"AQ"}}]}}"#);
    // Mitt fetches no document if the operator configures a key set.
    let jwks = Jwks::parse(&of_another).unwrap();
    let trust = Trust::given(None, Some(jwks), Certificates::default());
    let known = verifier("plaid", "default", &[], trust);
    assert_eq!(known.wanted(&of(header)), None);
    let newer = of(&header.replace("0001", "0002"));
    assert_eq!(refused(&known, &newer, ""), Some(Reason::UnknownKey));
}

#[test]
fn contentful_signs_the_path_encoded() {
    let url = "https://hooks.example.test/in/contentful?a=b%20c";
    let names = "x-contentful-signed-headers,x-contentful-timestamp";
    let at = (NOW * 1000).to_string();
    let message = format!(
        "POST\n/in/contentful?a%253Db%252520c\nx-contentful-signed-headers:{names};x-contentful-timestamp:{at}\n{{}}"
    );
    let signature = hex::encode(mac("secret", &message));
    let headers = [
        ("x-contentful-signed-headers", names),
        ("x-contentful-timestamp", at.as_str()),
        ("x-contentful-signature", signature.as_str()),
    ];
    let genuine = request(url, &headers, b"{}");
    assert_eq!(refused(&plain("contentful"), &genuine, "secret"), None);
    let other = request(&format!("{url}?d"), &headers, b"{}");
    assert_eq!(
        refused(&plain("contentful"), &other, "secret"),
        Some(Reason::BadSignature)
    );
}

#[test]
fn an_id_of_standard_webhooks_has_no_dot() {
    let secret = "whsec_c2VjcmV0";
    let of = |preset: &str, prefix: &str, id: &str, body: &str| {
        let message = format!("{id}.{NOW}.{body}");
        let key = if preset == "polar" { secret } else { "secret" };
        let signature = format!("v1,{}", STANDARD.encode(mac(key, &message)));
        let at = NOW.to_string();
        let name = |end: &str| format!("{prefix}-{end}");
        let (id_at, ts_at, sig_at) = (name("id"), name("timestamp"), name("signature"));
        let headers = [(&*id_at, id), (&*ts_at, &*at), (&*sig_at, &*signature)];
        refused(
            &verifier_of(preset),
            &request("https://a.test/in/s", &headers, body.as_bytes()),
            secret,
        )
    };
    for (preset, prefix) in [
        ("standard-webhooks", "webhook"),
        ("svix", "svix"),
        ("openai", "webhook"),
        ("polar", "webhook"),
        ("gitlab", "webhook"),
    ] {
        assert_eq!(of(preset, prefix, "msg_1", "{}"), None, "{preset}");
        // The same bytes are also the signed message of another request, which has the id `msg_1`
        // and another time and body.
        let dotted = of(preset, prefix, "msg_1.1655319000", "{}");
        assert_eq!(dotted, Some(Reason::MalformedSignature), "{preset}");
    }
}

fn verifier_of(preset: &str) -> Verifier {
    let variant = if preset == "gitlab" {
        "signed"
    } else {
        "default"
    };
    verifier(preset, variant, &[], Trust::default())
}

#[test]
fn an_id_of_mercado_pago_cannot_take_in_what_follows_it() {
    let signature = hex::encode(mac("secret", &format!("id:1;request-id:abc;ts:{NOW};")));
    let signature = format!("ts={NOW},v1={signature}");
    let of = |id: &str, headers: &[(&str, &str)]| {
        let url = format!("https://a.test/in/mp?data.id={id}&type=payment");
        let headers = [headers, &[("x-signature", signature.as_str())]].concat();
        refused(
            &plain("mercado-pago"),
            &request(&url, &headers, b"{}"),
            "secret",
        )
    };
    assert_eq!(of("1", &[("x-request-id", "abc")]), None);
    let shifted = of("1%3Brequest-id:abc", &[]);
    assert_eq!(shifted, Some(Reason::MalformedSignature));
}

#[test]
fn a_hash_that_was_hashed_on_is_refused() {
    let hubspot = verifier("hubspot", "v1", &[], Trust::default());
    let of = |body: &[u8]| {
        let hash = hex::encode(Sha256::digest([b"secret", body].concat()));
        let headers = [
            ("x-hubspot-signature", &*hash),
            ("x-hubspot-signature-version", "v1"),
        ];
        refused(
            &hubspot,
            &request("https://a.test/in/h", &headers, body),
            "secret",
        )
    };
    assert_eq!(of(b"[]"), None);
    // The padding of SHA-256 contains null bytes.
    assert_eq!(of(b"[]\x80\0\0\0\0\0\0\x40[]"), Some(Reason::MalformedBody));
}

#[test]
fn braintree_says_its_type_in_base64_xml() {
    let xml = "<notification><timestamp type=\"datetime\">2022-06-15T18:52:14Z</timestamp>\
               <kind>subscription_canceled</kind><subject><kind>no</kind></subject></notification>";
    let payload = STANDARD.encode(xml);
    let mut key =
        Hmac::<sha1::Sha1>::new_from_slice(&<sha1::Sha1 as sha1::Digest>::digest("private"))
            .unwrap();
    key.update(payload.as_bytes());
    let signature = hex::encode(key.finalize().into_bytes());
    let body = format!(
        "bt_signature=public%7C{signature}&bt_payload={}",
        payload
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D")
    );
    let braintree = verifier(
        "braintree",
        "default",
        &[("public_key", "public")],
        Trust::default(),
    );
    let request = request("https://a.test/in/b", &[], body.as_bytes());
    assert_eq!(
        verify(&braintree, &request, "private").unwrap().kind(),
        "subscription_canceled"
    );
}
