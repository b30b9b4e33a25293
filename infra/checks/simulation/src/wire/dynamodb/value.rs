//! Attribute values in the JSON format of DynamoDB.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// The attributes of an item, sorted so that two runs write the same bytes.
pub type Item = BTreeMap<String, Value>;

/// A value. Sets are not supported, because the production code writes none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    S(String),
    /// A number in its shortest form, with at most six digits after the point.
    N(String),
    /// Base64 as received; each value has one encoding.
    B(String),
    #[serde(rename = "BOOL")]
    Bool(bool),
    #[serde(rename = "NULL")]
    Null(bool),
    M(Item),
    L(Vec<Value>),
}

impl Value {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::S(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a whole number. Only whole numbers can be added, or be keys of an index.
    pub fn number(&self) -> Option<i128> {
        match self {
            Self::N(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the type letter of the value in expressions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::S(_) => "S",
            Self::N(_) => "N",
            Self::B(_) => "B",
            Self::Bool(_) => "BOOL",
            Self::Null(_) => "NULL",
            Self::M(_) => "M",
            Self::L(_) => "L",
        }
    }

    /// Checks a received value, and normalizes numbers as DynamoDB does.
    pub(super) fn checked(self) -> Result<Self, Refusal> {
        match self {
            Self::N(digits) => match Decimal::parse(&digits) {
                Some(number) => Ok(Self::N(number.to_string())),
                None => Err(Refusal::unknown(format!("the number {digits:?}"))),
            },
            Self::M(map) => checked(map).map(Self::M),
            Self::L(list) => list
                .into_iter()
                .map(Self::checked)
                .collect::<Result<_, _>>()
                .map(Self::L),
            other => Ok(other),
        }
    }

    /// Compares two values of the same ordered type. Returns `None` for other types.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::S(one), Self::S(two)) => Some(one.cmp(two)),
            (Self::N(one), Self::N(two)) => Some(Decimal::parse(one)?.cmp(&Decimal::parse(two)?)),
            _ => None,
        }
    }
}

/// A number: the largest whole number that is not above it, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decimal {
    floor: i128,
    millionths: u32,
}

impl Decimal {
    fn parse(digits: &str) -> Option<Self> {
        let Some((whole, fraction)) = digits.split_once('.') else {
            let floor = digits.parse().ok()?;
            return Some(Self {
                floor,
                millionths: 0,
            });
        };
        let is_number = whole.ends_with(|last: char| last.is_ascii_digit())
            && (1..=6).contains(&fraction.len())
            && fraction.bytes().all(|digit| digit.is_ascii_digit());
        let floor: i128 = whole.parse().ok().filter(|_| is_number)?;
        let millionths: u32 = format!("{fraction:0<6}").parse().ok()?;
        Some(if whole.starts_with('-') && millionths > 0 {
            Self {
                floor: floor.checked_sub(1)?,
                millionths: 1_000_000 - millionths,
            }
        } else {
            Self { floor, millionths }
        })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, whole, millionths) = match self.millionths {
            0 => return write!(f, "{}", self.floor),
            rest if self.floor < 0 => ("-", -(self.floor + 1), 1_000_000 - rest),
            rest => ("", self.floor, rest),
        };
        let text = format!("{sign}{whole}.{millionths:06}");
        f.write_str(text.trim_end_matches('0'))
    }
}

pub(super) fn checked(item: Item) -> Result<Item, Refusal> {
    item.into_iter()
        .map(|(name, value)| Ok((name, value.checked()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(digits: &str) -> Value {
        Value::N(digits.to_owned()).checked().unwrap()
    }

    #[test]
    fn a_number_has_its_shortest_form() {
        for (received, kept) in [
            ("007", "7"),
            ("1767000000.120", "1767000000.12"),
            ("-0.50", "-0.5"),
            ("-1.25", "-1.25"),
            ("3.0", "3"),
            ("-0.0", "0"),
        ] {
            assert_eq!(number(received), Value::N(kept.to_owned()));
        }
        for unsupported in ["", ".", "1.", ".5", "-.5", "1.-5", "0.1234567", "1e3"] {
            assert!(Value::N(unsupported.to_owned()).checked().is_err());
        }
    }

    #[test]
    fn numbers_with_and_without_a_point_have_one_order() {
        let sorted = ["-2", "-1.5", "-1.25", "-1", "-0.5", "0", "0.25", "1", "1.5"].map(number);
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(one.order(other), Some(at.cmp(&other_at)));
            }
        }
    }
}
