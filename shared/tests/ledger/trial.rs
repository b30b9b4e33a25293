//! Tests the rows of a trial: the answers of the route, and the adoption of the events that the
//! route did not accept.

use std::time::Duration;

use futures::future::join_all;
use local::clients;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, KEEP_ROW};
use shared::inbox::Inbox;
use shared::inbox::ledger::{
    Again, By, Claim, Erased, MOST_ANSWERS, NEWEST_SCHEMA, NewerRow, Received, Replayed,
    RouteAnswer, RouteOutcome, SCHEMA, State, TRIAL_SCHEMA, TrialAnswers, TrialRecord,
    is_permanent_rejection,
};
use shared::inbox::queue::Queue;
use shared::inbox::rejected::{NewRejection, RejectedRequests};
use shared::monitoring::trial::{Finding, TrialLimits, TrialReport};
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::{Event, EventKey, Via};
use shared::webhook::sign::sign;
use shared::webhook::verify::{Arrival, Reason};

use crate::matrix::assert_sound;
use crate::support::{NOW, Table, after, event, event_with, github, lease_over, n, number, text};

const BY: By<'static> = By {
    who: "arn:aws:iam::1:user/anna",
    why: "asked for by the person",
};

/// The time of a delivery after the trial.
fn later() -> UnixMillis {
    after(3_600_000)
}

async fn record(table: &Table, event: &Event) -> TrialRecord {
    let placed = table.ledger.store_body(event).await.unwrap();
    let recorded = table.ledger.record_trial(event, &placed, NOW);
    recorded.await.unwrap()
}

/// Records an event and one answer of the route.
async fn recorded(table: &Table, id: &str, outcome: RouteOutcome) -> Event {
    let event = event(id);
    assert_eq!(record(table, &event).await, TrialRecord::New);
    assert!(note(table, event.key(), &answer(1_000, outcome)).await);
    event
}

fn answer(ms: u64, outcome: RouteOutcome) -> RouteAnswer {
    let took = Duration::from_millis(212);
    let body = matches!(outcome, RouteOutcome::Status(_)).then_some(b"ok".as_slice());
    RouteAnswer::new(after(ms), outcome, took, body, "accepted")
}

async fn note(table: &Table, key: &EventKey, answer: &RouteAnswer) -> bool {
    let noted = table.ledger.record_route_answer(key, answer);
    noted.await.unwrap()
}

/// Returns the answers in the row of the event.
async fn answers(table: &Table, key: &EventKey) -> TrialAnswers {
    table.ledger.event(key).await.unwrap().unwrap().trial
}

async fn receive(table: &Table, event: &Event) -> Received {
    table.ledger.receive(event, later()).await.unwrap()
}

const OPEN: Received = Received::Open {
    silent: true,
    run: 1,
};
const KNOWN: Received = Received::Open {
    silent: false,
    run: 1,
};

#[tokio::test]
async fn an_event_of_a_trial_is_done_and_is_not_claimed() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    assert_eq!(record(&table, &event).await, TrialRecord::New);
    let row = table.row(event.key()).await;
    assert_sound(&row, &row);
    assert_eq!(
        (text(&row, "st"), text(&row, "reason")),
        ("done".into(), "tee".into())
    );
    assert_eq!(number(&row, "sv"), i64::from(TRIAL_SCHEMA));
    assert_eq!(number(&row, "ttl"), (NOW + KEEP_ROW).secs());
    assert_eq!(record(&table, &event).await, TrialRecord::Known);
    assert_eq!(table.row(event.key()).await, row);
    let claim = table.claim(event.key(), lease_over()).await;
    assert!(matches!(claim, Claim::Settled(State::Done)), "{claim:?}");
}

#[tokio::test]
async fn a_conflict_in_a_trial_is_not_quarantined() {
    let table = Table::fresh().await;
    record(&table, &event("evt_1")).await;
    let other = event_with("evt_1", Via::Webhook, "another body");
    assert_eq!(record(&table, &other).await, TrialRecord::Conflict);
    let (one, two) = (github("72d3162e", "{}"), github("72d3162f", "{}"));
    assert_eq!(record(&table, &one).await, TrialRecord::New);
    assert_eq!(record(&table, &two).await, TrialRecord::Conflict);
    let rows = table.all().await;
    let states = rows.iter().filter(|row| text(row, "sk") == "M").count();
    assert_eq!(states, 2);
}

#[tokio::test]
async fn the_answers_of_the_route_are_kept_in_order() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    let rest = [
        answer(2_000, RouteOutcome::Unreachable),
        answer(3_000, RouteOutcome::Status(500)),
        answer(4_000, RouteOutcome::Status(299)),
        answer(5_000, RouteOutcome::Status(200)),
        answer(6_000, RouteOutcome::Status(300)),
    ];
    for answer in &rest {
        assert!(note(&table, event.key(), answer).await);
    }
    let trial = answers(&table, event.key()).await;
    assert_eq!(trial.answers[0], answer(1_000, RouteOutcome::Timeout));
    assert_eq!(trial.answers[1..], rest);
    assert_eq!((trial.requests, trial.accepted), (6, 2));
    assert_eq!(trial.first_accepted, Some(after(4_000)));
    assert_eq!(trial.answers[0].hash, "");
    assert_eq!(trial.answers[2].hash, "2689367b");
}

#[tokio::test]
async fn after_ten_answers_the_others_are_counted() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Status(500)).await;
    for number in 2..=MOST_ANSWERS {
        assert!(note(&table, event.key(), &answer(number, RouteOutcome::Timeout)).await);
    }
    for status in [503, 200, 204] {
        assert!(
            note(
                &table,
                event.key(),
                &answer(20_000, RouteOutcome::Status(status))
            )
            .await
        );
    }
    let trial = answers(&table, event.key()).await;
    assert_eq!(trial.answers.len(), 10);
    assert_eq!((trial.requests, trial.accepted), (13, 2));
    assert_eq!(trial.first_accepted, Some(after(20_000)));
    assert_eq!(trial.last_answer, Some(after(20_000)));
}

#[tokio::test]
async fn an_answer_whose_write_is_repeated_counts_once() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    record(&table, &event).await;
    let (proxy, ledger) = table.through_proxy().await;
    for number in 1..=MOST_ANSWERS + 1 {
        proxy.lose_answer("UpdateItem", "tew");
        if number > MOST_ANSWERS {
            // The append is refused and its response is lost, then the response of the count.
            proxy.lose_answer("UpdateItem", "SET tew = :id, tat = :at, tok");
        }
        let answer = answer(number, RouteOutcome::Status(200));
        let noted = ledger.record_route_answer(event.key(), &answer);
        assert!(noted.await.unwrap());
    }
    let trial = answers(&table, event.key()).await;
    assert_eq!((trial.requests, trial.accepted), (11, 11));
    assert_eq!(trial.answers.len(), 10);
}

#[tokio::test]
async fn answers_are_recorded_only_for_events_of_a_trial() {
    let table = Table::fresh().await;
    let missing = EventKey::new("stripe-main", "evt_0");
    assert!(!note(&table, &missing, &answer(1, RouteOutcome::Status(200))).await);
    assert!(table.item(&missing.pk(), "M").await.is_none());
    let key = table.receive(&event("evt_1")).await;
    let before = table.row(&key).await;
    assert_eq!(record(&table, &event("evt_1")).await, TrialRecord::Known);
    assert!(!note(&table, &key, &answer(1, RouteOutcome::Status(200))).await);
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn an_event_that_the_route_did_not_accept_is_adopted_once() {
    let table = Table::fresh().await;
    for (id, outcome) in [
        ("evt_1", RouteOutcome::Status(500)),
        ("evt_2", RouteOutcome::Timeout),
        ("evt_3", RouteOutcome::Unreachable),
    ] {
        let event = recorded(&table, id, outcome).await;
        assert_eq!(receive(&table, &event).await, OPEN);
        let row = table.row(event.key()).await;
        assert_eq!((number(&row, "run"), number(&row, "epoch")), (1, 1));
        assert_eq!(number(&row, "sv"), i64::from(SCHEMA));
        assert_eq!(number(&row, "gsk"), (later() + FIRST_LOOK).0);
        for gone in ["ttl", "reason", "done_at"] {
            assert!(!row.contains_key(gone), "{gone}");
        }
        assert_eq!(receive(&table, &event).await, KNOWN);
        assert!(!note(&table, event.key(), &answer(9, RouteOutcome::Status(200))).await);
        assert_eq!(table.row(event.key()).await, row);
        let lease = table.lease(event.key(), later()).await;
        assert_eq!((lease.row.run, lease.row.attempts), (1, 1));
        let body = table.ledger.leased_body(&lease).await.unwrap().unwrap();
        assert_eq!(body.0, *event.body());
        assert_sound(&row, &table.row(event.key()).await);
    }
}

#[tokio::test]
async fn an_event_without_any_answer_is_adopted() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    record(&table, &event).await;
    assert_eq!(receive(&table, &event).await, OPEN);
}

#[tokio::test]
async fn an_event_that_the_route_accepted_is_a_duplicate() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Status(202)).await;
    note(
        &table,
        event.key(),
        &answer(2_000, RouteOutcome::Status(500)),
    )
    .await;
    let before = table.row(event.key()).await;
    assert_eq!(receive(&table, &event).await, Received::Settled);
    assert_eq!(table.row(event.key()).await, before);
}

#[tokio::test]
async fn an_erased_event_is_not_adopted() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Status(500)).await;
    let erased = table.ledger.erase(event.key(), BY, later()).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    assert_eq!(receive(&table, &event).await, Received::Settled);
    assert_eq!(text(&table.row(event.key()).await, "st"), "done");
}

#[tokio::test]
async fn only_one_of_sixteen_deliveries_adopts() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Status(500)).await;
    let found = join_all((0..16).map(|_| receive(&table, &event))).await;
    assert_eq!(
        found.iter().filter(|one| **one == OPEN).count(),
        1,
        "{found:?}"
    );
    assert_eq!(
        found.iter().filter(|one| **one == KNOWN).count(),
        15,
        "{found:?}"
    );
    let row = table.row(event.key()).await;
    assert_eq!((number(&row, "run"), number(&row, "epoch")), (1, 1));
}

#[tokio::test]
async fn a_late_answer_or_an_erasure_stops_an_adoption() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    let held = proxy.hold("UpdateItem", ":trial");
    let accepted = answer(9_000, RouteOutcome::Status(200));
    let late = note(&table, event.key(), &accepted);
    let (received, noted) = held.around(ledger.receive(&event, later()), late).await;
    assert!(noted);
    assert_eq!(received.unwrap(), Received::Settled);

    let event = recorded(&table, "evt_2", RouteOutcome::Timeout).await;
    let held = proxy.hold("UpdateItem", ":trial");
    let erasure = table.ledger.erase(event.key(), BY, later());
    let (received, erased) = held.around(ledger.receive(&event, later()), erasure).await;
    assert_eq!(erased.unwrap(), Erased::Gone);
    assert_eq!(received.unwrap(), Received::Settled);
    assert_eq!(text(&table.row(event.key()).await, "st"), "done");
}

#[tokio::test]
async fn an_adoption_whose_response_is_lost_is_one_run() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":trial");
    // The sweep sends the message, because the row is in the `work` index.
    assert_eq!(ledger.receive(&event, later()).await.unwrap(), KNOWN);
    assert_eq!(number(&table.row(event.key()).await, "run"), 1);
}

#[tokio::test]
async fn an_event_of_a_trial_can_be_replayed() {
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    let plans = table.ledger.plans();
    let events = [(event.key().clone(), 0)];
    plans.plan_events("rpl_1", &events, later()).await.unwrap();
    let again = Again {
        plan: "rpl_1",
        seen: 0,
        new_effects: false,
    };
    let replayed = plans.replay(event.key(), &again, later()).await.unwrap();
    assert_eq!(replayed, Replayed::Again);
    let lease = table.lease(event.key(), later()).await;
    assert_eq!((lease.row.run, lease.row.schema), (1, SCHEMA));
}

#[tokio::test]
async fn a_settled_row_of_newer_code_is_no_duplicate() {
    const { assert!(TRIAL_SCHEMA > NEWEST_SCHEMA) };
    let table = Table::fresh().await;
    let event = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    let before = table
        .edit(event.key(), |row| {
            row.insert("sv".into(), n(TRIAL_SCHEMA + 1));
        })
        .await;
    let error = table.ledger.receive(&event, later()).await.unwrap_err();
    assert!(
        error.is::<NewerRow>() && is_permanent_rejection(&error),
        "{error:#}"
    );
    assert!(error.to_string().contains("has version 4"), "{error}");
    assert_eq!(table.row(event.key()).await, before);
}

/// The limits of a provider that retries for a day.
const LIMITS: TrialLimits = TrialLimits {
    horizon: Duration::from_secs(24 * 3600),
    slow: Duration::from_secs(5),
};

/// What the route does with each of a hundred consecutive events: it loses, doubles and delays one.
fn route(number: usize) -> Vec<RouteAnswer> {
    let ok = |ms| answer(ms, RouteOutcome::Status(200));
    match number % 100 {
        7 => vec![
            answer(1_000, RouteOutcome::Status(500)),
            answer(9_000, RouteOutcome::Timeout),
        ],
        31 => vec![ok(1_000), ok(2_000)],
        64 => vec![RouteAnswer {
            took: Duration::from_secs(8),
            ..ok(9_000)
        }],
        // The provider retries, and the route accepts the event then.
        80 => vec![answer(1_000, RouteOutcome::Unreachable), ok(30_000)],
        _ => vec![ok(1_000)],
    }
}

async fn event_in_trial(table: &Table, number: usize) {
    let event = event(&format!("evt_{number}"));
    record(table, &event).await;
    for answer in route(number) {
        assert!(note(table, event.key(), &answer).await);
    }
}

#[tokio::test]
async fn the_report_names_what_was_lost_doubled_and_slow() {
    let table = Table::fresh().await;
    for from in (0..400).step_by(50) {
        join_all((from..from + 50).map(|number| event_in_trial(&table, number))).await;
    }
    let horizon = NOW + LIMITS.horizon;
    let mut report = TrialReport::default();
    let mut early = TrialReport::default();
    for number in 0..400 {
        let key = EventKey::new("stripe-main", &format!("evt_{number}"));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert!(report.add(&row, LIMITS, horizon + Duration::from_secs(10)));
        // The provider may still send the event again.
        assert!(early.add(&row, LIMITS, horizon));
    }
    let expected = |remainder| {
        let numbers = (0..400).filter(move |number| number % 100 == remainder);
        let keys = numbers.map(|number| EventKey::new("stripe-main", &format!("evt_{number}")));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(report.with(Finding::Lost), expected(7));
    assert_eq!(report.with(Finding::Doubled), expected(31));
    assert_eq!(report.with(Finding::Slow), expected(64));
    assert_eq!(report.with(Finding::Late), []);
    assert_eq!(early.with(Finding::Lost), []);
    assert_eq!((report.events, report.requests), (400, 412));
    assert_eq!(report.with(Finding::Unknown), []);
    assert_eq!(report.outcomes["timeout"], 4);
    assert_eq!(report.outcomes["200"], 400);
    let within = [50, 98, 100].map(|percent| report.took.within(percent).unwrap().as_millis());
    assert_eq!(within, [212, 212, 8_000]);
}

#[tokio::test]
async fn an_adopted_event_is_not_lost_and_an_accepted_one_can_be_late() {
    let table = Table::fresh().await;
    let adopted = recorded(&table, "evt_1", RouteOutcome::Timeout).await;
    receive(&table, &adopted).await;
    let late = recorded(&table, "evt_2", RouteOutcome::Status(500)).await;
    note(
        &table,
        late.key(),
        &answer(90_000, RouteOutcome::Status(200)),
    )
    .await;
    let unknown = event("evt_3");
    record(&table, &unknown).await;
    let usual = table.receive(&event("evt_4")).await;
    let mut report = TrialReport::default();
    let then = NOW + Duration::from_secs(48 * 3600);
    for (key, counts) in [
        (adopted.key(), true),
        (late.key(), true),
        (unknown.key(), true),
        (&usual, false),
    ] {
        let row = table.ledger.event(key).await.unwrap().unwrap();
        assert_eq!(report.add(&row, LIMITS, then), counts, "{key}");
    }
    assert_eq!(report.with(Finding::Lost), []);
    assert_eq!(report.with(Finding::Unknown), [unknown.key().clone()]);
    assert_eq!(report.with(Finding::Late), [late.key().clone()]);
    assert_eq!(report.events, 3);
}

/// A source in a trial.
const IN_TRIAL: &str = "schema = 1\n[forward]\nallow_hosts = [\"app.example.com\"]\n[[source]]\n\
                        name = \"stripe-main\"\npreset = \"stripe\"\nmode = \"tee\"\n\
                        [[source.action]]\nkind = \"http\"\nurl = \"https://app.example.com/a\"\n\
                        sign = \"none\"";

/// Returns an event that the catcher verified.
fn verified(config: &Config, body: &str) -> (Envelope, Event) {
    let verifier = &config.source("stripe-main").unwrap().verifier;
    let secret = Secret::new("current", "whsec_of_a_test");
    let mut envelope = Envelope {
        method: "POST".to_owned(),
        url: "https://hooks.example.test/in/stripe-main".to_owned(),
        headers: std::iter::empty::<(&str, &str)>().collect(),
        body: body.to_owned().into(),
        received_at: NOW,
    };
    let scheme = verifier.preset.scheme("default").unwrap();
    let proof = sign(scheme, &secret, &envelope, NOW).unwrap();
    envelope.headers = proof
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let verified = verifier.verify(&envelope, &[secret]);
    let Ok(Arrival::Event(event)) = verified else {
        panic!("{verified:?}")
    };
    (envelope, *event)
}

fn body(id: &str) -> String {
    format!(r#"{{"id":"{id}","object":"event","type":"charge.succeeded"}}"#)
}

#[tokio::test]
async fn a_trial_that_begins_or_ends_does_not_change_who_delivers_an_event() {
    let table = Table::fresh().await;
    let config = Config::parse(IN_TRIAL).unwrap();
    let in_trial = table.ledger.clone().with_sources(&config);
    let (_, usual) = verified(&config, &body("evt_1"));
    let received = in_trial.receive(&usual, NOW).await.unwrap();
    assert_eq!(received, Received::New, "the provider got 2xx from Mitt");
    let (_, teed) = verified(&config, &body("evt_2"));
    let teed = teed.delivered_by_route();
    let received = table.ledger.receive(&teed, NOW).await.unwrap();
    assert_eq!(received, Received::Recorded(TrialRecord::New));
    // No request says whether the route has a fetched event.
    let received = in_trial.receive(&event("evt_3"), NOW).await.unwrap();
    assert_eq!(received, Received::Recorded(TrialRecord::New));
    let received = table.ledger.receive(&event("evt_4"), NOW).await.unwrap();
    assert_eq!(received, Received::New);
}

#[tokio::test]
async fn a_released_request_that_the_route_accepted_is_not_delivered() {
    let config = Config::parse(IN_TRIAL).unwrap();
    for (outcome, trial, expected) in [
        (Some(RouteOutcome::Status(204)), true, (State::Done, 1)),
        (Some(RouteOutcome::Status(204)), false, (State::Done, 1)),
        (Some(RouteOutcome::Status(500)), true, (State::Done, 1)),
        (Some(RouteOutcome::Status(500)), false, (State::Received, 0)),
        (None, true, (State::Received, 0)),
    ] {
        let table = Table::fresh().await;
        let mut ledger = table.ledger.clone();
        if trial {
            ledger = ledger.with_sources(&config);
        }
        let inbox = Inbox {
            ledger,
            queue: Queue::new(clients::sqs("http://127.0.0.1:9"), "http://127.0.0.1:9/q"),
        };
        let rejected = RejectedRequests::new(table.db.clone(), &table.name);
        let (envelope, event) = verified(&config, &body("evt_1"));
        let answer = outcome.map(|outcome| answer(1_000, outcome));
        let rejection = NewRejection {
            source: config.source("stripe-main").unwrap(),
            envelope: &envelope,
            reason: Reason::BadSignature,
            route: answer.as_ref(),
            secrets: &[],
        };
        let left = Duration::from_secs(30);
        rejected.store(&rejection, NOW, left).await.unwrap();
        let held = rejected.held("stripe-main", NOW, later(), later());
        let held = held.await.unwrap().remove(0);
        assert_eq!(held.route, answer);
        // After a crash, the request is released again.
        for _ in 0..2 {
            let released = rejected.release(&inbox, &held, &event, later());
            released.await.unwrap();
        }
        let row = table.ledger.event(event.key()).await.unwrap().unwrap();
        let found = (row.state, row.trial.requests);
        assert_eq!(found, expected, "{outcome:?} {trial}");
    }
}
