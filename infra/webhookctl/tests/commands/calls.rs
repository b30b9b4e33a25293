//! The IAM permissions that a request needs.

use local::Template;
use local::names::{ACCOUNT, REGION};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::recorder::Service;
use testkit::wire::Message;

/// One permission that a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// The IAM action, such as `dynamodb:GetItem`.
    pub(crate) action: String,
    /// The ARN of the resource.
    pub(crate) on: String,
    /// The partition keys, if the request is to a table.
    pub(crate) keys: Vec<String>,
}

impl Call {
    fn new(action: impl Into<String>, on: String) -> Self {
        Self {
            action: action.into(),
            on,
            keys: Vec::new(),
        }
    }

    /// Returns whether the call changes nothing. To receive a message is not a read, because it
    /// hides the message from other receivers.
    pub(crate) fn reads(&self) -> bool {
        let name = self.action.split(':').nth(1).unwrap_or_default();
        let reads = ["Get", "BatchGet", "Query", "List", "Head", "Describe"];
        reads.iter().any(|start| name.starts_with(start))
    }

    /// Returns this call, and the calls that the service then makes on the caller's behalf.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html>
    pub(crate) fn with_what_follows(self, template: &Template) -> Vec<Self> {
        let on_it: &[&str] = match self.action.as_str() {
            "sqs:StartMessageMoveTask" | "sqs:ListMessageMoveTasks" => &[
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
            ],
            _ => &[],
        };
        let on_it = on_it
            .iter()
            .map(|action| Self::new(*action, self.on.clone()));
        let mut all: Vec<Self> = on_it.collect();
        if self.action == "sqs:StartMessageMoveTask" {
            // SQS moves each message to the queue from which it came, and so sends to that queue.
            let origins = template.queues.values().filter(|queue| {
                let policy = queue.attributes.get("RedrivePolicy");
                policy.is_some_and(|policy| policy.contains(&format!("\"{}\"", self.on)))
            });
            all.extend(origins.map(|queue| Self::new("sqs:SendMessage", queue.arn.clone())));
        }
        all.push(self);
        all
    }
}

/// Returns the permissions that a request needs.
pub(crate) fn calls(service: Service, request: &Message) -> Vec<Call> {
    let target = request.header("x-amz-target").unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match service {
        Service::DynamoDb => dynamodb(operation, &body),
        Service::Ssm => {
            let name = body["Path"].as_str().or(body["Name"].as_str());
            // A label after the name selects a version. It is not part of the ARN.
            let name = name.unwrap_or_default().split(':').next();
            let name = name.unwrap_or_default();
            let on = arn("ssm", &format!("parameter{name}"));
            let mut calls = vec![Call::new(format!("ssm:{operation}"), on)];
            // Parameter Store passes the request on to Secrets Manager, which also needs a
            // permission.
            if let Some(id) = name.strip_prefix("/aws/reference/secretsmanager/") {
                let on = arn("secretsmanager", &format!("secret:{id}"));
                calls.push(Call::new("secretsmanager:GetSecretValue", on));
            }
            calls
        }
        Service::SecretsManager => {
            let name = body["SecretId"].as_str().or(body["Name"].as_str());
            let on = arn(
                "secretsmanager",
                &format!("secret:{}", name.unwrap_or_default()),
            );
            vec![Call::new(format!("secretsmanager:{operation}"), on)]
        }
        Service::Sqs => {
            let queue = body["QueueUrl"].as_str().or(body["SourceArn"].as_str());
            let queue = queue.unwrap_or_default().rsplit(['/', ':']).next();
            let on = arn("sqs", queue.unwrap_or_default());
            vec![Call::new(format!("sqs:{operation}"), on)]
        }
        Service::Lambda => {
            let name = request.path().split('/').nth(3).unwrap_or_default();
            let name = percent_decode_str(name).decode_utf8_lossy();
            let name = name.rsplit(':').next().unwrap_or_default();
            let on = arn("lambda", &format!("function:{name}"));
            let path = request.path().split('?').next().unwrap_or_default();
            let (action, on) = if path.ends_with("/configuration") {
                ("GetFunctionConfiguration", on)
            } else if path.contains("/event-source-mappings") {
                // IAM cannot limit this action to one function.
                // <https://docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html>
                ("ListEventSourceMappings", "*".to_owned())
            } else if path.contains("/account-settings") {
                ("GetAccountSettings", "*".to_owned())
            } else {
                ("InvokeFunction", on)
            };
            vec![Call::new(format!("lambda:{action}"), on)]
        }
        Service::CloudWatch => {
            // The request has only a prefix of names, so it needs a permission for all alarms.
            let operation = request.path().rsplit('/').next().unwrap_or_default();
            let on = arn("cloudwatch", "alarm:*");
            vec![Call::new(format!("cloudwatch:{operation}"), on)]
        }
        // GetCallerIdentity needs no permission.
        // <https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html>
        Service::Sts => Vec::new(),
        Service::S3 => s3(request),
    }
}

fn arn(service: &str, on: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{on}")
}

/// A transaction needs the actions of its parts.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html>
fn dynamodb(operation: &str, body: &Value) -> Vec<Call> {
    match operation {
        "TransactWriteItems" => {
            let parts = body["TransactItems"].as_array().into_iter().flatten();
            let parts = parts.filter_map(|part| part.as_object()?.iter().next());
            let one = |(name, part): (&String, &Value)| {
                let name = match name.as_str() {
                    "ConditionCheck" => "ConditionCheckItem".to_owned(),
                    name => format!("{name}Item"),
                };
                table_call(&name, part)
            };
            parts.map(one).collect()
        }
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            let one = |(table, asked): (&String, &Value)| {
                let keys = asked["Keys"].as_array().into_iter().flatten();
                let mut call = Call::new("dynamodb:BatchGetItem", table_arn(table));
                call.keys = keys.map(|key| text(&key["pk"])).collect();
                call
            };
            tables.map(one).collect()
        }
        "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            let one = |(table, asked): (&String, &Value)| {
                let puts = asked.as_array().into_iter().flatten();
                let mut call = Call::new("dynamodb:BatchWriteItem", table_arn(table));
                let keys = puts.map(|put| text(&put["PutRequest"]["Item"]["pk"]));
                call.keys = keys.collect();
                call
            };
            tables.map(one).collect()
        }
        _ => vec![table_call(operation, body)],
    }
}

fn table_call(operation: &str, body: &Value) -> Call {
    let table = body["TableName"].as_str().unwrap_or_default();
    let mut on = table_arn(table);
    if let Some(index) = body["IndexName"].as_str() {
        on = format!("{on}/index/{index}");
    }
    let key = match operation {
        "PutItem" => text(&body["Item"]["pk"]),
        "Query" => {
            let condition = body["KeyConditionExpression"].as_str().unwrap_or_default();
            let value = condition.split_whitespace().nth(2).unwrap_or_default();
            text(&body["ExpressionAttributeValues"][value])
        }
        _ => text(&body["Key"]["pk"]),
    };
    let mut call = Call::new(format!("dynamodb:{operation}"), on);
    call.keys = vec![key];
    call
}

fn table_arn(table: &str) -> String {
    arn("dynamodb", &format!("table/{table}"))
}

fn text(value: &Value) -> String {
    value["S"].as_str().unwrap_or_default().to_owned()
}

fn s3(request: &Message) -> Vec<Call> {
    let method = request.head.split(' ').next().unwrap_or_default();
    let (path, query) = match request.path().split_once('?') {
        Some((path, query)) => (path, query),
        None => (request.path(), ""),
    };
    let on = format!("arn:aws:s3:::{}", path.trim_matches('/'));
    let names = |name: &str| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some(name))
    };
    let is_object = path.trim_matches('/').contains('/');
    let action = match (method, is_object) {
        ("GET", false) if names("versions") => "ListBucketVersions",
        ("GET" | "HEAD", false) => "ListBucket",
        ("GET" | "HEAD", true) => "GetObject",
        ("PUT", true) if names("tagging") => "PutObjectTagging",
        ("PUT", true) => "PutObject",
        ("DELETE", true) if names("versionId") => "DeleteObjectVersion",
        ("DELETE", true) => "DeleteObject",
        _ => "Unknown",
    };
    let mut calls = vec![Call::new(format!("s3:{action}"), on.clone())];
    if action == "PutObject" && request.header("x-amz-tagging").is_some() {
        calls.push(Call::new("s3:PutObjectTagging", on));
    }
    calls
}
