//! Where an event says what it is about, and how new that is.

use serde::Deserialize;

use super::{Location, Locations};

/// An `[order]` table: for sources that order the events of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderAt {
    /// The provider's id of the entity: the first location that has one.
    #[serde(default)]
    pub entity: Locations,
    /// What grows with each change of the entity, as documented by the provider.
    #[serde(default)]
    pub version: Locations,
    #[serde(default)]
    pub compare: Compare,
}

/// How two versions are compared.
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
    /// The headers to keep with an event for it.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &Location> {
        self.entity.0.iter().chain(&self.version.0)
    }
}
