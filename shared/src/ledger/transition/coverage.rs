//! The change of a day's figures.

use aws_sdk_dynamodb::types::AttributeValue;

use super::Change;
use crate::clock::Millis;
use crate::ledger::{Item, item};

/// A day that is counted up to `seen` → the same with the minutes behind it. Whoever has counted
/// them in the meantime has moved `upto`, and this is refused. `figures` holds the new `upto`.
pub fn count_day(seen: Option<Millis>, owner: &str, figures: Item, expires: Millis) -> Change {
    let mut names: Vec<String> = figures.keys().cloned().collect();
    names.sort();
    let sets: Vec<String> = names
        .iter()
        .map(|name| format!("{name} = :{name}"))
        .collect();
    let update = format!("SET {}, wid = :wid, #ttl = :ttl", sets.join(", "));
    let condition = match seen {
        None => "attribute_not_exists(upto)",
        Some(_) => "upto = :seen",
    };
    let change = Change::new("count what the sync has seen", condition, &update)
        .named("#ttl", "ttl")
        .with(":ttl", item::n(expires.secs()))
        .with(":wid", item::s(owner));
    let change = figures
        .into_iter()
        .fold(change, |change, (name, value): (String, AttributeValue)| {
            change.with(&format!(":{name}"), value)
        });
    match seen {
        None => change,
        Some(seen) => change.with(":seen", item::ms(seen)),
    }
}
