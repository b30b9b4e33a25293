//! A caller without a secret (the stranger). It sends junk, handshakes that ask for a signature,
//! and captured requests in other spellings. The judge knows the class of each request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::fault_schedule::{Protection, Sky};
use crate::load::{Load, Posted, Role};
use crate::sender::{Canaries, SOURCES, x_signature};

/// The number of unsigned requests to each source.
const JUNK: usize = 15;

/// How many times the stranger asks for a signature.
const ASKS: usize = 5;

pub(crate) struct Stranger<'r> {
    pub(crate) sky: &'r Sky,
    pub(crate) load: &'r Load,
    pub(crate) canaries: &'r Canaries,
}

impl Stranger<'_> {
    /// Sends requests while genuine senders deliver. These also include handshakes that genuine
    /// senders send when an operator saves a webhook.
    pub(crate) async fn disturb(&self) {
        if !self.sky.weather.stranger {
            return;
        }
        for n in 0..JUNK {
            for source in SOURCES {
                let body = json!({ "junk": n }).to_string();
                self.post(source, &format!("junk-{n}"), Role::Forged, &[], body)
                    .await;
            }
            if n % (JUNK / ASKS) == 0 {
                self.greet(n).await;
                self.ask(n).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn greet(&self, n: usize) {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let body = format!("webhook_id={n}");
        self.post(
            "woo-main",
            &format!("greeting-{n}"),
            Role::Handshake,
            &form,
            body,
        )
        .await;
        self.crc(&format!("greeting-{n}")).await;
    }

    /// Asks for a signature. A signature from a handshake must not be valid for an event.
    async fn ask(&self, n: usize) {
        for token in [format!("AAAAAAAA{n}"), format!("1{n:08}")] {
            if let Some(signature) = self.crc(&token).await {
                self.forge(&token, &signature).await;
            }
        }
        if self.sky.is_without(Protection::HandshakeGuard) {
            let token = json!({ "id": format!("forged-{n}"), "kind": "plain" }).to_string();
            let signature = x_signature(&self.canaries.secret, token.as_bytes());
            self.forge(&token, &signature).await;
        }
    }

    /// Returns the signature in the handshake's answer.
    async fn crc(&self, token: &str) -> Option<String> {
        let posted = Posted {
            query: Some(format!("crc_token={token}")),
            ..self.posted("x-main", token, Role::Handshake)
        };
        let (_, answer) = self.load.send(&posted).await?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        Some(answer["response_token"].as_str()?.to_owned())
    }

    async fn forge(&self, body: &str, signature: &str) {
        let id = crate::sender::hash_id(body.as_bytes());
        let headers = [("x-twitter-webhooks-signature", signature)];
        self.post("x-main", &id, Role::Forged, &headers, body.to_owned())
            .await;
    }

    /// Posts captured requests again after their events are in the ledger. Each copy changes a
    /// part that the signature does not cover, such as the query or the id header.
    pub(crate) async fn post_again(&self) {
        for captured in self.load.captured() {
            let (source, body) = (captured.source, captured.body.clone());
            let again = |headers: Vec<(String, String)>, query: Option<&str>, body: Bytes| Posted {
                headers,
                body,
                copy_query: query.map(ToOwned::to_owned),
                ..self.posted(source, &captured.id, Role::Copy)
            };
            let headers = || captured.headers.clone();
            let mut all = vec![
                again(headers(), None, body.clone()),
                again(headers(), Some("utm_source=1"), body.clone()),
                again(headers(), None, [b" ", body.as_ref()].concat().into()),
            ];
            let ids = ["x-github-delivery", "x-wc-webhook-delivery-id"];
            for id in ["other-1", "other-2"] {
                let mut renamed = headers();
                renamed.retain(|(name, _)| !ids.contains(&name.as_str()));
                let unnamed = renamed.clone();
                let id = format!("{id}-{}", captured.id);
                renamed.extend(ids.map(|name| (name.to_owned(), id.clone())));
                all.push(again(renamed, None, body.clone()));
                all.push(again(unnamed, None, body.clone()));
            }
            if source == "mailgun-main" {
                all.extend(documents(&captured.id, &body).map(|body| again(headers(), None, body)));
            }
            for posted in &all {
                self.load.send(posted).await;
                self.sky.count("captured requests posted again");
            }
        }
    }

    fn posted(&self, source: &'static str, id: &str, role: Role) -> Posted {
        Posted {
            source,
            id: id.to_owned(),
            delivery: format!("stranger-{:016x}", self.sky.dice.roll()),
            role,
            kind: "plain",
            headers: Vec::new(),
            body: Bytes::new(),
            query: None,
            copy_query: None,
        }
    }

    async fn post(
        &self,
        source: &'static str,
        id: &str,
        role: Role,
        headers: &[(&str, &str)],
        body: String,
    ) {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let posted = Posted {
            headers: headers.collect(),
            body: body.into(),
            ..self.posted(source, id, role)
        };
        self.load.send(&posted).await;
    }
}

/// Returns other documents with the same signed token.
fn documents(id: &str, body: &[u8]) -> [Bytes; 3] {
    let mut other: Value = serde_json::from_slice(body).unwrap();
    other["event-data"]["event"] = "complained".into();
    let same_id = other.to_string();
    let other_id = same_id.replace(id, &format!("forged-{id}"));
    [
        same_id.into(),
        other_id.into(),
        String::from_utf8_lossy(body).replace(':', ": ").into(),
    ]
}
