//! Tests an event of a queue that waits for an approval. A rule can hold an event that a worker has
//! claimed before, so its row keeps the queue.

use aws_sdk_dynamodb::types::AttributeValue;
use shared::inbox::ledger::{Item, WorkClaim};

use super::{claim, park};
use crate::support::{NOW, Table, s};

#[tokio::test]
async fn no_worker_claims_a_held_event_of_its_queue() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let hold = AttributeValue::M(Item::from([("id".to_owned(), s("0123456789ab"))]));
    let before = table.edit(&key, |row| {
        row.insert("hld".to_owned(), hold);
    });
    let before = before.await;
    assert!(matches!(claim(&table, &key, NOW).await, WorkClaim::Busy));
    assert_eq!(table.row(&key).await, before);
}
