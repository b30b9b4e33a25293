//! The history of an event, as its row stores it.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, item};

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at: UnixMillis,
    pub what: String,
    pub attempt: u32,
    /// The end of the lease of this attempt.
    pub lease_until: Option<UnixMillis>,
    pub owner: String,
    pub note: String,
}

/// Reads the history. Each entry is a short text, `time|what|attempt|lease|owner|note`. A map would
/// use more bytes for names than for values, and DynamoDB bills each kilobyte of a row on each
/// write.
pub(super) fn history(row: &Item) -> Vec<Moment> {
    let Some(AttributeValue::L(list)) = row.get("h") else {
        return Vec::new();
    };
    list.iter()
        .filter_map(|entry| Moment::read(entry.as_s().ok()?))
        .collect()
}

/// The stored history, including entries that only newer code can read.
pub(super) fn raw_history(row: &Item) -> Vec<AttributeValue> {
    let list = row.get("h").and_then(|history| history.as_l().ok());
    list.cloned().unwrap_or_default()
}

impl Moment {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(6, '|');
        let mut next = || parts.next();
        Some(Self {
            at: UnixMillis(next()?.parse().ok()?),
            what: next()?.to_owned(),
            attempt: next()?.parse().ok()?,
            lease_until: next()?.parse().ok().map(UnixMillis),
            owner: next()?.to_owned(),
            note: next()?.to_owned(),
        })
    }

    pub(in crate::inbox::ledger) fn write(&self) -> AttributeValue {
        let lease = self
            .lease_until
            .map(|until| until.0.to_string())
            .unwrap_or_default();
        let clean = |text: &str| text.replace('|', "/");
        item::s(format!(
            "{}|{}|{}|{lease}|{}|{}",
            self.at.0,
            clean(&self.what),
            self.attempt,
            clean(&self.owner),
            self.note
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_read_back() {
        let moment = Moment {
            at: UnixMillis(5),
            what: "failed".into(),
            attempt: 3,
            lease_until: Some(UnixMillis(9)),
            owner: "processor/7f3c".into(),
            note: "502 | twice".into(),
        };
        assert_eq!(Moment::read(moment.write().as_s().unwrap()), Some(moment));
        for text in ["", "x", "1|a", "1|a|x|||", "||||||||"] {
            assert_eq!(Moment::read(text), None, "{text}");
        }
    }
}
