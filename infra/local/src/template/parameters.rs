//! The parameters of a template, for documentation.

use anyhow::Context as _;
use saphyr::SafelyIndex as _;
use serde_json::Value;

use super::Naming;
use super::document::{Document, pairs, scalar_text};

/// A parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// `String` or `Number`.
    pub kind: String,
    pub default: Option<String>,
    /// The allowed values, if the template lists them.
    pub allowed: Vec<String>,
    /// What the template says about a value that is not allowed.
    pub constraint: String,
    pub description: String,
}

/// Returns the parameters of a template, in its order.
pub fn parameters(template: &str) -> anyhow::Result<Vec<Parameter>> {
    let naming = Naming::default();
    let document = Document::parse(template, &naming)?;
    let all = document.root.get("Parameters").and_then(pairs);
    let all = all.unwrap_or_default().into_iter();
    let read = |(name, node)| {
        let settings = document.resolve(node, 0);
        let settings = settings.with_context(|| format!("parameter {name}"))?;
        Ok(parameter(name, &settings.unwrap_or_default()))
    };
    all.map(read).collect()
}

fn parameter(name: &str, settings: &Value) -> Parameter {
    let text = |key: &str| settings.get(key).and_then(scalar_text);
    let allowed = settings.get("AllowedValues").and_then(Value::as_array);
    let allowed = allowed.into_iter().flatten();
    Parameter {
        name: name.to_owned(),
        kind: text("Type").unwrap_or_default(),
        default: text("Default"),
        allowed: allowed.filter_map(scalar_text).collect(),
        constraint: text("ConstraintDescription").unwrap_or_default(),
        description: text("Description").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_its_default_and_its_values() {
        let template = "Parameters:\n  A:\n    Type: Number\n    Default: 3\n    AllowedValues: [3, 5]\n    \
                        Description: >-\n      Days\n      until.\n  B: { Type: String }\nResources: {}\n";
        let found = parameters(template).unwrap();
        let [a, b] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((a.name.as_str(), a.default.as_deref()), ("A", Some("3")));
        assert_eq!(
            (a.allowed.join(" "), a.description.as_str()),
            ("3 5".to_owned(), "Days until.")
        );
        assert_eq!((b.kind.as_str(), b.default.as_deref()), ("String", None));
    }
}
