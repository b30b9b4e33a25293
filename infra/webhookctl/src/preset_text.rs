//! Describes presets for people. The texts are the same in all tables, on the page of one preset,
//! and in infra/docs/presets.md.

mod document;
mod page;
mod scheme;
mod synced;

use std::collections::BTreeMap;

use shared::webhook::preset::Preset;

pub(crate) use document::{Description, retry, text};
pub(crate) use page::page;
pub(crate) use scheme::{dedupe, message, method, place, proven, sent_with, window};

/// Returns every preset with the defaults of its parameters.
pub(crate) fn all() -> anyhow::Result<Vec<Preset>> {
    Preset::ids()
        .map(|id| Preset::embedded(id, &BTreeMap::new()))
        .collect()
}
