//! `presets check`: checks the presets against the test vectors, and shows how old they are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde::Serialize;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::sources::Config;
use shared::webhook::preset::Preset;
use shared::webhook::verify::Arrival;

use super::attacks::{Attack, Attacks};
use crate::cli::PresetsCheckArgs;
use crate::output::count::{plural, thousands};
use crate::output::{CliError, Column, Exit, List, Printer};
use crate::preset_text;
use crate::vectors::{self, Kind, Vector};
use crate::verbs::sources::known_preset;

/// The age in days after which a preset should be compared with its documentation again.
const OLD: i64 = 180;

/// The sources with which the tests of the providers' SDKs run.
const WITH_SDKS: &str = include_str!("../../../../../functions/catcher/tests/stack/foreign.toml");

/// The test vectors of a kind, and how many of them had the expected result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Tally {
    passed: usize,
    all: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Row {
    preset: String,
    valid: Tally,
    invalid: Tally,
    handshakes: Tally,
    #[serde(flatten)]
    attacks: Attacks,
    /// The month of the last comparison with the documentation, and the days since it began.
    checked: String,
    age_days: i64,
    old: bool,
    /// Whether the tests also run with an SDK of the provider.
    sdk: bool,
    docs: String,
    /// What is wrong, as sentences.
    failures: Vec<String>,
}

pub(super) fn check(args: &PresetsCheckArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let mut chosen = BTreeSet::new();
    for name in &args.presets {
        chosen.insert(known_preset(name)?.id);
    }
    let mut rows = rows(&vectors(args)?, now)?;
    rows.retain(|row| chosen.is_empty() || chosen.contains(&row.preset));
    for failure in rows.iter().flat_map(|row| &row.failures) {
        out.say(failure);
    }
    if let Some(warning) = warning(&rows) {
        out.say(&warning);
    }
    let exit = exit(&rows, args.strict);
    let old = rows.iter().find(|row| row.old);
    let shown = old.or(rows.first());
    let tip = shown.map(|row| format!("webhookctl sources presets {}", row.preset));
    out.list(&List {
        id: "preset",
        footer: Some(footer(&rows)),
        empty: "No presets.".to_owned(),
        tip,
        ..List::new("presets.check", "presets", now, columns(), rows)
    })?;
    Ok(exit)
}

/// Reads the built-in vectors, or those of a file.
fn vectors(args: &PresetsCheckArgs) -> anyhow::Result<Vec<Vector>> {
    let Some(path) = &args.vectors else {
        return vectors::read(None);
    };
    let refused = |error: String| {
        let message = format!("cannot use the vectors of {}: {error}", path.display());
        CliError::usage("presets.vectors", message)
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let vectors = vectors::read(Some(&text));
    Ok(vectors.map_err(|error| refused(format!("{error:#}")))?)
}

/// Returns a row for each preset.
fn rows(vectors: &[Vector], now: UnixMillis) -> anyhow::Result<Vec<Row>> {
    let mut rows = BTreeMap::new();
    let with_sdks = with_sdks()?;
    for preset in preset_text::all()? {
        let age_days = age_days(&preset, now)?;
        let row = Row {
            checked: preset.checked.clone(),
            age_days,
            old: age_days > OLD,
            sdk: with_sdks.contains(&preset.id),
            docs: preset.docs.clone(),
            preset: preset.id.clone(),
            ..Row::default()
        };
        rows.insert(preset.id, row);
    }
    for vector in vectors {
        if let Some(row) = rows.get_mut(&vector.verifier.preset.id) {
            row.add(vector);
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.iter_mut().for_each(Row::name_attacks);
    Ok(rows)
}

/// Returns the presets whose providers have an SDK in the tests.
fn with_sdks() -> anyhow::Result<BTreeSet<String>> {
    let config = Config::parse(WITH_SDKS).context("parse the sources of the SDKs")?;
    let presets = config
        .sources()
        .map(|source| source.verifier.preset.id.clone());
    Ok(presets.collect())
}

/// Returns the days since the month of the last comparison began.
fn age_days(preset: &Preset, now: UnixMillis) -> anyhow::Result<i64> {
    let first = format!("{}01", preset.checked.replace('-', ""));
    let first = Day::parse(&first);
    let first = first.with_context(|| format!("preset {}: checked is not a month", preset.id))?;
    let days = now.since(first.begins()).as_secs() / 86_400;
    Ok(i64::try_from(days).unwrap_or(i64::MAX))
}

impl Row {
    fn add(&mut self, vector: &Vector) {
        let fault = vector.fault();
        let tally = match vector.kind {
            Kind::Valid | Kind::Unverified => &mut self.valid,
            Kind::Invalid => &mut self.invalid,
            Kind::Handshake => &mut self.handshakes,
            Kind::Policy => return,
        };
        tally.all += 1;
        tally.passed += usize::from(fault.is_none());
        self.failures.extend(fault);
        if vector.kind == Kind::Valid && matches!(vector.verify(), Ok(Arrival::Event(_))) {
            self.attacks.try_on(vector);
        }
    }

    /// Adds a failure for each genuine request whose changed form was accepted.
    fn name_attacks(&mut self) {
        let what = ["with a changed body", "with another secret", "a year later"];
        for (attack, what) in self.attacks.each().into_iter().zip(what) {
            let accepted = attack.accepted.iter();
            let accepted = accepted.map(|id| format!("{id} is accepted {what}, expected invalid"));
            self.failures.extend(accepted);
        }
    }
}

fn exit(rows: &[Row], strict: bool) -> Exit {
    let is_wrong = |row: &Row| !row.failures.is_empty() || strict && row.old;
    if rows.iter().any(is_wrong) {
        Exit::No
    } else {
        Exit::Done
    }
}

/// Returns a line with the old presets, for a log without the table.
fn warning(rows: &[Row]) -> Option<String> {
    let old = rows.iter().filter(|row| row.old);
    let old: Vec<&str> = old.map(|row| row.preset.as_str()).collect();
    let names = old.join(", ");
    let many = plural(old.len(), "preset");
    (!old.is_empty()).then(|| {
        format!("warning: {many} checked more than {OLD} days ago; compare with docs: {names}")
    })
}

fn footer(rows: &[Row]) -> String {
    let all = rows.iter();
    let tallies = all.flat_map(|row| [row.valid, row.invalid, row.handshakes]);
    let vectors: usize = tallies.map(|tally| tally.all).sum();
    let failed: usize = rows.iter().map(|row| row.failures.len()).sum();
    let without = rows.iter().filter(|row| row.is_untested()).count();
    let old = rows.iter().filter(|row| row.old).count();
    format!(
        "{} · {} vectors, {failed} failed · {without} without vectors · {old} older than {OLD} days",
        plural(rows.len(), "preset"),
        thousands(vectors),
    )
}

impl Row {
    fn is_untested(&self) -> bool {
        self.valid.all + self.invalid.all + self.handshakes.all == 0
    }
}

fn columns() -> Vec<Column<'static, Row>> {
    let tally = |name, field, of: fn(&Row) -> Tally| {
        Column::whole(name, field)
            .right()
            .shown(move |row: &Row| match of(row) {
                Tally { all: 0, .. } => "-".to_owned(),
                Tally { passed, all } => format!("{passed}/{all}"),
            })
    };
    let attack = |name, field, of: fn(&Attacks) -> &Attack| {
        Column::whole(name, field).shown(move |row: &Row| of(&row.attacks).text())
    };
    vec![
        Column::whole("PRESET", "preset").essential(),
        tally("VALID", "valid.passed", |row| row.valid),
        tally("INVALID", "invalid.passed", |row| row.invalid),
        tally("HANDSHAKES", "handshakes.passed", |row| row.handshakes).lesser(),
        attack("OTHER BODY", "changed_body.refused", |all| {
            &all.changed_body
        }),
        attack("OTHER SECRET", "other_secret.refused", |all| {
            &all.other_secret
        }),
        attack("LATER", "old_request.refused", |all| &all.old_request),
        Column::whole("CHECKED", "checked").lesser(),
        Column::whole("DAYS", "age_days")
            .right()
            .shown(|row: &Row| {
                let old = if row.old { " old" } else { "" };
                format!("{}{old}", row.age_days)
            }),
        Column::whole("SDK", "sdk").lesser().shown(|row: &Row| {
            let sdk = if row.sdk { "yes" } else { "-" };
            sdk.to_owned()
        }),
    ]
}

#[cfg(test)]
mod tests;
