//! The webhooks of the simulated providers: genuine requests of several schemes, signed without the
//! code under test.

use std::collections::BTreeMap;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catcher::Request;
use hmac::Hmac;
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use p256::ecdsa::{Signature, SigningKey};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::agents;
use crate::clock;
use crate::rng::Dice;
use crate::sandbox::SOURCE;
use crate::scenario::Scenario;

/// The secret of every sender.
pub const SECRET: &str = "whsec_of_the_simulated_sender";

pub const GITHUB: &str = "github-main";
pub const TWILIO: &str = "twilio-main";
pub const MAILGUN: &str = "mailgun-main";
pub const WOO: &str = "woo-main";
pub const X: &str = "x-main";
pub const EBAY: &str = "ebay-main";

/// The sources of a run with a stranger. Each source has a different weakness: an id outside the
/// signature, a signature over the sorted fields of a form, a signature over a token alone, a
/// handshake that any form can resemble, a handshake that signs, and a key that must be fetched.
pub const SOURCES: [&str; 7] = [SOURCE, GITHUB, TWILIO, MAILGUN, WOO, X, EBAY];

/// The characters that are escaped in a form.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_');

/// The host of the functions in the URL that senders sign.
const HOST: &str = "simulated.example";

/// The header with a sender's address, which the gateway sets, and the address of genuine senders.
pub const ADDRESS: &str = "x-forwarded-for";
const PROVIDER: &str = "198.51.100.7";

/// A request as sent.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub source: &'static str,
    pub method: &'static str,
    pub query: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// Returns the source of an event.
pub fn source_of(scenario: &Scenario, event: usize) -> &'static str {
    if scenario.agents {
        let sources = agents::SOURCES;
        return sources
            .get(event % sources.len())
            .copied()
            .unwrap_or(SOURCE);
    }
    if scenario.stranger.is_none() {
        return SOURCE;
    }
    SOURCES
        .get(event % SOURCES.len())
        .copied()
        .unwrap_or(SOURCE)
}

pub fn id_of(event: usize) -> String {
    format!("evt_{event:09}")
}

/// Returns the event whose id is in a body.
pub fn event_of(body: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("evt_")?;
    rest.get(..9)?.parse().ok()
}

/// Returns the body of an event, which is the same in each delivery.
pub fn body_of(scenario: &Scenario, event: usize) -> String {
    let (id, noise) = (id_of(event), noise(scenario, event));
    match source_of(scenario, event) {
        GITHUB => json!({ "action": "opened", "issue": { "id": id, "body": noise } }).to_string(),
        TWILIO => form(&[
            ("AccountSid", "AC0123"),
            ("Body", &format!("{id} {noise}")),
            ("From", "+15550100"),
            ("MessageSid", &format!("SM{event:032x}")),
            ("MessageStatus", "delivered"),
            ("To", "+15550111"),
        ]),
        MAILGUN => {
            let at = first_sent_secs(scenario, event).to_string();
            let token = format!("token{event:045}");
            let signature = hex::encode(mac::<Hmac<Sha256>>(&[at.as_bytes(), token.as_bytes()]));
            json!({
                "signature": { "timestamp": at, "token": token, "signature": signature },
                "event-data": { "id": id, "event": "opened", "noise": noise },
            })
            .to_string()
        }
        // Text that customers write can resemble the request that a shop sends when an operator
        // saves a webhook.
        WOO => json!({
            "id": id,
            "customer_note": format!("see https://shop.example/?order=1&webhook_id={event}&page=2"),
            "noise": noise,
        })
        .to_string(),
        X => {
            json!({ "for_user_id": "7", "tweet_create_events": [{ "id_str": id, "text": noise }] })
                .to_string()
        }
        EBAY => json!({
            "metadata": { "topic": "MARKETPLACE_ACCOUNT_DELETION" },
            "notification": { "notificationId": id, "data": { "username": noise } },
        })
        .to_string(),
        _ => stripe(scenario, event, &noise),
    }
}

fn stripe(scenario: &Scenario, event: usize, noise: &str) -> String {
    let (entity, version) = scenario
        .order
        .map_or((event, 0), |order| order.place(event));
    format!(
        r#"{{"id":"{}","object":"event","type":"invoice.paid","created":{},"data":{{"object":{{"id":"in_{entity}"}},"held":{},"noise":"{noise}"}}}}"#,
        id_of(event),
        1_767_571_200 + version,
        scenario.agents && agents::is_held(event),
    )
}

/// Returns incompressible text: small, or too large to be in the row, or larger than a row can be.
fn noise(scenario: &Scenario, event: usize) -> String {
    let mut dice = Dice::new(scenario.seed, 0x62_6f64_7900 + event as u64);
    let len = match dice.below(1_000) {
        0 => 60_000,
        1..20 => 3_000,
        _ => dice.between(20, 200),
    };
    let noise = (0..len).map(|_| char::from(b'a' + u8::try_from(dice.below(26)).unwrap_or(0)));
    noise.collect()
}

/// Returns the time of the first delivery of an event, from the start.
pub fn first_sent_ms(scenario: &Scenario, place: usize) -> u64 {
    scenario.arrive_in_ms * place as u64 / scenario.events.max(1) as u64
}

/// Returns the time of the first delivery in seconds of the clock. Without an order, events are
/// sent in the order of their numbers.
fn first_sent_secs(scenario: &Scenario, event: usize) -> i64 {
    let after = i64::try_from(first_sent_ms(scenario, event)).unwrap_or(0);
    (clock::BEGIN + after) / 1000
}

/// Returns the event as its provider sends it now.
pub fn genuine(scenario: &Scenario, event: usize) -> Webhook {
    let source = source_of(scenario, event);
    let body = body_of(scenario, event);
    let headers = match source {
        GITHUB => vec![
            ("x-github-delivery", id_of(event)),
            ("x-github-event", "issues".to_owned()),
            (
                "x-hub-signature-256",
                format!("sha256={}", hex::encode(signed(&body))),
            ),
        ],
        TWILIO => vec![(
            "x-twilio-signature",
            STANDARD.encode(mac::<Hmac<Sha1>>(&[twilio_message(&body).as_bytes()])),
        )],
        MAILGUN => Vec::new(),
        WOO => vec![
            ("x-wc-webhook-delivery-id", id_of(event)),
            ("x-wc-webhook-topic", "order.updated".to_owned()),
            ("x-wc-webhook-signature", STANDARD.encode(signed(&body))),
        ],
        X => vec![("x-twitter-webhooks-signature", x_signature(&body))],
        EBAY => vec![(
            "x-ebay-signature",
            ebay_header(&kid_of(scenario, event), &ebay_signature(&body)),
        )],
        _ => {
            let at = clock::true_ms() / 1000;
            let mac = mac::<Hmac<Sha256>>(&[format!("{at}.{body}").as_bytes()]);
            let signature = hex::encode(mac);
            vec![("stripe-signature", format!("t={at},v1={signature}"))]
        }
    };
    let content_type = if source == TWILIO {
        "application/x-www-form-urlencoded"
    } else {
        "application/json"
    };
    Webhook::post(source, content_type, headers, body)
}

impl Webhook {
    pub fn post(
        source: &'static str,
        content_type: &str,
        headers: Vec<(&str, String)>,
        body: String,
    ) -> Self {
        let plain = [
            ("content-type", content_type.to_owned()),
            (ADDRESS, PROVIDER.to_owned()),
        ];
        let headers = headers.into_iter().chain(plain);
        Self {
            source,
            method: "POST",
            query: String::new(),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            body,
        }
    }

    /// Returns a handshake request.
    pub fn get(source: &'static str, query: String) -> Self {
        Self {
            source,
            method: "GET",
            query,
            headers: BTreeMap::new(),
            body: String::new(),
        }
    }

    /// Returns the request in the format of the HTTP API.
    pub fn request(&self) -> anyhow::Result<Request> {
        let event = json!({
            "version": "2.0",
            "rawPath": format!("/in/{}", self.source),
            "rawQueryString": self.query,
            "headers": self.headers,
            "requestContext": { "domainName": HOST, "http": { "method": self.method } },
            "body": self.body,
            "isBase64Encoded": false,
        });
        serde_json::from_value(event).context("build a request of the HTTP API")
    }
}

fn mac<M: hmac::Mac + hmac::KeyInit>(message: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as hmac::KeyInit>::new_from_slice(SECRET.as_bytes())
        .expect("HMAC accepts keys of any length");
    for piece in message {
        mac.update(piece);
    }
    mac.finalize().into_bytes().to_vec()
}

/// Returns the HMAC-SHA256 of a body.
fn signed(body: &str) -> Vec<u8> {
    mac::<Hmac<Sha256>>(&[body.as_bytes()])
}

/// Returns the signature of X over a body. The handshake of X answers with the same signature over
/// a token.
pub fn x_signature(text: &str) -> String {
    format!("sha256={}", STANDARD.encode(signed(text)))
}

pub fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let fields = fields.iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    fields.join("&")
}

/// Returns the signed text: the URL, followed by the fields sorted by name.
/// <https://www.twilio.com/docs/usage/security#validating-requests>
fn twilio_message(body: &str) -> String {
    let decoded = |text: &str| {
        let decoded = percent_encoding::percent_decode_str(text);
        decoded.decode_utf8_lossy().into_owned()
    };
    let mut fields: Vec<(String, String)> = body
        .split('&')
        .filter_map(|field| field.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    fields.sort();
    let fields = fields.into_iter().map(|(name, value)| name + &value);
    format!("https://{HOST}/in/{TWILIO}{}", fields.collect::<String>())
}

/// Returns the key that signs an event of eBay. The second half of the events uses another key.
pub fn kid_of(scenario: &Scenario, event: usize) -> String {
    let second = event >= scenario.events / 2;
    let kid = if second {
        "f2c7a1d8-second"
    } else {
        "e9b04c3e-first"
    };
    kid.to_owned()
}

/// Returns the header that names a key and carries a signature.
pub fn ebay_header(kid: &str, signature: &str) -> String {
    let header = json!({ "alg": "ecdsa", "kid": kid, "signature": signature, "digest": "SHA1" });
    STANDARD.encode(header.to_string())
}

fn ebay_key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).expect("the fixed number is below the order of the curve")
}

/// Returns the ECDSA signature over the SHA-1 of a body, in DER.
fn ebay_signature(body: &str) -> String {
    let signature: Signature = ebay_key()
        .sign_prehash(&Sha1::digest(body.as_bytes()))
        .expect("a SHA-1 hash is long enough for this curve");
    let bytes = signature.to_bytes();
    let (r, s) = bytes.split_at(32);
    let numbers = [r, s].map(der_number).concat();
    let len = u8::try_from(numbers.len()).unwrap_or(0);
    STANDARD.encode([&[0x30, len], numbers.as_slice()].concat())
}

fn der_number(digits: &[u8]) -> Vec<u8> {
    let first = digits.iter().position(|digit| *digit != 0).unwrap_or(0);
    let digits = digits.get(first..).unwrap_or_default();
    let sign: &[u8] = match digits.first() {
        Some(digit) if *digit >= 0x80 => &[0],
        _ => &[],
    };
    let digits = [sign, digits].concat();
    [
        &[2, u8::try_from(digits.len()).unwrap_or(0)],
        digits.as_slice(),
    ]
    .concat()
}

/// Returns the public key in PEM, as eBay returns it: a `SubjectPublicKeyInfo`.
/// <https://www.rfc-editor.org/rfc/rfc5480>
pub fn ebay_public_key() -> String {
    let head = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let point = ebay_key().verifying_key().to_sec1_point(false);
    let spki = STANDARD.encode([&head, point.as_bytes()].concat());
    format!("-----BEGIN PUBLIC KEY-----\n{spki}\n-----END PUBLIC KEY-----")
}
