//! What Lambda passes to the processor: a batch of messages, or a request of the HTTP API (payload
//! format 2.0). And the answer to each of them.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>

use std::borrow::Cow;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The payload of an invocation. The type has the fields of both kinds of payloads, so that a batch
/// is read in one pass and does not pay for the other kind.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    #[serde(rename = "Records")]
    records: Option<Vec<SqsMessage>>,
    #[serde(default)]
    raw_path: String,
    #[serde(default)]
    request_context: Context,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Context {
    #[serde(default)]
    authorizer: Option<Authorizer>,
}

#[derive(Debug, Default, Deserialize)]
struct Authorizer {
    #[serde(default)]
    iam: Option<Iam>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iam {
    #[serde(default)]
    user_arn: Option<String>,
}

/// What an invocation asks for.
#[derive(Debug)]
pub enum Invocation {
    Batch(SqsEvent),
    Request(Request),
}

/// A request of a worker.
#[derive(Debug, Default)]
pub struct Request {
    path: String,
    /// The ARN of the caller, whose signature API Gateway has verified.
    pub(super) user_arn: Option<String>,
    body: Option<String>,
    is_base64_encoded: bool,
}

/// What the processor returns to Lambda.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Batch(SqsBatchResponse),
    Answer(Answer),
}

/// A response of the HTTP API. Each body is a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    status_code: u16,
    headers: AnswerHeaders,
    body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct AnswerHeaders {
    #[serde(rename = "content-type")]
    content_type: &'static str,
    #[serde(rename = "cache-control")]
    cache_control: &'static str,
}

impl Payload {
    pub fn invocation(self) -> Invocation {
        if let Some(records) = self.records {
            let mut batch = SqsEvent::default();
            batch.records = records;
            return Invocation::Batch(batch);
        }
        let iam = self.request_context.authorizer.and_then(|it| it.iam);
        Invocation::Request(Request {
            path: self.raw_path,
            user_arn: iam.and_then(|it| it.user_arn),
            body: self.body,
            is_base64_encoded: self.is_base64_encoded,
        })
    }
}

impl Request {
    /// Returns the queue and the operation of the path `/work/{queue}/{op}`. A stage or a mapping of
    /// a domain name can add a prefix.
    pub(super) fn place(&self) -> Option<(&str, &str)> {
        let (_, rest) = self.path.split_once("/work/")?;
        let (queue, op) = rest.split_once('/')?;
        (!queue.is_empty() && !op.is_empty() && !op.contains('/')).then_some((queue, op))
    }

    /// Returns the bytes of the body, or `None` if it is marked as base64 and is not.
    pub(super) fn body(&self) -> Option<Cow<'_, [u8]>> {
        let body = self.body.as_deref().unwrap_or_default();
        if !self.is_base64_encoded {
            return Some(Cow::Borrowed(body.as_bytes()));
        }
        STANDARD.decode(body).ok().map(Cow::Owned)
    }
}

impl Answer {
    pub(super) fn new(status: u16, body: &Value) -> Self {
        Self::of_text(status, body.to_string())
    }

    /// Returns an answer with a JSON document.
    pub(super) fn of_text(status: u16, body: String) -> Self {
        Self {
            status_code: status,
            headers: AnswerHeaders {
                content_type: "application/json",
                cache_control: "no-store",
            },
            body,
        }
    }

    pub fn status(&self) -> u16 {
        self.status_code
    }

    /// Returns the JSON document.
    pub fn body(&self) -> &str {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: &Value) -> Invocation {
        let payload: Payload = serde_json::from_str(&payload.to_string()).unwrap();
        payload.invocation()
    }

    #[test]
    fn a_batch_is_a_batch_and_anything_else_a_request() {
        let batch = json!({ "Records": [{ "messageId": "1", "body": "{}" }] });
        let Invocation::Batch(batch) = read(&batch) else {
            panic!("not a batch");
        };
        assert_eq!(batch.records[0].message_id.as_deref(), Some("1"));
        let request = json!({
            "version": "2.0",
            "rawPath": "/work/triage/next",
            "headers": { "authorization": "AWS4-HMAC-SHA256 …" },
            "requestContext": { "authorizer": { "iam": { "userArn": "arn:…" } }, "http": {} },
            "body": "e30=",
            "isBase64Encoded": true,
        });
        let Invocation::Request(request) = read(&request) else {
            panic!("not a request");
        };
        assert_eq!(request.place(), Some(("triage", "next")));
        assert_eq!(request.user_arn.as_deref(), Some("arn:…"));
        assert_eq!(request.body().as_deref(), Some(b"{}".as_slice()));
        assert!(matches!(read(&json!({})), Invocation::Request(_)));
    }

    #[test]
    fn only_a_queue_and_an_operation_are_a_place() {
        let place = |path: &str| {
            let request = Request {
                path: path.to_owned(),
                ..Request::default()
            };
            request.place().map(|(queue, op)| format!("{queue} {op}"))
        };
        assert_eq!(place("/work/a/next").as_deref(), Some("a next"));
        assert_eq!(place("/prod/work/a/next").as_deref(), Some("a next"));
        for path in [
            "",
            "/work",
            "/work/a",
            "/work/a/",
            "/work//next",
            "/work/a/b/c",
        ] {
            assert_eq!(place(path), None, "{path}");
        }
    }
}
