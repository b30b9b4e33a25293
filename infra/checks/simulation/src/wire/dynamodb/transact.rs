//! Executes transactions: all writes, or none.

use serde_json::json;

use super::request::{Request, TransactItem};
use super::{Refusal, Table};

impl Table {
    pub(super) fn transact(
        &mut self,
        request: Request,
        body: &[u8],
        now: i64,
    ) -> Result<String, Refusal> {
        if let Some(token) = &request.client_request_token {
            match self.tokens.get(token) {
                Some(before) if before == body => return Ok("{}".to_owned()),
                Some(_) => return Err(Refusal::Token),
                None => {}
            }
        }
        let mut writes = Vec::new();
        let mut reasons = Vec::new();
        for item in request.transact_items {
            let prepared = match item {
                TransactItem::Put(request) => self.prepare_put(request).map(Some),
                TransactItem::Update(request) => self.prepare_update(request).map(Some),
                TransactItem::Delete(request) => self.prepare_delete(request).map(Some),
                TransactItem::ConditionCheck(request) => self.prepare_delete(request).map(|_| None),
            };
            match prepared {
                Ok(write) => {
                    writes.extend(write);
                    reasons.push(json!({ "Code": "None" }));
                }
                Err(Refusal::Condition(old)) => {
                    let mut reason = json!({
                        "Code": "ConditionalCheckFailed",
                        "Message": "The conditional request failed",
                    });
                    if let Some(old) = old {
                        reason["Item"] = json!(old);
                    }
                    reasons.push(reason);
                }
                Err(other) => return Err(other),
            }
        }
        if reasons.iter().any(|reason| reason["Code"] != "None") {
            return Err(Refusal::Cancelled(reasons));
        }
        for write in writes {
            self.apply(write, now)?;
        }
        if let Some(token) = request.client_request_token {
            self.tokens.insert(token, body.to_vec());
        }
        Ok("{}".to_owned())
    }
}
