//! The guarantees of DynamoDB that the ledger needs.

mod races;

use std::collections::HashMap;

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::{
    Client,
    types::{
        AttributeDefinition, AttributeValue, GlobalSecondaryIndex, KeySchemaElement, KeyType,
        Projection, ProjectionType, Put, ReturnValuesOnConditionCheckFailure, ScalarAttributeType,
        TransactWriteItem,
    },
};

use super::{Proof, Races, check};
use crate::{
    names::random_hex,
    template::{TableDefinition, create_table},
};
use races::{increments, race_puts, race_updates};

type Item = HashMap<String, AttributeValue>;

pub(super) async fn prove(client: &Client, races: Races) -> anyhow::Result<Vec<Proof>> {
    let definition = definition()?;
    let table = &definition.name;
    create_table(client, &definition, table).await?;
    let proofs = prove_on(client, table, races).await;
    let removed = client.delete_table().table_name(table).send().await;
    let proofs = proofs?;
    removed.context("delete the preflight table")?;
    Ok(proofs)
}

async fn prove_on(client: &Client, table: &str, races: Races) -> anyhow::Result<Vec<Proof>> {
    Ok(vec![
        check(
            "exactly one of several concurrent conditional puts succeeds",
            race_puts(client, table, races),
        )
        .await?,
        check(
            "exactly one of several concurrent conditional updates succeeds",
            race_updates(client, table, races),
        )
        .await?,
        check(
            "no concurrent increment is lost",
            increments(client, table, races),
        )
        .await?,
        check(
            "a failed condition returns the old item",
            all_old(client, table),
        )
        .await?,
        check(
            "a repeated transaction token writes once",
            token(client, table),
        )
        .await?,
        check(
            "a failed transaction writes nothing",
            all_or_nothing(client, table),
        )
        .await?,
        check(
            "an index contains only items that have its key",
            sparse(client, table),
        )
        .await?,
    ])
}

fn definition() -> anyhow::Result<TableDefinition> {
    let key = |name: &str, kind| {
        KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind)
            .build()
    };
    let attribute = |name: &str, kind| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(kind)
            .build()
    };
    let index = GlobalSecondaryIndex::builder()
        .index_name("work")
        .key_schema(key("gpk", KeyType::Hash)?)
        .key_schema(key("gsk", KeyType::Range)?)
        .projection(
            Projection::builder()
                .projection_type(ProjectionType::KeysOnly)
                .build(),
        )
        .build()?;
    Ok(TableDefinition {
        name: format!("preflight-{}", random_hex(8)),
        key_schema: vec![key("pk", KeyType::Hash)?, key("sk", KeyType::Range)?],
        attributes: vec![
            attribute("pk", ScalarAttributeType::S)?,
            attribute("sk", ScalarAttributeType::S)?,
            attribute("gpk", ScalarAttributeType::S)?,
            attribute("gsk", ScalarAttributeType::N)?,
        ],
        indexes: vec![index],
        ttl: None,
    })
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: usize) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn item(pk: &str, rest: &[(&str, AttributeValue)]) -> Item {
    let key = [("pk", text(pk)), ("sk", text("S"))];
    let all = key.iter().chain(rest);
    all.map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

async fn get(client: &Client, table: &str, pk: &str) -> anyhow::Result<Option<Item>> {
    let request = client
        .get_item()
        .table_name(table)
        .set_key(Some(item(pk, &[])));
    Ok(request
        .consistent_read(true)
        .send()
        .await
        .context("get an item")?
        .item)
}

/// Returns whether the conditional put succeeded.
async fn put(client: &Client, table: &str, pk: &str, racer: usize) -> anyhow::Result<bool> {
    let put = client
        .put_item()
        .table_name(table)
        .set_item(Some(item(pk, &[("racer", number(racer))])))
        .condition_expression("attribute_not_exists(pk)")
        .send()
        .await;
    match put {
        Ok(_) => Ok(true),
        Err(error) => {
            let error = error.into_service_error();
            if error.is_conditional_check_failed_exception() {
                Ok(false)
            } else {
                Err(error.into())
            }
        }
    }
}

async fn all_old(client: &Client, table: &str) -> anyhow::Result<()> {
    ensure!(put(client, table, "old", 1).await?, "the first put failed");
    let second = client
        .put_item()
        .table_name(table)
        .set_item(Some(item("old", &[("racer", number(2))])))
        .condition_expression("attribute_not_exists(pk)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    let error = second
        .err()
        .context("the second put succeeded, but must fail")?
        .into_service_error();
    let aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(
        failed,
    ) = error
    else {
        bail!("the second put failed with an unexpected error: {error}");
    };
    let old = failed
        .item()
        .context("the error does not contain the old item")?;
    ensure!(
        old.get("racer") == Some(&number(1)),
        "the error contains a different item"
    );
    Ok(())
}

fn transact(table: &str, pk: &str, condition: Option<&str>) -> anyhow::Result<TransactWriteItem> {
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(item(pk, &[])))
        .set_condition_expression(condition.map(str::to_owned))
        .build()?;
    Ok(TransactWriteItem::builder().put(put).build())
}

async fn token(client: &Client, table: &str) -> anyhow::Result<()> {
    let token = random_hex(16);
    let write = |pk: &'static str| {
        let items = transact(table, pk, Some("attribute_not_exists(pk)"));
        let request = client.transact_write_items().client_request_token(&token);
        async move { anyhow::Ok(request.transact_items(items?).send().await) }
    };
    write("token")
        .await?
        .context("write the first transaction")?;
    // If the emulator applied the transaction again, its condition would fail.
    write("token")
        .await?
        .context("repeat the first transaction")?;
    let other = write("another").await?;
    let error = other
        .err()
        .context("another transaction with the same token succeeded, but must fail")?;
    ensure!(
        error
            .into_service_error()
            .is_idempotent_parameter_mismatch_exception(),
        "another transaction with the same token returned an unexpected error"
    );
    Ok(())
}

async fn all_or_nothing(client: &Client, table: &str) -> anyhow::Result<()> {
    ensure!(
        put(client, table, "taken", 1).await?,
        "the first put failed"
    );
    let both = client
        .transact_write_items()
        .transact_items(transact(table, "free", None)?)
        .transact_items(transact(table, "taken", Some("attribute_not_exists(pk)"))?)
        .send()
        .await;
    let error = both
        .err()
        .context("the transaction succeeded, but must fail")?
        .into_service_error();
    ensure!(
        error.is_transaction_canceled_exception(),
        "the transaction failed with an unexpected error: {error}"
    );
    ensure!(
        get(client, table, "free").await?.is_none(),
        "part of the transaction was written"
    );
    Ok(())
}

async fn sparse(client: &Client, table: &str) -> anyhow::Result<()> {
    let work = [("gpk", text("W#0")), ("gsk", number(5))];
    for (pk, rest) in [("in", &work[..]), ("out", &[])] {
        let request = client.put_item().table_name(table);
        request
            .set_item(Some(item(pk, rest)))
            .send()
            .await
            .context("put an item")?;
    }
    ensure!(
        indexed(client, table).await? == ["in"],
        "the index must contain only the item that has its key"
    );
    client
        .update_item()
        .table_name(table)
        .set_key(Some(item("in", &[])))
        .update_expression("REMOVE gpk, gsk")
        .send()
        .await
        .context("remove an item from the index")?;
    ensure!(
        indexed(client, table).await?.is_empty(),
        "the item is still in the index"
    );
    Ok(())
}

async fn indexed(client: &Client, table: &str) -> anyhow::Result<Vec<String>> {
    let answer = client
        .query()
        .table_name(table)
        .index_name("work")
        .key_condition_expression("gpk = :work AND gsk <= :now")
        .expression_attribute_values(":work", text("W#0"))
        .expression_attribute_values(":now", number(10))
        .send()
        .await
        .context("query the index")?;
    let keys = answer
        .items()
        .iter()
        .filter_map(|item| item.get("pk")?.as_s().ok().cloned());
    Ok(keys.collect())
}
