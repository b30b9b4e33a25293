//! The tests of the recipes in `infra/examples` invoke them with what the processor sends.

use serde_json::{Value, json};
use testkit::root;

use super::World;

#[tokio::test]
async fn recipes_are_tested_with_what_the_processor_sends() {
    let world = World::start(&["SQS"]).await;
    let body = json!({ "type": "invoice.paid" });
    let key = world.event("every-kind", "push", &body).await;
    world.server.forget();
    world.ring(&[&key]).await;
    let mut lambda = world
        .server
        .only("/2015-03-31/functions/orders%3Alive/invocations")
        .json();
    let mut expected = fixture("lambda.json");
    for document in [&mut lambda, &mut expected] {
        assert!(document["request"]["headers"].is_object());
        // The names of the headers depend on the provider.
        document["request"]["headers"] = json!("");
    }
    assert_eq!(shape(&lambda), shape(&expected));

    let sent = world.server.all("AmazonSQS.SendMessage");
    let sent = sent.iter().map(super::server::Seen::json);
    let plain: Vec<Value> = sent
        .filter(|sent| sent["MessageGroupId"].is_null())
        .collect();
    let [plain] = plain.as_slice() else {
        panic!("{plain:?}")
    };
    assert_eq!(shape(plain), shape(&fixture("sqs.json")));
}

fn fixture(name: &str) -> Value {
    let path = root().join("infra/tests/recipes").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the names of the fields and the types of the values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), shape(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => json!("null"),
    }
}
