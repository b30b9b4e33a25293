//! The parameters that a source can set in a preset.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::{Embedded, Preset};
use crate::base::toml_error::refusal;

/// Parses a preset. Replaces each `{param:NAME}` in a string with the value that the source sets.
/// If the source sets no value, uses the default of the file. Parses the text only once, to keep
/// cold starts short.
pub(super) fn filled(text: &str, given: &BTreeMap<String, String>) -> anyhow::Result<Preset> {
    let refused = |error: Error| anyhow::Error::msg(refusal(&error, text));
    let mut root = DeTable::parse(text).map_err(refused)?;
    let params = params(root.get_ref(), given)?;
    for (_, value) in root.get_mut().iter_mut() {
        fill(value, &params);
    }
    Preset::deserialize(toml::Deserializer::from(root)).map_err(refused)
}

/// Returns each placeholder with its value.
fn params(
    root: &DeTable<'_>,
    given: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<(String, String)>> {
    let declared = root.get("params").and_then(|one| one.get_ref().as_table());
    let declared = declared.into_iter().flatten();
    let declared = declared
        .filter_map(|(name, value)| Some((name.get_ref().as_ref(), value.get_ref().as_str()?)));
    placeholders(declared, given)
}

/// Like [`filled`], for an embedded preset. A value is printable ASCII without quotes, so it needs no
/// escape in JSON.
pub(super) fn filled_embedded(
    preset: &Embedded,
    given: &BTreeMap<String, String>,
) -> anyhow::Result<Preset> {
    let params = placeholders(preset.params.iter().copied(), given)?;
    let mut json = Cow::Borrowed(preset.json);
    for (placeholder, value) in &params {
        if json.contains(placeholder) {
            json = json.replace(placeholder, value).into();
        }
    }
    Ok(serde_json::from_str(&json)?)
}

fn placeholders<'p>(
    declared: impl Iterator<Item = (&'p str, &'p str)>,
    given: &'p BTreeMap<String, String>,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut params: BTreeMap<&str, &str> = declared.collect();
    for (name, value) in given {
        if !params.contains_key(name.as_str()) {
            let known = params.keys().copied().collect::<Vec<_>>().join(", ");
            bail!("unknown parameter {name:?}; known parameters: {known}");
        }
        let fits = |c: char| (' '..='~').contains(&c) && c != '"' && c != '\\';
        ensure!(
            value.chars().all(fits),
            "parameter {name}: use only printable ASCII without \" and \\"
        );
        params.insert(name, value);
    }
    let params = params.into_iter();
    let params = params.map(|(name, value)| (format!("{{param:{name}}}"), value.to_owned()));
    Ok(params.collect())
}

fn fill(value: &mut Spanned<DeValue<'_>>, params: &[(String, String)]) {
    match value.get_mut() {
        DeValue::String(text) if text.contains("{param:") => {
            for (placeholder, value) in params {
                *text = text.replace(placeholder, value).into();
            }
        }
        DeValue::Array(values) => {
            for value in values.iter_mut() {
                fill(value, params);
            }
        }
        DeValue::Table(values) => {
            for (_, value) in values.iter_mut() {
                fill(value, params);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_preset_is_its_file() {
        for id in Preset::ids() {
            let file = format!("{}/presets/{id}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(file).unwrap();
            let none = BTreeMap::new();
            let (file, embedded) = (Preset::parse(&text, &none), Preset::embedded(id, &none));
            assert_eq!(format!("{file:?}"), format!("{embedded:?}"), "{id}");
        }
    }

    fn read(text: &str, given: &[(&str, &str)]) -> anyhow::Result<Preset> {
        let given = given.iter();
        let given = given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        filled(text, &given.collect())
    }

    const PRESET: &str = r#"
schema = 1
id = "a"
name = "{param:first} {param:second} {param:first} {param:third}"
docs = ""
checked = ""
aliases = ["b", "{param:second}"]
params = { first = "1", second = "2" }
verify = []
event = { id = ["header:{param:first}"] }
"#;

    #[test]
    fn a_value_stands_wherever_its_name_stood() {
        let preset = read(PRESET, &[("second", "two")]).unwrap();
        // A placeholder that the preset does not declare stays unchanged.
        assert_eq!(preset.name, "1 two 1 {param:third}");
        assert_eq!(preset.aliases, ["b", "two"]);
        let id = preset.event.id.0.first().map(ToString::to_string);
        assert_eq!(id.as_deref(), Some("header:1"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_without_what_was_set() {
        let said = |text: &str| {
            let error = read(text, &[("second", "a secret")]).unwrap_err();
            format!("{error:#}")
        };
        let odd = PRESET.replace("verify = []", "verify = 7");
        assert!(said(&odd).starts_with("line 9: verify: "), "{}", said(&odd));
        let number = PRESET.replace("docs = \"\"", "docs = [\"{param:second}\"]");
        assert!(said(&number).starts_with("line 5: docs: "));
        assert!(!said(&number).contains("a secret"));
        let wrong = PRESET.replace("schema = 1", "schema = \"{param:second}\"");
        assert!(!said(&wrong).contains("a secret"), "{}", said(&wrong));
        let torn = PRESET.replace("verify = []", "verify = [");
        assert!(said(&torn).starts_with("line "), "{}", said(&torn));
    }
}
