//! `sources settings`: lists the settings of the sources file.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::settings::{self, Setting};

use crate::cli::SourcesSettingsArgs;
use crate::configuration::{default, example, kind, meaning, page};
use crate::output::{CliError, Column, Exit, List, Printer};

#[derive(Serialize)]
struct SettingRow {
    setting: &'static str,
    #[serde(rename = "type")]
    kind: String,
    default: String,
    meaning: String,
    example: Option<String>,
}

pub(super) fn settings(args: &SourcesSettingsArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    if args.markdown {
        out.text(&page()?)?;
        return Ok(Exit::Done);
    }
    let found = match &args.setting {
        Some(name) => named(name)?,
        None => settings::all().collect(),
    };
    if let ([one], Some(_)) = (found.as_slice(), &args.setting) {
        let row = row(one);
        out.document("sources.setting", &row, row.setting, &text(&row))?;
        return Ok(Exit::Done);
    }
    let items: Vec<SettingRow> = found.into_iter().map(row).collect();
    out.list(&List {
        id: "setting",
        footer: Some(format!("{} settings", items.len())),
        empty: "No settings.".to_owned(),
        tip: Some("webhookctl sources settings timeout".to_owned()),
        ..List::new(
            "sources.settings",
            "settings",
            UnixMillis::now(),
            columns(),
            items,
        )
    })?;
    Ok(Exit::Done)
}

/// Returns the setting with this path, or else those with this name, or else those whose path
/// contains the text.
fn named(name: &str) -> Result<Vec<&'static Setting>, CliError> {
    if let Some(setting) = settings::find(name) {
        return Ok(vec![setting]);
    }
    let with = |matches: &dyn Fn(&Setting) -> bool| -> Vec<&'static Setting> {
        settings::all().filter(|setting| matches(setting)).collect()
    };
    let mut found = with(&|setting| setting.key() == name);
    if found.is_empty() {
        found = with(&|setting| {
            setting
                .path
                .replace("[]", "")
                .contains(&name.replace("[]", ""))
        });
    }
    if found.is_empty() {
        let message = format!("unknown setting '{name}'");
        let error = CliError::not_found("sources.no_setting", message);
        let error = error.tip("webhookctl sources settings");
        return Err(error.did_you_mean(name, settings::all().map(Setting::key)));
    }
    Ok(found)
}

fn row(setting: &'static Setting) -> SettingRow {
    SettingRow {
        setting: setting.path,
        kind: kind(setting).replace('`', ""),
        default: default(setting).replace('`', ""),
        meaning: meaning(setting),
        example: example(setting),
    }
}

fn text(row: &SettingRow) -> String {
    let mut text = format!(
        "{}\n  type     {}\n  default  {}\n",
        row.setting, row.kind, row.default
    );
    if let Some(example) = &row.example {
        text.extend(["  example  ", example, "\n"]);
    }
    text.extend(["\n", &row.meaning, "\n"]);
    text
}

fn columns() -> Vec<Column<'static, SettingRow>> {
    vec![
        Column::whole("SETTING", "setting").essential(),
        Column::text("TYPE", "type", 10),
        Column::text("DEFAULT", "default", 10),
        Column::text("EXAMPLE", "example", 16),
        Column::text("MEANING", "meaning", 24).extra(),
    ]
}
