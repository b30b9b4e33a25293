//! Protections of the production code, switched off where its requests arrive.

use super::Item;
use super::expression::{Compare, Condition, Operand, Part, Path, Update};

/// One protection that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Writes after a claim are not held to the newest claim.
    NoFence,
    /// A put does not ask whether there is such an event.
    BlindPut,
    /// A refused write does not say what stands there, so that nobody recognises his own.
    OwnWriteUnseen,
    /// A claim does not count as an attempt.
    AttemptsNotCounted,
    /// A claim counts as two attempts.
    AttemptsCountedTwice,
    /// A claim does not raise the fencing token.
    EpochStays,
    /// The sweep does not count how often it rang.
    PausesStay,
    /// A claim does not ask whether somebody is at work.
    NoLease,
    /// A claim does not ask whether the retry is due.
    NotWaiting,
    /// A marker that says what came before is written again under any name.
    BlindMarker,
    /// Requests that wait for a key are counted with those that were refused.
    SharedBudget,
}

/// The sort key of markers: this body, or what was signed, came under that name.
const MARKER: &str = "S";

/// The sort key of the count of refused requests of a day.
const TALLY: &str = "N";

impl Weakness {
    /// The condition of a write of an item with this sort key.
    pub(super) fn weaken(self, condition: &Condition, sk: &str) -> Condition {
        match self {
            Self::BlindMarker if sk == MARKER => Condition::Always,
            Self::NoFence if mentions(condition, "own") => {
                without(condition, &["own", "epoch", "st"])
            }
            Self::BlindPut => without(condition, &["pk"]),
            Self::NoLease => without(condition, &["lu"]),
            Self::NotWaiting => without(condition, &["due"]),
            _ => condition.clone(),
        }
    }

    /// Whether a write to a source's quarantine is refused because the refused requests of its day
    /// have spent their budget, whatever budget the write is of.
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
            Self::AttemptsNotCounted => &["att", "cr"],
            Self::EpochStays => &["epoch"],
            Self::PausesStay => &["enq_n"],
            _ => return,
        };
        update.add.retain(|(path, _)| !names(path, uncounted));
    }

    /// What a refused write shows.
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

/// The condition with every clause about these attributes taken out.
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

/// The attribute that a clause is about.
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
