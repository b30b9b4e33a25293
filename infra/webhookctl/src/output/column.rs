//! One column of a list: its display in tables, and its field for scripts.

use serde_json::Value;

use super::count::thousands;
use super::table::{Align, Head, Room, Weight};
use super::time::{age, parse_rfc3339};

/// How a table shows a field.
enum Shown<'a, T> {
    Plain,
    /// A number with separators, such as `27,038`.
    Count,
    /// The time from the field, an RFC 3339 time, to this time.
    Age(i64),
    Text(Box<dyn Fn(&T) -> String + 'a>),
}

/// One column: its display in tables, and its field for scripts.
pub struct Column<'a, T> {
    head: Head,
    /// The path of the field in the item's JSON, such as `next_action.text`. It is also the name of
    /// the column in CSV.
    field: &'static str,
    shown: Shown<'a, T>,
    /// The text that tables show if the field has no value.
    missing: &'static str,
    short: bool,
}

impl<'a, T> Column<'a, T> {
    /// Creates a column that is never shortened.
    pub fn whole(name: &'static str, field: &'static str) -> Self {
        Self::new(name, field, Room::Whole)
    }

    /// Creates a column that can be shortened to a width of `least`.
    pub fn text(name: &'static str, field: &'static str, least: usize) -> Self {
        Self::new(name, field, Room::Text(least))
    }

    /// Creates a column for a status, which is never shortened or dropped.
    pub fn status(field: &'static str) -> Self {
        Self::new("STATUS", field, Room::Status).weight(Weight::Essential)
    }

    /// Creates a column for short ids. A table shows the first 11 characters after the prefix, and
    /// all other formats show the whole id.
    pub fn id(field: &'static str) -> Self {
        Self {
            short: true,
            ..Self::whole("ID", field).weight(Weight::Essential)
        }
    }

    /// Creates a column for a number. Without a number, the table shows `-`.
    pub fn count(name: &'static str, field: &'static str) -> Self {
        Self {
            shown: Shown::Count,
            ..Self::whole(name, field).right().dash()
        }
    }

    /// Creates a column for a time, which the table shows as an age. Without a time, the table
    /// shows `-`.
    pub fn age(name: &'static str, field: &'static str, now_millis: i64) -> Self {
        Self {
            shown: Shown::Age(now_millis),
            ..Self::whole(name, field).right().dash()
        }
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the name of the column in scripts and in `--columns`.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Makes the table never drop this column.
    #[must_use]
    pub fn essential(self) -> Self {
        self.weight(Weight::Essential)
    }

    /// Makes the table drop this column first in a narrow terminal.
    #[must_use]
    pub fn lesser(self) -> Self {
        self.weight(Weight::Lesser)
    }

    /// Shows this column only with `-o wide`.
    #[must_use]
    pub fn extra(self) -> Self {
        self.weight(Weight::Extra)
    }

    #[must_use]
    pub fn right(mut self) -> Self {
        self.head.align = Align::Right;
        self
    }

    /// Shows `-` in tables for a missing value.
    #[must_use]
    pub fn dash(mut self) -> Self {
        self.missing = "-";
        self
    }

    /// Shows another text than the field in tables.
    #[must_use]
    pub fn shown(mut self, shown: impl Fn(&T) -> String + 'a) -> Self {
        self.shown = Shown::Text(Box::new(shown));
        self
    }

    fn weight(mut self, weight: Weight) -> Self {
        self.head.weight = weight;
        self
    }

    fn new(name: &'static str, field: &'static str, room: Room) -> Self {
        let head = Head {
            name,
            align: Align::Left,
            room,
            weight: Weight::Main,
        };
        Self {
            head,
            field,
            shown: Shown::Plain,
            missing: "",
            short: false,
        }
    }

    pub(super) fn cell(&self, item: &T, json: &Value, wide: bool) -> String {
        let value = field(json, self.field);
        let cell = match &self.shown {
            Shown::Text(shown) => shown(item),
            _ if value.is_null() => self.missing.to_owned(),
            Shown::Plain => listed(value),
            Shown::Count => thousands(value),
            Shown::Age(now) => {
                let text = plain(value);
                parse_rfc3339(&text).map_or(text, |at| age(at, *now))
            }
        };
        if self.short && !wide {
            short_id(&cell).to_owned()
        } else {
            cell
        }
    }
}

/// Shortens an id to its prefix and 11 characters, such as `evt_01M7W76WNHE`. This part is unique
/// for years.
pub(crate) fn short_id(id: &str) -> &str {
    let (Some(at), true) = (id.find('_'), id.is_ascii()) else {
        return id;
    };
    let ulid = id.len() - at - 1 == 26;
    if ulid { &id[..at + 1 + 11] } else { id }
}

pub(super) fn field<'a>(json: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(json, |value, name| &value[name])
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the text of a value. Joins the texts of a list with commas.
fn listed(value: &Value) -> String {
    match value {
        Value::Array(texts) => texts.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_for_our_ids_only() {
        assert_eq!(
            short_id("evt_01M7W54EPFH8XFYM19RW4Y21MY"),
            "evt_01M7W54EPFH"
        );
        assert_eq!(short_id("github:8c1e77aa_cc75"), "github:8c1e77aa_cc75");
        assert_eq!(short_id("evt_日本語"), "evt_日本語");
    }
}
