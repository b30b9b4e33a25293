//! The answers of destinations are kept beside the row, and deleted with the content of the event.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::delivery::answers::{Answers, KeptAnswer};
use shared::inbox::ledger::{By, EffectState, Erased, Row};
use shared::webhook::event::EventKey;

use crate::settle::effect;
use crate::support::{NOW, Table, after, dead, event, n, retry_at, text};

fn answer(attempt: u32, status: Option<u16>, said: Option<&str>) -> KeptAnswer {
    KeptAnswer {
        effect: "http".into(),
        run: 0,
        attempt,
        at: after(u64::from(attempt)),
        took: Duration::from_millis(31),
        status,
        request_id: status.map(|_| "req_1".into()),
        content_type: status.map(|_| "text/plain".into()),
        text: said.map(str::to_owned),
    }
}

impl Table {
    async fn ledger_row(&self, key: &EventKey) -> Row {
        self.ledger.event(key).await.unwrap().unwrap()
    }

    /// Makes an attempt with the effect `http`, which fails.
    async fn fail(&self, key: &EventKey, last: bool) {
        let lease = self.lease(key, NOW).await;
        let effects = [("http".to_owned(), effect(EffectState::Not))];
        let end = if last { dead() } else { retry_at(NOW) };
        let settled = self.ledger.settle(lease, end, &effects, NOW);
        settled.await.unwrap();
    }

    fn sort_keys(items: &[shared::inbox::ledger::Item]) -> Vec<String> {
        let mut keys: Vec<String> = items.iter().map(|item| text(item, "sk")).collect();
        keys.sort();
        keys
    }
}

#[tokio::test]
async fn the_answers_to_the_newest_attempts_are_read() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let answers = Answers::beside(&table.ledger);
    let row = table.ledger_row(&key).await;
    assert_eq!(answers.of(&row, NOW).await.unwrap(), []);
    for last in [false, false, true] {
        table.fail(&key, last).await;
    }
    let row = table.ledger_row(&key).await;
    let first = answer(1, Some(404), Some("Cannot POST"));
    let none = answer(2, None, None);
    let third = answer(3, Some(500), Some("no such order"));
    for kept in [&third, &first, &answer(2, Some(429), Some("slow")), &none] {
        answers.keep(&row, kept).await.unwrap();
    }
    let before = table.row(&key).await;
    let all = [first, none, third];
    assert_eq!(answers.of(&row, NOW).await.unwrap(), all);
    assert_eq!(table.row(&key).await, before);
    // DynamoDB deletes an expired item later.
    let expired = NOW + Duration::from_secs(31 * 24 * 3600);
    assert_eq!(answers.of(&row, expired).await.unwrap(), []);
    // Answers to other runs, and items that this code cannot read, are left out.
    let mut other = table.item(&key.pk(), "A#http#0#3").await.unwrap();
    other.remove("at");
    table.put(other).await;
    assert_eq!(answers.of(&row, NOW).await.unwrap(), all[..2]);
    table
        .edit(&key, |row| drop(row.insert("run".into(), n(1))))
        .await;
    let replayed = table.ledger_row(&key).await;
    assert_eq!(answers.of(&replayed, NOW).await.unwrap(), []);
}

#[tokio::test]
async fn an_erasure_deletes_the_answers() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let other = table.receive(&event("evt_2")).await;
    table.fail(&key, true).await;
    let answers = Answers::beside(&table.ledger);
    for key in [&key, &other] {
        let row = table.ledger_row(key).await;
        for attempt in 1..=12 {
            let kept = answer(attempt, Some(500), Some("the name of a person"));
            answers.keep(&row, &kept).await.unwrap();
        }
    }
    let by = By {
        who: "anna",
        why: "asked for",
    };
    let erased = table.ledger.erase(&key, by, after(9_000)).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    let left = table.all().await;
    let of_event = |key: &EventKey| {
        let items = left.iter().filter(|item| text(item, "pk") == key.pk());
        Table::sort_keys(&items.cloned().collect::<Vec<_>>())
    };
    assert_eq!(of_event(&key), ["M"]);
    assert_eq!(of_event(&other).len(), 13);
    let row = table.ledger_row(&key).await;
    assert_eq!(answers.of(&row, NOW).await.unwrap(), []);
}

#[tokio::test]
async fn without_the_table_an_answer_is_an_error_and_no_panic() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let row = table.ledger_row(&key).await;
    let other = shared::inbox::ledger::Ledger::new(table.db.clone(), "no-such-table", None);
    let answers = Answers::beside(&other);
    let kept = answer(1, Some(500), None);
    let error = answers.keep(&row, &kept).await.unwrap_err();
    assert!(format!("{error}").contains("keep the answer"), "{error}");
    assert!(answers.of(&row, UnixMillis(0)).await.unwrap().is_empty());
}
