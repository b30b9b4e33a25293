//! The billed units of a write: one unit for each KB of the larger of the item before and after it,
//! the same for each index entry that is added, removed or moved, and twice as much in a
//! transaction.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html>

use simulation::wire::dynamodb::{Changed, INDEXES, Item, Value};

pub(crate) fn written(changes: &[Changed], in_transaction: bool) -> u64 {
    let once: u64 = changes.iter().map(of).sum();
    if in_transaction { 2 * once } else { once }
}

/// A rejected write is billed by the size of the existing item.
pub(crate) fn refused(there: Option<&Item>) -> u64 {
    units(there.map_or(0, size))
}

fn of(change: &Changed) -> u64 {
    let larger = [&change.old, &change.new].map(|item| item.as_ref().map_or(0, size));
    let table = units(larger[0].max(larger[1]));
    let indexes = INDEXES.iter().map(|(_, partition, sort)| {
        let entry = |item: &Option<Item>| item.as_ref().and_then(|it| entry(it, partition, sort));
        match (entry(&change.old), entry(&change.new)) {
            (Some(old), Some(new)) if old != new => units(size(&old)) + units(size(&new)),
            (None, Some(only)) | (Some(only), None) => units(size(&only)),
            _ => 0,
        }
    });
    table + indexes.sum::<u64>()
}

/// The index entry of an item: the keys. `None` if a key is missing.
fn entry(item: &Item, partition: &str, sort: &str) -> Option<Item> {
    let names = ["pk", "sk", partition, sort];
    let keys = names.map(|name| Some((name.to_owned(), item.get(name)?.clone())));
    keys.into_iter().collect()
}

fn units(bytes: usize) -> u64 {
    bytes.div_ceil(1024).max(1) as u64
}

/// The size of an item that DynamoDB bills: the names, and the values by type.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
fn size(item: &Item) -> usize {
    let attributes = item.iter();
    attributes
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::S(text) => text.len(),
        // About one byte for two digits, plus one byte.
        Value::N(digits) => {
            let digits = digits.trim_start_matches('-').trim_end_matches('0');
            digits.len().div_ceil(2) + 1
        }
        Value::B(text) => text.trim_end_matches('=').len() * 3 / 4,
        Value::Bool(_) | Value::Null(_) => 1,
        Value::L(values) => {
            3 + values
                .iter()
                .map(|value| 1 + value_size(value))
                .sum::<usize>()
        }
        Value::M(map) => 3 + map.len() + size(map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(body: usize, index: Option<&str>) -> Item {
        let mut item = Item::new();
        let mut put = |name: &str, text: &str| {
            item.insert(name.to_owned(), Value::S(text.to_owned()));
        };
        put("pk", "E#a#1");
        put("sk", "M");
        put("b", &"x".repeat(body));
        if let Some(partition) = index {
            put("tpk", partition);
            put("tsk", "1");
        }
        item
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
    fn a_transaction_costs_twice_and_a_refusal_as_much_as_what_is_there() {
        let new = || change(None, Some(item(10, Some("a"))));
        assert_eq!(written(&[new(), new()], true), 8);
        assert_eq!([refused(None), refused(Some(&item(1_100, None)))], [1, 2]);
    }
}
