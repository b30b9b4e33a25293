//! `inbox diff`: compares two bodies by their values and by their notation.

mod compare;

use serde::Serialize;
use shared::inbox::ledger::Row;

use self::compare::{Change, compare};
use super::body::{read_body, without_tokens};
use super::find;
use crate::cli::{DiffArgs, Global};
use crate::output::count::thousands;
use crate::output::safe::capped;
use crate::output::table::aligned;
use crate::output::{Exit, Printer};
use crate::raw_json::Json;

/// The maximum length of a value in the text output.
const VALUE_CAP: usize = 120;

#[derive(Serialize)]
struct Document {
    a: String,
    b: String,
    same_event_id: bool,
    same_bytes: bool,
    /// Whether both bodies are JSON. If not, the command compares only the bytes.
    json: bool,
    changes: Vec<Change>,
    /// Differences in the notation of equal values.
    also: Vec<String>,
}

pub(in crate::verbs) async fn diff(
    args: DiffArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = args.bodies_at.open(global).await?;
    let (a, b) = (find(&inbox, &args.a).await?, find(&inbox, &args.b).await?);
    let (of_a, of_b) = (read_body(&inbox, &a).await?, read_body(&inbox, &b).await?);
    let (shown_a, shown_b) = (without_tokens(&a, &of_a).0, without_tokens(&b, &of_b).0);
    let mut document = document((&a, &shown_a), (&b, &shown_b));
    if document.same_bytes && of_a != of_b {
        document.same_bytes = false;
        document.also.push("the masked tokens differ".to_owned());
    }
    let same = document.same_bytes;
    out.document("inbox.diff", &document, &document.a, &text(&document))?;
    // The exit code is 1 if the bodies differ, as with `diff`.
    Ok(if same { Exit::Done } else { Exit::Failed })
}

fn document((a, of_a): (&Row, &[u8]), (b, of_b): (&Row, &[u8])) -> Document {
    let mut document = Document {
        a: a.id().to_string(),
        b: b.id().to_string(),
        // If a second body has the same id, its key ends with `~` and the hash.
        same_event_id: provider_id(a) == provider_id(b),
        same_bytes: of_a == of_b,
        json: false,
        changes: Vec::new(),
        also: Vec::new(),
    };
    if let (Some(json_a), Some(json_b)) = (Json::parse(of_a), Json::parse(of_b)) {
        let found = compare(&json_a, &json_b);
        document.json = true;
        document.also = found.spelling;
        document.changes = found.changes;
        if other_space(of_a, of_b, document.changes.is_empty()) {
            document.also.push("white space differs".to_owned());
        }
    } else if !document.same_bytes {
        let at = of_a.iter().zip(of_b).take_while(|(a, b)| a == b).count();
        let (a, b) = (thousands(of_a.len()), thousands(of_b.len()));
        document.also.push(format!(
            "a body is not JSON; the bodies have {a} and {b} bytes, and the first {} are equal",
            thousands(at)
        ));
    }
    document
}

/// Returns whether to report different white space. Documents with different values usually also
/// have different white space. In that case, this returns true only if one of them has no white
/// space.
fn other_space(a: &[u8], b: &[u8], same_values: bool) -> bool {
    let (a, b) = (space(a), space(b));
    a != b && (same_values || a.is_empty() != b.is_empty())
}

/// Returns all white space outside of strings.
fn space(json: &[u8]) -> Vec<u8> {
    let (mut in_string, mut escaped) = (false, false);
    let mut space = Vec::new();
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => space.push(*byte),
            _ => {}
        }
    }
    space
}

fn provider_id(row: &Row) -> (&str, &str) {
    let id = row.key.id();
    (
        row.key.source(),
        id.split_once('~').map_or(id, |(id, _)| id),
    )
}

fn text(document: &Document) -> String {
    let ids = if document.same_event_id {
        "same event id"
    } else {
        "two events"
    };
    if document.same_bytes {
        return format!("{ids}, the bodies are equal\n");
    }
    let what = match (document.json, document.changes.is_empty()) {
        (true, true) => "the bodies have the same values, written differently",
        _ => "bodies differ",
    };
    let absent = || "(absent)".to_owned();
    let value = |value: &Option<String>| {
        value
            .as_ref()
            .map_or_else(absent, |value| capped(value, VALUE_CAP).into_owned())
    };
    let line = |change: &Change| {
        let path = if change.path.is_empty() {
            "(the whole body)"
        } else {
            &change.path
        };
        vec![
            format!("  {path}"),
            format!("{} → {}", value(&change.from), value(&change.to)),
        ]
    };
    let lines: Vec<Vec<String>> = document.changes.iter().map(line).collect();
    let mut text = format!("{ids}, {what}\n{}", aligned(&lines));
    if !document.also.is_empty() {
        let also = document.also.join(", ");
        text = format!("{text}also: {}\n", capped(&also, 1000));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_counts_outside_of_strings_only() {
        assert!(other_space(br#"{"a": 1}"#, br#"{"a":1}"#, true));
        assert!(!other_space(br#"{"a":"x \" y"}"#, br#"{"a":"xy"}"#, false));
        assert!(!other_space(b"[ 1, 2]", b"[ 1]", false));
    }
}
