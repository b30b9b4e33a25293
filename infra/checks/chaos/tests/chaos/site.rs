//! The calls that the functions make to services.

use crate::faults::Fault;
use testkit::wire::Message;

/// The calls that handle a webhook, and the calls that each sweep makes.
pub(crate) const SITES: [&str; 12] = [
    "put event",
    "put body",
    "store body",
    "ring",
    "claim",
    "settle",
    "read",
    "fetch body",
    "list",
    "depth",
    "catcher's secrets",
    "processor's secrets",
];

/// One call, and the way in which it fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) site: &'static str,
    pub(crate) fault: Fault,
}

impl Cell {
    pub(crate) fn is_met_by(self, service: &str, request: &Message) -> bool {
        site(service, request) == Some(self.site)
    }
}

/// Returns the call that a request belongs to.
fn site(service: &str, request: &Message) -> Option<&'static str> {
    let body = String::from_utf8_lossy(&request.body);
    let target = request.header("x-amz-target").unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    match (service, operation) {
        ("DYNAMODB", "PutItem") if body.contains(r#""sk":{"S":"M"}"#) => Some("put event"),
        ("DYNAMODB", "PutItem") if body.contains(r#""sk":{"S":"B#"#) => Some("put body"),
        ("DYNAMODB", "UpdateItem") if body.contains("ADD epoch") => Some("claim"),
        ("DYNAMODB", "UpdateItem") if body.contains(r#"":epoch""#) => Some("settle"),
        ("DYNAMODB", "GetItem") => Some("read"),
        ("DYNAMODB", "Query") => Some("list"),
        ("SQS", "SendMessage") => Some("ring"),
        ("SQS", "GetQueueAttributes") => Some("depth"),
        ("S3", _) if request.head.starts_with("PUT") => Some("store body"),
        ("S3", _) if request.head.starts_with("GET") => Some("fetch body"),
        ("SSM", _) if body.contains("ingress") => Some("catcher's secrets"),
        ("SSM", _) if body.contains("egress") => Some("processor's secrets"),
        _ => None,
    }
}
