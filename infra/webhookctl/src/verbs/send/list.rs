//! `send --list`: lists the presets, and whether and how `send` can sign a webhook of each.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::webhook::sign::{Means, means};

use crate::output::{Column, Exit, List, Printer};
use crate::preset_text as words;
use crate::samples;

#[derive(Serialize)]
struct PresetRow {
    preset: String,
    variant: String,
    sendable: bool,
    /// The kind of secret or key with which `send` signs, or the reason why it cannot sign.
    signed_with: String,
    header: String,
    signed: String,
    key: String,
    types: Vec<String>,
}

pub(super) fn list(out: &mut Printer) -> anyhow::Result<Exit> {
    let mut items = Vec::new();
    for preset in words::all()? {
        for scheme in &preset.schemes {
            items.push(PresetRow {
                preset: preset.id.clone(),
                variant: scheme.variant.clone(),
                sendable: !matches!(means(scheme), Means::No(_)),
                signed_with: words::sent_with(scheme),
                header: words::place(scheme),
                signed: words::message(scheme),
                key: words::dedupe(&preset),
                types: samples::types(&preset)?,
            });
        }
    }
    out.list(&List {
        id: "preset",
        empty: "No presets.".to_owned(),
        ..List::new(
            "send.list",
            "presets",
            UnixMillis::now(),
            vec![
                Column::whole("PRESET", "preset").essential(),
                Column::text("VARIANT", "variant", 8),
                Column::text("SIGNED WITH", "signed_with", 20).essential(),
                Column::text("HEADER", "header", 16),
                Column::text("SIGNED STRING", "signed", 16).lesser(),
                Column::text("DEDUPE KEY", "key", 16).lesser(),
                Column::text("TYPES", "types", 16).lesser(),
            ],
            items,
        )
    })?;
    Ok(Exit::Done)
}
