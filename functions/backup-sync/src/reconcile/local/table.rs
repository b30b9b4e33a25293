//! Reads your own state from a DynamoDB table.

use std::collections::HashMap;

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::base::clock::{Clock, UnixMillis};
use shared::monitoring::reconcile::{Side, add};
use shared::sources::{LocalTable, Reconcile};

use super::super::provider::values;
use super::super::{few_enough, in_time};
use super::{Key, Listed};

/// The client of a table, and the deadline for reads.
pub(in super::super) struct Table<'a> {
    pub(in super::super) dynamodb: &'a Client,
    pub(in super::super) clock: Clock,
    pub(in super::super) ends: UnixMillis,
}

type Item = HashMap<String, AttributeValue>;

impl Table<'_> {
    pub(super) async fn list(
        &self,
        at: &LocalTable,
        reconcile: &Reconcile,
    ) -> anyhow::Result<Listed> {
        let mut listed = Listed::default();
        let (mut place, what) = (None, format!("table {}", at.table));
        loop {
            in_time((self.clock)(), self.ends, &what)?;
            let (items, next) = self.page(at, place).await?;
            for item in &items {
                // The table can also contain other kinds of items.
                if let Some((id, side)) = read(item, at, reconcile) {
                    let named = at.key.keys();
                    let key =
                        named.filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
                    listed.keys.insert(id.clone(), key.collect());
                    add(&mut listed.sides, id, side);
                }
            }
            few_enough(listed.sides.len(), &what)?;
            place = next;
            if place.is_none() {
                return Ok(listed);
            }
        }
    }

    pub(super) async fn again(
        &self,
        at: &LocalTable,
        reconcile: &Reconcile,
        id: &str,
        key: Key,
    ) -> anyhow::Result<Option<Side>> {
        let (names, projection) = projection(at);
        let answer = self
            .dynamodb
            .get_item()
            .table_name(&at.table)
            .set_key(Some(key))
            .consistent_read(true)
            .set_expression_attribute_names(Some(names))
            .projection_expression(projection)
            .send()
            .await
            .with_context(|| format!("read an item of table {}", at.table))?;
        let found = answer.item.and_then(|item| read(&item, at, reconcile));
        Ok(found
            .filter(|(found, _)| found == id)
            .map(|(_, side)| Side { count: 1, ..side }))
    }

    async fn page(
        &self,
        at: &LocalTable,
        place: Option<Item>,
    ) -> anyhow::Result<(Vec<Item>, Option<Item>)> {
        let what = || format!("read table {}", at.table);
        let (mut names, projection) = projection(at);
        let Some((attribute, value)) = &at.partition else {
            #[expect(
                clippy::disallowed_methods,
                reason = "not the ledger: the user's own table, if the configuration names no partition"
            )]
            let scan = self.dynamodb.scan();
            let answer = scan
                .table_name(&at.table)
                .set_expression_attribute_names(Some(names))
                .projection_expression(projection)
                .consistent_read(true)
                .set_exclusive_start_key(place)
                .send()
                .await
                .with_context(what)?;
            return Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key));
        };
        names.insert("#partition".to_owned(), attribute.clone());
        let answer = self
            .dynamodb
            .query()
            .table_name(&at.table)
            .set_index_name(at.index.clone())
            .key_condition_expression("#partition = :partition")
            .set_expression_attribute_names(Some(names))
            .expression_attribute_values(":partition", AttributeValue::S(value.clone()))
            .projection_expression(projection)
            // An index does not support consistent reads. Objects that differ are read again by
            // key.
            .consistent_read(at.index.is_none())
            .set_exclusive_start_key(place)
            .send()
            .await
            .with_context(what)?;
        Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
    }
}

/// Returns the key of your item for an object of the provider, or `None` if the object lacks a
/// value of the key.
pub(super) fn key(at: &LocalTable, object: &Bytes) -> Option<Key> {
    at.key
        .iter()
        .map(|(name, text)| Some((name.clone(), AttributeValue::S(text.of(object)?))))
        .collect()
}

/// Returns the projection of a read: only the attributes that are compared.
fn projection(at: &LocalTable) -> (HashMap<String, String>, String) {
    let attributes = at.attributes.iter().enumerate();
    let names = attributes.map(|(at, name)| (format!("#a{at}"), name.clone()));
    let names: HashMap<_, _> = names.collect();
    let places: Vec<_> = names.keys().cloned().collect();
    (names, places.join(", "))
}

/// Parses an item. Returns the id of the object and its values.
fn read(item: &Item, at: &LocalTable, reconcile: &Reconcile) -> Option<(String, Side)> {
    let document = document(item).to_string();
    let id = at.id.scalar(document.as_bytes()).ok().flatten()?;
    let fields = reconcile.fields.iter();
    let values = fields.map(|field| values(&field.here, document.as_bytes()));
    let side = Side {
        values: values.collect(),
        ..Side::default()
    };
    Some((id, side))
}

fn document(item: &Item) -> Value {
    let fields = item
        .iter()
        .map(|(name, value)| (name.clone(), plain(value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Converts an attribute to JSON. A number is not reformatted.
fn plain(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => json!(text),
        AttributeValue::Bool(truth) => json!(truth),
        AttributeValue::Ss(texts) | AttributeValue::Ns(texts) => json!(texts),
        AttributeValue::L(list) => list.iter().map(plain).collect(),
        AttributeValue::M(map) => document(map),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_table_read_as_those_of_json() {
        let n = |text: &str| AttributeValue::N(text.to_owned());
        let s = |text: &str| AttributeValue::S(text.to_owned());
        let item = Item::from([
            ("n".to_owned(), n("12")),
            ("list".to_owned(), AttributeValue::L(vec![s("b"), n("1")])),
            (
                "set".to_owned(),
                AttributeValue::Ss(vec!["y".into(), "x".into()]),
            ),
            (
                "map".to_owned(),
                AttributeValue::M(HashMap::from([("tier".to_owned(), s("pro"))])),
            ),
            ("none".to_owned(), AttributeValue::Null(true)),
        ]);
        let text = document(&item).to_string();
        let at = |path: &str| {
            let path = shared::base::json_path::JsonPath::parse(path).unwrap();
            values(&path, text.as_bytes())
        };
        assert_eq!(at("n"), ["12"]);
        assert_eq!(at("list"), ["1", "b"]);
        assert_eq!(at("set"), ["x", "y"]);
        assert_eq!(at("map.tier"), ["pro"]);
        assert!(at("none").is_empty());
    }
}
