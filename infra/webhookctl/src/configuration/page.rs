//! Generates the page of all settings, `infra/docs/configuration.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Context as _;
use local::template::{Parameter, parameters};
use local::{Naming, Template};
use shared::sources::settings::{self, Kind, Setting};

use super::environment::{CLI, FUNCTIONS, Variable};
use super::parameters::GROUPS;
use super::{TEMPLATE, default, example, kind};

const HEAD: &str = "\
# Configuration

This page lists every setting of Mitt: those of the [sources file](#the-sources-file), the
[stack parameters](#stack-parameters), and the environment variables
[of the functions](#environment-of-the-functions) and [of `webhookctl`](#environment-of-webhookctl).
`make docs` generates this page. `webhookctl sources settings` prints the settings of the sources file
in a terminal, and `webhookctl sources settings timeout` those whose path contains `timeout`.

## The sources file

`infra/sources.toml` is in the [TOML](https://toml.io) format. [Sources](sources.md) and
[destinations](destinations.md) explain the settings with complete examples.

```toml
schema = 1

[forward]
allow_hosts = [\"hooks.example.com\"]

[[source]]
name = \"shop\"
preset = \"shopify\"
retry = { attempts = 5, waits = [\"30s\", \"10m\"] }
[[source.action]]
kind = \"http\"
url = \"https://hooks.example.com/orders\"
secret = \"orders\"
timeout = \"5s\"
```

`webhookctl sources check` reports every fault of the file in one run. Each fault has its line, its
column, the setting, and what to write instead. A setting without a default in the tables is
required. A duration is a string such as `\"10s\"`, `\"5m\"`, `\"2h\"` or `\"1h 30m\"`, and at most 30 days. A
secret in the file is always the name of a secret, never its value.
";

pub(crate) fn page() -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    sources_file(&mut text);
    stack(&mut text)?;
    functions(&mut text)?;
    text += "\n## Environment of webhookctl\n\n\
             An option of a command replaces its variable. `NO_COLOR` and `CLICOLOR_FORCE` control \
             colours, and the\nAWS SDK reads the other variables that begin with `AWS_`.\n\n\
             | variable | default | meaning |\n|---|---|---|\n";
    for variable in CLI {
        row(
            &mut text,
            &[
                code(variable.name),
                variable.absent.into(),
                variable.meaning.into(),
            ],
        );
    }
    Ok(text)
}

fn sources_file(text: &mut String) {
    let mut written = BTreeSet::new();
    for setting in settings::all() {
        let table = setting.table();
        if !written.insert(table) {
            continue;
        }
        let _ = write!(text, "\n### {}\n\n", heading(table));
        *text += "| setting | type | default | meaning | example |\n|---|---|---|---|---|\n";
        for setting in settings::all().filter(|setting| setting.table() == table) {
            setting_row(text, setting);
        }
    }
}

/// Returns the header of a table in the file.
fn heading(table: &str) -> String {
    let header = table.replace("[]", "");
    match (
        table,
        settings::find(table.trim_end_matches("[]")).map(|setting| setting.kind),
    ) {
        ("", _) => "Outside the tables".to_owned(),
        (_, Some(Kind::Tables)) => format!("`[[{header}]]`"),
        _ => format!("`[{header}]`"),
    }
}

fn setting_row(text: &mut String, setting: &Setting) {
    let name = match setting.kind {
        Kind::Table | Kind::Tables if has_settings(setting) => {
            let anchor: String = setting
                .path
                .chars()
                .filter(|c| !"[].".contains(*c))
                .collect();
            format!("[`{}`](#{anchor})", setting.key())
        }
        _ => code(setting.key()),
    };
    let example = example(setting).map(|line| code(&line)).unwrap_or_default();
    let meaning = setting.meaning.to_owned();
    row(
        text,
        &[name, kind(setting), default(setting), meaning, example],
    );
}

/// Returns whether the settings of a table have a section.
fn has_settings(table: &Setting) -> bool {
    settings::all().any(|setting| setting.table().trim_end_matches("[]") == table.path)
}

fn stack(text: &mut String) -> anyhow::Result<()> {
    *text += "\n## Stack parameters\n\n\
              These are the parameters of `template.yaml`. Set them in `infra/samconfig.toml`, or on \
              the command line:\n\n\
              ```sh\nsam deploy --parameter-overrides LongActions=true LogRetentionDays=90\n```\n";
    let parameters = parameters(TEMPLATE)?.into_iter();
    let parameters = parameters.map(|parameter| (parameter.name.clone(), parameter));
    let parameters: BTreeMap<String, Parameter> = parameters.collect();
    for (group, examples) in GROUPS {
        let _ = write!(text, "\n### {group}\n\n");
        *text += "| parameter | default | values | meaning | example |\n|---|---|---|---|---|\n";
        for (name, example) in *examples {
            let parameter = parameters
                .get(*name)
                .with_context(|| format!("no parameter {name}"))?;
            let default = match parameter.default.as_deref() {
                None => "required".to_owned(),
                Some("") => "empty".to_owned(),
                Some(value) => code(value),
            };
            row(
                text,
                &[
                    code(name),
                    default,
                    parameter.constraint.clone(),
                    parameter.description.clone(),
                    code(example),
                ],
            );
        }
    }
    Ok(())
}

fn functions(text: &mut String) -> anyhow::Result<()> {
    *text += "\n## Environment of the functions\n\n\
              The template sets the variables that begin with `MITT_`; to change one, set a stack \
              parameter. Lambda\nsets the others. An empty value counts as absent.\n\n\
              | variable | functions | default | meaning |\n|---|---|---|---|\n";
    let with_all = [("LongActions", "true"), ("Trial", "true")];
    let naming = Naming {
        parameters: with_all
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Naming::default()
    };
    let template = Template::parse(TEMPLATE, &naming)?;
    for variable in FUNCTIONS {
        let functions = with(variable, &template);
        row(
            text,
            &[
                code(variable.name),
                functions,
                variable.absent.into(),
                variable.meaning.into(),
            ],
        );
    }
    Ok(())
}

/// Returns the functions for which the template sets a variable.
fn with(variable: &Variable, template: &Template) -> String {
    let functions = template.functions.iter();
    let set: Vec<&str> = functions
        .filter(|(_, function)| function.environment.contains_key(variable.name))
        .map(|(id, _)| id.as_str())
        .collect();
    if set.len() == template.functions.len() || set.is_empty() {
        "all".to_owned()
    } else {
        set.join(", ")
    }
}

fn row(text: &mut String, cells: &[String]) {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = include_str!("../../../docs/configuration.md");

    #[test]
    fn the_page_is_what_the_settings_say() {
        assert!(
            page().unwrap() == WRITTEN,
            "infra/docs/configuration.md is out of date; `make docs` writes it: \
             webhookctl sources settings --markdown > infra/docs/configuration.md"
        );
    }
}
