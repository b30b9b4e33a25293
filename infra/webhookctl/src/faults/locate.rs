//! Finds the setting and the position of a fault in a document.

use std::ops::Range;

use shared::base::setting_path::Step;
use shared::sources::{Refusal, settings};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::words::{expected, quoted};

/// Where a fault is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The path, whose last key is absent if the setting is missing.
    pub(super) path: Vec<Step>,
    /// The byte of the key, the value or the table.
    pub(super) at: usize,
    /// The type of the value in the file, if the setting is present.
    pub(super) found: Option<&'static str>,
    /// The value, if it is a string. For an unknown key, the key.
    pub(super) word: Option<String>,
}

/// Returns the place of a fault.
pub(super) fn place(document: &Spanned<DeTable<'_>>, refusal: &Refusal) -> Place {
    let path = match (refusal.paths.first(), &refusal.span) {
        (Some(path), _) => with_indexes(document, path),
        (None, Some(span)) => of_span(document, span, &refusal.message),
        (None, None) => Vec::new(),
    };
    let (at, found) = position(document, &path);
    let key = match path.last() {
        Some(Step::Key(key)) if refusal.message.starts_with("unknown field") => Some(key.as_ref()),
        _ => None,
    };
    let text = || value(document, &path)?.get_ref().as_str();
    let word = key.or_else(text).map(str::to_owned);
    Place {
        path,
        at,
        found,
        word,
    }
}

/// Returns the path with the index of each element that is found by its name.
pub(super) fn with_indexes(document: &Spanned<DeTable<'_>>, path: &[Step]) -> Vec<Step> {
    let mut indexed: Vec<Step> = Vec::new();
    for step in path {
        indexed.push(match step {
            Step::Named(name) => Step::Index(index_of(document, &indexed, name)),
            other => other.clone(),
        });
    }
    indexed
}

fn index_of(document: &Spanned<DeTable<'_>>, array: &[Step], name: &str) -> usize {
    let elements = value(document, array).and_then(|value| value.get_ref().as_array());
    let has_name = |element: &Spanned<DeValue<'_>>| {
        let its = element.get_ref().get("name");
        its.and_then(|its| its.get_ref().as_str()) == Some(name)
    };
    let found = elements.and_then(|elements| elements.iter().position(has_name));
    found.unwrap_or_default()
}

/// Returns the value at a path that has at least one step.
pub(super) fn value<'d, 't>(
    document: &'d Spanned<DeTable<'t>>,
    path: &[Step],
) -> Option<&'d Spanned<DeValue<'t>>> {
    let (first, rest) = path.split_first()?;
    let Step::Key(key) = first else {
        return None;
    };
    let mut value = document.get_ref().get(key.as_ref())?;
    for step in rest {
        value = match step {
            Step::Key(key) => value.get_ref().as_table()?.get(key.as_ref())?,
            Step::Index(index) => value.get_ref().as_array()?.get(*index)?,
            Step::Named(_) | Step::File => return None,
        };
    }
    Some(value)
}

/// Returns the first byte of the key or the element, and the type of its value. If it is missing,
/// returns the first byte of the table.
fn position(document: &Spanned<DeTable<'_>>, path: &[Step]) -> (usize, Option<&'static str>) {
    let Some((last, parent)) = path.split_last() else {
        return (0, None);
    };
    if let Some(found) = value(document, path) {
        let key = match last {
            Step::Key(key) => key_span(document, parent, key),
            _ => None,
        };
        let is_element = matches!(last, Step::Index(_));
        let at = match key {
            Some(span) if !is_element => span.start,
            _ => found.span().start,
        };
        return (at, Some(found.get_ref().type_str()));
    }
    (position(document, parent).0, None)
}

fn key_span(document: &Spanned<DeTable<'_>>, table: &[Step], key: &str) -> Option<Range<usize>> {
    let table = match table {
        [] => document.get_ref(),
        path => value(document, path)?.get_ref().as_table()?,
    };
    table.get_key_value(key).map(|(key, _)| key.span())
}

/// Returns the path of the key or the value at these bytes. For a missing field, adds its name.
fn of_span(document: &Spanned<DeTable<'_>>, span: &Range<usize>, message: &str) -> Vec<Step> {
    let mut found = Vec::new();
    if *span == document.span() {
        found.push(Vec::new());
    }
    collect(document.get_ref(), &mut Vec::new(), span, &mut found);
    if message.starts_with("unknown field")
        && let Some(path) = found.last()
        && settings::at(path).is_some()
        && let Some(key) = unknown_key(document, path, message)
    {
        return [path.as_slice(), &[Step::from(key)]].concat();
    }
    let missing = message.strip_prefix("missing field ").and_then(quoted);
    let Some(missing) = missing else {
        // The span of a table can also be that of the table around it.
        return found.into_iter().next_back().unwrap_or_default();
    };
    let with_missing = found.into_iter().map(|mut path| {
        path.push(Step::from(missing.to_owned()));
        path
    });
    let paths: Vec<_> = with_missing.collect();
    let known = paths.iter().rfind(|path| settings::at(path).is_some());
    known.or(paths.last()).cloned().unwrap_or_default()
}

/// Returns the first key of a table that is not one of the expected keys. The parser names only the
/// table if the type of the table depends on one of its keys.
fn unknown_key(document: &Spanned<DeTable<'_>>, path: &[Step], message: &str) -> Option<String> {
    let table = value(document, path)?.get_ref().as_table()?;
    let known = expected(message);
    let mut unknown = table
        .keys()
        .filter(|key| !known.contains(&key.get_ref().as_ref()));
    let unknown = unknown.find(|key| key.get_ref() != "kind");
    unknown.map(|key| key.get_ref().to_string())
}

fn collect(
    table: &DeTable<'_>,
    path: &mut Vec<Step>,
    span: &Range<usize>,
    found: &mut Vec<Vec<Step>>,
) {
    for (key, value) in table {
        path.push(Step::from(key.get_ref().to_string()));
        if key.span() == *span {
            found.push(path.clone());
        } else {
            collect_value(value, path, span, found);
        }
        path.pop();
    }
}

fn collect_value(
    value: &Spanned<DeValue<'_>>,
    path: &mut Vec<Step>,
    span: &Range<usize>,
    found: &mut Vec<Vec<Step>>,
) {
    if value.span() == *span {
        found.push(path.clone());
    }
    match value.get_ref() {
        DeValue::Table(table) => collect(table, path, span, found),
        DeValue::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                path.push(Step::Index(index));
                collect_value(value, path, span, found);
                path.pop();
            }
        }
        _ => {}
    }
}
