//! `sources presets`: lists the presets of the providers.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::webhook::preset::Preset;

use crate::cli::SourcesPresetsArgs;
use crate::output::{CliError, Column, Exit, List, Printer};
use crate::preset_text::{self as words, Description};

#[derive(Serialize)]
struct PresetRow {
    preset: String,
    name: String,
    aliases: Vec<String>,
    variants: Vec<String>,
    scheme: String,
    header: String,
    proves: &'static str,
    dedupe_key: String,
    checked: String,
}

pub(super) fn presets(args: &SourcesPresetsArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    if args.markdown {
        out.text(&words::page()?)?;
        return Ok(Exit::Done);
    }
    if let Some(name) = &args.preset {
        let shown = Description::new(&known(name)?);
        out.document(
            "sources.preset",
            &shown,
            &shown.preset,
            &words::text(&shown),
        )?;
        return Ok(Exit::Done);
    }
    let mut items = Vec::new();
    for preset in words::all()? {
        items.extend(row(&preset));
    }
    out.list(&List {
        id: "preset",
        footer: Some(format!("{} presets", items.len())),
        empty: "No presets.".to_owned(),
        tip: Some("webhookctl sources presets stripe".to_owned()),
        ..List::new(
            "sources.presets",
            "presets",
            UnixMillis::now(),
            columns(),
            items,
        )
    })?;
    Ok(Exit::Done)
}

pub(in crate::verbs) fn known(name: &str) -> anyhow::Result<Preset> {
    Preset::embedded(name, &BTreeMap::new()).map_err(|_| {
        let message = format!("unknown preset '{name}'");
        let error = CliError::not_found("sources.no_preset", message);
        let error = error.tip("webhookctl sources presets");
        error.did_you_mean(name, Preset::names()).into()
    })
}

/// Returns the row of a preset, with the values of its default variant.
fn row(preset: &Preset) -> Option<PresetRow> {
    let scheme = preset.scheme("default")?;
    let variants = preset.schemes.iter();
    Some(PresetRow {
        name: preset.name.clone(),
        aliases: preset.aliases.clone(),
        variants: variants.map(|scheme| scheme.variant.clone()).collect(),
        scheme: words::method(scheme),
        header: words::place(scheme),
        proves: scheme.proves.as_str(),
        dedupe_key: words::dedupe(preset),
        checked: preset.checked.clone(),
        preset: preset.id.clone(),
    })
}

fn columns() -> Vec<Column<'static, PresetRow>> {
    vec![
        Column::whole("PRESET", "preset").essential(),
        Column::text("NAME", "name", 12).extra(),
        Column::text("SCHEME", "scheme", 12),
        Column::text("HEADER", "header", 16),
        Column::whole("PROVES", "proves"),
        Column::text("DEDUPE KEY", "dedupe_key", 16),
        Column::whole("CHECKED", "checked").lesser(),
        Column::text("VARIANTS", "variants", 8).extra(),
    ]
}
