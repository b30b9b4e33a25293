//! Writes and reads the attributes of DynamoDB items.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::clock::UnixMillis;

/// The attributes of an item.
pub type Item = HashMap<String, AttributeValue>;

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl std::fmt::Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn ms(time: UnixMillis) -> AttributeValue {
    n(time.0)
}

pub(crate) fn b(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

pub(crate) fn text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(crate) fn number<T: std::str::FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

pub(crate) fn time(item: &Item, name: &str) -> Option<UnixMillis> {
    number(item, name).map(UnixMillis)
}

pub(crate) fn bytes<'i>(item: &'i Item, name: &str) -> Option<&'i [u8]> {
    item.get(name)?.as_b().ok().map(AsRef::as_ref)
}

/// Returns the approximate size of an item in bytes, as DynamoDB counts it. The size includes the
/// names and the values of the attributes.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
pub(crate) fn size(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len() / 2 + 2,
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::L(list) => 3 + list.iter().map(|v| 1 + value_size(v)).sum::<usize>(),
        AttributeValue::M(map) => {
            3 + map
                .iter()
                .map(|(k, v)| 1 + k.len() + value_size(v))
                .sum::<usize>()
        }
        _ => 1,
    }
}
