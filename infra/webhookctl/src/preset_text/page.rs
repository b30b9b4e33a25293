//! Generates the page of all presets, `infra/docs/presets.md`.

use std::fmt::Write as _;

use super::all;
use super::document::{Description, Variant};

const HEAD: &str = "\
# Presets

This page describes how each provider signs, names, retries and lists its events. `make docs`
generates this page from the files in `shared/presets/`. `webhookctl sources presets <preset>` prints
the same facts in a terminal.

The column *proves* shows which part of a request a valid signature proves. `body`: the whole body.
`fields`: some fields of the body. `origin`: only the sender. `token`: the sender knew a secret.
`nothing`: no part. The column *checked* shows the month in which the file was last compared with
the provider's documentation. If the documentation does not confirm a fact, the section of the preset
names the fact.

The column *sync* shows how a source with `[source.sync]` finds missed events. `event log`: the
provider lists its events, and Mitt stores them under the ids of the webhooks. `delivery log`: the
provider lists its delivery attempts. `change cursor`: the provider lists only what has changed, and
Mitt stores each change as a separate event of the type `mitt.changed`.

The line *Actions* lists the values of `sign` with which a [receiver](receivers.md) can verify the
provider's signatures. A time in parentheses is how long the provider's SDK accepts a signature that
Mitt forwards. The values `standard` and `none` are always possible.

";

pub(crate) fn page() -> anyhow::Result<String> {
    let presets = all()?;
    let mut text = HEAD.to_owned();
    text += "| preset | provider | scheme | header | proves | dedupe key | sync | checked |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    let all: Vec<(Description, &str)> = presets
        .iter()
        .map(|preset| {
            let scheme = preset.scheme("default");
            let proves = scheme.map_or("nothing", |scheme| scheme.proves.as_str());
            (Description::new(preset), proves)
        })
        .collect();
    for (shown, proves) in &all {
        let Some(first) = shown.variants.first() else {
            continue;
        };
        let cells = [
            format!("[{0}](#{0})", shown.preset),
            cell(&shown.name),
            cell(&first.scheme),
            code(&first.header),
            (*proves).to_owned(),
            cell(&shown.dedupe_key),
            shown.syncs.first().map_or("-", |sync| sync.kind).to_owned(),
            shown.checked.clone(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    for (shown, _) in &all {
        section(&mut text, shown);
    }
    Ok(text)
}

fn section(text: &mut String, shown: &Description) {
    let _ = write!(text, "\n## {}\n\n", shown.preset);
    let _ = writeln!(
        text,
        "[{}]({}), checked {}.",
        shown.name, shown.docs, shown.checked
    );
    if !shown.aliases.is_empty() {
        let _ = writeln!(text, "Aliases: {}.", shown.aliases.join(", "));
    }
    if let Some(facts) = &shown.unconfirmed {
        let _ = writeln!(text, "Not confirmed by this documentation: {facts}.");
    }
    text.push('\n');
    for variant in &shown.variants {
        variant_lines(text, variant);
    }
    if !shown.params.is_empty() {
        let _ = writeln!(text, "- Parameters: {}", code(&shown.params.join(", ")));
    }
    let _ = writeln!(text, "- Dedupe key: {}", shown.dedupe_key);
    if shown.batch {
        text.push_str("- A delivery can contain several events; Mitt stores each separately\n");
    }
    for handshake in &shown.handshakes {
        let _ = writeln!(text, "- Handshake: {handshake}");
    }
    let _ = writeln!(text, "- Answer: {}", shown.ack);
    let _ = writeln!(text, "- Retries: {}", shown.retry);
    if let Some(why) = &shown.no_sync {
        let _ = writeln!(text, "- Sync: none: {why}");
    }
    for sync in &shown.syncs {
        let line = cell(&sync.line());
        let _ = writeln!(
            text,
            "- Sync: {line} ([docs]({}), checked {})",
            sync.docs, sync.checked
        );
        for field in &sync.fields {
            let _ = writeln!(text, "  - `fields`: {field}");
        }
    }
    if !shown.objects.is_empty() {
        let _ = writeln!(text, "- Reconciliation: {}", shown.objects.join(", "));
    }
}

fn variant_lines(text: &mut String, variant: &Variant) {
    let _ = write!(text, "- Variant `{}`: {}", variant.name, variant.scheme);
    if variant.header != "-" {
        let _ = write!(text, ", in {}", code(&variant.header));
    }
    if let Some(format) = &variant.format {
        let _ = write!(text, " ({format})");
    }
    if variant.message != "-" {
        let _ = write!(text, ", over {}", code(&variant.message));
    }
    let _ = writeln!(text, "; {}", variant.proves);
    let _ = writeln!(text, "  - Window: {}", variant.window);
    let _ = writeln!(text, "  - Secret: {}", variant.secret);
    if let Some(url) = &variant.key_set {
        let _ = writeln!(text, "  - Key set: <{url}>");
    }
    if let Some(fetched) = &variant.fetched {
        let _ = writeln!(text, "  - Fetched: {}", cell(fetched));
    }
    for open in &variant.leaves_open {
        let _ = writeln!(text, "  - Remaining risk: {}", cell(open));
    }
    let _ = writeln!(text, "  - Signature of test webhooks: {}", variant.send);
    let _ = writeln!(text, "  - Actions: `sign` = {}", variant.forward);
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text).replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = include_str!("../../../docs/presets.md");

    #[test]
    fn the_page_is_what_the_presets_say() {
        assert!(
            page().unwrap() == WRITTEN,
            "infra/docs/presets.md is out of date; `make docs` writes it: \
             webhookctl sources presets --markdown > infra/docs/presets.md"
        );
    }
}
