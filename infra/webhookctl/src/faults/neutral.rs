//! Values that replace invalid values, so that the rest of a document can be checked.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A host that no file can allow by mistake.
/// <https://www.rfc-editor.org/rfc/rfc6761#section-6.4>
pub(super) const HOST: &str = "repaired.invalid";

/// The span of what is not in the file.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// Returns a valid value for a required setting. `name` is unique in the document.
pub(super) fn value(setting: &str, name: &str) -> Option<Spanned<DeValue<'static>>> {
    let toml = match setting {
        "source[].name" | "source[].action[].name" | "source[].reconcile[].fields[].name" => {
            return Some(string(name));
        }
        "schema" => "1",
        "source[].preset" => "\"standard-webhooks\"",
        "source[].action" => "[{ kind = \"keep\" }]",
        "source[].action[].kind" => "\"keep\"",
        "source[].action[].url" => "\"https://repaired.invalid/\"",
        "source[].action[].secret" | "source[].action[].function" => "\"repaired\"",
        "source[].action[].queue" => {
            "\"https://sqs.eu-central-1.amazonaws.com/111122223333/repaired\""
        }
        "source[].action[].state_machine" => {
            "\"arn:aws:states:eu-central-1:111122223333:stateMachine:repaired\""
        }
        "source[].endpoint.url" => "\"https://repaired.invalid/in/repaired\"",
        "source[].reconcile[].local" => {
            "{ kind = \"http\", url = \"https://repaired.invalid/\", secret = \"repaired\" }"
        }
        _ => return None,
    };
    let value = DeValue::parse(toml).ok()?;
    Some(nowhere(value.into_inner()))
}

/// Returns a table that replaces an element of an array.
pub(super) fn element(array: &str, name: &str) -> Option<Spanned<DeValue<'static>>> {
    let toml = match array {
        "source" => "{ preset = \"standard-webhooks\", action = [{ kind = \"keep\" }] }",
        "source[].action" => "{ kind = \"keep\" }",
        _ => return None,
    };
    let mut value = nowhere(DeValue::parse(toml).ok()?.into_inner());
    if let DeValue::Table(table) = value.get_mut() {
        table.insert(key("name"), string(name));
    }
    Some(value)
}

pub(super) fn key(name: &str) -> Spanned<std::borrow::Cow<'static, str>> {
    Spanned::new(NOWHERE, name.to_owned().into())
}

pub(super) fn string(text: &str) -> Spanned<DeValue<'static>> {
    Spanned::new(NOWHERE, DeValue::String(text.to_owned().into()))
}

pub(super) fn empty(value: DeValue<'_>) -> Spanned<DeValue<'_>> {
    Spanned::new(NOWHERE, value)
}

/// Removes the spans of a value, so that none is equal to a span in the file.
fn nowhere(value: DeValue<'_>) -> Spanned<DeValue<'_>> {
    let value = match value {
        DeValue::Table(table) => {
            let values = table.into_iter().map(|(key, value)| {
                let key = Spanned::new(NOWHERE, key.into_inner());
                (key, nowhere(value.into_inner()))
            });
            DeValue::Table(values.collect::<DeTable<'_>>())
        }
        DeValue::Array(values) => {
            let values = values.into_iter();
            DeValue::Array(values.map(|value| nowhere(value.into_inner())).collect())
        }
        other => other,
    };
    Spanned::new(NOWHERE, value)
}
