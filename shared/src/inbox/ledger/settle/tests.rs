//! Settlements from outcomes, attempts and waits.

use super::*;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::inbox::ledger::{Item, Moment, item};

fn row(attempts: u32) -> Row {
    let row = Item::from([
        ("pk".into(), item::s("E#s#1")),
        ("sv".into(), item::n(1)),
        ("st".into(), item::s("processing")),
        ("epoch".into(), item::n(7)),
        ("run".into(), item::n(0)),
        ("att".into(), item::n(attempts)),
        ("cr".into(), item::n(0)),
        ("rcv".into(), item::n(0)),
        ("bref".into(), item::s("i")),
        ("fx".into(), AttributeValue::M(Item::new())),
        ("lu".into(), item::n(9_000)),
        ("due".into(), item::n(10)),
    ]);
    Row::read(&row).unwrap()
}

fn of(outcome: Outcome, attempts: u32) -> Settlement {
    Settlement::of(
        outcome,
        &row(attempts),
        &Backoff::default(),
        UnixMillis(1_000),
        0.0,
    )
}

#[test]
fn an_outcome_and_the_attempts_decide() {
    assert_eq!(of(Outcome::Done, 10), Settlement::Done);
    let reason = |settlement| match settlement {
        Settlement::DeadLetter { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(of(Outcome::permanent("x"), 1)), "permanent");
    assert_eq!(reason(of(Outcome::unknown("x"), 1)), "outcome_unknown");
    assert_eq!(reason(of(Outcome::retry("x"), 10)), "attempts_exhausted");
    let retry = |secs: u64, ring: bool| Settlement::Retry {
        error: "x".into(),
        due: UnixMillis(1_000) + Duration::from_secs(secs),
        resend_after: ring.then_some(Duration::from_secs(secs)),
    };
    assert_eq!(of(Outcome::retry("x"), 1), retry(10, true));
    assert_eq!(of(Outcome::retry("x"), 3), retry(300, true));
    assert_eq!(of(Outcome::retry("x"), 4), retry(1800, false));
    assert_eq!(of(Outcome::retry("x"), 9), retry(7200, false));
}

fn refused(within: u64) -> Outcome {
    Outcome::Refused {
        error: "orders: the destination answered 404".into(),
        after: None,
        within: Duration::from_secs(within),
    }
}

#[test]
fn a_refused_event_has_six_attempts_within_three_hours() {
    let mut waits = Vec::new();
    for attempt in 1..=6 {
        match of(refused(3 * 3_600), attempt) {
            Settlement::Retry { error, due, .. } => {
                waits.push(due.since(UnixMillis(1_000)).as_secs());
                let number = format!("answered 404 (attempt {attempt} of 6)");
                assert!(error.ends_with(&number), "{error}");
            }
            Settlement::DeadLetter { reason, error } => {
                let said = "orders: the destination answered 404 (attempt 6 of 6)";
                assert_eq!((attempt, reason, error.as_str()), (6, REFUSED, said));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(waits, [10, 60, 300, 1_800, 7_200]);
    // Another action had ten attempts.
    let Settlement::DeadLetter { error, .. } = of(refused(3 * 3_600), 9) else {
        panic!()
    };
    assert!(error.ends_with("(attempt 9)"), "{error}");
    let once = of(refused(0), 1);
    assert!(matches!(once, Settlement::DeadLetter { .. }), "{once:?}");
}

#[test]
fn a_deferral_that_was_asked_for_keeps_the_first_attempt() {
    let asked = |asked| Outcome::Deferred {
        why: "429".into(),
        until: UnixMillis(9_000),
        asked,
    };
    let first = |row: &Row, by_destination| {
        let now = UnixMillis(7_000);
        match Settlement::of(asked(by_destination), row, &Backoff::default(), now, 0.0) {
            Settlement::Deferred { first, .. } => first,
            other => panic!("{other:?}"),
        }
    };
    let mut row = row(1);
    assert_eq!(first(&row, false), None);
    assert_eq!(first(&row, true), Some(UnixMillis(7_000)));
    let failed = |at, what: &str| Moment {
        at: UnixMillis(at),
        what: what.to_owned(),
        attempt: 1,
        lease_until: None,
        owner: String::new(),
        note: String::new(),
    };
    row.history = vec![failed(2_000, "failed"), failed(3_000, "failed")];
    assert_eq!(first(&row, true), Some(UnixMillis(2_000)));
    row.history.push(failed(4_000, REPLAYED));
    assert_eq!(first(&row, true), Some(UnixMillis(7_000)));
    row.history.push(failed(5_000, "failed"));
    assert_eq!(first(&row, true), Some(UnixMillis(5_000)));
}

#[test]
fn a_worker_rings_for_itself_at_most_three_times_a_run() {
    let quick = Backoff {
        attempts: 50,
        waits: vec![Duration::from_secs(1)],
    };
    let rings = (1..50)
        .filter(|attempt| {
            let settlement = Settlement::of(
                Outcome::retry("x"),
                &row(*attempt),
                &quick,
                UnixMillis(0),
                0.5,
            );
            matches!(
                settlement,
                Settlement::Retry {
                    resend_after: Some(_),
                    ..
                }
            )
        })
        .count();
    assert_eq!(rings, 3);
    let rings = (0..50).filter(|put_offs| {
        let row = Row {
            deferrals: *put_offs,
            ..row(1)
        };
        let outcome = Outcome::deferred("full", UnixMillis(9));
        let settlement = Settlement::of(outcome, &row, &quick, UnixMillis(0), 0.5);
        matches!(
            settlement,
            Settlement::Deferred {
                resend_after: Some(_),
                ..
            }
        )
    });
    assert_eq!(rings.count(), 3);
}
