//! Switches off protections of the production code when its requests arrive.

use super::Item;
use super::expression::{Compare, Condition, Operand, Part, Path, Update};

/// A protection that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Writes after a claim do not check whether the claim is the newest.
    NoFence,
    /// A put does not check whether the event exists.
    BlindPut,
    /// A rejected write does not return the current item, so a worker cannot recognize its own
    /// write.
    OwnWriteUnseen,
    /// A claim does not count as an attempt.
    AttemptsNotCounted,
    /// A claim counts as two attempts.
    AttemptsCountedTwice,
    /// A claim does not increase the fencing token.
    EpochStays,
    /// The sweep does not count how often it sent a message.
    PausesStay,
    /// A claim does not check the lease of another worker.
    NoLease,
    /// A claim does not check whether the retry is due.
    NotWaiting,
    /// A marker of an earlier event is overwritten under any name.
    BlindMarker,
    /// Requests that wait for a key share the daily limit of rejected requests.
    SharedBudget,
    /// A processor claims an event that waits for a worker outside of Lambda. The version of the row
    /// does not prevent that either.
    PullUnseen,
    /// A processor claims an event that waits for an approval. The version of the row does not
    /// prevent that either.
    HoldUnseen,
    /// An event that waits for a worker or for an approval stays in its part of the index.
    PartStays,
}

/// The sort key of markers. A marker records that a body or a signed message arrived under an event
/// id.
const MARKER: &str = "S";

/// The sort key of the daily count of rejected requests.
const TALLY: &str = "N";

impl Weakness {
    /// Returns the condition of a write of an item with this sort key, without the protection.
    pub(super) fn weaken(self, condition: &Condition, sk: &str) -> Condition {
        match self {
            Self::BlindMarker if sk == MARKER => Condition::Always,
            Self::NoFence if mentions(condition, "own") => {
                without(condition, &["own", "epoch", "st"])
            }
            Self::BlindPut => without(condition, &["pk"]),
            Self::NoLease => without(condition, &["lu"]),
            Self::NotWaiting => without(condition, &["due"]),
            Self::PullUnseen => without(condition, &["pul", "sv"]),
            Self::HoldUnseen => without(condition, &["hld", "sv"]),
            _ => condition.clone(),
        }
    }

    /// Returns whether a write to a source's quarantine fails because the rejected requests have
    /// reached their daily limit. The write fails even if another limit applies to it.
    pub(super) fn is_spent(self, pk: &str, sk: &str, tally: impl Fn(&str) -> Option<Item>) -> bool {
        if self != Self::SharedBudget || !pk.starts_with("Q#") || sk == TALLY {
            return false;
        }
        let day: Vec<&str> = pk.splitn(4, '#').take(3).collect();
        let number = |tally: &Item, name| tally.get(name).and_then(super::Value::number);
        let tally = tally(&day.join("#"));
        tally.is_some_and(|tally| number(&tally, "n") >= number(&tally, "maxn"))
    }

    pub(super) fn weaken_update(self, update: &mut Update) {
        let names = |path: &Path, names: &[&str]| matches!(path.first(), Some(Part::Name(name)) if names.contains(&name.as_str()));
        let uncounted: &[&str] = match self {
            Self::AttemptsCountedTwice => {
                let again: Vec<_> = update
                    .add
                    .iter()
                    .filter(|(path, _)| names(path, &["att"]))
                    .cloned()
                    .collect();
                update.add.extend(again);
                return;
            }
            Self::PartStays => {
                if update
                    .set
                    .iter()
                    .any(|(path, _)| names(path, &["pul", "hld"]))
                {
                    update.set.retain(|(path, _)| !names(path, &["gpk"]));
                }
                return;
            }
            Self::AttemptsNotCounted => &["att", "cr"],
            Self::EpochStays => &["epoch"],
            Self::PausesStay => &["enq_n"],
            _ => return,
        };
        update.add.retain(|(path, _)| !names(path, uncounted));
    }

    /// Returns the item that a rejected write returns.
    pub(super) fn shown(self, item: Option<Item>) -> Option<Item> {
        match self {
            Self::OwnWriteUnseen => None,
            Self::NoLease => item.map(|mut item| {
                if item.contains_key("lu") {
                    item.insert("lu".to_owned(), super::Value::N("1".to_owned()));
                }
                item
            }),
            _ => item,
        }
    }
}

fn mentions(condition: &Condition, name: &str) -> bool {
    match condition {
        Condition::Not(inner) => mentions(inner, name),
        Condition::And(one, two) | Condition::Or(one, two) => {
            mentions(one, name) || mentions(two, name)
        }
        other => subject(other) == Some(name),
    }
}

/// Returns the condition without the clauses about these attributes.
fn without(condition: &Condition, names: &[&str]) -> Condition {
    let again = |inner: &Condition| Box::new(without(inner, names));
    match condition {
        Condition::Not(inner) => Condition::Not(again(inner)),
        Condition::And(one, two) => Condition::And(again(one), again(two)),
        Condition::Or(one, two) => Condition::Or(again(one), again(two)),
        other if subject(other).is_some_and(|name| names.contains(&name)) => Condition::Always,
        other => other.clone(),
    }
}

/// Returns the attribute of a clause.
fn subject(condition: &Condition) -> Option<&str> {
    let (Condition::Compare(
        Operand::Path(path),
        Compare::Equal | Compare::Less | Compare::LessOrEqual,
        _,
    )
    | Condition::In(Operand::Path(path), _)
    | Condition::Missing(path)) = condition
    else {
        return None;
    };
    let [Part::Name(name)] = path.as_slice() else {
        return None;
    };
    Some(name)
}
