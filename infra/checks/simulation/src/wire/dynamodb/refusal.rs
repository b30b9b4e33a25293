//! The errors with which a request fails.

use serde_json::{Value as Json, json};

use super::value::Item;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The condition did not hold. Contains the current item if requested.
    Condition(Option<Item>),
    /// A cancelled transaction, with the reason of each of its writes.
    Cancelled(Vec<Json>),
    /// The token of the transaction was already used for another transaction.
    Token,
    /// DynamoDB would also reject the request.
    Invalid(String),
    /// This store does not support the request. It fails instead of guessing the behaviour.
    Unknown(String),
}

impl Refusal {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self::Unknown(text.into())
    }

    /// Returns the body of the answer with status 400.
    pub fn body(&self) -> String {
        let kind = |name: &str| format!("com.amazonaws.dynamodb.v20120810#{name}");
        let body = match self {
            Self::Condition(item) => {
                let kind = kind("ConditionalCheckFailedException");
                let text = "The conditional request failed";
                match item {
                    Some(item) => json!({ "__type": kind, "message": text, "Item": item }),
                    None => json!({ "__type": kind, "message": text }),
                }
            }
            Self::Cancelled(reasons) => json!({
                "__type": kind("TransactionCanceledException"),
                "message": "Transaction cancelled",
                "CancellationReasons": reasons,
            }),
            Self::Token => json!({
                "__type": kind("IdempotentParameterMismatchException"),
                "message": "the token belongs to another transaction",
            }),
            Self::Invalid(text) => {
                json!({ "__type": kind("ValidationException"), "message": text })
            }
            Self::Unknown(text) => json!({
                "__type": kind("ValidationException"),
                "message": format!("the simulated DynamoDB does not support {text}"),
            }),
        };
        body.to_string()
    }
}
