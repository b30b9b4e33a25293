//! Requests to DynamoDB in the wire format. An unknown field is rejected.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::refusal::Refusal;
use super::value::Item;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub(super) struct Request {
    pub table_name: String,
    pub item: Option<Item>,
    pub key: Option<Item>,
    pub condition_expression: Option<String>,
    pub update_expression: Option<String>,
    pub key_condition_expression: Option<String>,
    pub filter_expression: Option<String>,
    pub projection_expression: Option<String>,
    pub expression_attribute_values: Item,
    pub expression_attribute_names: BTreeMap<String, String>,
    pub return_values: Option<String>,
    pub return_values_on_condition_check_failure: Option<String>,
    pub consistent_read: bool,
    pub index_name: Option<String>,
    pub limit: Option<usize>,
    pub exclusive_start_key: Option<Item>,
    pub scan_index_forward: Option<bool>,
    pub select: Option<String>,
    pub transact_items: Vec<TransactItem>,
    pub client_request_token: Option<String>,
    /// The value is ignored, because the simulation has no prices.
    #[serde(rename = "ReturnConsumedCapacity")]
    pub _return_consumed_capacity: Option<String>,
    #[serde(rename = "RequestItems")]
    pub batch: BTreeMap<String, BatchRead>,
}

/// The keys that a batch reads from a table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct BatchRead {
    pub keys: Vec<Item>,
    pub projection_expression: Option<String>,
    /// The value is ignored, because the items of the table are always current.
    #[serde(rename = "ConsistentRead", default)]
    pub _consistent_read: bool,
}

/// One write of a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) enum TransactItem {
    Put(Request),
    Update(Request),
    Delete(Request),
    ConditionCheck(Request),
}

impl Request {
    pub(super) fn read(body: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(body)
            .map_err(|error| Refusal::unknown(format!("this request: {error}")))
    }

    /// Returns whether the answer contains the item if the condition does not hold.
    pub(super) fn shows_old(&self) -> Result<bool, Refusal> {
        match self.return_values_on_condition_check_failure.as_deref() {
            None | Some("NONE") => Ok(false),
            Some("ALL_OLD") => Ok(true),
            Some(other) => Err(Refusal::unknown(format!(
                "ReturnValuesOnConditionCheckFailure {other}"
            ))),
        }
    }
}
