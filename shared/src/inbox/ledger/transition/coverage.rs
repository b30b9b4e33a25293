//! The changes of a day's counts, and of the usual interval between the webhooks of a source.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, item};

/// Adds the counts of the minutes after `seen` to the counts of a day. DynamoDB refuses the write
/// if another run has changed `upto` in the meantime. `figures` contains the new `upto`.
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

/// Adds the webhooks since `looked` to the intervals between webhooks. The condition on `looked`
/// ensures that each webhook is counted once.
pub fn rhythm(looked: Option<UnixMillis>, facts: Item) -> Change {
    let condition = match looked {
        None => "attribute_not_exists(looked)",
        Some(_) => "looked = :seen",
    };
    Change::new("store the webhook intervals", condition, &sets(&facts)).set(facts, looked)
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
