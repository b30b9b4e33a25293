//! Locations of a preset or a source that have no usable value in an event. A provider can change
//! its events at any time, and a preset can be out of date.

use std::fmt::Display;

use crate::base::string_enum::string_enum;

string_enum! {
    /// What Mitt uses the value at a location for.
    PathUse {
        Id = "id",
        Type = "type",
        Account = "account",
        Order = "order",
        /// The condition of an action, in `where`.
        Filter = "filter",
    }
}

/// The maximum length of [`MissingPath::path`], in bytes.
const LONGEST_PATH: usize = 256;

/// A location that should have a value in an event, but has no value that Mitt can use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MissingPath {
    pub used_for: PathUse,
    /// The location, such as `json:data.id`. If the preset names several locations, these are all
    /// of them.
    pub path: String,
}

impl MissingPath {
    pub fn new(used_for: PathUse, path: &str) -> Self {
        let mut end = LONGEST_PATH.min(path.len());
        while !path.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            used_for,
            path: path[..end].to_owned(),
        }
    }

    /// Returns the missing locations as one path, or `None` if there are none.
    pub(crate) fn of(
        used_for: PathUse,
        locations: impl IntoIterator<Item = impl Display>,
    ) -> Option<Self> {
        let texts = locations.into_iter().map(|location| location.to_string());
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| Self::new(used_for, &texts.join(", ")))
    }
}

impl PathUse {
    /// Returns whether Mitt cannot identify or order events without the value.
    pub fn is_vital(self) -> bool {
        matches!(self, Self::Id | Self::Order)
    }
}

impl<'de> serde::Deserialize<'de> for PathUse {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::parse(&word)
            .filter(|used_for| *used_for != Self::Filter)
            .ok_or_else(|| {
                serde::de::Error::custom(format!(
                    "invalid value {word:?} for optional; use id, type, account or order"
                ))
            })
    }
}
