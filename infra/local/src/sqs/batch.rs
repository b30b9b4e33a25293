//! The rules and the response format that all batch requests share.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{actions::Answer, refusal::Refusal};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch<T> {
    pub(super) queue_url: String,
    pub(super) entries: Vec<T>,
}

/// Checks the rules of all batches: 1 to 10 entries, with valid and distinct ids.
pub(super) fn check<'a>(ids: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() {
        return Err(Refusal::new(
            "AWS.SimpleQueueService.EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ));
    }
    if ids.len() > 10 {
        return Err(Refusal::new(
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            format!(
                "Maximum number of entries per request are 10. You have sent {}.",
                ids.len()
            ),
        ));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if ids
        .iter()
        .any(|id| id.is_empty() || id.len() > 80 || !id.chars().all(legal))
    {
        return Err(Refusal::new(
            "AWS.SimpleQueueService.InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
             It can be at most 80 letters long.",
        ));
    }
    if let Some(twice) = ids
        .iter()
        .enumerate()
        .find(|(at, id)| ids[..*at].contains(id))
    {
        return Err(Refusal::new(
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            format!("Id {} repeated.", twice.1),
        ));
    }
    Ok(())
}

/// The response to a batch: each entry succeeds or fails independently.
#[derive(Default)]
pub(super) struct Results {
    successful: Vec<Value>,
    failed: Vec<Value>,
}

impl Results {
    pub(super) fn add(&mut self, id: &str, result: Answer) {
        match result {
            Ok(mut entry) => {
                entry["Id"] = json!(id);
                self.successful.push(entry);
            }
            Err(refusal) => self.failed.push(json!({
                "Id": id, "SenderFault": true, "Code": refusal.code, "Message": refusal.message,
            })),
        }
    }

    pub(super) fn answer(self) -> Value {
        json!({ "Successful": self.successful, "Failed": self.failed })
    }
}
