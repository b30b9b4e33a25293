//! Tests the heartbeats of backup-sync, which record when each task last ended.

use crate::support::{NOW, Table, after};

#[tokio::test]
async fn each_round_is_known_by_its_last_end() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    assert!(ledger.operations().heartbeats().await.unwrap().is_empty());
    ledger.operations().beat("sweep", NOW).await.unwrap();
    ledger.operations().beat("drain", NOW).await.unwrap();
    ledger
        .operations()
        .beat("sweep", after(60_000))
        .await
        .unwrap();
    let beats = ledger.operations().heartbeats().await.unwrap();
    let expected = [
        ("drain".to_owned(), NOW),
        ("sweep".to_owned(), after(60_000)),
    ];
    assert_eq!(beats, expected.into());
}
