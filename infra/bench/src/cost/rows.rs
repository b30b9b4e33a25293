//! Counts the rows that events leave in the table, and how long they are stored.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use shared::base::clock::UnixMillis;

use crate::item::{Item, Value, entry, size};

/// The items of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Kept {
    pub(crate) items: u32,
    pub(crate) bytes: f64,
    /// Days until expiry, summed over all items.
    item_days: f64,
    /// Bytes times days, summed over all items.
    byte_days: f64,
}

impl Kept {
    pub(crate) fn add(&mut self, bytes: f64, days: f64) {
        self.items += 1;
        self.bytes += bytes;
        self.item_days += days;
        self.byte_days += bytes * days;
    }

    pub(crate) fn bytes_each(&self) -> f64 {
        self.bytes / f64::from(self.items.max(1))
    }

    pub(crate) fn days_each(&self) -> f64 {
        self.item_days / f64::from(self.items.max(1))
    }

    /// Returns the bytes multiplied by the days for which they are stored.
    pub(crate) fn byte_days(&self) -> f64 {
        self.byte_days
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rows {
    /// State rows, and bodies in their own rows.
    pub(crate) table: BTreeMap<&'static str, Kept>,
    /// Index entries by index name.
    pub(crate) indexes: BTreeMap<String, Kept>,
    /// Events whose state row has the state `done`.
    pub(crate) done: u32,
}

/// An index and its attributes, which are only the keys.
pub(super) struct Index {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
}

impl Rows {
    /// Counts the rows of events. DynamoDB stores additional `overhead` bytes for each item and
    /// each index entry.
    pub(super) fn count(
        items: &[Item],
        indexes: &[Index],
        now: UnixMillis,
        overhead: f64,
    ) -> anyhow::Result<Self> {
        let mut rows = Self::default();
        for item in items {
            let text = |name: &str| item.get(name).and_then(Value::text).unwrap_or_default();
            // Other rows belong to the system, and their number does not grow with the number of
            // events.
            if !text("pk").starts_with("E#") {
                continue;
            }
            let ttl = item.get("ttl").and_then(Value::number);
            let ttl = ttl.with_context(|| format!("the row {} never expires", text("sk")))?;
            let left =
                u32::try_from(ttl - i128::from(now.secs())).context("a row has already expired")?;
            let days = f64::from(left) / 86_400.0;
            let kind = match text("sk") {
                "M" => "state rows",
                sk if sk.starts_with("B#") => "body rows",
                _ => "other rows",
            };
            rows.done += u32::from(text("st") == "done");
            let kept = rows.table.entry(kind).or_default();
            kept.add(bytes(item) + overhead, days);
            for index in indexes {
                if let Some(entry) = entry(item, &index.keys) {
                    let kept = rows.indexes.entry(index.name.clone()).or_default();
                    kept.add(bytes(&entry) + overhead, days);
                }
            }
        }
        Ok(rows)
    }
}

fn bytes(item: &Item) -> f64 {
    u32::try_from(size(item)).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn count(items: Value) -> anyhow::Result<Rows> {
        let items: Vec<Item> = serde_json::from_value(items)?;
        let index = Index {
            name: "time".to_owned(),
            keys: ["pk", "sk", "tpk"].map(str::to_owned).to_vec(),
        };
        Rows::count(&items, &[index], UnixMillis(1_000_000_000), 100.0)
    }

    #[test]
    fn rows_are_counted_by_kind_with_what_is_stored_beside_them() {
        let days = |days: u32| json!({"N": (1_000_000 + days * 86_400).to_string()});
        let state = json!({"pk": {"S": "E#a#1"}, "sk": {"S": "M"}, "st": {"S": "done"},
            "tpk": {"S": "T#a"}, "ttl": days(90)});
        let body = json!({"pk": {"S": "E#a#1"}, "sk": {"S": "B#00"}, "ttl": days(30)});
        let system = json!({"pk": {"S": "SYS"}, "sk": {"S": "HB#sweep"}});
        let rows = count(json!([&state, body, system])).unwrap();
        let of = |kept: &Kept| (kept.items, kept.days_each().round().to_string());
        assert_eq!(of(&rows.table["state rows"]), (1, "90".to_owned()));
        assert_eq!(of(&rows.table["body rows"]), (1, "30".to_owned()));
        assert_eq!(rows.done, 1);
        let expected = bytes(&serde_json::from_value(state).unwrap()) + 100.0;
        assert!((rows.table["state rows"].bytes_each() - expected).abs() < 1e-9);
        // The names and values of pk, sk and tpk. Only the state row has an entry.
        let entry = f64::from(2 + 5 + 2 + 1 + 3 + 3) + 100.0;
        let time = &rows.indexes["time"];
        assert!(
            time.items == 1 && (time.bytes - entry).abs() < 1e-9,
            "{time:?}"
        );
        assert!((time.byte_days() - entry * 90.0).abs() < 1e-6);
    }

    #[test]
    fn a_row_that_never_expires_is_an_error() {
        assert!(count(json!([{"pk": {"S": "E#a#1"}, "sk": {"S": "M"}}])).is_err());
    }
}
