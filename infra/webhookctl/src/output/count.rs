//! Formats counts for people.

use std::fmt::{self, Display};

use serde::Serialize;

/// A count, which is exact or a minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub count: u64,
    /// Whether the real count can be higher.
    pub or_more: bool,
}

impl Count {
    /// Returns the count and the noun, such as `1 event` or `1,000+ events`.
    pub(crate) fn of(self, noun: &str) -> String {
        if self.or_more {
            return format!("{self} {noun}s");
        }
        plural(self.count, noun)
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = if self.or_more { "+" } else { "" };
        write!(f, "{}{plus}", thousands(self.count))
    }
}

/// Returns the count with separators, such as `27,038`.
pub(crate) fn thousands(count: impl Display) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the count and the noun, such as `1 event` or `27,038 events`.
pub(crate) fn plural(count: impl Display, noun: &str) -> String {
    let count = thousands(count);
    let s = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 27_038].map(thousands),
            ["0", "999", "1,000", "27,038"]
        );
    }

    #[test]
    fn one_has_no_s_unless_it_is_a_minimum() {
        let dead = |count, or_more| Count { count, or_more }.of("dead letter");
        assert_eq!(
            (dead(1, false), dead(1, true), dead(1000, true)),
            (
                "1 dead letter".into(),
                "1+ dead letters".into(),
                "1,000+ dead letters".into()
            )
        );
    }

    #[test]
    fn a_minimum_says_so() {
        let count = |count, or_more| Count { count, or_more }.to_string();
        assert_eq!(
            (count(388, false), count(1000, true)),
            ("388".into(), "1,000+".into())
        );
    }

    #[test]
    fn only_one_is_singular() {
        assert_eq!(
            [0, 1, 2, 1000].map(|count| plural(count, "event")),
            ["0 events", "1 event", "2 events", "1,000 events"]
        );
    }
}
