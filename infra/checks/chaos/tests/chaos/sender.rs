//! Webhooks as their providers send them, signed without the code under test.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use shared::base::clock::UnixMillis;

use crate::rng::Dice;

pub(crate) const SOURCES: [&str; 6] = [
    "github-main",
    "stripe-main",
    "standard-main",
    "woo-main",
    "x-main",
    "mailgun-main",
];

/// The behaviour that the event requests from the destination. The judge uses the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// The call kills the worker of the event.
    Poison,
    /// The destination always rejects the event.
    Permanent,
    /// A rule of the source holds the event until a person approves it.
    Held,
}

#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) source: &'static str,
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) body: Bytes,
}

/// Texts that must not appear in any log.
#[derive(Clone, Debug)]
pub(crate) struct Canaries {
    /// A text in each body.
    pub(crate) person: String,
    /// A text in a header of each request.
    pub(crate) header: String,
    /// The secret of every source. In base64, it is also a valid Standard Webhooks key.
    pub(crate) secret: String,
    /// The secret with which the processor signs.
    pub(crate) downstream: String,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Poison => "poison",
            Self::Permanent => "permanent",
            Self::Held => "held",
        }
    }

    /// Returns the behaviour for a word that the destination reads from a body.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "poison" => Self::Poison,
            "permanent" => Self::Permanent,
            "held" => Self::Held,
            _ => Self::Plain,
        }
    }
}

impl Canaries {
    pub(crate) fn new(dice: &Dice) -> Self {
        let word = || format!("{:016x}", dice.roll());
        Self {
            person: format!("person-{}", word()),
            header: format!("bearer-{}", word()),
            secret: STANDARD.encode(word()),
            downstream: format!("whsec_{}", STANDARD.encode([word(), word()].concat())),
        }
    }

    /// Returns the secret of a genuine sender or of a forger.
    pub(crate) fn secret_of(&self, genuine: bool) -> &str {
        if genuine { &self.secret } else { "Zm9yZ2Vk" }
    }

    pub(crate) fn all(&self) -> [&str; 4] {
        [&self.person, &self.header, &self.secret, &self.downstream]
    }
}

impl Webhook {
    pub(crate) fn new(
        source: &'static str,
        id: &str,
        kind: Kind,
        filler: usize,
        canaries: &Canaries,
        genuine: bool,
        dice: &Dice,
    ) -> Self {
        // The filler is almost incompressible, so that a large body stays large.
        let filler: Vec<_> = (0..filler.div_ceil(16)).map(|_| dice.roll()).collect();
        let filler = hex::encode(
            filler
                .iter()
                .flat_map(|roll| roll.to_be_bytes())
                .collect::<Vec<u8>>(),
        );
        let mut body = json!({
            "id": id,
            "type": "order.paid",
            "kind": kind.word(),
            "person": canaries.person,
            "filler": filler,
        });
        match source {
            // The text of a customer can resemble the request that a shop sends when an operator
            // saves a webhook.
            "woo-main" => body["note"] = "https://shop.test/?order=1&webhook_id=5&page=2".into(),
            // The token of the event is signed and is part of the body.
            "mailgun-main" => {
                let secret = canaries.secret_of(genuine);
                let (at, token) = (UnixMillis::now().secs().to_string(), format!("token-{id}"));
                let mac = mac(secret.as_bytes(), &[at.as_bytes(), token.as_bytes()]);
                body["signature"] =
                    json!({ "timestamp": at, "token": token, "signature": hex::encode(mac) });
                body["event-data"] = json!({ "id": id, "event": "opened" });
            }
            _ => {}
        }
        let body: Bytes = body.to_string().into();
        let id = match source {
            "x-main" => hash_id(&body),
            _ => id.to_owned(),
        };
        Self {
            source,
            id,
            kind,
            body,
        }
    }

    /// Returns the headers, signed with this secret at the current time.
    pub(crate) fn headers(&self, secret: &str) -> Vec<(&'static str, String)> {
        let at = UnixMillis::now().secs().to_string();
        let plain = ("content-type", "application/json".to_owned());
        let signed = match self.source {
            "github-main" => vec![
                ("x-github-delivery", self.id.clone()),
                ("x-github-event", "order".to_owned()),
                (
                    "x-hub-signature-256",
                    format!(
                        "sha256={}",
                        hex::encode(mac(secret.as_bytes(), &[&self.body]))
                    ),
                ),
            ],
            "stripe-main" => {
                let message = format!("{at}.");
                let mac = mac(secret.as_bytes(), &[message.as_bytes(), &self.body]);
                vec![(
                    "stripe-signature",
                    format!("t={at},v1={}", hex::encode(mac)),
                )]
            }
            "woo-main" => vec![
                ("x-wc-webhook-delivery-id", self.id.clone()),
                ("x-wc-webhook-topic", "order.updated".to_owned()),
                (
                    "x-wc-webhook-signature",
                    STANDARD.encode(mac(secret.as_bytes(), &[&self.body])),
                ),
            ],
            "x-main" => vec![(
                "x-twitter-webhooks-signature",
                x_signature(secret, &self.body),
            )],
            "mailgun-main" => Vec::new(),
            _ => {
                let message = format!("{}.{at}.", self.id);
                let key = STANDARD.decode(secret).unwrap();
                let mac = mac(&key, &[message.as_bytes(), &self.body]);
                vec![
                    ("webhook-id", self.id.clone()),
                    ("webhook-timestamp", at),
                    ("webhook-signature", format!("v1,{}", STANDARD.encode(mac))),
                ]
            }
        };
        [signed, vec![plain]].concat()
    }
}

/// Returns the id that Mitt gives to an event without an id.
pub(crate) fn hash_id(body: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(body)))
}

/// Returns X's signature of a body. The answer of a handshake contains the same signature of a
/// token.
pub(crate) fn x_signature(secret: &str, text: &[u8]) -> String {
    let mac = mac(secret.as_bytes(), &[text]);
    format!("sha256={}", STANDARD.encode(mac))
}

fn mac(key: &[u8], message: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for piece in message {
        mac.update(piece);
    }
    mac.finalize().into_bytes().to_vec()
}
