//! Computes the size of an item in DynamoDB, and the units that a write costs.

pub(crate) use simulation::wire::dynamodb::{Changed, INDEXES, Item, Value};

/// Returns the billed units of a write. DynamoDB bills one unit for each KB of the item before or
/// after the write, whichever is larger. It bills the same for each index entry that is added,
/// removed or moved, and twice as much in a transaction.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html>
pub(crate) fn written(changes: &[Changed], in_transaction: bool) -> u64 {
    let once: u64 = changes.iter().map(of_change).sum();
    if in_transaction { 2 * once } else { once }
}

fn of_change(change: &Changed) -> u64 {
    let larger = [&change.old, &change.new].map(|item| item.as_ref().map_or(0, size));
    let table = units(larger[0].max(larger[1]));
    let indexes = INDEXES.iter().map(|(_, partition, sort)| {
        let keys = ["pk", "sk", partition, sort];
        let entry = |item: &Option<Item>| item.as_ref().and_then(|it| entry(it, &keys));
        match (entry(&change.old), entry(&change.new)) {
            (Some(old), Some(new)) if old != new => units(size(&old)) + units(size(&new)),
            (None, Some(only)) | (Some(only), None) => units(size(&only)),
            _ => 0,
        }
    });
    table + indexes.sum::<u64>()
}

/// Returns the entry of an item in an index that projects only its keys, or `None` if a key is
/// missing.
pub(crate) fn entry(item: &Item, keys: &[impl AsRef<str>]) -> Option<Item> {
    let keys = keys.iter().map(AsRef::as_ref);
    let keys = keys.map(|name| Some((name.to_owned(), item.get(name)?.clone())));
    keys.collect()
}

/// Returns the units of a write of this many bytes.
pub(crate) fn units(bytes: usize) -> u64 {
    bytes.div_ceil(1024).max(1) as u64
}

/// Returns the size of an item that DynamoDB bills: the names, and the values by type.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
pub(crate) fn size(item: &Item) -> usize {
    let attributes = item.iter();
    attributes
        .map(|(name, value)| name.len() + size_of_value(value))
        .sum()
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::S(text) => text.len(),
        // About one byte for each two digits, and one more byte.
        Value::N(digits) => {
            let digits = digits.trim_start_matches('-').trim_end_matches('0');
            digits.len().div_ceil(2) + 1
        }
        Value::B(text) => text.trim_end_matches('=').len() * 3 / 4,
        Value::Bool(_) | Value::Null(_) => 1,
        Value::L(values) => {
            let sizes = values.iter().map(|value| 1 + size_of_value(value));
            3 + sizes.sum::<usize>()
        }
        Value::M(map) => 3 + map.len() + size(map),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(body: usize, index: Option<&str>) -> Item {
        let mut item =
            json!({"pk": {"S": "E#a#1"}, "sk": {"S": "M"}, "b": {"S": "x".repeat(body)}});
        if let Some(partition) = index {
            item["tpk"] = json!({"S": partition});
            item["tsk"] = json!({"S": "1"});
        }
        serde_json::from_value(item).unwrap()
    }

    fn change(old: Option<Item>, new: Option<Item>) -> Changed {
        Changed {
            pk: "E#a#1".to_owned(),
            sk: "M".to_owned(),
            old,
            new,
        }
    }

    #[test]
    fn the_larger_of_before_and_after_is_billed() {
        let grown = change(Some(item(10, None)), Some(item(1_500, None)));
        let shrunk = change(Some(item(1_500, None)), Some(item(10, None)));
        let gone = change(Some(item(2_100, None)), None);
        let costs = [grown, shrunk, gone].map(|change| written(&[change], false));
        assert_eq!(costs, [2, 2, 3]);
    }

    #[test]
    fn an_entry_of_an_index_that_comes_goes_or_moves_is_billed_too() {
        let cost = |old, new| {
            let change = change(Some(item(10, old)), Some(item(10, new)));
            written(&[change], false) - 1
        };
        let costs = [
            cost(None, None),
            cost(None, Some("a")),
            cost(Some("a"), None),
            cost(Some("a"), Some("a")),
            cost(Some("a"), Some("b")),
        ];
        assert_eq!(costs, [0, 1, 1, 0, 2]);
    }

    #[test]
    fn a_transaction_costs_twice() {
        let new = || change(None, Some(item(10, Some("a"))));
        assert_eq!(written(&[new(), new()], true), 8);
    }

    #[test]
    fn the_bytes_of_an_item_are_names_and_values() {
        let item = json!({
            "pk": {"S": "E#a#1"},
            "n": {"N": "1700000000000"},
            "b": {"B": "aGVsbG8="},
            "fx": {"M": {}},
            "h": {"L": [{"S": "ab"}]},
            "t": {"BOOL": true},
        });
        assert_eq!(
            size(&serde_json::from_value(item).unwrap()),
            (2 + 5) + (1 + 2) + (1 + 5) + (2 + 3) + (1 + 3 + 3) + (1 + 1)
        );
    }
}
