//! Drafts of presets that have no sample: made from what the preset's own file says, and from
//! `samples/drafts.toml`.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;
use shared::base::clock::UnixMillis;
use shared::webhook::preset::{Code, Kind, Location, Part, Preset, Scheme};

use super::draft::Draft;
use super::fill::Filler;
use super::request_builder::RequestBuilder;

const DRAFTS: &str = include_str!("../../samples/drafts.toml");

/// What is sent when neither the operator nor `drafts.toml` names a type.
const ANY_TYPE: &str = "test.event";

/// What `drafts.toml` knows of a preset.
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

/// The type of event that is drafted for a preset; `None` where it names none.
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

/// Whether a request of this scheme has the body of a form.
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

/// Makes a draft: id, type and time stand where the preset looks for them.
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

/// Where the id may stand, the best place first: where it names the event and is shown as well.
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
