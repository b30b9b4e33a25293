//! Tests circuit breakers and rate limits across several processes. The test sets the clock.

use std::time::Duration;

use shared::base::backoff::Backoff;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::delivery::breaker::{Breakers, CallResult, Pass, Position};
use shared::delivery::rates::{Rates, Turn};
use shared::inbox::ledger::{Claim, Settlement, State};
use shared::inbox::outcome::Outcome;
use shared::sources::Config;
use shared::webhook::event::EventKey;

use crate::support::{NOW, Table, after, event, number};

fn at(secs: u64) -> UnixMillis {
    NOW + Duration::from_secs(secs)
}

impl Table {
    fn breakers(&self) -> Breakers {
        Breakers::new(self.db.clone(), &self.name)
    }
}

async fn fail(breakers: &Breakers, times: u32, now: UnixMillis) {
    for _ in 0..times {
        breakers
            .heard("d", Pass::Free, CallResult::Failure, now, 0.0)
            .await;
    }
}

fn open_until(until: UnixMillis) -> Position {
    let refused = None;
    Position::Open { until, refused }
}

async fn refuse(breakers: &Breakers, pass: Pass, event: u64, now: UnixMillis) {
    let status = 404;
    let refused = CallResult::Refused { status, event };
    breakers.heard("d", pass, refused, now, 0.0).await;
}

fn probes(passes: &[Pass]) -> usize {
    let probes = passes.iter().filter(|pass| matches!(pass, Pass::Probe(_)));
    probes.count()
}

#[tokio::test]
async fn what_one_process_finds_out_spares_the_destination_from_all() {
    let table = Table::fresh().await;
    let (one, two) = (table.breakers(), table.breakers());
    assert_eq!(one.pass("d", NOW).await, Pass::Free);
    fail(&one, 4, NOW).await;
    assert!(
        table.item("SYS", "BRK#d").await.is_none(),
        "too few calls to decide"
    );
    fail(&one, 1, NOW).await;
    let open = Pass::Down {
        until: at(30),
        spread: Duration::from_secs(30),
        refused: None,
    };
    assert_eq!(one.pass("d", NOW).await, open);
    assert_eq!(two.pass("d", NOW).await, open);
    assert_eq!(two.pass("other", NOW).await, Pass::Free);

    // After the open time, only one of many concurrent callers may send a probe.
    let many: Vec<_> = (0..8).map(|_| table.breakers()).collect();
    for breakers in &many {
        assert_eq!(breakers.position("d", at(30)).await, Position::Probing);
    }
    let passes = many.iter().map(|breakers| breakers.pass("d", at(30)));
    let mut passes = futures::future::join_all(passes).await;
    assert_eq!(probes(&passes), 1, "{passes:?}");
    let winner = passes
        .iter()
        .position(|pass| matches!(pass, Pass::Probe(_)))
        .unwrap();
    let probe = passes.swap_remove(winner);
    let until_it_is_known = Pass::Down {
        until: at(60),
        spread: Duration::from_secs(30),
        refused: None,
    };
    assert!(
        passes.iter().all(|pass| *pass == until_it_is_known),
        "{passes:?}"
    );
    many[winner]
        .heard("d", probe, CallResult::Failure, at(31), 0.0)
        .await;
    assert_eq!(two.position("d", at(40)).await, open_until(at(91)));

    let probe = two.pass("d", at(91)).await;
    assert!(matches!(probe, Pass::Probe(_)));
    two.heard("d", probe, CallResult::Success, at(92), 0.0)
        .await;
    assert_eq!(one.pass("d", at(96)).await, Pass::Free);
    let item = table.item("SYS", "BRK#d").await.unwrap();
    assert!(number(&item, "ttl") > at(92).secs());
}

/// Reports an event of a worker outside of Lambda.
async fn works(breakers: &Breakers, claimed_at: UnixMillis, failed: bool, now: UnixMillis) {
    breakers
        .heard_from_worker("d", claimed_at, failed, now, 0.0)
        .await;
}

#[tokio::test]
async fn the_event_of_a_worker_probes_the_destination() {
    let table = Table::fresh().await;
    let (one, two) = (table.breakers(), table.breakers());
    for _ in 0..5 {
        works(&one, NOW, true, at(1)).await;
    }
    assert_eq!(one.position("d", at(1)).await, open_until(at(31)));
    // A worker that had claimed its event before says nothing new.
    works(&one, at(0), false, at(2)).await;
    assert_eq!(one.position("d", at(2)).await, open_until(at(31)));
    // The probe begins in one process, and its result reaches another one.
    assert!(matches!(two.pass("d", at(31)).await, Pass::Probe(_)));
    works(&one, at(31), true, at(40)).await;
    assert_eq!(one.position("d", at(40)).await, open_until(at(100)));
    assert!(matches!(two.pass("d", at(100)).await, Pass::Probe(_)));
    works(&one, at(100), false, at(107)).await;
    assert_eq!(one.position("d", at(107)).await, Position::Closed);
    assert_eq!(two.position("d", at(108)).await, Position::Closed);
}

#[tokio::test]
async fn ten_refused_events_open_the_breaker_of_all_processes() {
    let table = Table::fresh().await;
    let (one, two) = (table.breakers(), table.breakers());
    // One event that is refused each time says nothing about the destination.
    for _ in 0..40 {
        refuse(&one, Pass::Free, 1, NOW).await;
    }
    for event in 2..10 {
        refuse(&one, Pass::Free, event, NOW).await;
    }
    assert!(table.item("SYS", "BRK#d").await.is_none());
    refuse(&one, Pass::Free, 10, NOW).await;
    let (until, refused) = (at(60), Some(404));
    let spread = Duration::from_secs(60);
    let down = |until| Pass::Down {
        until,
        spread,
        refused,
    };
    assert_eq!(one.pass("d", NOW).await, down(until));
    assert_eq!(two.pass("d", NOW).await, down(until));
    let position = Position::Open { until, refused };
    assert_eq!(two.read_position("d", NOW).await.unwrap(), position);

    // One probe a minute, for as long as the destination refuses.
    let mut now = until;
    for round in 0..3 {
        let probe = two.pass("d", now).await;
        assert!(matches!(probe, Pass::Probe(_)), "{round}: {probe:?}");
        assert!(matches!(one.pass("d", now).await, Pass::Down { .. }));
        refuse(&two, probe, 100 + round, now).await;
        now = now + Duration::from_secs(60);
        assert_eq!(two.pass("d", now - Duration::from_secs(1)).await, down(now));
    }
    let probe = one.pass("d", now).await;
    assert!(matches!(probe, Pass::Probe(_)), "{probe:?}");
    one.heard("d", probe, CallResult::Success, now, 0.0).await;
    assert_eq!(
        two.pass("d", now + Duration::from_secs(6)).await,
        Pass::Free
    );
    assert_eq!(two.read_position("d", now).await.unwrap(), Position::Closed);
}

#[tokio::test]
async fn a_poison_event_among_good_ones_opens_no_breaker() {
    let table = Table::fresh().await;
    let (proxy, _) = table.through_proxy().await;
    let breakers = Breakers::new(crate::support::quick(&proxy.url), &table.name);
    for event in 0..60 {
        let pass = breakers.pass("d", NOW).await;
        assert_eq!(pass, Pass::Free, "{event}");
        // Eight different events are refused between two other answers.
        refuse(&breakers, pass, event % 3, NOW).await;
        refuse(&breakers, Pass::Free, 1_000 + event, NOW).await;
        if event % 5 == 4 {
            let other = [CallResult::Success, CallResult::Failure][(event / 5 % 2) as usize];
            breakers.heard("d", Pass::Free, other, NOW, 0.0).await;
            breakers
                .heard("d", Pass::Free, CallResult::Success, NOW, 0.0)
                .await;
        }
    }
    assert!(table.item("SYS", "BRK#d").await.is_none());
    assert_eq!(proxy.count().get("UpdateItem"), None);
    assert_eq!(proxy.count()["GetItem"], 1);
}

#[tokio::test]
async fn a_refused_probe_shows_that_a_failing_destination_answers() {
    let table = Table::fresh().await;
    let breakers = table.breakers();
    fail(&breakers, 5, NOW).await;
    let probe = breakers.pass("d", at(30)).await;
    refuse(&breakers, probe, 1, at(31)).await;
    assert_eq!(breakers.pass("d", at(32)).await, Pass::Free);
    // A destination that refused everything and is now unavailable is down for that reason.
    for event in 0..10 {
        refuse(&breakers, Pass::Free, event, at(40)).await;
    }
    let probe = breakers.pass("d", at(100)).await;
    let failure = CallResult::Failure;
    breakers.heard("d", probe, failure, at(101), 0.0).await;
    let position = breakers.read_position("d", at(102)).await.unwrap();
    let open = matches!(position, Position::Open { refused: None, .. });
    assert!(open, "{position:?}");
}

#[tokio::test]
async fn two_tasks_of_one_process_do_not_both_probe() {
    let table = Table::fresh().await;
    let breakers = table.breakers();
    fail(&breakers, 5, NOW).await;
    // The tasks see the same revision, and write equal values at the same time.
    let passes = (0..8).map(|_| breakers.pass("d", at(30)));
    let passes = futures::future::join_all(passes).await;
    assert_eq!(probes(&passes), 1, "{passes:?}");
}

#[tokio::test]
async fn a_prober_that_dies_is_followed_by_another_and_its_late_word_is_not_heard() {
    let table = Table::fresh().await;
    let (one, two) = (table.breakers(), table.breakers());
    fail(&one, 5, NOW).await;
    let dead = one.pass("d", at(30)).await;
    assert!(matches!(dead, Pass::Probe(_)));
    assert!(matches!(two.pass("d", at(31)).await, Pass::Down { .. }));
    let next = two.pass("d", at(61)).await;
    assert!(matches!(next, Pass::Probe(_)), "{next:?}");
    // The first process had only paused. It sees a success before the next failure.
    one.heard("d", dead, CallResult::Success, at(62), 0.0).await;
    two.heard("d", next, CallResult::Failure, at(63), 0.0).await;
    assert_eq!(one.position("d", at(70)).await, open_until(at(123)));
}

#[tokio::test]
async fn who_may_probe_knows_it_though_the_answer_was_lost() {
    let table = Table::fresh().await;
    let (proxy, _) = table.through_proxy().await;
    let one = Breakers::new(crate::support::quick(&proxy.url), &table.name);
    fail(&one, 5, NOW).await;
    proxy.lose_answer("UpdateItem", "BRK#d");
    let pass = one.pass("d", at(30)).await;
    assert!(matches!(pass, Pass::Probe(_)), "{pass:?}");
    let other = table.breakers().pass("d", at(30)).await;
    assert!(matches!(other, Pass::Down { .. }), "{other:?}");
}

#[tokio::test]
async fn happy_calls_read_every_five_seconds_and_write_nothing() {
    let table = Table::fresh().await;
    let (proxy, _) = table.through_proxy().await;
    let breakers = Breakers::new(crate::support::quick(&proxy.url), &table.name);
    for ms in (0..20_000).step_by(100) {
        let pass = breakers.pass("d", after(ms)).await;
        breakers
            .heard("d", pass, CallResult::Success, after(ms), 0.0)
            .await;
    }
    assert_eq!(proxy.count()["GetItem"], 4);
    assert_eq!(proxy.count().get("UpdateItem"), None);
}

#[tokio::test]
async fn a_destination_of_which_a_fifth_fails_is_strained_and_no_other() {
    let table = Table::fresh().await;
    let breakers = table.breakers();
    fail(&breakers, 2, NOW).await;
    assert!(
        !breakers.is_strained("d", NOW),
        "two failed calls are too few to decide"
    );
    for destination in ["d", "other"] {
        for _ in 0..8 {
            breakers
                .heard(destination, Pass::Free, CallResult::Success, NOW, 0.0)
                .await;
        }
    }
    assert!(breakers.is_strained("d", NOW));
    assert!(!breakers.is_strained("other", NOW));
    assert!(
        !breakers.is_strained("d", at(60)),
        "the result is not valid in the next minute"
    );
    assert_eq!(
        breakers.pass("d", NOW).await,
        Pass::Free,
        "the destination works"
    );
}

#[tokio::test]
async fn without_the_table_nothing_is_spared_and_nothing_stops() {
    let table = Table::fresh().await;
    let breakers = Breakers::new(table.db.clone(), "no-such-table");
    fail(&breakers, 9, NOW).await;
    assert_eq!(breakers.pass("d", after(100)).await, Pass::Free);
    let rates = Rates::new(table.db.clone(), "no-such-table");
    assert!(rates.take("d", rate(), false, NOW, 0.0).await.is_err());
}

fn rate() -> shared::sources::Rate {
    let file = r#"
schema = 1
[[source]]
name = "s"
preset = "github"
[[source.action]]
kind = "lambda"
function = "orders"
rate = "5/m"
"#;
    let config = Config::parse(file).unwrap();
    let action = &config.source("s").unwrap().actions[0];
    action.destination.as_ref().unwrap().rate.unwrap()
}

#[tokio::test]
async fn a_rate_is_kept_over_all_processes() {
    let table = Table::fresh().await;
    let many: Vec<_> = (0..12)
        .map(|_| Rates::new(table.db.clone(), &table.name))
        .collect();
    let turns = many
        .iter()
        .map(|rates| rates.take("d", rate(), false, NOW, 0.0));
    let turns = futures::future::join_all(turns).await;
    let mut waits: Vec<_> = turns
        .into_iter()
        .filter_map(|turn| match turn.unwrap() {
            Turn::Now => None,
            Turn::At(at) => Some(at),
        })
        .collect();
    waits.sort();
    let minute = |n: i64| UnixMillis((NOW.0 / 60_000 + n) * 60_000);
    assert_eq!(
        waits,
        [
            minute(1),
            minute(1),
            minute(1),
            minute(1),
            minute(1),
            minute(2),
            minute(2)
        ]
    );
    let window = format!("RATE#d#{}", NOW.0 / 60_000);
    let counter = table.item("SYS", &window).await.unwrap();
    assert_eq!(number(&counter, "n"), 12);
    // The counter does not expire while a process with a slow clock still writes to it.
    assert!(number(&counter, "ttl") >= minute(61).secs());
    let next = many[0]
        .take("d", rate(), false, minute(1), 0.0)
        .await
        .unwrap();
    assert_eq!(next, Turn::Now);
    assert_eq!(
        many[0]
            .take("other", rate(), false, NOW, 0.0)
            .await
            .unwrap(),
        Turn::Now
    );
}

#[tokio::test]
async fn what_is_old_finds_half_of_a_rate_and_takes_nothing_from_what_is_new() {
    let table = Table::fresh().await;
    let rates = Rates::new(table.db.clone(), &table.name);
    let take = async |old| {
        let turn = rates.take("d", rate(), old, NOW, 0.0).await.unwrap();
        turn == Turn::Now
    };
    // The rate allows five calls a minute. Old events get at most two calls, however often they
    // try, so new events get at least three calls.
    let mut old = Vec::new();
    for _ in 0..9 {
        old.push(take(true).await);
    }
    assert_eq!(old.iter().filter(|now| **now).count(), 2);
    let mut new = Vec::new();
    for _ in 0..4 {
        new.push(take(false).await);
    }
    assert_eq!(new, [true, true, true, false]);
}

/// Runs a processor on an event once. Returns whether the processor called the destination.
async fn visit(
    table: &Table,
    breakers: &Breakers,
    key: &EventKey,
    backoff: &Backoff,
    up: bool,
    now: UnixMillis,
) -> bool {
    let claim = table
        .ledger
        .claim(key, "worker", now, LEASE, backoff.attempts)
        .await;
    let Claim::Leased(lease) = claim.unwrap() else {
        return false;
    };
    let pass = breakers.pass("d", now).await;
    let put_off = |pass: Pass| match pass {
        Pass::Down { until, spread, .. } => Outcome::deferred("down", until + spread.mul_f64(0.5)),
        other => panic!("{other:?}"),
    };
    let (outcome, called) = match pass {
        Pass::Down { .. } => (put_off(pass), false),
        pass if up => {
            breakers
                .heard("d", pass, CallResult::Success, now, 0.0)
                .await;
            (Outcome::Done, true)
        }
        pass => {
            let probes = matches!(pass, Pass::Probe(_));
            breakers
                .heard("d", pass, CallResult::Failure, now, 0.0)
                .await;
            let outcome = if probes {
                put_off(breakers.pass("d", now).await)
            } else {
                Outcome::retry("502")
            };
            (outcome, true)
        }
    };
    let settlement = Settlement::of(outcome, &lease.row, backoff, now, 0.5);
    table
        .ledger
        .settle(*lease, settlement, &[], now)
        .await
        .unwrap();
    called
}

#[tokio::test]
async fn an_outage_of_six_hours_makes_no_dead_letter_and_few_calls() {
    const SIX_HOURS: u64 = 6 * 3600;
    let table = Table::fresh().await;
    let breakers = table.breakers();
    // Without a circuit breaker, the event would use all of these attempts within minutes.
    let backoff = Backoff {
        attempts: 4,
        waits: vec![Duration::from_secs(10)],
    };
    let mut keys = Vec::new();
    for n in 0..8 {
        keys.push(table.receive(&event(&format!("evt_{n}"))).await);
    }
    let (mut calls, mut back) = (0, Vec::new());
    for secs in (0..SIX_HOURS + 1_800).step_by(30) {
        for key in &keys {
            let up = secs >= SIX_HOURS;
            let called = visit(&table, &breakers, key, &backoff, up, at(secs)).await;
            calls += u32::from(called && !up);
            if called && up {
                back.push(secs - SIX_HOURS);
            }
        }
    }
    for key in &keys {
        let row = table.ledger.event(key).await.unwrap().unwrap();
        assert_eq!(row.state, State::Done, "{key}: {row:?}");
        assert!(row.attempts <= backoff.attempts);
    }
    assert!(calls < 60, "{calls} calls in six hours");
    assert!(back.last().unwrap() < &1_000, "{back:?}");
}

#[tokio::test]
async fn a_probe_that_takes_minutes_is_the_only_one_and_closes_the_breaker() {
    let table = Table::fresh().await;
    let (one, two) = (table.breakers(), table.breakers());
    let long = Duration::from_secs(300);
    fail(&one, 5, NOW).await;
    let probe = one.pass_for("d", long, at(30)).await;
    assert!(matches!(probe, Pass::Probe(_)), "{probe:?}");
    for seconds in [61, 200, 330] {
        let other = two.pass_for("d", long, at(seconds)).await;
        assert!(matches!(other, Pass::Down { .. }), "{seconds}: {other:?}");
    }
    one.heard("d", probe, CallResult::Success, at(331), 0.0)
        .await;
    assert_eq!(two.pass("d", at(340)).await, Pass::Free);
}
