//! Compares the provider's objects with the operator's own state, which is the local state.
//!
//! A run reads both sides and compares them. If an object differs, the run reads it a second time.
//! The run reads both sides at different times, so only a difference that did not change between
//! the reads counts as *drift*. The run stores a [`Report`] in the table, and does not change the
//! local state. A repair adds an event for each drifted object to the inbox, and the source's
//! actions process the event.

mod repair;
mod report;
mod store;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
pub use repair::Repaired;
pub(crate) use report::rfc3339;
pub use report::{Counts, Repair, Report, time};
pub use store::{ProviderReports, ReconcileLease};

string_enum! {
    /// How an object drifted.
    Drifted {
        /// The object exists only at the provider.
        Missing = "missing",
        /// The object exists only locally.
        Gone = "gone",
        /// A field differs.
        Different = "different",
        /// Several objects of one side have the same id, so they cannot be compared.
        Ambiguous = "ambiguous",
    }
}

/// The sorted values at a path. The list is empty if the path does not exist.
pub type Values = Vec<String>;

/// An object on one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The values, in the order of the configured fields. Values of the provider are mapped to
    /// local values.
    pub values: Vec<Values>,
    /// How many objects have this id.
    pub count: u32,
    pub created: Option<UnixMillis>,
}

/// All objects of a side, by id.
pub type Sides = BTreeMap<String, Side>;

/// An object that drifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    pub kind: Drifted,
    /// The id of the object on both sides.
    pub object: String,
    /// If the kind is `Different`, these are the fields that differ. For all other kinds, these are
    /// all fields.
    pub fields: Vec<Field>,
}

/// A field of a drifted object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    pub name: String,
    pub here: Values,
    pub there: Values,
}

/// Adds an object to a side.
pub fn add(side: &mut Sides, id: String, object: Side) {
    side.entry(id)
        .and_modify(|known| known.count += 1)
        .or_insert(Side { count: 1, ..object });
}

/// Compares an object on both sides. Returns `None` if both sides agree, or if neither side has the
/// object.
pub fn drift(id: &str, here: Option<&Side>, there: Option<&Side>, names: &[&str]) -> Option<Drift> {
    let twice = |side: Option<&Side>| side.is_some_and(|side| side.count > 1);
    let kind = match (here, there) {
        (None, None) => return None,
        _ if twice(here) || twice(there) => Drifted::Ambiguous,
        (None, Some(_)) => Drifted::Missing,
        (Some(_), None) => Drifted::Gone,
        (Some(here), Some(there)) if here.values == there.values => return None,
        (Some(_), Some(_)) => Drifted::Different,
    };
    let value = |side: Option<&Side>, at: usize| {
        let values = side.and_then(|side| side.values.get(at));
        values.cloned().unwrap_or_default()
    };
    let fields = names.iter().enumerate().map(|(at, name)| Field {
        name: (*name).to_owned(),
        here: value(here, at),
        there: value(there, at),
    });
    let whole = kind != Drifted::Different;
    Some(Drift {
        kind,
        object: id.to_owned(),
        fields: fields
            .filter(|field| whole || field.here != field.there)
            .collect(),
    })
}

impl Serialize for Drifted {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Drifted {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::parse(&word)
            .ok_or_else(|| serde::de::Error::custom(format!("invalid kind of drift {word:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: &[&str]) -> Side {
        Side {
            values: values.iter().map(|v| vec![(*v).to_owned()]).collect(),
            count: 1,
            created: None,
        }
    }

    fn kind(here: Option<&Side>, there: Option<&Side>) -> Option<(Drifted, usize)> {
        let drift = drift("sub_1", here, there, &["plan", "status"])?;
        Some((drift.kind, drift.fields.len()))
    }

    #[test]
    fn each_way_to_differ_has_its_name() {
        let (pro, free) = (side(&["pro", "active"]), side(&["free", "active"]));
        assert_eq!(kind(Some(&pro), Some(&pro)), None);
        assert_eq!(kind(None, None), None);
        assert_eq!(kind(None, Some(&pro)), Some((Drifted::Missing, 2)));
        assert_eq!(kind(Some(&pro), None), Some((Drifted::Gone, 2)));
        assert_eq!(kind(Some(&free), Some(&pro)), Some((Drifted::Different, 1)));
    }

    #[test]
    fn an_id_that_stands_twice_says_nothing() {
        let mut there = Sides::new();
        add(&mut there, "cus_1".into(), side(&["pro", "active"]));
        add(&mut there, "cus_1".into(), side(&["free", "canceled"]));
        let here = side(&["pro", "active"]);
        let kind = kind(Some(&here), there.get("cus_1"));
        assert_eq!(kind, Some((Drifted::Ambiguous, 2)));
    }
}
