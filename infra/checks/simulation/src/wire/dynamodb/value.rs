//! Attribute values in the JSON format of DynamoDB.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// The attributes of an item, sorted so that two runs write the same bytes.
pub type Item = BTreeMap<String, Value>;

/// A value. Sets are not supported, because the production code writes none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    S(String),
    /// Whole numbers only, in their shortest form.
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
            Self::N(digits) => match digits.parse::<i128>() {
                Ok(number) => Ok(Self::N(number.to_string())),
                Err(_) => Err(Refusal::unknown(format!("the number {digits:?}"))),
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
            (Self::N(_), Self::N(_)) => Some(self.number()?.cmp(&other.number()?)),
            _ => None,
        }
    }
}

pub(super) fn checked(item: Item) -> Result<Item, Refusal> {
    item.into_iter()
        .map(|(name, value)| Ok((name, value.checked()?)))
        .collect()
}
