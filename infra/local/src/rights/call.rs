//! The IAM permissions that a request needs.

use std::fmt;

use axum::http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::names::arn;

/// The services that functions call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    DynamoDb,
    Sqs,
    S3,
    Ssm,
    SecretsManager,
}

/// One permission that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The action, such as `dynamodb:GetItem`.
    pub(super) action: String,
    /// The ARN of the resource.
    pub(super) on: String,
    /// The values of condition keys, such as `dynamodb:LeadingKeys`.
    pub(super) context: Vec<(String, Vec<String>)>,
}

impl Call {
    pub(super) fn new(action: impl Into<String>, on: String) -> Self {
        Self {
            action: action.into(),
            on,
            context: Vec::new(),
        }
    }

    fn with(mut self, key: &str, values: Vec<String>) -> Self {
        self.context.push((key.to_owned(), values));
        self
    }

    /// Returns the values of a condition key. They are empty if the request has none.
    pub(super) fn values(&self, key: &str) -> &[String] {
        let found = self.context.iter().find(|(name, _)| name == key);
        found
            .map(|(_, values)| values.as_slice())
            .unwrap_or_default()
    }
}

/// Shows only the prefix of each row key, which identifies the kind of row. The whole key is never
/// shown.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.action, self.on)?;
        let keys = self.values(LEADING_KEYS);
        if !keys.is_empty() {
            let kinds = keys.iter().map(|key| key.split('#').next().unwrap_or(key));
            let kinds: Vec<&str> = kinds.collect();
            write!(f, " of {}", kinds.join(", "))?;
        }
        Ok(())
    }
}

const LEADING_KEYS: &str = "dynamodb:LeadingKeys";

/// Returns the permissions that a request needs.
pub(super) fn calls(
    service: Service,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Vec<Call> {
    if service == Service::S3 {
        return s3(method, uri, headers);
    }
    let target = headers.get("x-amz-target").and_then(|it| it.to_str().ok());
    let operation = target.and_then(|target| target.rsplit('.').next());
    let operation = operation.unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match service {
        Service::DynamoDb => dynamodb(operation, &body),
        Service::Ssm => ssm(operation, &body),
        Service::SecretsManager => {
            let name = body["SecretId"].as_str().or(body["Name"].as_str());
            let on = arn(
                "secretsmanager",
                &format!("secret:{}", name.unwrap_or_default()),
            );
            vec![Call::new(format!("secretsmanager:{operation}"), on)]
        }
        Service::Sqs => {
            let queue = body["QueueUrl"].as_str().unwrap_or_default();
            let on = arn("sqs", queue.rsplit('/').next().unwrap_or_default());
            // A batch needs the permission for the action of its entries.
            let action = operation.strip_suffix("Batch").unwrap_or(operation);
            vec![Call::new(format!("sqs:{action}"), on)]
        }
        Service::S3 => Vec::new(),
    }
}

fn ssm(operation: &str, body: &Value) -> Vec<Call> {
    let name = body["Path"].as_str().or(body["Name"].as_str());
    // A label after the name selects a version, and is not part of the ARN.
    let name = name
        .unwrap_or_default()
        .split(':')
        .next()
        .unwrap_or_default();
    let mut call = Call::new(
        format!("ssm:{operation}"),
        arn("ssm", &format!("parameter{name}")),
    );
    if operation == "PutParameter" {
        let overwrite = body["Overwrite"].as_bool().unwrap_or_default();
        call = call.with("ssm:Overwrite", vec![overwrite.to_string()]);
    }
    let mut calls = vec![call];
    // For a reference, Secrets Manager also requires a permission of its own.
    if let Some(id) = name.strip_prefix("/aws/reference/secretsmanager/") {
        let on = arn("secretsmanager", &format!("secret:{id}"));
        calls.push(Call::new("secretsmanager:GetSecretValue", on));
    }
    calls
}

/// Returns the permissions for DynamoDB. A transaction needs the permissions for the actions of its
/// parts.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html>
fn dynamodb(operation: &str, body: &Value) -> Vec<Call> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    match operation {
        "TransactWriteItems" | "TransactGetItems" => {
            let parts = body["TransactItems"].as_array().into_iter().flatten();
            let parts = parts
                .flat_map(members)
                .map(|(name, part)| match name.as_str() {
                    "ConditionCheck" => on_table("ConditionCheckItem", &part),
                    name => on_table(&format!("{name}Item"), &part),
                });
            parts.collect()
        }
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = members(&body["RequestItems"]).into_iter();
            let call = |(table, asked): (String, Value)| {
                let gets = asked["Keys"].as_array().into_iter().flatten();
                let writes = asked.as_array().into_iter().flatten().map(|write| {
                    let put = &write["PutRequest"]["Item"];
                    if put.is_null() {
                        &write["DeleteRequest"]["Key"]
                    } else {
                        put
                    }
                });
                let keys = gets.chain(writes).map(|key| text(&key["pk"])).collect();
                let call = Call::new(format!("dynamodb:{operation}"), table_arn(&table));
                call.with(LEADING_KEYS, keys)
            };
            tables.map(call).collect()
        }
        _ => vec![on_table(operation, body)],
    }
}

fn on_table(operation: &str, body: &Value) -> Call {
    let mut on = table_arn(body["TableName"].as_str().unwrap_or_default());
    if let Some(index) = body["IndexName"].as_str() {
        on = format!("{on}/index/{index}");
    }
    let keys = match operation {
        "PutItem" | "Put" => vec![text(&body["Item"]["pk"])],
        "Query" => {
            let condition = body["KeyConditionExpression"].as_str().unwrap_or_default();
            let value = condition.split_whitespace().nth(2).unwrap_or_default();
            vec![text(&body["ExpressionAttributeValues"][value])]
        }
        // A scan has no key condition.
        "Scan" => Vec::new(),
        _ => vec![text(&body["Key"]["pk"])],
    };
    let mut call = Call::new(format!("dynamodb:{operation}"), on).with(LEADING_KEYS, keys);
    if let Some(returned) = body["ReturnValues"].as_str() {
        call = call.with("dynamodb:ReturnValues", vec![returned.to_owned()]);
    }
    call.with("dynamodb:Attributes", attributes(body))
}

/// Returns the attributes in the key, the item and the expressions of a request.
fn attributes(body: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for named in [&body["Key"], &body["Item"]] {
        found.extend(
            named
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone()),
        );
    }
    for expression in [
        "UpdateExpression",
        "ConditionExpression",
        "ProjectionExpression",
        "FilterExpression",
    ] {
        let text = body[expression].as_str().unwrap_or_default();
        found.extend(names_in(text, &body["ExpressionAttributeNames"]));
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the attribute names in an expression: the first part of each path, without keywords,
/// functions and values.
fn names_in(expression: &str, placeholders: &Value) -> Vec<String> {
    const WORDS: [&str; 8] = ["SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "IN"];
    let legal = |c: char| c.is_alphanumeric() || "_#:.[]".contains(c);
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(legal) {
        let word = &rest[start..];
        let end = word.find(|c| !legal(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        rest = after;
        let name = word.split(['.', '[']).next().unwrap_or_default();
        let is_function = after.trim_start().starts_with('(') && !name.starts_with('#');
        let is_other = WORDS.contains(&name) || name == "BETWEEN" || name.starts_with(':');
        if is_other || is_function || name.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        found.push(placeholders[name].as_str().unwrap_or(name).to_owned());
    }
    found
}

fn table_arn(table: &str) -> String {
    arn("dynamodb", &format!("table/{table}"))
}

fn text(value: &Value) -> String {
    value["S"].as_str().unwrap_or_default().to_owned()
}

fn s3(method: &Method, uri: &Uri, headers: &HeaderMap) -> Vec<Call> {
    let path = uri.path().trim_matches('/');
    let path = percent_decode_str(path).decode_utf8_lossy();
    let on = format!("arn:aws:s3:::{path}");
    let query = uri.query().unwrap_or_default();
    let about = |name: &str| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some(name))
    };
    let action = match (method.as_str(), path.contains('/')) {
        ("GET", false) if about("versions") => "ListBucketVersions",
        ("GET" | "HEAD", false) => "ListBucket",
        ("GET", true) if about("tagging") => "GetObjectTagging",
        ("GET" | "HEAD", true) => "GetObject",
        ("PUT", true) if about("tagging") => "PutObjectTagging",
        ("PUT", true) => "PutObject",
        ("DELETE", true) => "DeleteObject",
        _ => "Unknown",
    };
    let mut calls = vec![Call::new(format!("s3:{action}"), on.clone())];
    if action == "PutObject" && headers.contains_key("x-amz-tagging") {
        calls.push(Call::new("s3:PutObjectTagging", on));
    }
    calls
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(operation: &str, body: &Value) -> Vec<Call> {
        let mut headers = HeaderMap::new();
        let target = format!("DynamoDB_20120810.{operation}").parse().unwrap();
        headers.insert("x-amz-target", target);
        let body = body.to_string();
        calls(
            Service::DynamoDb,
            &Method::POST,
            &Uri::from_static("/"),
            &headers,
            body.as_bytes(),
        )
    }

    #[test]
    fn a_request_is_about_the_keys_that_it_names() {
        let table = arn("dynamodb", "table/t");
        let query = json!({ "TableName": "t", "IndexName": "work", "KeyConditionExpression": "gpk = :g",
            "ExpressionAttributeValues": { ":g": { "S": "W#1" } } });
        let [call] = of("Query", &query).try_into().unwrap();
        assert_eq!(
            (call.action.as_str(), &call.on),
            ("dynamodb:Query", &format!("{table}/index/work"))
        );
        assert_eq!(call.values(LEADING_KEYS), ["W#1"]);
        let batch = json!({ "RequestItems": { "t": { "Keys": [{ "pk": { "S": "E#1" } }, { "pk": { "S": "E#2" } }] } } });
        let [call] = of("BatchGetItem", &batch).try_into().unwrap();
        assert_eq!(call.values(LEADING_KEYS), ["E#1", "E#2"]);
        let write = json!({ "TransactItems": [
            { "Update": { "TableName": "t", "Key": { "pk": { "S": "E#1" } } } },
            { "ConditionCheck": { "TableName": "t", "Key": { "pk": { "S": "SYS" } } } },
        ] });
        let actions: Vec<String> = of("TransactWriteItems", &write)
            .into_iter()
            .map(|it| it.action)
            .collect();
        assert_eq!(
            actions,
            ["dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"]
        );
    }

    #[test]
    fn an_update_names_its_attributes() {
        let update = json!({ "TableName": "t", "Key": { "pk": { "S": "E#1" }, "sk": { "S": "M" } },
            "UpdateExpression": "SET also_webhook = if_not_exists(also_webhook, :now), #n.x = :x REMOVE h[0]",
            "ConditionExpression": "via = :via AND attribute_exists(pk)",
            "ExpressionAttributeNames": { "#n": "note" } });
        let [call] = of("UpdateItem", &update).try_into().unwrap();
        let names = ["also_webhook", "h", "note", "pk", "sk", "via"];
        assert_eq!(call.values("dynamodb:Attributes"), names);
    }
}
