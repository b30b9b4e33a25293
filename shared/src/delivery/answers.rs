//! The answers of destinations to attempts that did not succeed, kept as evidence.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `E#{source}#{event id}` | `A#{effect}#{run}#{attempt}` | `at`: the time of the answer; `ms`: the duration of the action; `s`: the status, absent if the destination did not answer; `rid`: the destination's id of the request; `ct`: the content type; `b`: at most 512 bytes of masked text; `ttl` |
//!
//! An item takes one write unit. The write has no condition, because no decision depends on the item.
//! The processor writes it only while it holds the lease. An event with a lease cannot be erased, so
//! a later erasure finds the item.

mod mask;
mod text;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{ANSWER_PREFIX as PREFIX, Item, Ledger, Row, item};
use crate::inbox::table::{Change, Returns};
pub use mask::masked;
pub use text::{Excerpt, excerpt};

/// The largest size of an item, in bytes. One write unit is 1,024 bytes; the rest is a margin.
const UNIT: usize = 1_000;

/// The time limit of a write. The worker must still settle the attempt within its lease.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum number of answers that are read for each effect.
const MOST: u32 = 10;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    pub effect: String,
    pub run: u64,
    pub attempt: u32,
    pub at: UnixMillis,
    pub took: Duration,
    /// `None` if the destination did not answer.
    pub status: Option<u16>,
    pub request_id: Option<String>,
    pub content_type: Option<String>,
    /// The masked text. `None` if the answer has none, or if the action keeps only the status.
    pub text: Option<String>,
}

/// The kept answers of an inbox.
#[derive(Clone, Debug)]
pub struct Answers {
    ledger: Ledger,
}

impl Answers {
    pub fn beside(ledger: &Ledger) -> Self {
        let ledger = ledger.clone();
        Self { ledger }
    }

    /// Keeps an answer. The attempt after a deferred attempt has the same number, so its answer
    /// replaces the earlier answer.
    pub async fn keep(&self, row: &Row, answer: &KeptAnswer) -> anyhow::Result<()> {
        let (pk, sk) = (row.key.pk(), answer.sk());
        let expires = answer.at + self.ledger.retention(row.key.source()).bodies;
        let change = answer.change(pk.len() + sk.len(), expires);
        let table = self.ledger.table();
        let write = table.update((&pk, &sk), change, Returns::Nothing);
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(written) => written.map(drop),
            Err(_) => anyhow::bail!("{KEEP}: DynamoDB did not answer within 2 s"),
        }
    }

    /// Returns the answers to the newest attempts of this run, oldest first.
    pub async fn of(&self, row: &Row, now: UnixMillis) -> anyhow::Result<Vec<KeptAnswer>> {
        if row.erased_at.is_some() {
            return Ok(Vec::new());
        }
        let pk = row.key.pk();
        // A deferred attempt is not counted, so its answer has the next number.
        let newest = row.attempts.saturating_add(1);
        let attempts = newest.saturating_sub(MOST - 1).max(1)..=newest;
        let key = |sk| {
            let keys = [("pk", pk.clone()), ("sk", sk)];
            Item::from(keys.map(|(name, value)| (name.to_owned(), item::s(value))))
        };
        let effects = row.effects.keys();
        let keys = effects.flat_map(|effect| {
            let attempts = attempts.clone();
            attempts.map(|attempt| key(sk(effect, row.run, attempt)))
        });
        let (found, _) = self.ledger.items(&keys.collect::<Vec<_>>(), None).await?;
        let mut answers: Vec<KeptAnswer> = found
            .iter()
            .filter(|item| item::number::<i64>(item, "ttl").is_none_or(|ttl| ttl > now.secs()))
            .filter_map(KeptAnswer::read)
            .collect();
        answers.sort_by(|a, b| (a.at, &a.effect).cmp(&(b.at, &b.effect)));
        Ok(answers)
    }
}

const KEEP: &str = "keep the answer of a destination";

fn sk(effect: &str, run: u64, attempt: u32) -> String {
    format!("{PREFIX}{effect}#{run}#{attempt}")
}

impl KeptAnswer {
    fn sk(&self) -> String {
        sk(&self.effect, self.run, self.attempt)
    }

    fn change(&self, key_len: usize, expires: UnixMillis) -> Change {
        let short = |text: &Option<String>| text.as_deref().map(|text| cut(text, 100).to_owned());
        let mut values = vec![
            ("at", Some(item::ms(self.at))),
            ("ms", Some(item::n(self.took.as_millis()))),
            ("s", self.status.map(item::n)),
            ("rid", short(&self.request_id).map(item::s)),
            ("ct", short(&self.content_type).map(item::s)),
            ("ttl", Some(item::n(expires.secs()))),
        ];
        let size = |value: &AttributeValue| value.as_s().map_or(21, String::len);
        let used: usize = values
            .iter()
            .filter_map(|(name, value)| Some(name.len() + size(value.as_ref()?)))
            .sum();
        let room = UNIT.saturating_sub(key_len + used + 1);
        let text = self.text.as_deref().map(|text| cut(text, room));
        values.push(("b", text.filter(|text| !text.is_empty()).map(item::s)));
        let mut change = Change::new(KEEP, "", "");
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (name, value) in values {
            change = change.named(&format!("#{name}"), name);
            match value {
                Some(value) => {
                    set.push(format!("#{name} = :{name}"));
                    change = change.with(&format!(":{name}"), value);
                }
                None => remove.push(format!("#{name}")),
            }
        }
        let set = format!("SET {}", set.join(", "));
        change.update = match remove.as_slice() {
            [] => set,
            remove => format!("{set} REMOVE {}", remove.join(", ")),
        };
        change
    }

    /// Returns `None` for an item that this code cannot read.
    fn read(stored: &Item) -> Option<Self> {
        let sk = item::text(stored, "sk")?.strip_prefix(PREFIX)?;
        let mut parts = sk.rsplitn(3, '#');
        let attempt = parts.next()?.parse().ok()?;
        let run = parts.next()?.parse().ok()?;
        let text = |name| item::text(stored, name).map(str::to_owned);
        Some(Self {
            effect: parts.next()?.to_owned(),
            run,
            attempt,
            at: item::time(stored, "at")?,
            took: Duration::from_millis(item::number(stored, "ms").unwrap_or(0)),
            status: item::number(stored, "s"),
            request_id: text("rid"),
            content_type: text("ct"),
            text: text("b"),
        })
    }
}

/// Returns the beginning of a text, at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> KeptAnswer {
        KeptAnswer {
            effect: "orders".into(),
            run: 2,
            attempt: 7,
            at: UnixMillis(1_900_000_000_000),
            took: Duration::from_millis(31),
            status: Some(404),
            request_id: Some("r".repeat(300)),
            content_type: Some("text/plain".into()),
            text: Some("é".repeat(256)),
        }
    }

    #[test]
    fn an_answer_takes_one_write_unit() {
        for key_len in [40, 300, 600, 2_000] {
            let change = answer().change(key_len, UnixMillis(0));
            let names: usize = change.names.values().map(String::len).sum();
            let values = change.values.values();
            let values: usize = values.map(|v| v.as_s().map_or(21, String::len)).sum();
            let size = key_len + names + values;
            assert!(size <= 1_024 || key_len == 2_000, "{key_len}: {size}");
        }
    }

    #[test]
    fn what_an_answer_lacks_is_removed() {
        let nothing = KeptAnswer {
            status: None,
            request_id: None,
            content_type: None,
            text: None,
            ..answer()
        };
        let change = nothing.change(50, UnixMillis(0));
        assert!(change.update.ends_with(" REMOVE #s, #rid, #ct, #b"));
        assert!(!answer().change(50, UnixMillis(0)).update.contains("REMOVE"));
    }

    #[test]
    fn an_item_that_is_no_answer_is_left_out() {
        let stored = |sk: &str| {
            let at = item::n(5);
            Item::from([("sk".to_owned(), item::s(sk)), ("at".to_owned(), at)])
        };
        let read = KeptAnswer::read(&stored("A#a#b#3#7")).unwrap();
        assert_eq!(
            (read.effect.as_str(), read.run, read.attempt),
            ("a#b", 3, 7)
        );
        for sk in ["A#", "A#a", "A#a#1", "A#a#1#x", "A#a#x#1", "B#a#1#1", "M"] {
            assert_eq!(KeptAnswer::read(&stored(sk)), None, "{sk}");
        }
    }
}
