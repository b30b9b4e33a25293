use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::timing::LEASE;
use shared::inbox::ledger::Item;

use super::*;

/// 2026-11-20T10:14:41Z
pub(in super::super) const NOW: i64 = 1_795_169_681_000;

/// The ids of the event `stripe-main:evt_1PqKrs`, which `infra/docs/trace.md` has, too.
pub(in super::super) const TRACE: &str = "001f89d7ca2ca83e415e661b0eed1325";
pub(in super::super) const RECEIPT: &str = "e83486e0a7562551";
pub(in super::super) const EFFECT: &str = "1e80fbd3c3225e67";
const ATTEMPT: &str = "021cccfb26504b13";
const OWNER: &str = "processor/0123456789ab";
const KEY: &str = "wh_b76qkifxhx4peotcvlirfsujbj2nogdq656kxyr2";

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Returns the end of a lease that began this long after the receipt.
fn lease(after: i64) -> i64 {
    NOW + after + 35_000
}

fn entry(after: i64, what: &str, attempt: u32, began: i64, owner: &str, note: &str) -> String {
    let (at, until) = (NOW + after, lease(began));
    format!("{at}|{what}|{attempt}|{until}|{owner}|{note}")
}

/// Returns the row of a received event with this history.
fn item(state: &str, history: &[String]) -> Item {
    let history = history.iter().map(|entry| s(entry)).collect();
    Item::from([
        ("pk".to_owned(), s("E#stripe-main#evt_1PqKrs")),
        ("sv".to_owned(), n(1)),
        ("st".to_owned(), s(state)),
        ("epoch".to_owned(), n(2)),
        ("run".to_owned(), n(0)),
        ("att".to_owned(), n(2)),
        ("cr".to_owned(), n(0)),
        ("rcv".to_owned(), n(NOW)),
        ("bref".to_owned(), s("i")),
        ("ty".to_owned(), s("invoice.paid")),
        ("h".to_owned(), AttributeValue::L(history)),
        ("fx".to_owned(), AttributeValue::M(Item::new())),
    ])
}

fn with_effect(mut item: Item, after: i64, state: &str) -> Item {
    let effect = Item::from([
        ("s".to_owned(), s(state)),
        ("k".to_owned(), s(KEY)),
        ("at".to_owned(), n(NOW + after)),
        ("r".to_owned(), s("200")),
    ]);
    let effects = Item::from([("orders".to_owned(), AttributeValue::M(effect))]);
    item.insert("fx".to_owned(), AttributeValue::M(effects));
    item
}

fn of(item: &Item) -> Trace {
    Trace::of(&Row::read(item).unwrap(), LEASE, None)
}

/// A failed attempt, and a second one that is done.
fn history() -> [String; 2] {
    [
        entry(
            12_433,
            "failed",
            1,
            33,
            "processor/a",
            "orders: answered 502",
        ),
        entry(22_933, "done", 2, 22_433, OWNER, ""),
    ]
}

pub(in super::super) fn retried() -> Trace {
    of(&with_effect(item("done", &history()), 22_900, "done"))
}

fn shape(trace: &Trace) -> Vec<(What, i64, Option<i64>)> {
    let spans = trace.spans.iter();
    spans
        .map(|span| (span.what, span.start - NOW, span.end.map(|end| end - NOW)))
        .collect()
}

#[test]
fn each_attempt_has_the_wait_before_it() {
    let trace = retried();
    assert_eq!(
        shape(&trace),
        [
            (What::Receipt, 0, Some(0)),
            (What::Wait, 0, Some(33)),
            (What::Attempt, 33, Some(12_433)),
            (What::Wait, 12_433, Some(22_433)),
            (What::Attempt, 22_433, Some(22_933)),
            (What::Effect, 22_900, Some(22_900)),
        ]
    );
    assert_eq!(trace.id.to_string(), TRACE);
    let ids = [0, 4, 5].map(|place: usize| trace.spans[place].id.unwrap().to_string());
    assert_eq!(ids, [RECEIPT, ATTEMPT, EFFECT]);
    assert_eq!(trace.spans[5].parent, trace.spans[4].id);
}

#[test]
fn an_open_event_waits_without_an_end() {
    let mut item = item("failed", &history()[..1]);
    item.insert("due".to_owned(), n(NOW + 60_000));
    item.insert("off".to_owned(), n(3));
    item.insert("err".to_owned(), s("erp has reached its rate limit"));
    let trace = of(&with_effect(item, 20_000, "done"));
    let [.., wait, effect] = &trace.spans[..] else {
        panic!("{:?}", trace.spans)
    };
    assert_eq!((wait.what, wait.id, wait.end), (What::Wait, None, None));
    assert_eq!(wait.detail, "erp has reached its rate limit");
    // A deferred claim had this effect, and the history has no entry for it.
    assert_eq!(effect.parent, trace.spans[0].id);
    assert_eq!(effect.id.unwrap().to_string(), EFFECT);
    assert_eq!((trace.deferrals, trace.due), (3, Some(NOW + 60_000)));
}

#[test]
fn a_running_attempt_has_no_end() {
    let mut item = item("processing", &history()[..1]);
    item.insert("own".to_owned(), s(OWNER));
    item.insert("lu".to_owned(), n(lease(22_433)));
    let trace = of(&with_effect(item, 22_500, "intent"));
    let attempt = &trace.spans[4];
    assert_eq!((attempt.start, attempt.end), (NOW + 22_433, None));
    assert_eq!(attempt.id.unwrap().to_string(), ATTEMPT);
    assert_eq!(trace.spans[5].parent, attempt.id);
    assert_eq!(trace.spans[5].outcome, "intent");
}

#[test]
fn an_unknown_start_is_the_end() {
    // The lease of a long action, read with the length of a short one.
    let late = entry(60_000, "done", 1, 100_000, OWNER, "");
    let trace = of(&with_effect(item("done", &[late]), 50_000, "done"));
    let [_, attempt, effect] = &trace.spans[..] else {
        panic!("{:?}", trace.spans)
    };
    let end = NOW + 60_000;
    assert_eq!((attempt.start, attempt.end), (end, Some(end)));
    assert_eq!(effect.parent, attempt.id);
}

#[test]
fn a_replay_and_a_crash_are_shown() {
    let history = [
        entry(12_433, "dead_letter", 3, 33, "processor/a", "permanent"),
        format!("{}|replayed|0|||rpl_7KQ2M4", NOW + 20_000),
        entry(22_933, "done", 1, 22_433, OWNER, ""),
    ];
    let trace = of(&item("done", &history));
    let names: Vec<&str> = trace.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "receipt",
            "wait",
            "attempt 3",
            "replayed",
            "wait",
            "attempt 1"
        ]
    );
    assert_eq!(trace.spans[1].detail, "2 attempts crashed");
    assert_eq!(trace.spans[3].detail, "rpl_7KQ2M4");
    assert_eq!(trace.spans[4].detail, "");
}
