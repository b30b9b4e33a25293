//! Reads the operators' actions in the audit log.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Item;

/// Returns the actions of this month, without those of `dev` itself.
pub(crate) async fn deeds(dynamodb: &Client, table: &str) -> anyhow::Result<Vec<Item>> {
    let month = format!("LOG#{}", &UnixMillis::now().hour()[..6]);
    let query = dynamodb.query().table_name(table);
    let query = query.key_condition_expression("pk = :month");
    let query = query.expression_attribute_values(":month", AttributeValue::S(month));
    let query = query.filter_expression("who <> :dev");
    let dev = AttributeValue::S("webhookctl dev".to_owned());
    let query = query.expression_attribute_values(":dev", dev);
    Ok(query.send().await?.items.unwrap_or_default())
}
