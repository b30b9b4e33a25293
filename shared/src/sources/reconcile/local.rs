//! Reads `[source.reconcile.local]`, which describes the operator's own state and how Mitt finds an
//! object in it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::base::json_path::JsonPath;
use crate::base::setting_path::At as _;
use crate::sources::filter::path;
use crate::sources::{Forward, check_name, check_url};

/// The location of the operator's own state.
#[derive(Clone, Debug)]
pub enum Local {
    DynamoDb(LocalTable),
    Http(LocalEndpoint),
}

/// A DynamoDB table. Mitt only reads it.
#[derive(Clone, Debug)]
pub struct LocalTable {
    pub table: String,
    /// The path in an item to the id of its object.
    pub id: JsonPath,
    /// The primary key of an object's item. Each attribute of the key has a template for its value.
    pub key: BTreeMap<String, KeyText>,
    pub index: Option<String>,
    /// The partition to read. If it is `None`, Mitt reads the whole table.
    pub partition: Option<(String, String)>,
    /// The attributes to read.
    pub attributes: BTreeSet<String>,
}

/// An endpoint that lists the operator's objects. `GET url?cursor=…` and `GET url?id=…` must both
/// return a list of objects.
#[derive(Clone, Debug)]
pub struct LocalEndpoint {
    pub url: String,
    /// The name of the bearer token below the secrets path of backup-sync.
    pub secret: String,
    /// The path to the list in a response.
    pub items: JsonPath,
    /// The path to the cursor of the next page in a response.
    pub next: JsonPath,
    pub id: JsonPath,
}

/// A template that contains values of the provider's object, such as `CUSTOMER#{customer}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText(Vec<KeyPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPart {
    Text(String),
    Value(JsonPath),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub(super) enum FileLocal {
    #[serde(rename = "dynamodb")]
    DynamoDb {
        table: String,
        id: String,
        key: BTreeMap<String, String>,
        index: Option<String>,
        #[serde(default)]
        partition: BTreeMap<String, String>,
    },
    Http {
        url: String,
        secret: String,
        id: Option<String>,
        items: Option<String>,
        next: Option<String>,
    },
}

impl FileLocal {
    pub(super) fn checked(
        self,
        attributes: BTreeSet<String>,
        forward: &Forward,
    ) -> anyhow::Result<Local> {
        match self {
            Self::DynamoDb {
                table,
                id,
                key,
                index,
                partition,
            } => local_table(table, &id, key, index, partition, attributes).map(Local::DynamoDb),
            Self::Http {
                url,
                secret,
                id,
                items,
                next,
            } => {
                check_url(&url, forward).at("url")?;
                check_name("a secret's name", &secret).at("secret")?;
                let or = |given: Option<String>, key: &'static str| {
                    path(given.as_deref().unwrap_or(key)).at(key)
                };
                Ok(Local::Http(LocalEndpoint {
                    url,
                    secret,
                    items: or(items, "items")?,
                    next: or(next, "next")?,
                    id: or(id, "id")?,
                }))
            }
        }
    }
}

fn local_table(
    table: String,
    id: &str,
    key: BTreeMap<String, String>,
    index: Option<String>,
    partition: BTreeMap<String, String>,
    mut attributes: BTreeSet<String>,
) -> anyhow::Result<LocalTable> {
    check_table("table", &table).at("table")?;
    if let Some(index) = &index {
        check_table("index", index).at("index")?;
    }
    check_key(&key).at("key")?;
    check_partition(&partition, index.is_some())
        .at("partition")
        .needs("index")?;
    attributes.insert(first(id).to_owned());
    attributes.extend(key.keys().cloned());
    let key = key
        .into_iter()
        .map(|(name, text)| {
            let text = KeyText::parse(&text).with_context(|| format!("key.{name}"));
            let text = text.at(name.clone())?;
            Ok((name, text))
        })
        .collect::<anyhow::Result<_>>()
        .at("key")?;
    Ok(LocalTable {
        table,
        id: path(id).at("id")?,
        key,
        index,
        partition: partition.into_iter().next(),
        attributes,
    })
}

fn check_table(what: &str, name: &str) -> anyhow::Result<()> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    ensure!(
        (3..=255).contains(&name.len()) && name.bytes().all(fits),
        "{what} {name:?}: a name must have 3 to 255 characters: letters, digits and . _ -"
    );
    Ok(())
}

fn check_key(key: &BTreeMap<String, String>) -> anyhow::Result<()> {
    ensure!(
        (1..=2).contains(&key.len()),
        "key: set the one or two attributes of the table's key, such as \
         key = {{ pk = \"SUB#{{id}}\" }}"
    );
    Ok(())
}

fn check_partition(partition: &BTreeMap<String, String>, has_index: bool) -> anyhow::Result<()> {
    ensure!(
        partition.len() <= 1 && (!has_index || partition.len() == 1),
        "partition: set one partition key and its value; an index needs this setting"
    );
    Ok(())
}

impl KeyText {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').with_context(|| {
                format!("the template {text:?} has a {{ without a closing }}; add the bracket")
            })?;
            if !before.is_empty() {
                parts.push(KeyPart::Text(before.to_owned()));
            }
            parts.push(KeyPart::Value(path(inside)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(KeyPart::Text(rest.to_owned()));
        }
        ensure!(
            !parts.is_empty(),
            "the value is empty; use a value like \"SUB#{{id}}\""
        );
        Ok(Self(parts))
    }

    /// Returns the text for an object of the provider, or `None` if the object has no value for a
    /// path.
    pub fn of(&self, object: &[u8]) -> Option<String> {
        self.0
            .iter()
            .map(|part| match part {
                KeyPart::Text(text) => Some(text.clone()),
                KeyPart::Value(path) => path.scalar(object).ok().flatten(),
            })
            .collect()
    }
}

/// Returns the first key of a path.
pub(super) fn first(path: &str) -> &str {
    let bare = path.strip_prefix("$.").unwrap_or(path);
    match bare
        .strip_prefix('\'')
        .and_then(|rest| rest.split_once('\''))
    {
        Some((quoted, _)) => quoted,
        None => bare.split(['.', '[']).next().unwrap_or_default(),
    }
}
