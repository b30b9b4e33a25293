//! Webhooks of a given size, as a payment provider would send them: no two alike, and the same ones
//! in every run.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use shared::clock::Millis;

/// What signs them.
pub(super) const SECRET: &str = "whsec_bWl0dC1jb3N0LXNlY3JldA==";

pub(super) struct Webhook {
    pub(super) body: Vec<u8>,
}

impl Webhook {
    /// A list of what was bought, as long as there is room: ids, amounts, names and dates, about as
    /// hard to compress as the real ones.
    pub(super) fn new(number: u64, size: usize) -> Self {
        const MEMO: &str = r#"],"memo":""#;
        const END: &str = r#""}}}"#;
        let mut dice = fastrand::Rng::with_seed(number);
        let id = random_id(&mut dice, "evt_", 24);
        let mut body = format!(
            r#"{{"id":"{id}","object":"event","api_version":"2026-09-30","created":{},"type":"invoice.paid","livemode":true,"data":{{"object":{{"id":"{}","object":"invoice","customer":"{}","currency":"eur","status":"paid","lines":["#,
            1_795_000_000 + number,
            random_id(&mut dice, "in_", 24),
            random_id(&mut dice, "cus_", 14),
        );
        loop {
            let line = line(&mut dice);
            if body.len() + line.len() + MEMO.len() + END.len() > size {
                break;
            }
            body.push_str(&line);
            body.push(',');
        }
        if body.ends_with(',') {
            body.pop();
        }
        body.push_str(MEMO);
        let left = size.saturating_sub(body.len() + END.len());
        body.push_str(&random_id(&mut dice, "", left));
        body.push_str(END);
        Self {
            body: body.into_bytes(),
        }
    }

    /// <https://docs.stripe.com/webhooks#verify-manually>
    pub(super) fn signature(&self) -> anyhow::Result<String> {
        let now = Millis::now().secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
        mac.update(format!("{now}.").as_bytes());
        mac.update(&self.body);
        let signed = hex::encode(mac.finalize().into_bytes());
        Ok(format!("t={now},v1={signed}"))
    }
}

const WORDS: [&str; 24] = [
    "annual", "monthly", "seat", "licence", "team", "support", "storage", "transfer", "discount",
    "credit", "upgrade", "renewal", "Berlin", "Lisbon", "export", "premium", "starter", "usage",
    "overage", "backup", "domain", "training", "setup", "priority",
];

fn line(dice: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for at in 0..dice.usize(3..7) {
        let word = dice.choice(WORDS).unwrap_or("seat");
        let space = if at == 0 { "" } else { " " };
        let _ = write!(text, "{space}{word}");
    }
    format!(
        r#"{{"id":"{}","amount":{},"quantity":{},"description":"{text}","price":"{}","proration":{},"period_end":{}}}"#,
        random_id(dice, "il_", 24),
        dice.u32(100..1_000_000),
        dice.u32(1..40),
        random_id(dice, "price_", 24),
        dice.bool(),
        1_795_000_000 + dice.u64(0..31_000_000),
    )
}

fn random_id(dice: &mut fastrand::Rng, prefix: &str, length: usize) -> String {
    let letters = std::iter::repeat_with(|| dice.alphanumeric());
    let mut id = prefix.to_owned();
    id.extend(letters.take(length));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_as_large_as_asked_for_and_json() {
        for (size, number) in [(512, 7), (2_048, 8), (10_240, 9)] {
            let body = Webhook::new(number, size).body;
            assert_eq!(body.len(), size);
            let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(parsed["id"].as_str().unwrap().starts_with("evt_"));
        }
    }

    #[test]
    fn numbers_make_different_ones_and_the_same_number_the_same() {
        let body = |number| Webhook::new(number, 2_048).body;
        assert_eq!(body(1), body(1));
        assert_ne!(body(1), body(2));
    }
}
