//! Webhooks of a given size, as a payment provider would send them. Each webhook is different, and
//! every run has the same ones.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use shared::base::clock::UnixMillis;

/// The signing secret.
pub(crate) const SECRET: &str = "whsec_bWl0dC1jb3N0LXNlY3JldA==";

/// The source that receives the webhooks.
pub(crate) const SOURCE: &str = "stripe-main";

/// The content of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An event as documented by the provider, with random ids, amounts, times and words.
    Documented,
    /// A list of purchased items whose fields are not documented anywhere.
    Unknown,
}

pub(crate) struct Webhook {
    pub(crate) body: Vec<u8>,
}

/// <https://docs.stripe.com/api/v2/core/events/object>
const THIN: &str = include_str!("../webhooks/thin.json");
/// <https://docs.stripe.com/api/payment_intents/object>
const PAYMENT_INTENT: &str = include_str!("../webhooks/payment_intent.json");
/// <https://docs.stripe.com/api/invoices/object>
const INVOICE: &str = include_str!("../webhooks/invoice.json");
/// <https://docs.stripe.com/api/invoice-line-item/object>
const LINE: &str = include_str!("../webhooks/line.json");

impl Webhook {
    pub(crate) fn new(number: u64, size: usize, shape: Shape) -> Self {
        let mut dice = fastrand::Rng::with_seed(number);
        let text = match shape {
            Shape::Unknown => unknown(number, size, &mut dice),
            Shape::Documented => documented(size, &mut dice),
        };
        Self {
            body: text.into_bytes(),
        }
    }

    /// <https://docs.stripe.com/webhooks#verify-manually>
    pub(crate) fn signature(&self) -> anyhow::Result<String> {
        let now = UnixMillis::now().secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
        mac.update(format!("{now}.").as_bytes());
        mac.update(&self.body);
        let signed = hex::encode(mac.finalize().into_bytes());
        Ok(format!("t={now},v1={signed}"))
    }
}

/// Returns the largest documented event that fits, filled up with a note.
fn documented(size: usize, dice: &mut fastrand::Rng) -> String {
    const REST: &str = "<rest>";
    let fits = |text: &str| text.len() - REST.len() <= size;
    let mut text = filled(INVOICE, dice);
    let mut lines = filled(LINE, dice);
    while text.len() + lines.len() + LINE.len() * 2 < size {
        lines.push(',');
        lines.push_str(&filled(LINE, dice));
    }
    text = text.replace("<lines>", &lines);
    for smaller in [PAYMENT_INTENT, THIN] {
        if !fits(&text) {
            text = filled(smaller, dice);
        }
    }
    let left = size.saturating_sub(text.len() - REST.len());
    let mut note = String::new();
    while note.len() < left {
        note.push_str(dice.choice(WORDS).unwrap_or("seat"));
        note.push(' ');
    }
    note.truncate(left);
    text.replace(REST, &note)
}

/// Fills a template. `<24>` becomes that many random letters, `<n>` and `<q>` become amounts, `<t>`
/// a time, and `<w>` a word. Other text in such brackets does not change.
fn filled(template: &str, dice: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    let mut rest = template.trim_end();
    while let Some((before, (marker, after))) = rest
        .split_once('<')
        .and_then(|(before, from)| Some((before, from.split_once('>')?)))
    {
        text.push_str(before);
        match marker {
            "n" => text.push_str(&dice.u32(100..1_000_000).to_string()),
            "q" => text.push_str(&dice.u32(100..1_000).to_string()),
            "t" => text.push_str(&(1_795_000_000 + dice.u64(0..31_000_000)).to_string()),
            "w" => text.push_str(dice.choice(WORDS).unwrap_or("seat")),
            _ => match marker.parse() {
                Ok(letters) => text.push_str(&random_id(dice, "", letters)),
                Err(_) => {
                    let _ = write!(text, "<{marker}>");
                }
            },
        }
        rest = after;
    }
    text + rest
}

/// Fills the size with lines that compress about as well as real ones.
fn unknown(number: u64, size: usize, dice: &mut fastrand::Rng) -> String {
    const MEMO: &str = r#"],"memo":""#;
    const END: &str = r#""}}}"#;
    let id = random_id(dice, "evt_", 24);
    let mut body = format!(
        r#"{{"id":"{id}","object":"event","api_version":"2026-09-30","created":{},"type":"invoice.paid","livemode":true,"data":{{"object":{{"id":"{}","object":"invoice","customer":"{}","currency":"eur","status":"paid","lines":["#,
        1_795_000_000 + number,
        random_id(dice, "in_", 24),
        random_id(dice, "cus_", 14),
    );
    loop {
        let line = line(dice);
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
    body.push_str(&random_id(dice, "", left));
    body.push_str(END);
    body
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
        for shape in [Shape::Documented, Shape::Unknown] {
            for (size, number) in [(512, 7), (2_048, 8), (10_240, 9)] {
                let body = Webhook::new(number, size, shape).body;
                assert_eq!(body.len(), size);
                let parsed: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert!(parsed["id"].as_str().unwrap().starts_with("evt_"));
            }
        }
        let invoice = Webhook::new(1, 10_240, Shape::Documented).body;
        let invoice: serde_json::Value = serde_json::from_slice(&invoice).unwrap();
        assert!(invoice["data"]["object"]["lines"]["data"][5]["id"].is_string());
    }

    #[test]
    fn numbers_make_different_ones_and_the_same_number_the_same() {
        let body = |number| Webhook::new(number, 2_048, Shape::Documented).body;
        assert_eq!(body(1), body(1));
        assert_ne!(body(1), body(2));
    }
}
