//! DynamoDB in memory, for one thread and without sockets. It implements the part of the wire
//! protocol that the production code uses, and rejects everything else. A test sends the same
//! requests to it and to the local stack's emulator.

mod evaluate;
mod expression;
mod index;
mod query;
mod refusal;
mod request;
mod transact;
mod value;
mod weaken;
mod words;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::json;

use expression::{Condition, Update};
pub use index::INDEXES;
use index::Index;
pub use refusal::Refusal;
use request::Request;
pub use value::{Item, Value};
pub use weaken::Weakness;

/// The default lag of the indexes.
const INDEX_LAG_MS: i64 = 800;

/// A write that was applied.
#[derive(Debug)]
pub struct Changed {
    pub pk: String,
    pub sk: String,
    pub old: Option<Item>,
    pub new: Option<Item>,
}

/// The inbox table.
#[derive(Debug)]
pub struct Table {
    items: HashMap<String, BTreeMap<String, Item>>,
    indexes: Vec<Index>,
    conditions: HashMap<String, Arc<Condition>>,
    updates: HashMap<String, Arc<Update>>,
    tokens: HashMap<String, Vec<u8>>,
    weakness: Option<Weakness>,
    open_rows: usize,
    /// The time until a write appears in an index, in milliseconds.
    pub index_lag_ms: i64,
    /// The number of batch reads so far, and the number of the next ones that fail.
    pub batches: u64,
    pub batches_to_refuse: u64,
    /// The writes since the caller last took this list.
    pub changed: Vec<Changed>,
}

impl Table {
    /// Creates the table. With a weakness, one of the conditions of the production code has no
    /// effect.
    pub fn new(weakness: Option<Weakness>) -> Self {
        Self {
            items: HashMap::new(),
            indexes: Index::all(),
            conditions: HashMap::new(),
            updates: HashMap::new(),
            tokens: HashMap::new(),
            weakness,
            open_rows: 0,
            index_lag_ms: INDEX_LAG_MS,
            batches: 0,
            batches_to_refuse: 0,
            changed: Vec::new(),
        }
    }

    /// Executes a request and returns the body of the answer.
    pub fn answer(&mut self, operation: &str, body: &[u8], now: i64) -> Result<String, Refusal> {
        let request = Request::read(body)?;
        match operation {
            "PutItem" => self.put(request, now),
            "UpdateItem" => self.update(request, now),
            "DeleteItem" => self.delete(request, now),
            "GetItem" => self.get(&request),
            "BatchGetItem" => self.batch_get(&request),
            "Query" => self.query(request, now),
            "TransactWriteItems" => self.transact(request, body, now),
            other => Err(Refusal::unknown(format!("the operation {other}"))),
        }
    }

    pub fn item(&self, pk: &str, sk: &str) -> Option<&Item> {
        self.items.get(pk)?.get(sk)
    }

    /// Returns all state rows, sorted by key.
    pub fn state_rows(&self) -> Vec<(&str, &Item)> {
        let rows = self.items.iter();
        let rows = rows.filter_map(|(pk, items)| Some((pk.as_str(), items.get("M")?)));
        let mut rows: Vec<_> = rows.filter(|(pk, _)| pk.starts_with("E#")).collect();
        rows.sort_unstable_by_key(|(pk, _)| *pk);
        rows
    }

    /// Returns whether any event is open.
    pub fn has_open_rows(&self) -> bool {
        self.open_rows > 0
    }

    /// Returns the number of open events.
    pub fn open_rows(&self) -> usize {
        self.open_rows
    }

    fn put(&mut self, request: Request, now: i64) -> Result<String, Refusal> {
        let write = self.prepare_put(request)?;
        let old = write.old.clone();
        let shows_old = write.shows.as_deref() == Some("ALL_OLD");
        self.apply(write, now)?;
        Ok(attributes(old.filter(|_| shows_old)))
    }

    fn update(&mut self, request: Request, now: i64) -> Result<String, Refusal> {
        let write = self.prepare_update(request)?;
        let shown = match write.shows.as_deref() {
            None | Some("NONE") => None,
            Some("ALL_NEW") => write.new.clone(),
            Some("ALL_OLD") => write.old.clone(),
            Some(other) => return Err(Refusal::unknown(format!("ReturnValues {other}"))),
        };
        self.apply(write, now)?;
        Ok(attributes(shown))
    }

    fn delete(&mut self, request: Request, now: i64) -> Result<String, Refusal> {
        let write = self.prepare_delete(request)?;
        let old = write.old.clone();
        let shows_old = write.shows.as_deref() == Some("ALL_OLD");
        self.apply(write, now)?;
        Ok(attributes(old.filter(|_| shows_old)))
    }

    fn get(&self, request: &Request) -> Result<String, Refusal> {
        let (pk, sk) = key(request.key.as_ref())?;
        let item = self.item(&pk, &sk).cloned();
        let item = match &request.projection_expression {
            None => item,
            Some(names) => item.map(|item| projected(item, names)).transpose()?,
        };
        Ok(match item {
            Some(item) => json!({ "Item": item }).to_string(),
            None => "{}".to_owned(),
        })
    }

    fn batch_get(&mut self, request: &Request) -> Result<String, Refusal> {
        self.batches += 1;
        if self.batches_to_refuse > 0 {
            self.batches_to_refuse -= 1;
            return Err(Refusal::invalid("the test requested this error"));
        }
        let mut answers = BTreeMap::new();
        for (table, asked) in &request.batch {
            if asked.keys.is_empty() || asked.keys.len() > 100 {
                return Err(Refusal::invalid("a batch must have 1 to 100 keys"));
            }
            let mut items = Vec::new();
            for one in &asked.keys {
                let (pk, sk) = key(Some(one))?;
                let Some(item) = self.item(&pk, &sk).cloned() else {
                    continue;
                };
                items.push(match &asked.projection_expression {
                    None => item,
                    Some(names) => projected(item, names)?,
                });
            }
            answers.insert(table, items);
        }
        Ok(json!({ "Responses": answers, "UnprocessedKeys": {} }).to_string())
    }
}

/// Returns the key of a request, which must have exactly two strings.
fn key(key: Option<&Item>) -> Result<(String, String), Refusal> {
    let key = key.filter(|key| key.len() == 2);
    key_of(key.ok_or_else(|| Refusal::invalid("the key must consist of pk and sk"))?)
}

fn key_of(item: &Item) -> Result<(String, String), Refusal> {
    let part = |name: &str| {
        let text = item
            .get(name)
            .and_then(Value::text)
            .filter(|text| !text.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| Refusal::invalid(format!("{name} is missing or not a string")))
    };
    Ok((part("pk")?, part("sk")?))
}

fn projected(mut item: Item, names: &str) -> Result<Item, Refusal> {
    if names.contains(['#', '.', '[']) {
        return Err(Refusal::unknown(format!("the projection {names:?}")));
    }
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    item.retain(|name, _| names.contains(&name.as_str()));
    Ok(item)
}

fn attributes(item: Option<Item>) -> String {
    match item {
        Some(item) => json!({ "Attributes": item }).to_string(),
        None => "{}".to_owned(),
    }
}
