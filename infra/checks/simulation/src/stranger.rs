//! The stranger: a caller without a secret. It sends junk, names keys that do not exist, requests
//! signatures from handshakes, and posts captured requests again with changes that the signature
//! does not cover. The observer counts the effects on genuine senders.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::clock;
use crate::rng::Dice;
use crate::run::Run;
use crate::scenario::{Stranger, Without};
use crate::sender::send;
use crate::webhook::{
    ADDRESS, EBAY, MAILGUN, SOURCES, TWILIO, Webhook, X, ebay_header, event_of, x_signature,
};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The number of addresses from which the stranger sends.
const ADDRESSES: usize = 8;

/// A well-formed signature that matches no message.
const NO_SIGNATURE: &str = "MAYCAQECAQE=";

/// Headers that name a delivery but are not covered by a signature.
const UNSIGNED_IDS: [&str; 3] = [
    "x-github-delivery",
    "x-wc-webhook-delivery-id",
    "i-twilio-idempotency-token",
];

/// Runs all actions of the stranger in parallel while genuine senders send.
pub async fn act(run: Rc<Run>) {
    let (stranger, without) = {
        let scenario = &run.world.lock().scenario;
        (scenario.stranger, scenario.without)
    };
    let Some(stranger) = stranger else {
        return;
    };
    tokio::join!(
        flood(&run, stranger),
        name_keys(&run, stranger),
        ask(&run, without)
    );
}

/// Uses up the daily limits of the quarantine: completely for the source whose requests wait for a
/// key, and partly for other sources.
async fn flood(run: &Run, stranger: Stranger) {
    for day in 1.. {
        for n in 0..stranger.junk {
            for source in SOURCES
                .into_iter()
                .filter(|one| *one == EBAY || n % 10 == 0)
            {
                let body = json!({ "junk": n, "day": day }).to_string();
                post(
                    run,
                    &Webhook::post(source, "application/json", Vec::new(), body),
                )
                .await;
            }
            sleep(Duration::from_millis(100)).await;
        }
        sleep((DAY * day).saturating_sub(clock::elapsed())).await;
        if run.all_are_sent() {
            return;
        }
    }
}

/// Names new keys each minute. Their names sort before all genuine ones.
async fn name_keys(run: &Run, stranger: Stranger) {
    for minute in 0..stranger.names_keys_for {
        for n in 0..stranger.unknown_keys {
            let header = ebay_header(&format!("0-{minute:06}-{n}"), NO_SIGNATURE);
            let headers = vec![("x-ebay-signature", header)];
            let body = json!({ "notification": { "notificationId": "forged" } }).to_string();
            post(run, &Webhook::post(EBAY, "application/json", headers, body)).await;
        }
        sleep(MINUTE).await;
        if run.all_are_sent() {
            return;
        }
    }
}

/// Requests a signature from the handshake that signs, and posts the signed text as an event.
async fn ask(run: &Run, without: Option<Without>) {
    for n in 0_u32.. {
        for token in [format!("AAAAAAAA{n}"), format!("1{n:08}")] {
            let query = format!("crc_token={token}");
            let answer = post(run, &Webhook::get(X, query)).await.unwrap_or_default();
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            if let Some(signature) = answer["response_token"].as_str() {
                forge(run, token, signature.to_owned()).await;
            }
        }
        if without == Some(Without::HandshakeGuard) {
            let token = json!({ "for_user_id": "7", "forged": n }).to_string();
            let signature = x_signature(&token);
            forge(run, token, signature).await;
        }
        sleep(10 * MINUTE).await;
        if run.all_are_sent() {
            return;
        }
    }
}

async fn forge(run: &Run, body: String, signature: String) {
    let headers = vec![("x-twitter-webhooks-signature", signature)];
    post(run, &Webhook::post(X, "application/json", headers, body)).await;
}

/// Posts a request from the next address of the stranger. Returns the body of the answer, if any.
async fn post(run: &Run, webhook: &Webhook) -> Option<String> {
    let mut webhook = webhook.clone();
    let address = format!("192.0.2.{}", run.next_turn() % ADDRESSES);
    webhook.headers.insert(ADDRESS.to_owned(), address);
    match send(run, &webhook).await {
        Ok(answer) => answer.map(|answer| answer.body),
        Err(error) => {
            run.fail(error);
            None
        }
    }
}

/// Handles an acknowledged request, which the stranger may capture. The stranger posts the copy
/// again when the event is in the ledger, because earlier a copy cannot be distinguished from the
/// original.
pub fn may_capture(run: &Rc<Run>, event: usize, webhook: Webhook) {
    let (stranger, seed) = {
        let scenario = &run.world.lock().scenario;
        (scenario.stranger, scenario.seed)
    };
    let mut dice = Dice::new(seed, 0x6361_7074_0000 + event as u64);
    if !stranger.is_some_and(|stranger| dice.hits(stranger.captures)) {
        return;
    }
    let run = run.clone();
    run.begin();
    tokio::task::spawn_local(async move {
        while !run.world.lock().witness.has_row(event) && !run.all_are_sent() {
            sleep(MINUTE).await;
        }
        for spelling in spellings(&webhook) {
            post(&run, &spelling).await;
            sleep(Duration::from_millis(dice.between(0, 8_000))).await;
        }
        run.end();
    });
}

/// Returns the captured request, and variants with the same signature.
fn spellings(captured: &Webhook) -> Vec<Webhook> {
    let with = |change: &dyn Fn(&mut Webhook)| {
        let mut webhook = captured.clone();
        change(&mut webhook);
        webhook
    };
    let header = |name: &str, value: &str| {
        with(&|webhook| {
            let value = value.to_owned();
            webhook.headers.insert(name.to_owned(), value);
        })
    };
    let mut all = vec![
        captured.clone(),
        with(&|webhook| webhook.query = "utm_source=1".into()),
        with(&|webhook| {
            let headers = std::mem::take(&mut webhook.headers);
            let shouted = headers.into_iter();
            webhook.headers = shouted
                .map(|(name, value)| (name.to_ascii_uppercase(), value))
                .collect();
        }),
        header("x-request-id", "1"),
        header("content-type", "text/plain"),
        with(&|webhook| webhook.body.push('\n')),
        with(&|webhook| webhook.body.insert(0, ' ')),
    ];
    for name in UNSIGNED_IDS {
        all.extend(["other-1", "other-2"].map(|id| header(name, id)));
        all.push(with(&|webhook| {
            webhook.headers.remove(name);
        }));
    }
    let bodies = match captured.source {
        TWILIO => forms(&captured.body),
        MAILGUN => documents(&captured.body),
        _ => Vec::new(),
    };
    all.extend(
        bodies
            .into_iter()
            .map(|body| with(&|webhook| webhook.body.clone_from(&body))),
    );
    all
}

/// Returns other bodies whose sorted and joined fields give the same text.
fn forms(body: &str) -> Vec<String> {
    let fields: Vec<&str> = body.split('&').collect();
    let reversed: Vec<&str> = fields.iter().rev().copied().collect();
    let repeated = [fields.clone(), fields.iter().take(1).copied().collect()].concat();
    // The signature does not cover the end of a field: a value can include the next field.
    let glued = body.replacen("&Body=", "Body", 1);
    let moved = body.replacen("&MessageStatus=", "MessageStatus", 1);
    let one = body.replace(['&', '='], "") + "=";
    vec![
        reversed.join("&"),
        repeated.join("&"),
        body.replacen("evt_", "%65vt_", 1),
        body.replacen("delivered", "d%65livered", 1),
        format!("{body}&"),
        glued,
        moved,
        one,
    ]
}

/// Returns other documents with the same signed token.
fn documents(body: &str) -> Vec<String> {
    let id = event_of(body.as_bytes()).unwrap_or(0);
    let old = format!("evt_{id:09}");
    let mut other: Value = serde_json::from_str(body).unwrap_or_default();
    other["event-data"]["event"] = "complained".into();
    let same_id = other.to_string();
    other["extra"] = "field".into();
    vec![
        same_id,
        other.to_string(),
        body.replace(&old, "forged-1"),
        body.replace(&old, "forged-2"),
        body.replace(':', ": "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::webhook::genuine;

    fn captured() -> Vec<Webhook> {
        let scenario = crate::cases::stranger(1, 7);
        (0..7).map(|event| genuine(&scenario, event)).collect()
    }

    #[test]
    fn every_source_has_a_genuine_sender() {
        let sources: Vec<_> = captured().iter().map(|webhook| webhook.source).collect();
        assert_eq!(sources, SOURCES);
        let alone = Scenario::calm(1, 7);
        let sources = (0..7).map(|event| genuine(&alone, event).source);
        assert!(sources.into_iter().all(|source| source == SOURCES[0]));
    }

    /// The stranger has no secret, so every variant keeps the signature header of the captured
    /// request.
    #[test]
    fn spellings_carry_the_captured_signature() {
        for webhook in captured() {
            let signed = webhook
                .headers
                .iter()
                .find(|(name, _)| name.ends_with("signature"));
            for spelling in spellings(&webhook) {
                let Some((name, value)) = signed else {
                    continue;
                };
                let names = [name.clone(), name.to_ascii_uppercase()];
                let mut kept = names.iter().filter_map(|name| spelling.headers.get(name));
                assert!(kept.any(|kept| kept == value), "{spelling:?}");
            }
        }
    }

    #[test]
    fn other_forms_sort_to_the_same_text() {
        let body = "AccountSid=AC0&Body=hi&MessageSid=evt_000000001&MessageStatus=delivered";
        for other in forms(body) {
            assert_ne!(other, body);
        }
        assert_eq!(
            forms(body)[0],
            "MessageStatus=delivered&MessageSid=evt_000000001&Body=hi&AccountSid=AC0"
        );
    }
}
