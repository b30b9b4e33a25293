//! Queries one partition of the table or of an index, in order, page by page.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Bound;

use serde_json::{Value as Json, json};

use super::evaluate::Bindings;
use super::expression::{Compare, Condition, Operand, Part};
use super::index::Index;
use super::request::Request;
use super::write::bindings;
use super::{Item, Refusal, Table, Value, projected};

impl Table {
    pub(super) fn query(&mut self, mut request: Request, now: i64) -> Result<String, Refusal> {
        let text = request.key_condition_expression.as_deref();
        let text = text.ok_or_else(|| Refusal::invalid("the query has no key condition"))?;
        let condition = self.parsed_condition(text)?;
        let bindings = bindings(
            take(&mut request.expression_attribute_values),
            take(&mut request.expression_attribute_names),
        )?;
        bindings.note_condition(&condition);
        let filter = match request.filter_expression.as_deref() {
            Some(text) => {
                let filter = self.parsed_condition(text)?;
                bindings.note_condition(&filter);
                Some(filter)
            }
            None => None,
        };
        bindings.check()?;
        let found = match request.index_name.as_deref() {
            None => {
                let pk = partition(&condition, "pk", &bindings)?;
                self.in_partition(&pk, &request)
            }
            Some(name) => {
                if request.consistent_read {
                    return Err(Refusal::invalid(
                        "an index does not support consistent reads",
                    ));
                }
                let index = self.indexes.iter_mut().find(|index| index.name == name);
                let index =
                    index.ok_or_else(|| Refusal::invalid(format!("there is no index {name}")))?;
                let pk = partition(&condition, index.partition, &bindings)?;
                from_index(index, &pk, &request, now)?
            }
        };
        let limit = request.limit.unwrap_or(usize::MAX);
        let (mut page, mut more) = (Vec::new(), false);
        for item in found {
            if !bindings.holds(&condition, &item)? {
                continue;
            }
            if page.len() == limit {
                more = true;
                break;
            }
            page.push(item);
        }
        let last = page
            .last()
            .filter(|_| more || page.len() == limit)
            .map(|item| self.key_in(item, request.index_name.as_deref()));
        if let Some(filter) = filter {
            page = filtered(page, &bindings, &filter)?;
        }
        answer(
            page,
            last,
            request.select.as_deref(),
            request.projection_expression.as_deref(),
        )
    }

    /// Returns the items of a partition of the table after the start key, in the order of the
    /// request.
    fn in_partition(&self, pk: &str, request: &Request) -> Vec<Item> {
        let backward = request.scan_index_forward == Some(false);
        let items = self.items.get(pk).into_iter().flat_map(BTreeMap::values);
        let start = request.exclusive_start_key.as_ref();
        let mut found: Vec<Item> = items
            .filter(|item| after(item, start, backward))
            .cloned()
            .collect();
        if backward {
            found.reverse();
        }
        found
    }

    fn key_in(&self, item: &Item, index: Option<&str>) -> Item {
        let index = self.indexes.iter().find(|known| Some(known.name) == index);
        let mut names = vec!["pk", "sk"];
        names.extend(
            index
                .into_iter()
                .flat_map(|index| [index.partition, index.sort]),
        );
        let mut key = item.clone();
        key.retain(|name, _| names.contains(&name.as_str()));
        key
    }
}

fn answer(
    page: Vec<Item>,
    last: Option<Item>,
    select: Option<&str>,
    names: Option<&str>,
) -> Result<String, Refusal> {
    let mut answer = json!({ "Count": page.len(), "ScannedCount": page.len() });
    match select {
        Some("COUNT") => {}
        None | Some("ALL_ATTRIBUTES" | "ALL_PROJECTED_ATTRIBUTES") => {
            let page: Vec<Item> = match names {
                None => page,
                Some(names) => page
                    .into_iter()
                    .map(|item| projected(item, names))
                    .collect::<Result<_, _>>()?,
            };
            answer["Items"] = json!(page);
        }
        Some(other) => return Err(Refusal::unknown(format!("Select {other}"))),
    }
    if let Some(last) = last {
        answer["LastEvaluatedKey"] = json!(last);
    }
    Ok(Json::to_string(&answer))
}

fn from_index(
    index: &mut Index,
    partition: &str,
    request: &Request,
    now: i64,
) -> Result<Vec<Item>, Refusal> {
    let forward = request.scan_index_forward != Some(false);
    let start = request.exclusive_start_key.as_ref();
    let start = start
        .map(|start| index.place(start))
        .transpose()?
        .flatten()
        .map(|(_, place)| place);
    let Some(places) = index.at(partition, now) else {
        return Ok(Vec::new());
    };
    let start = start.map_or(Bound::Unbounded, Bound::Excluded);
    let places: Vec<_> = if forward {
        places.range((start, Bound::Unbounded)).cloned().collect()
    } else {
        places
            .range((Bound::Unbounded, start))
            .rev()
            .cloned()
            .collect()
    };
    Ok(places
        .iter()
        .map(|place| index.projected(partition, place))
        .collect())
}

fn filtered(
    page: Vec<Item>,
    bindings: &Bindings,
    filter: &Condition,
) -> Result<Vec<Item>, Refusal> {
    let mut kept = Vec::new();
    for item in page {
        if bindings.holds(filter, &item)? {
            kept.push(item);
        }
    }
    Ok(kept)
}

fn after(item: &Item, start: Option<&Item>, backward: bool) -> bool {
    let sk = |item: &Item| item.get("sk").and_then(Value::text).map(str::to_owned);
    match start {
        None => true,
        Some(start) if backward => sk(item) < sk(start),
        Some(start) => sk(item) > sk(start),
    }
}

/// Returns the partition of a key condition, which must have one.
fn partition(condition: &Condition, name: &str, bindings: &Bindings) -> Result<String, Refusal> {
    match condition {
        Condition::Compare(Operand::Path(path), Compare::Equal, value) if matches!(path.as_slice(), [Part::Name(part)] if part == name) =>
        {
            let text = bindings.text(value)?;
            text.ok_or_else(|| Refusal::invalid("a partition key must be a string"))
        }
        Condition::And(one, two) => {
            partition(one, name, bindings).or_else(|_| partition(two, name, bindings))
        }
        _ => Err(Refusal::invalid(format!("the key condition has no {name}"))),
    }
}
