//! The changes of a day's figures, and of the usual rhythm of a source.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, item};

/// A day that is counted up to `seen` → the same day with later minutes added. The write is refused
/// if another run has moved `upto` in the meantime. `figures` holds the new `upto`.
pub fn count_day(
    seen: Option<UnixMillis>,
    owner: &str,
    figures: Item,
    expires: UnixMillis,
) -> Change {
    let condition = match seen {
        None => "attribute_not_exists(upto)",
        Some(_) => "upto = :seen",
    };
    let update = format!("{}, wid = :wid, #ttl = :ttl", sets(&figures));
    Change::new("count the events of a day", condition, &update)
        .named("#ttl", "ttl")
        .with(":ttl", item::n(expires.secs()))
        .with(":wid", item::s(owner))
        .set(figures, seen)
}

/// A rhythm computed at `looked` → the same rhythm with the events since then, counted once.
pub fn rhythm(looked: Option<UnixMillis>, facts: Item) -> Change {
    let condition = match looked {
        None => "attribute_not_exists(looked)",
        Some(_) => "looked = :seen",
    };
    Change::new("store the rhythm of a source", condition, &sets(&facts)).set(facts, looked)
}

fn sets(attributes: &Item) -> String {
    let mut sets: Vec<String> = attributes
        .keys()
        .map(|name| format!("{name} = :{name}"))
        .collect();
    sets.sort();
    format!("SET {}", sets.join(", "))
}

impl Change {
    /// Binds the values of [`sets`] and of the condition.
    fn set(self, attributes: Item, seen: Option<UnixMillis>) -> Self {
        let change = attributes.into_iter().fold(self, |change, (name, value)| {
            change.with(&format!(":{name}"), value)
        });
        seen.into_iter()
            .fold(change, |change, seen| change.with(":seen", item::ms(seen)))
    }
}
