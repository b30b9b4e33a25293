//! Reads the table definition of the template, and creates the table.

use anyhow::{Context, bail};
use aws_sdk_dynamodb::{
    Client,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
        Projection, ProjectionType, ScalarAttributeType, TableStatus, TimeToLiveSpecification,
    },
};
use serde::Deserialize;

use super::document::Document;

/// The arguments of `CreateTable`.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition {
    /// The name in the local stack. Tests use other names.
    pub name: String,
    pub key_schema: Vec<KeySchemaElement>,
    pub attributes: Vec<AttributeDefinition>,
    pub indexes: Vec<GlobalSecondaryIndex>,
    /// The name of the attribute with the expiry time.
    pub ttl: Option<String>,
}

/// Creates the table. An existing table does not change.
pub async fn create_table(
    client: &Client,
    definition: &TableDefinition,
    name: &str,
) -> anyhow::Result<()> {
    let created = client
        .create_table()
        .table_name(name)
        .set_key_schema(Some(definition.key_schema.clone()))
        .set_attribute_definitions(Some(definition.attributes.clone()))
        .set_global_secondary_indexes(
            Some(definition.indexes.clone()).filter(|indexes| !indexes.is_empty()),
        )
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await;
    if let Err(error) = created {
        let error = error.into_service_error();
        if error.is_resource_in_use_exception() {
            return Ok(());
        }
        return Err(error).with_context(|| format!("create the table {name}"));
    }
    // The embedded DynamoDB is ready immediately, but other emulators need some time.
    while status(client, name).await? != TableStatus::Active {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    if let Some(attribute) = &definition.ttl {
        let specification = TimeToLiveSpecification::builder()
            .attribute_name(attribute)
            .enabled(true)
            .build()?;
        client
            .update_time_to_live()
            .table_name(name)
            .time_to_live_specification(specification)
            .send()
            .await
            .with_context(|| format!("set the time to live of the table {name}"))?;
    }
    Ok(())
}

async fn status(client: &Client, name: &str) -> anyhow::Result<TableStatus> {
    let answer = client.describe_table().table_name(name).send().await;
    answer
        .with_context(|| format!("describe the table {name}"))?
        .table
        .and_then(|table| table.table_status)
        .with_context(|| format!("the table {name} has no status"))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Key {
    attribute_name: String,
    key_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attribute {
    attribute_name: String,
    attribute_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Index {
    #[serde(rename = "IndexName")]
    name: String,
    key_schema: Vec<Key>,
    projection: IndexProjection,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IndexProjection {
    projection_type: String,
    #[serde(default)]
    non_key_attributes: Vec<String>,
}

pub(super) fn read(document: &Document, id: &str) -> anyhow::Result<TableDefinition> {
    let keys: Vec<Key> = typed(document, id, "KeySchema")?;
    let attributes: Vec<Attribute> = typed(document, id, "AttributeDefinitions")?;
    let indexes: Vec<Index> = match document.property(id, "GlobalSecondaryIndexes")? {
        None => Vec::new(),
        Some(_) => typed(document, id, "GlobalSecondaryIndexes")?,
    };
    for key in keys
        .iter()
        .chain(indexes.iter().flat_map(|index| &index.key_schema))
    {
        let name = &key.attribute_name;
        if !attributes
            .iter()
            .any(|attribute| attribute.attribute_name == *name)
        {
            bail!("resource {id}: the key {name} is missing from AttributeDefinitions");
        }
    }
    let ttl = document.property(id, "TimeToLiveSpecification")?;
    let ttl = ttl.filter(|ttl| ttl["Enabled"] == true);
    Ok(TableDefinition {
        name: document.name(id)?,
        key_schema: key_schema(keys)?,
        attributes: attributes
            .into_iter()
            .map(|attribute| {
                AttributeDefinition::builder()
                    .attribute_name(attribute.attribute_name)
                    .attribute_type(ScalarAttributeType::from(attribute.attribute_type.as_str()))
                    .build()
            })
            .collect::<Result<_, _>>()?,
        indexes: indexes
            .into_iter()
            .map(index)
            .collect::<anyhow::Result<_>>()?,
        ttl: ttl.and_then(|ttl| ttl["AttributeName"].as_str().map(str::to_owned)),
    })
}

fn typed<T: serde::de::DeserializeOwned>(
    document: &Document,
    id: &str,
    name: &str,
) -> anyhow::Result<T> {
    serde_json::from_value(document.required(id, name)?)
        .with_context(|| format!("resource {id}, property {name}"))
}

fn key_schema(keys: Vec<Key>) -> anyhow::Result<Vec<KeySchemaElement>> {
    let element = |key: Key| {
        KeySchemaElement::builder()
            .attribute_name(key.attribute_name)
            .key_type(KeyType::from(key.key_type.as_str()))
            .build()
    };
    Ok(keys.into_iter().map(element).collect::<Result<_, _>>()?)
}

fn index(index: Index) -> anyhow::Result<GlobalSecondaryIndex> {
    let only = Some(index.projection.non_key_attributes).filter(|names| !names.is_empty());
    let projection = Projection::builder()
        .projection_type(ProjectionType::from(
            index.projection.projection_type.as_str(),
        ))
        .set_non_key_attributes(only)
        .build();
    Ok(GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(key_schema(index.key_schema)?))
        .projection(projection)
        .build()?)
}
