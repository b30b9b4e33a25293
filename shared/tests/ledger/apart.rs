//! Tests the release and the discard of a quarantined event, with each clause of the condition and
//! every concurrent change.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::FIRST_LOOK;
use shared::inbox::ledger::{
    AuditAction, BodyAt, By, Claim, Decided, Erased, FoundBy, Ledger, MOST_OF_DAY, MOST_OF_ONE,
    MissingBody, NEWEST_SCHEMA, Received, Settlement, State, Through, TooManyConflicts,
    is_permanent_rejection,
};
use shared::inbox::queue::WorkMessage;
use shared::webhook::event::{EventKey, Via};

use crate::matrix::assert_sound;
use crate::support::{
    NOW, Table, after, dead, event, event_with, github, n, noise, number, retry_at, s, text,
};

const ANNA: By<'static> = By {
    who: "arn:aws:sts::1:assumed-role/oncall/anna",
    why: "both are genuine | the id was used twice",
};

const BERT: By<'static> = By {
    who: "arn:aws:sts::1:assumed-role/oncall/bert",
    why: "a test of theirs",
};

/// The time of the decision.
const THEN: UnixMillis = UnixMillis(NOW.0 + 3_600_000);

/// Returns the key of a quarantined event, whose id belongs to another event.
async fn apart(table: &Table, id: &str) -> EventKey {
    table.receive(&event(id)).await;
    let other = event_with(id, Via::Webhook, "{\"other\":1}");
    match table.ledger.receive(&other, NOW).await.unwrap() {
        Received::Conflict(key) => key,
        received => panic!("expected a conflict, got {received:?}"),
    }
}

async fn release(table: &Table, key: &EventKey) -> Decided {
    table.ledger.release(key, ANNA, THEN).await.unwrap()
}

async fn discard(table: &Table, key: &EventKey) -> Decided {
    table.ledger.discard(key, ANNA, THEN).await.unwrap()
}

fn word(decided: &Decided) -> String {
    match decided {
        Decided::Made(row) => format!("made: {}", row.state),
        Decided::NotQuarantined(state) => format!("not apart: {state}"),
        Decided::MissingBody => "no body".to_owned(),
        Decided::Missing => "missing".to_owned(),
    }
}

/// Returns the actions in the history of an event, with their reasons.
async fn history(table: &Table, key: &EventKey) -> Vec<(String, String)> {
    let row = table.ledger.event(key).await.unwrap().unwrap();
    let told = row.history.into_iter();
    told.map(|moment| (moment.what, moment.note)).collect()
}

fn told(what: &str, note: &str) -> (String, String) {
    (what.to_owned(), note.to_owned())
}

#[tokio::test]
async fn a_released_event_is_worked_on_once_and_keeps_its_history() {
    let table = Table::fresh().await;
    let key = apart(&table, "evt_1").await;
    let first = table.row(event("evt_1").key()).await;
    let before = table.row(&key).await;

    let decided = release(&table, &key).await;
    assert_eq!(word(&decided), "made: received");
    let work_message = WorkMessage {
        key: key.clone(),
        run: 0,
    };
    assert_eq!(decided.work_message(), Some(work_message));
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(number(&row, "gsk"), (THEN + FIRST_LOOK).0);
    assert_eq!(number(&row, "enq"), THEN.0);
    assert_eq!(number(&row, "epoch"), number(&before, "epoch") + 1);
    assert!(!row.contains_key("reason"), "the reason is in the history");
    let why = told("kept_apart", "another body under a known id");
    let mut all = vec![why, told("released", ANNA.why)];
    assert_eq!(history(&table, &key).await, all);
    let found = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(found.history[1].owner, ANNA.who);
    assert_eq!(found.received_at, NOW, "it keeps its time of receipt");

    assert_eq!(word(&release(&table, &key).await), "not apart: received");
    let lease = table.lease(&key, THEN).await;
    assert!(matches!(table.claim(&key, THEN).await, Claim::Held));
    assert_eq!(word(&discard(&table, &key).await), "not apart: processing");
    let done = table.ledger.settle(lease, Settlement::Done, &[], THEN);
    done.await.unwrap();
    assert_eq!(word(&release(&table, &key).await), "not apart: done");
    all.push(told("done", ""));
    assert_eq!(history(&table, &key).await, all);

    // The provider delivers the event again.
    let done = table.row(&key).await;
    let other = event_with("evt_1", Via::Webhook, "{\"other\":1}");
    let again = table.ledger.receive(&other, THEN).await.unwrap();
    assert_eq!(again, Received::Repeated(key.clone()));
    assert_eq!(table.row(&key).await, done);
    assert_eq!(table.row(event("evt_1").key()).await, first);
}

#[tokio::test]
async fn a_discarded_event_is_a_dead_letter_that_nobody_works_on() {
    let table = Table::fresh().await;
    let key = apart(&table, "evt_1").await;
    let before = table.row(&key).await;
    let decided = discard(&table, &key).await;
    assert_eq!(word(&decided), "made: dead_letter");
    assert_eq!(decided.work_message(), None);
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(text(&row, "reason"), "discarded");
    assert_eq!(
        (number(&row, "gsk"), number(&row, "dead_at")),
        (THEN.0, THEN.0)
    );
    assert_eq!(number(&row, "epoch"), number(&before, "epoch") + 1);
    let why = told("kept_apart", "another body under a known id");
    let all = [why, told("discarded", ANNA.why)];
    assert_eq!(history(&table, &key).await, all);
    let claim = table.claim(&key, THEN).await;
    assert!(
        matches!(claim, Claim::Settled(State::DeadLetter)),
        "{claim:?}"
    );
    assert_eq!(table.ledger.count_dead_letters(10).await.unwrap(), 1);
    assert_eq!(word(&release(&table, &key).await), "not apart: dead_letter");
}

#[tokio::test]
async fn what_is_not_kept_apart_is_left_as_it_is() {
    let table = Table::fresh().await;
    for state in ["received", "processing", "failed", "done", "dead_letter"] {
        let key = table.receive(&event(state)).await;
        if state != "received" {
            let lease = table.lease(&key, NOW).await;
            let settlement = match state {
                "failed" => Some(retry_at(after(60_000))),
                "done" => Some(Settlement::Done),
                "dead_letter" => Some(dead()),
                _ => None,
            };
            if let Some(settlement) = settlement {
                table.settle(lease, settlement).await;
            }
        }
        let before = table.row(&key).await;
        let expected = format!("not apart: {state}");
        assert_eq!(word(&release(&table, &key).await), expected);
        assert_eq!(word(&discard(&table, &key).await), expected);
        assert_eq!(table.row(&key).await, before);
    }
    let unknown = EventKey::new("stripe-main", "unknown");
    assert_eq!(word(&release(&table, &unknown).await), "missing");
    assert_eq!(word(&discard(&table, &unknown).await), "missing");
}

#[tokio::test]
async fn of_two_people_one_decides() {
    let table = Table::fresh().await;
    for round in 0..30 {
        let key = apart(&table, &format!("evt_{round}")).await;
        let (one, two) = tokio::join!(
            table.ledger.release(&key, ANNA, THEN),
            table.ledger.discard(&key, BERT, THEN)
        );
        let words = [word(&one.unwrap()), word(&two.unwrap())];
        let won = words.iter().filter(|word| word.starts_with("made")).count();
        assert_eq!(won, 1, "round {round}: {words:?}");
        assert_eq!(history(&table, &key).await.len(), 2, "round {round}");

        let key = apart(&table, &format!("evt_again_{round}")).await;
        let (one, two) = tokio::join!(
            table.ledger.release(&key, ANNA, THEN),
            table.ledger.release(&key, BERT, THEN)
        );
        let rings = [one.unwrap(), two.unwrap()];
        let rings = rings.iter().filter_map(Decided::work_message).count();
        assert_eq!(rings, 1, "round {round}");
        assert_eq!(number(&table.row(&key).await, "epoch"), 1);
    }
}

/// Erases the event while the request for the decision is in progress.
async fn erased_meanwhile(table: &Table, key: &EventKey, of: &'static str) -> Decided {
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", of);
    let erase = async {
        let erased = table.ledger.erase(key, BERT, THEN).await.unwrap();
        assert_eq!(erased, Erased::Gone);
    };
    decided_around(&ledger, held, key, of, erase).await
}

async fn decided_around(
    ledger: &Ledger,
    held: crate::proxy::Held,
    key: &EventKey,
    of: &str,
    meanwhile: impl Future<Output = ()>,
) -> Decided {
    let decision = async {
        match of {
            "released" => ledger.release(key, ANNA, THEN).await,
            _ => ledger.discard(key, ANNA, THEN).await,
        }
    };
    let (decided, ()) = held.around(decision, meanwhile).await;
    decided.unwrap()
}

#[tokio::test]
async fn what_was_erased_meanwhile_is_seen() {
    let table = Table::fresh().await;
    let key = apart(&table, "evt_1").await;
    let decided = erased_meanwhile(&table, &key, "released").await;
    assert_eq!(word(&decided), "no body");
    let row = table.row(&key).await;
    assert_eq!(text(&row, "st"), "quarantined");
    assert!(row.contains_key("erased_at") && !row.contains_key("gpk"));

    let key = apart(&table, "evt_2").await;
    let decided = erased_meanwhile(&table, &key, "discarded").await;
    assert_eq!(word(&decided), "made: dead_letter");
    let whats: Vec<String> = history(&table, &key)
        .await
        .into_iter()
        .map(|(what, _)| what)
        .collect();
    assert_eq!(whats, ["kept_apart", "erased", "discarded"]);
}

#[tokio::test]
async fn a_state_that_changed_under_the_same_epoch_is_left() {
    let table = Table::fresh().await;
    for of in ["released", "discarded"] {
        let key = apart(&table, of).await;
        let (proxy, ledger) = table.through_proxy().await;
        let held = proxy.hold("UpdateItem", of);
        let change = async {
            table
                .edit(&key, |row| drop(row.insert("st".into(), s("done"))))
                .await;
        };
        let decided = decided_around(&ledger, held, &key, of, change).await;
        assert_eq!(word(&decided), "not apart: done");
        let row = table.row(&key).await;
        assert!(
            text(&row, "st") == "done" && text(&row, "gpk").starts_with("Q#"),
            "{of}"
        );
    }
}

#[tokio::test]
async fn a_lost_answer_is_not_a_lost_decision() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let key = apart(&table, "evt_1").await;
    proxy.lose_answer("UpdateItem", "released");
    let decided = ledger.release(&key, ANNA, THEN).await.unwrap();
    assert_eq!(word(&decided), "made: received");
    assert!(
        decided.work_message().is_some(),
        "the caller must send a work message"
    );
    let key = apart(&table, "evt_2").await;
    proxy.lose_answer("UpdateItem", "discarded");
    let decided = ledger.discard(&key, ANNA, THEN).await.unwrap();
    assert_eq!(word(&decided), "made: dead_letter");
    assert_eq!(number(&table.row(&key).await, "epoch"), 1);
}

#[tokio::test]
async fn what_has_no_body_any_more_is_not_released() {
    let table = Table::fresh().await;
    let large = |seed: usize| event_with("evt_1", Via::Webhook, noise(3_000 + seed));
    table.receive(&large(0)).await;
    let received = table.ledger.receive(&large(1), NOW).await.unwrap();
    let Received::Conflict(key) = received else {
        panic!("{received:?}")
    };
    for item in table.all().await {
        if text(&item, "pk") == key.pk() && text(&item, "sk").starts_with("B#") {
            table.delete(&key.pk(), &text(&item, "sk")).await;
        }
    }
    assert_eq!(table.body(&key).await, Err(MissingBody::Gone));
    let before = table.row(&key).await;
    assert_eq!(word(&release(&table, &key).await), "no body");
    assert_eq!(table.row(&key).await, before);
    assert_eq!(word(&discard(&table, &key).await), "made: dead_letter");
}

#[tokio::test]
async fn the_body_of_an_old_one_is_held_from_then_on() {
    let table = Table::fresh().await;
    table.receive(&event("evt_1")).await;
    let other = event_with("evt_1", Via::Webhook, noise(3_000));
    let received = table.ledger.receive(&other, NOW).await.unwrap();
    let Received::Conflict(key) = received else {
        panic!("{received:?}")
    };
    let late = NOW + Duration::from_secs(20 * 24 * 3600);
    let decided = table.ledger.release(&key, ANNA, late).await.unwrap();
    assert_eq!(word(&decided), "made: received");
    let all = table.all().await;
    let body = all
        .iter()
        .find(|item| text(item, "pk") == key.pk() && text(item, "sk").starts_with("B#"));
    let body = body.unwrap();
    assert!(body.contains_key("held") && !body.contains_key("ttl"));
}

/// Returns the items whose sort key has this prefix.
async fn items(table: &Table, sk: &str) -> Vec<shared::inbox::ledger::Item> {
    let all = table.all().await.into_iter();
    all.filter(|item| text(item, "sk").starts_with(sk))
        .collect()
}

#[tokio::test]
async fn forty_copies_of_one_request_are_one_row() {
    let table = Table::fresh().await;
    let body = format!(r#"{{"noise":"{}"}}"#, hex::encode(noise(2_000)));
    table.receive(&github("first", &body)).await;
    let copy = github("copy-1", &body);
    let received = table.ledger.receive(&copy, after(1));
    let Received::Conflict(key) = received.await.unwrap() else {
        panic!("expected a new event, got a quarantined one");
    };
    for copy in 2..=40 {
        let copy = github(&format!("copy-{copy}"), &body);
        let received = table.ledger.receive(&copy, after(2)).await.unwrap();
        assert_eq!(received, Received::Repeated(key.clone()));
    }
    assert_eq!(items(&table, "M").await.len(), 2);
    assert_eq!(items(&table, "B#").await.len(), 2);
    let [copies] = &items(&table, "C").await[..] else {
        panic!("copies are counted in one place");
    };
    assert_eq!(number(copies, "n"), 39);
    assert_eq!(text(copies, "ek"), key.pk());
    assert_eq!(table.body(&key).await, Ok(body.into_bytes()));
    assert_eq!(table.ledger.count_quarantined(10).await.unwrap(), 1);
}

#[tokio::test]
async fn copies_that_arrive_at_the_same_time_share_one_counter() {
    let table = Table::fresh().await;
    table.receive(&github("first", "{}")).await;
    let (proxy, slow) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "attribute_not_exists(ek)");
    let meanwhile = async {
        let second = table.ledger.receive(&github("copy-2", "{}"), NOW).await;
        let Ok(Received::Conflict(key)) = second else {
            panic!("{second:?}");
        };
        let third = table.ledger.receive(&github("copy-3", "{}"), NOW).await;
        assert_eq!(third.unwrap(), Received::Repeated(key.clone()));
        key
    };
    let copy = github("copy-1", "{}");
    let (first, second) = held.around(slow.receive(&copy, NOW), meanwhile).await;
    assert!(matches!(first, Ok(Received::Conflict(_))), "{first:?}");
    let [copies] = &items(&table, "C").await[..] else {
        panic!("copies are counted in one place");
    };
    assert_eq!(number(copies, "n"), 1, "the third copy");
    assert_eq!(text(copies, "ek"), second.pk());
}

#[tokio::test]
async fn a_body_is_kept_as_long_as_it_waits_for_a_decision() {
    let table = Table::with_bucket().await;
    let quarantined = async |id: &str, bytes| {
        table.receive(&event(id)).await;
        let other = event_with(id, Via::Webhook, noise(bytes));
        match table.ledger.receive(&other, NOW).await.unwrap() {
            Received::Conflict(key) => key,
            received => panic!("{received:?}"),
        }
    };
    let expires = async |key: &EventKey| {
        if let BodyAt::Bucket(object) = table.body_at(key).await {
            let (s3, bucket) = table.bucket.clone().unwrap();
            let tags = s3.get_object_tagging().bucket(bucket).key(object);
            let tags = tags.send().await.unwrap();
            return tags.tag_set()[0].value() != "open";
        }
        let bodies = items(&table, "B#").await;
        let own = bodies.iter().find(|body| text(body, "pk") == key.pk());
        let own = own.unwrap();
        assert_ne!(own.contains_key("ttl"), own.contains_key("held"));
        own.contains_key("ttl")
    };
    for bytes in [3_000, 40_000] {
        let key = quarantined(&format!("done-{bytes}"), bytes).await;
        assert!(!expires(&key).await, "waits");
        // The event is released, and is done within the hour.
        release(&table, &key).await;
        assert!(!expires(&key).await, "open");
        let lease = table.lease(&key, THEN).await;
        let done = table.ledger.settle(lease, Settlement::Done, &[], THEN);
        done.await.unwrap();
        assert!(expires(&key).await, "done");

        let key = quarantined(&format!("dead-{bytes}"), bytes).await;
        discard(&table, &key).await;
        assert!(!expires(&key).await, "dead letter");

        let key = quarantined(&format!("erased-{bytes}"), bytes).await;
        table.ledger.erase(&key, BERT, THEN).await.unwrap();
        assert_eq!(table.body(&key).await, Err(MissingBody::Gone));
    }
}

#[tokio::test]
async fn what_is_beyond_the_bound_is_not_acknowledged() {
    let table = Table::with_bucket().await;
    let other = |id: &str, n: u32| event_with(id, Via::Webhook, format!("other {n}"));
    for id in ["evt_1", "evt_2", "evt_3"] {
        table.receive(&event(id)).await;
    }
    for n in 0..MOST_OF_ONE {
        let received = table.ledger.receive(&other("evt_1", n), NOW).await;
        assert!(
            matches!(received, Ok(Received::Conflict(_))),
            "{received:?}"
        );
    }
    let refused = async |event| {
        let error = table.ledger.receive(event, NOW).await.unwrap_err();
        error.is::<TooManyConflicts>() && is_permanent_rejection(&error)
    };
    let one_more = other("evt_1", MOST_OF_ONE);
    assert!(refused(&one_more).await);
    let counters = items(&table, "C").await.len();
    assert_eq!(counters, MOST_OF_ONE as usize, "one for each stored event");
    let known = table.ledger.receive(&other("evt_1", 3), NOW).await.unwrap();
    assert!(matches!(known, Received::Repeated(_)), "{known:?}");
    // Another event has its own limit, and the source has a limit for all of its events.
    let received = table.ledger.receive(&other("evt_2", 0), NOW).await;
    assert!(
        matches!(received, Ok(Received::Conflict(_))),
        "{received:?}"
    );
    let day = |item: &shared::inbox::ledger::Item| text(item, "sk") == "A";
    let mut tally = table.all().await.into_iter().find(day).unwrap();
    assert_eq!(number(&tally, "n"), i64::from(MOST_OF_ONE) + 1);
    tally.insert("n".into(), n(MOST_OF_DAY));
    table.put(tally).await;
    assert!(refused(&other("evt_3", 0)).await);
    // The limits start again on the next day.
    let tomorrow = NOW + Duration::from_secs(24 * 3600);
    let received = table.ledger.receive(&one_more, tomorrow).await;
    assert!(
        matches!(received, Ok(Received::Conflict(_))),
        "{received:?}"
    );

    // Mitt has already acknowledged an event from the spill queue, so it stores the event even
    // above the limit.
    let event = other("evt_3", 1);
    let placed = table.ledger.store_body(&event).await.unwrap();
    let spilled = table.spilled(event, placed).await;
    let (event, placed) = (spilled.event(), spilled.placed().cloned());
    let placed = match placed {
        Some(placed) => placed,
        None => table.ledger.store_body(event).await.unwrap(),
    };
    let ledger = &table.ledger;
    let received = ledger.receive_stored(event, &placed, FoundBy::WorkIndex, NOW);
    let received = received.await;
    assert!(
        matches!(received, Ok(Received::Conflict(_))),
        "{received:?}"
    );
}

#[tokio::test]
async fn quarantined_events_are_counted_until_they_are_decided() {
    let table = Table::fresh().await;
    let count = async || table.ledger.count_quarantined(10).await.unwrap();
    let mut keys = Vec::new();
    for id in ["released", "discarded", "erased", "old"] {
        keys.push(apart(&table, id).await);
    }
    assert_eq!(count().await, 4);
    // Older code wrote no index entry. Such a row is not counted, but can be released.
    let old = |row: &mut shared::inbox::ledger::Item| {
        row.remove("gpk");
        row.remove("gsk");
    };
    table.edit(&keys[3], old).await;
    assert_eq!(count().await, 3);
    release(&table, &keys[0]).await;
    discard(&table, &keys[1]).await;
    table.ledger.erase(&keys[2], BERT, THEN).await.unwrap();
    assert_eq!(count().await, 0);
    assert_eq!(word(&release(&table, &keys[3]).await), "made: received");
}

#[tokio::test]
async fn a_row_of_a_later_version_is_left_to_it() {
    let table = Table::fresh().await;
    let key = apart(&table, "evt_1").await;
    let later = NEWEST_SCHEMA + 1;
    let before = table
        .edit(&key, |row| drop(row.insert("sv".into(), n(later))))
        .await;
    for error in [
        table.ledger.release(&key, ANNA, THEN).await.unwrap_err(),
        table.ledger.discard(&key, ANNA, THEN).await.unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("a newer version of Mitt wrote"),
            "{error}"
        );
    }
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn dead_letters_are_counted_where_they_are() {
    let table = Table::fresh().await;
    for id in 0..12 {
        let key = table.receive(&event(&format!("evt_{id}"))).await;
        let lease = table.lease(&key, NOW).await;
        if id % 2 == 0 {
            table.settle(lease, dead()).await;
        } else {
            table.settle(lease, retry_at(NOW)).await;
        }
    }
    assert_eq!(table.ledger.count_dead_letters(100).await.unwrap(), 6);
    let few = table.ledger.count_dead_letters(2).await.unwrap();
    assert!((3..=6).contains(&few), "{few}");
}

#[tokio::test]
async fn what_operators_did_is_read_by_its_time() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let month = Duration::from_secs(31 * 24 * 3600);
    let times = [NOW - month, NOW, after(1), after(1), NOW + month];
    for (index, time) in times.into_iter().enumerate() {
        let deed = AuditAction {
            through: Through::Cli,
            what: "erase",
            who: format!(
                "arn:aws:sts::1:assumed-role/oncall/{}",
                ["anna", "bert"][index % 2]
            ),
            why: "asked for".to_owned(),
            selection: "where a.b".to_owned(),
            count: index,
        };
        ledger.operations().log(&deed, time).await.unwrap();
    }
    let all = ledger
        .operations()
        .audit_log(UnixMillis(0), NOW + month, 10, |_| true)
        .await
        .unwrap();
    let counts = |deeds: &shared::inbox::ledger::AuditLog| {
        let mut counts: Vec<u64> = deeds.found.iter().map(|deed| deed.count).collect();
        // Two rows with the same time have no defined order.
        counts.sort_unstable();
        counts
    };
    assert_eq!((counts(&all), all.more), (vec![0, 1, 2, 3, 4], false));
    let times: Vec<UnixMillis> = all.found.iter().map(|deed| deed.at).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    let newest = &all.found[0];
    assert_eq!(
        (
            newest.what.as_str(),
            newest.why.as_str(),
            newest.selection.as_str()
        ),
        ("erase", "asked for", "where a.b")
    );

    let some = ledger
        .operations()
        .audit_log(NOW, after(1), 10, |_| true)
        .await
        .unwrap();
    assert_eq!((counts(&some), some.more), (vec![1, 2, 3], false));
    let few = ledger
        .operations()
        .audit_log(UnixMillis(0), NOW + month, 2, |_| true)
        .await
        .unwrap();
    assert_eq!((few.found.len(), few.more), (2, true));
    let berts = |deed: &shared::inbox::ledger::AuditEntry| deed.who.ends_with("bert");
    let of_bert = ledger
        .operations()
        .audit_log(UnixMillis(0), NOW + month, 2, berts)
        .await
        .unwrap();
    assert_eq!((counts(&of_bert), of_bert.more), (vec![1, 3], false));
}
