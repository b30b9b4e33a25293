//! The DynamoDB table of an inbox, and every kind of write to it.
//!
//! The ledger, the rejected requests, the fetched keys, the circuit breakers and the rate limits
//! are items of one table. All of them use this module, so conditional writes and transaction
//! conflicts are handled in the same way everywhere.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, KeysAndAttributes, ReturnConsumedCapacity, TransactWriteItem,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::body::SdkBody;
use http::StatusCode;

use super::item::{self, Item};
use crate::aws::TableClient;
use wire::{Answer, Attributes, Condition, GetItem, Key, PutItem, UpdateItem};

/// The maximum number of items in one request:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
pub(crate) const MOST_AT_ONCE: usize = 100;

/// The maximum number of requests for a batch of keys. DynamoDB can leave keys of a batch
/// unprocessed, and the next request then contains these keys.
const TRIES: u32 = 8;

/// The client and the name of the table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    client: TableClient,
    name: String,
}

/// An update of one item with a condition. An empty condition is always true.
#[derive(Clone, Debug)]
pub struct Change {
    /// A description of the update, for the error message of a failed call.
    pub what: &'static str,
    pub condition: String,
    pub update: String,
    pub values: Item,
    pub names: HashMap<String, String>,
}

/// The values that DynamoDB returns for a write. The role of a function needs a separate permission
/// to receive values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    Nothing,
    /// The current item, if the condition is false.
    Refused,
    /// The updated attributes.
    Updated,
    /// The item after the write or, if the condition is false, the current item.
    All,
}

/// The result of a conditional write. The type has no `Debug`, because items contain customer data.
pub(crate) enum Write {
    /// DynamoDB applied the write. Contains the item or its updated attributes, if [`Returns`]
    /// requests them.
    Applied(Option<Item>),
    /// The condition was false. Contains the current item, if [`Returns`] requests it and the item
    /// exists.
    Refused(Option<Item>),
}

/// The result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    Applied,
    /// The condition of the write with this index was false.
    Refused(usize),
    /// Another write to one of the items was in progress.
    Conflict,
}

impl Write {
    pub(crate) fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

impl Change {
    pub(crate) fn new(what: &'static str, condition: &str, update: &str) -> Self {
        Self {
            what,
            condition: condition.to_owned(),
            update: update.to_owned(),
            values: Item::new(),
            names: HashMap::new(),
        }
    }

    /// Sets the value of a placeholder, such as `:now`.
    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    /// Sets the placeholder of an attribute whose name is a reserved word.
    pub(crate) fn named(mut self, placeholder: &str, name: &str) -> Self {
        self.names.insert(placeholder.to_owned(), name.to_owned());
        self
    }
}

impl Table {
    pub(crate) fn new(client: impl Into<TableClient>, name: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            name: name.into(),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Updates an item if the condition is true.
    pub(crate) async fn update(
        &self,
        (pk, sk): (&str, &str),
        change: Change,
        returns: Returns,
    ) -> anyhow::Result<Write> {
        let call = UpdateItem {
            table_name: &self.name,
            key: Key::new(pk, sk),
            update_expression: &change.update,
            expression_attribute_names: &change.names,
            return_values: match returns {
                Returns::All => Some("ALL_NEW"),
                Returns::Updated => Some("UPDATED_NEW"),
                Returns::Nothing | Returns::Refused => None,
            },
            condition: Condition::new(&change.condition, &change.values, returns),
        };
        let sent = retry_on_transaction_conflict(async || {
            if let Some(answer) = self.direct("UpdateItem", &call).await {
                return written(answer, UpdateItemError::generic);
            }
            let sent = Box::pin(call.for_sdk().send_with(self.client.rest())).await;
            sent.map(|output| Write::Applied(output.attributes))
        });
        match sent.await {
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Write::Refused(refused.item.clone()))
                }
                _ => Err(error).context(change.what),
            },
            Ok(write) => Ok(write),
        }
    }

    /// Puts an item if the condition is true. Without a condition, the put replaces the existing
    /// item. If the condition is false, the result contains the existing item only for
    /// [`Returns::Refused`].
    pub(crate) async fn put(
        &self,
        what: &'static str,
        item: Item,
        condition: Option<(&str, Item)>,
        returns: Returns,
    ) -> anyhow::Result<Write> {
        let (text, values) = condition.unwrap_or_default();
        let call = PutItem {
            table_name: &self.name,
            item: Attributes(&item),
            condition: Condition::new(text, &values, returns),
        };
        let sent = retry_on_transaction_conflict(async || {
            if let Some(answer) = self.direct("PutItem", &call).await {
                return written(answer, PutItemError::generic);
            }
            let sent = Box::pin(call.for_sdk().send_with(self.client.rest())).await;
            sent.map(|_| Write::Applied(None))
        });
        match sent.await {
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Write::Refused(refused.item.clone()))
                }
                _ => Err(error).context(what),
            },
            Ok(write) => Ok(write),
        }
    }

    pub(crate) async fn delete(
        &self,
        what: &'static str,
        (pk, sk): (&str, &str),
    ) -> anyhow::Result<()> {
        let delete = self.client.delete_item().table_name(&self.name);
        let delete = delete.key("pk", item::s(pk)).key("sk", item::s(sk));
        delete.send().await.context(what)?;
        Ok(())
    }

    /// Reads an item with a strongly consistent read.
    pub(crate) async fn get(
        &self,
        what: &'static str,
        key: (&str, &str),
    ) -> anyhow::Result<Option<Item>> {
        self.read(what, key, true, None).await
    }

    /// Reads an item with an eventually consistent read. The read costs half as much, and can miss
    /// a write of the last second.
    pub(crate) async fn get_eventually(
        &self,
        what: &'static str,
        key: (&str, &str),
        attributes: Option<&str>,
    ) -> anyhow::Result<Option<Item>> {
        self.read(what, key, false, attributes).await
    }

    async fn read(
        &self,
        what: &'static str,
        (pk, sk): (&str, &str),
        consistent: bool,
        attributes: Option<&str>,
    ) -> anyhow::Result<Option<Item>> {
        let call = GetItem {
            table_name: &self.name,
            key: Key::new(pk, sk),
            consistent_read: consistent,
            projection_expression: attributes,
        };
        let read = if let Some(answer) = self.direct("GetItem", &call).await {
            written(answer, GetItemError::generic)
        } else {
            let read = Box::pin(call.for_sdk().send_with(self.client.rest())).await;
            read.map(|output| Write::Applied(output.item))
        };
        match read.context(what)? {
            Write::Applied(item) | Write::Refused(item) => Ok(item),
        }
    }

    /// Reads items by their keys, with the given attributes or with all attributes. Items that do not
    /// exist are left out. Also returns what each request has consumed.
    pub(crate) async fn batch(
        &self,
        keys: &[Item],
        attributes: Option<&str>,
        consistent: bool,
    ) -> anyhow::Result<(Vec<Item>, Vec<Option<ConsumedCapacity>>)> {
        let (mut items, mut used) = (Vec::with_capacity(keys.len()), Vec::new());
        for keys in keys.chunks(MOST_AT_ONCE) {
            let (mut left, mut tries) = (keys.to_vec(), 0);
            while !left.is_empty() {
                let count = left.len();
                ensure!(
                    tries < TRIES,
                    "DynamoDB did not return {count} rows in {TRIES} requests; try again later"
                );
                if tries > 0 {
                    // After a delay, DynamoDB is more likely to process the rest of a batch.
                    tokio::time::sleep(Duration::from_millis(25 << tries)).await;
                }
                tries += 1;
                let asked = KeysAndAttributes::builder()
                    .set_keys(Some(left))
                    .set_consistent_read(consistent.then_some(true))
                    .set_projection_expression(attributes.map(str::to_owned));
                let answer = self
                    .client
                    .batch_get_item()
                    .request_items(&self.name, asked.build()?)
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
                    .await
                    .context("read rows of the table")?;
                used.push(answer.consumed_capacity().first().cloned());
                let found = answer.responses.unwrap_or_default();
                items.extend(found.into_values().flatten());
                let unread = answer.unprocessed_keys.unwrap_or_default();
                left = unread.into_values().flat_map(|keys| keys.keys).collect();
            }
        }
        Ok((items, used))
    }

    /// Sends the first attempt of a call without the SDK. Returns `None` if the SDK has to send it.
    async fn direct(&self, operation: &str, call: &impl serde::Serialize) -> Option<Answer> {
        let direct = self.client.direct()?;
        let call = serde_json::to_vec(call).ok()?;
        // The box keeps the futures of the callers small.
        Box::pin(direct.send(operation, call, Answer::of)).await
    }

    /// Starts a query of the table or of one of its indexes.
    pub(crate) fn query(&self) -> QueryFluentBuilder {
        self.client.query().table_name(&self.name)
    }

    /// Applies all of the writes or none. The SDK adds a client request token, so DynamoDB applies
    /// a repeated transaction only once.
    pub(crate) async fn transact(
        &self,
        what: &'static str,
        writes: Vec<TransactWriteItem>,
    ) -> anyhow::Result<Transaction> {
        let request = self.client.transact_write_items();
        match request.set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(Transaction::Applied),
            Err(error) => match cancelled(&error) {
                Some(outcome) => Ok(outcome),
                None => Err(error).context(what),
            },
        }
    }
}

/// Returns the result of a call, with the error type of the SDK.
#[expect(clippy::result_large_err, reason = "the error of the SDK is large")]
fn written<E>(
    answer: Answer,
    error: impl FnOnce(ErrorMetadata) -> E,
) -> Result<Write, SdkError<E, HttpResponse>> {
    match answer {
        Answer::Applied(item) => Ok(Write::Applied(item)),
        Answer::Refused(item) => Ok(Write::Refused(item)),
        Answer::Failed(metadata) => {
            let response = HttpResponse::new(StatusCode::BAD_REQUEST.into(), SdkBody::empty());
            Err(SdkError::service_error(error(metadata), response))
        }
    }
}

/// Returns whether the error is from a failed call to DynamoDB.
pub(crate) fn is_failed_call(error: &anyhow::Error) -> bool {
    error.is::<SdkError<PutItemError>>()
        || error.is::<SdkError<UpdateItemError>>()
        || error.is::<SdkError<GetItemError>>()
        || error.is::<SdkError<QueryError>>()
}

/// Returns whether DynamoDB rejected a put because of the item itself. DynamoDB would then reject
/// the item again.
pub(crate) fn is_invalid_item(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<SdkError<PutItemError>>() else {
        return false;
    };
    matches!(error, SdkError::ConstructionFailure(_))
        || matches!(
            error.as_service_error().and_then(|error| error.code()),
            Some(
                "ValidationException"
                    | "SerializationException"
                    | "ItemCollectionSizeLimitExceededException"
            )
        )
}

/// Returns the result of a cancelled transaction, or `None` for every other error. A false
/// condition has priority over a conflict, because a retry after the conflict would fail the
/// condition.
fn cancelled<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<Transaction> {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        return None;
    };
    let reasons = cancelled.cancellation_reasons();
    let index = |code| {
        let mut codes = reasons.iter().map(|reason| reason.code());
        codes.position(|one| one == Some(code))
    };
    let refused = index("ConditionalCheckFailed").map(Transaction::Refused);
    refused.or_else(|| index("TransactionConflict").map(|_| Transaction::Conflict))
}

/// Repeats a write that fails because a transaction on the same item is in progress. The SDK does
/// not retry this error.
async fn retry_on_transaction_conflict<T, E, R>(
    send: impl AsyncFn() -> Result<T, SdkError<E, R>>,
) -> Result<T, SdkError<E, R>>
where
    E: ProvideErrorMetadata,
{
    let mut tries = 0;
    loop {
        match send().await {
            Err(error)
                if tries < 3
                    && error.as_service_error().and_then(|e| e.code())
                        == Some("TransactionConflictException") =>
            {
                tries += 1;
                tokio::time::sleep(
                    Duration::from_millis(20).mul_f64(1.0 + 4.0 * crate::base::backoff::jitter()),
                )
                .await;
            }
            answer => return answer,
        }
    }
}
