//! Builds drafts for presets without a sample, from the preset file and from `samples/drafts.toml`.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;
use shared::base::clock::UnixMillis;
use shared::webhook::preset::{Code, Kind, Location, Part, Preset, Scheme};

use super::draft::Draft;
use super::fill::Filler;
use super::request_builder::RequestBuilder;

const DRAFTS: &str = include_str!("../../samples/drafts.toml");

/// The default event type. It applies if neither the operator nor `drafts.toml` gives one.
const ANY_TYPE: &str = "test.event";

/// The entry of a preset in `drafts.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    pub(super) json: Option<String>,
    pub(super) form: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// Returns the event type for drafts of a preset. Returns `None` if the events of the preset have
/// no type.
pub(super) fn usual_type(preset: &Preset) -> anyhow::Result<Option<String>> {
    if preset.event.kind.0.is_empty() {
        return Ok(None);
    }
    if let [Location::Const(kind)] = preset.event.kind.0.as_slice() {
        return Ok(Some(kind.clone()));
    }
    let kind = known(&preset.id)?.kind;
    Ok(Some(kind.unwrap_or_else(|| ANY_TYPE.to_owned())))
}

/// Returns whether requests of this scheme have a form body.
pub(super) fn is_form(scheme: &Scheme) -> bool {
    let in_form = |at: &Location| matches!(at, Location::Form(_));
    let part = |part: &Part| match part {
        Part::FormSorted => true,
        Part::At(at) | Part::Lower(at) => in_form(at),
        _ => false,
    };
    let fetched = scheme.fetch.as_ref().map(|fetch| &fetch.url.0);
    scheme.kind == Kind::Code(Code::Plivo)
        || scheme.message.0.iter().any(part)
        || fetched.into_iter().flatten().any(part)
        || in_form(&scheme.sig.from)
}

/// Builds a draft with id, type and time at the places where the preset reads them.
pub(super) fn build(
    preset: &Preset,
    scheme: &Scheme,
    id: Option<&str>,
    kind: Option<&str>,
    now: UnixMillis,
) -> anyhow::Result<Draft> {
    let known = known(&preset.id)?;
    let id = match id {
        Some(id) => id.to_owned(),
        None => Filler::new(now)?.fill(known.id.as_deref().unwrap_or("{hex24}")),
    };
    let kind = match kind {
        Some(kind) => kind.to_owned(),
        None => usual_type(preset)?.unwrap_or_default(),
    };
    let filler = Filler::new(now)?.with(&id, &kind);
    let mut canvas = RequestBuilder::new(preset, scheme, &known, &filler)?;
    for (at, value) in &known.set {
        canvas.put(&Location::parse(at)?, &filler.fill(value));
    }
    let kind = canvas.put_type(&preset.event.kind.0, kind);
    let named = canvas.put_first(&ids(preset), &id);
    if !named {
        canvas.add_id(&id);
    }
    canvas.rest(preset, scheme, &filler)?;
    Ok(canvas.finish(preset, id, kind))
}

fn known(preset: &str) -> anyhow::Result<Known> {
    let mut all: BTreeMap<String, Known> = toml::from_str(DRAFTS).context("samples/drafts.toml")?;
    Ok(all.remove(preset).unwrap_or_default())
}

/// Returns the locations for the id, in order of preference. Locations that the event key and the
/// displayed id both use come first.
fn ids(preset: &Preset) -> Vec<Location> {
    let at = &preset.event;
    let both = at.id.0.iter().filter(|id| at.composite.contains(id));
    let parts = at.composite.iter().filter(|part| {
        let said = [&at.kind, &at.time, &at.account];
        let is_said = said.iter().any(|other| other.0.contains(part));
        !is_said && !matches!(part, Location::BodySha256)
    });
    both.chain(&at.id.0).chain(parts).cloned().collect()
}
