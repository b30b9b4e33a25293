//! The locations of an event's entity and of the entity's version.

use serde::Deserialize;

use super::{Location, Locations};

/// An `[order]` table, for sources that process the events of an entity in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderAt {
    /// The locations of the provider's id of the entity. Mitt uses the first location with a value.
    #[serde(default)]
    pub entity: Locations,
    /// A value that grows with each change of the entity, as the provider documents.
    #[serde(default)]
    pub version: Locations,
    #[serde(default)]
    pub compare: Compare,
}

/// How to compare two versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    #[default]
    Number,
    /// As times in RFC 3339.
    Time,
    /// As text, byte by byte.
    Text,
}

impl OrderAt {
    /// All locations of the table. If a location is a header, Mitt stores this header with the
    /// event.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &Location> {
        self.entity.0.iter().chain(&self.version.0)
    }
}
