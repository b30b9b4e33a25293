//! Fills values into samples that differ between webhooks.

use anyhow::{Context, anyhow};
use shared::base::clock::UnixMillis;

/// The values of one webhook. A placeholder has the same value everywhere in the webhook.
pub(super) struct Filler(Vec<(&'static str, String)>);

impl Filler {
    /// Creates the values, except those for the id and the type.
    pub(super) fn new(now: UnixMillis) -> anyhow::Result<Self> {
        let date = jiff::Timestamp::from_millisecond(now.0).context("the time is out of range")?;
        Ok(Self(vec![
            ("{uuid}", uuid()?),
            ("{hex24}", random_hex(12)?),
            ("{hex40}", random_hex(20)?),
            ("{digits}", digits()?),
            ("{unix}", now.secs().to_string()),
            ("{millis}", now.0.to_string()),
            ("{rfc3339}", now.rfc3339()),
            (
                "{http_date}",
                date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            ),
        ]))
    }

    pub(super) fn with(mut self, id: &str, kind: &str) -> Self {
        self.0.push(("{id}", id.to_owned()));
        self.0.push(("{type}", kind.to_owned()));
        self
    }

    pub(super) fn fill(&self, text: &str) -> String {
        let values = self.0.iter();
        values.fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }
}

/// Returns random bytes in hex.
pub(crate) fn random_hex(bytes: usize) -> anyhow::Result<String> {
    Ok(hex::encode(random(bytes)?))
}

pub(super) fn random(bytes: usize) -> anyhow::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(|error| anyhow!("read random bytes: {error}"))?;
    Ok(buffer)
}

fn uuid() -> anyhow::Result<String> {
    let hex = random_hex(16)?;
    Ok(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}

/// Returns a number of twelve digits without a leading zero.
fn digits() -> anyhow::Result<String> {
    let number = random(5)?
        .into_iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    Ok((100_000_000_000 + number % 900_000_000_000).to_string())
}
