//! Where an event names its entity and the version of it.

use serde::Deserialize;

use super::{Location, Locations};

/// An `[order]` table, for sources that process the events of an entity in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderAt {
    /// The provider's id of the entity: the first location with a value.
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
    /// RFC 3339
    Time,
    /// Byte by byte.
    Text,
}

impl OrderAt {
    /// All locations. Mitt stores the headers among them with the event.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &Location> {
        self.entity.0.iter().chain(&self.version.0)
    }
}
