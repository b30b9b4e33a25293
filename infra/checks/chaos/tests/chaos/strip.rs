//! Removes a protection from requests, to check that the protection is needed. This is possible
//! because the emulators check no signatures.

use serde_json::Value;

use crate::fault_schedule::Protection;
use testkit::wire::Message;

const FENCE: &str = "st = :processing AND epoch = :epoch AND own = :own";
const NEW: &str = "attribute_not_exists(pk)";

/// The sort key of markers. A marker names the event of a body or of a signed message.
const MARKER: &str = "S";

/// Returns the request without the protection, or `None` if the request does not contain the
/// protection.
pub(crate) fn strip(request: &Message, without: Option<Protection>) -> Option<Message> {
    let (operation, clause, sk) = match without? {
        Protection::Fence => ("UpdateItem", FENCE, None),
        Protection::Condition => ("PutItem", NEW, None),
        Protection::SecondLook => ("PutItem", "", Some(MARKER)),
        _ => return None,
    };
    if !request.header("x-amz-target")?.ends_with(operation) {
        return None;
    }
    let mut body: Value = serde_json::from_slice(&request.body).ok()?;
    let condition = body["ConditionExpression"].as_str()?;
    let is_of = |sk| body["Item"]["sk"]["S"] == sk;
    if !condition.contains(clause) || !sk.is_none_or(is_of) {
        return None;
    }
    // This condition is always true, because the row either exists or does not exist.
    body["ConditionExpression"] = "attribute_exists(pk) OR attribute_not_exists(pk)".into();
    drop_unused(&mut body, "ExpressionAttributeValues");
    drop_unused(&mut body, "ExpressionAttributeNames");
    Some(request.with_body(body.to_string().into()))
}

/// `DynamoDB` rejects values and names that no expression uses.
fn drop_unused(body: &mut Value, field: &str) {
    let expressions = ["ConditionExpression", "UpdateExpression"]
        .map(|name| body[name].as_str().unwrap_or_default())
        .join(" ");
    let used: Vec<&str> = expressions
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':' | '#')))
        .collect();
    let Some(entries) = body.get_mut(field).and_then(Value::as_object_mut) else {
        return;
    };
    entries.retain(|name, _| used.contains(&name.as_str()));
    if entries.is_empty()
        && let Some(body) = body.as_object_mut()
    {
        body.remove(field);
    }
}

#[test]
fn what_is_taken_off_leaves_a_request_that_is_accepted() {
    let body = serde_json::json!({
        "ConditionExpression": format!("{FENCE} AND (attribute_not_exists(fx.#n) OR fx.#n.s <> :done)"),
        "UpdateExpression": "SET st = :done, done_by = :own",
        "ExpressionAttributeValues": { ":processing": {"S": "processing"}, ":epoch": {"N": "1"},
            ":own": {"S": "me"}, ":done": {"S": "done"} },
        "ExpressionAttributeNames": { "#n": "http" },
    });
    let head = "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.UpdateItem\r\nContent-Length: 0\r\n\r\n";
    let request = Message {
        head: head.to_owned(),
        body: body.to_string().into(),
    };
    assert!(strip(&request, None).is_none());
    assert!(strip(&request, Some(Protection::Condition)).is_none());
    let stripped = strip(&request, Some(Protection::Fence)).unwrap();
    let body: Value = serde_json::from_slice(&stripped.body).unwrap();
    let names: Vec<_> = body["ExpressionAttributeValues"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(names, [":done", ":own"]);
    assert!(body.get("ExpressionAttributeNames").is_none());
    let length = stripped.header("content-length").unwrap();
    assert_eq!(length, stripped.body.len().to_string());
}

#[test]
fn only_the_put_of_a_marker_is_made_blind() {
    let put = |sk: &str| {
        let body = serde_json::json!({
            "Item": { "pk": {"S": "E#s#~00"}, "sk": {"S": sk}, "ek": {"S": "E#s#1"} },
            "ConditionExpression": "attribute_not_exists(pk) OR ek = :ek",
            "ExpressionAttributeValues": { ":ek": {"S": "E#s#1"} },
        });
        let head = "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\nContent-Length: 0\r\n\r\n";
        let request = Message {
            head: head.to_owned(),
            body: body.to_string().into(),
        };
        strip(&request, Some(Protection::SecondLook))
    };
    assert!(put("M").is_none());
    let stripped = put(MARKER).unwrap();
    let body: Value = serde_json::from_slice(&stripped.body).unwrap();
    assert!(body.get("ExpressionAttributeValues").is_none());
}
