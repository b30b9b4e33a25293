//! Finds the locations of an event's id and type that should have a value, but have no usable value.

use crate::webhook::event::Item;
use crate::webhook::missing::{MissingPath, PathUse};
use crate::webhook::preset::{EventAt, Location, Place};

/// Returns the missing locations of the events of a request. `events` has the place of each event,
/// whether its key is made of its content, and its id and type.
pub(super) fn missing<'e>(
    at: &EventAt,
    events: impl Iterator<Item = (Place<'e>, bool, &'e Item)>,
) -> Vec<MissingPath> {
    let mut missing = Vec::new();
    for (place, by_content, item) in events {
        let id = by_content.then(|| missing_id(at, place)).flatten();
        let kind = item.kind.is_empty().then(|| missing_kind(at, place));
        for path in id.into_iter().chain(kind.flatten()) {
            if !missing.contains(&path) {
                missing.push(path);
            }
        }
    }
    missing
}

/// Returns the parts of the composite that are missing, or all locations of the id.
fn missing_id(at: &EventAt, place: Place<'_>) -> Option<MissingPath> {
    if at.is_optional(PathUse::Id) {
        return None;
    }
    if at.composite.is_empty() {
        // The id of the whole request does not identify an item.
        let ids = required(&at.id.0, place).iter();
        let ids = ids.filter(|at| place.item.is_none() || at.is_of_item());
        return MissingPath::of(PathUse::Id, ids);
    }
    let parts = required(&at.composite, place).iter();
    MissingPath::of(PathUse::Id, parts.filter(|at| !has_value(at, place)))
}

fn missing_kind(at: &EventAt, place: Place<'_>) -> Option<MissingPath> {
    if at.is_optional(PathUse::Type) {
        return None;
    }
    MissingPath::of(PathUse::Type, required(&at.kind.0, place))
}

/// Returns the locations that should have a value. A request without items, such as the test of an
/// endpoint, needs none if the locations are about items.
fn required<'l>(locations: &'l [Location], place: Place<'_>) -> &'l [Location] {
    if place.item.is_none() && locations.iter().any(Location::is_of_item) {
        return &[];
    }
    locations
}

fn has_value(at: &Location, place: Place<'_>) -> bool {
    let value = at.find(place).ok().flatten();
    value.is_some_and(|value| !value.is_empty())
}
