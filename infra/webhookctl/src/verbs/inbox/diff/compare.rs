//! Compares two JSON documents by their values, and lists differences in notation separately.

use std::collections::BTreeSet;

use crate::raw_json::{Json, Key};

/// The differences between two documents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) changes: Vec<Change>,
    /// Differences in the notation of equal values, each in a few words.
    pub(super) spelling: Vec<String>,
}

/// A value that differs, or that only one side has. `from` and `to` are JSON in its original
/// notation.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

pub(super) fn compare(a: &Json, b: &Json) -> Differences {
    let mut found = Found::default();
    found.values("", a, b);
    let mut spelling = Vec::new();
    if found.order {
        spelling.push("key order differs".to_owned());
    }
    spelling.extend(found.numbers);
    if found.strings {
        spelling.push("strings are escaped differently".to_owned());
    }
    spelling.extend(found.twice);
    Differences {
        changes: found.changes,
        spelling,
    }
}

#[derive(Default)]
struct Found {
    changes: Vec<Change>,
    order: bool,
    numbers: BTreeSet<String>,
    strings: bool,
    twice: BTreeSet<String>,
}

impl Found {
    fn values(&mut self, path: &str, a: &Json, b: &Json) {
        match (a, b) {
            (Json::Map(of_a), Json::Map(of_b)) => self.maps(path, (a, of_a), (b, of_b)),
            (Json::List(of_a), Json::List(of_b)) => {
                for place in 0..of_a.len().max(of_b.len()) {
                    self.either(
                        &format!("{path}[{place}]"),
                        of_a.get(place),
                        of_b.get(place),
                    );
                }
            }
            (Json::Plain(a), Json::Plain(b)) if a == b => {}
            (Json::Plain(of_a), Json::Plain(of_b)) => match (number(of_a), number(of_b)) {
                (Some(one), Some(two)) if one == two => {
                    self.numbers
                        .insert(format!("{of_a} is written {of_b} (same value)"));
                }
                _ if same_string(of_a, of_b) => self.strings = true,
                _ => self.changed(path, Some(a), Some(b)),
            },
            _ => self.changed(path, Some(a), Some(b)),
        }
    }

    fn maps(
        &mut self,
        path: &str,
        (a, of_a): (&Json, &[(Key, Json)]),
        (b, of_b): (&Json, &[(Key, Json)]),
    ) {
        let (names_a, names_b) = (self.names(path, of_a), self.names(path, of_b));
        let shared = |of: &[&str], other: &[&str]| -> Vec<String> {
            let both = of.iter().filter(|name| other.contains(name));
            both.map(|name| (*name).to_owned()).collect()
        };
        self.order |= shared(&names_a, &names_b) != shared(&names_b, &names_a);
        let only_b = names_b.iter().filter(|name| !names_a.contains(name));
        for name in names_a.iter().chain(only_b) {
            self.either(&below(path, name), a.get(name), b.get(name));
        }
    }

    /// Returns each name once, in the order of the document.
    fn names<'k>(&mut self, path: &str, members: &'k [(Key, Json)]) -> Vec<&'k str> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::with_capacity(members.len());
        for (key, _) in members {
            if seen.insert(key.name.as_str()) {
                names.push(key.name.as_str());
            } else {
                self.twice.insert(format!(
                    "{} appears twice, the last value counts",
                    below(path, &key.name)
                ));
            }
        }
        names
    }

    fn either(&mut self, path: &str, a: Option<&Json>, b: Option<&Json>) {
        match (a, b) {
            (Some(a), Some(b)) => self.values(path, a, b),
            _ => self.changed(path, a, b),
        }
    }

    fn changed(&mut self, path: &str, a: Option<&Json>, b: Option<&Json>) {
        self.changes.push(Change {
            path: path.to_owned(),
            from: a.map(Json::compact),
            to: b.map(Json::compact),
        });
    }
}

fn below(path: &str, name: &str) -> String {
    let quoted = if name.is_empty() || name.contains(['.', '[', '\'']) {
        format!("'{name}'")
    } else {
        name.to_owned()
    };
    if path.is_empty() {
        quoted
    } else {
        format!("{path}.{quoted}")
    }
}

fn same_string(a: &str, b: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<String>(text).ok();
    read(a).is_some_and(|text| read(b) == Some(text))
}

/// Returns the sign, the digits without leading and trailing zeros, and the power of ten. The
/// results are equal for equal numbers.
fn number(text: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mantissa, power) = match rest.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let power = power
        .checked_sub(i64::try_from(part.len()).ok()?)?
        .checked_add(zeros)?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((negative, significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(a: &str, b: &str) -> (Vec<String>, Vec<String>) {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        let found = compare(&json(a), &json(b));
        let absent = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let line = |c: Change| format!("{} {} {}", c.path, absent(c.from), absent(c.to));
        (
            found.changes.into_iter().map(line).collect(),
            found.spelling,
        )
    }

    #[test]
    fn values_are_told_apart_from_their_writing() {
        let (changes, spelling) = found(
            r#"{"status":"open","amount":1.10,"who":"\u00e9","list":[1,2]}"#,
            r#"{"amount":1.1,"status":"paid","paid_at":5,"who":"é","list":[1]}"#,
        );
        assert_eq!(
            changes,
            [r#"status "open" "paid""#, "list[1] 2 -", "paid_at - 5"]
        );
        assert_eq!(
            spelling,
            [
                "key order differs",
                "1.10 is written 1.1 (same value)",
                "strings are escaped differently"
            ]
        );
    }

    #[test]
    fn equal_documents_have_no_difference() {
        let same = r#"{"a":[{"b":null}]}"#;
        assert_eq!(found(same, same), (Vec::new(), Vec::new()));
    }

    #[test]
    fn odd_keys_and_other_kinds_are_shown() {
        let (changes, spelling) = found(
            r#"{"a.b":1,"x":1,"x":2,"k":{}}"#,
            r#"{"a.b":"1","x":2,"k":[]}"#,
        );
        assert_eq!(changes, [r#"'a.b' 1 "1""#, "k {} []"]);
        assert_eq!(spelling, ["x appears twice, the last value counts"]);
    }

    #[test]
    fn numbers_are_equal_by_value_and_not_by_what_a_float_keeps() {
        for (a, b) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0", "0.0"),
            ("12.50", "1250E-2"),
        ] {
            assert_eq!(number(a), number(b), "{a} {b}");
        }
        for (a, b) in [
            ("9007199254740993", "9007199254740992"),
            ("1", "-1"),
            ("1e400", "1e401"),
        ] {
            assert_ne!(number(a), number(b), "{a} {b}");
        }
        assert_eq!(number("true"), None);
    }
}
