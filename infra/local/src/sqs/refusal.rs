//! Errors of SQS: a code for programs and a message for people.

use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn no_such_queue() -> Self {
        Self::new(
            "AWS.SimpleQueueService.NonExistentQueue",
            "The specified queue does not exist.",
        )
    }

    pub(crate) fn bad_handle(handle: &str) -> Self {
        Self::new(
            "ReceiptHandleIsInvalid",
            format!("The input receipt handle \"{handle}\" is not a valid receipt handle."),
        )
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterValue", message)
    }

    pub(crate) fn missing(parameter: &str) -> Self {
        Self::new(
            "MissingParameter",
            format!("The request must contain the parameter {parameter}."),
        )
    }

    /// Returns the error in the JSON protocol, with the name of the shape in the service model.
    pub(crate) fn body(&self) -> Value {
        let shape = match self.code {
            "AWS.SimpleQueueService.NonExistentQueue" => "com.amazonaws.sqs#QueueDoesNotExist",
            "AWS.SimpleQueueService.EmptyBatchRequest" => "com.amazonaws.sqs#EmptyBatchRequest",
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest" => {
                "com.amazonaws.sqs#TooManyEntriesInBatchRequest"
            }
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct" => {
                "com.amazonaws.sqs#BatchEntryIdsNotDistinct"
            }
            "AWS.SimpleQueueService.BatchRequestTooLong" => "com.amazonaws.sqs#BatchRequestTooLong",
            "AWS.SimpleQueueService.InvalidBatchEntryId" => "com.amazonaws.sqs#InvalidBatchEntryId",
            "AWS.SimpleQueueService.MessageNotInflight" => "com.amazonaws.sqs#MessageNotInflight",
            "ReceiptHandleIsInvalid" => "com.amazonaws.sqs#ReceiptHandleIsInvalid",
            "InvalidMessageContents" => "com.amazonaws.sqs#InvalidMessageContents",
            "InvalidAttributeName" => "com.amazonaws.sqs#InvalidAttributeName",
            "QueueAlreadyExists" => "com.amazonaws.sqs#QueueNameExists",
            "ResourceNotFoundException" => "com.amazonaws.sqs#ResourceNotFoundException",
            "UnsupportedOperation" => "com.amazonaws.sqs#UnsupportedOperation",
            "InvalidParameterValue" => "com.amazon.coral.service#InvalidParameterValueException",
            "MissingParameter" => "com.amazon.coral.service#MissingRequiredParameterException",
            other => other,
        };
        json!({ "__type": shape, "message": self.message })
    }

    /// Returns the code of the older query protocol, which SDKs prefer to the name of the shape.
    pub(crate) fn query_error(&self) -> String {
        format!("{};Sender", self.code)
    }
}
