//! Tests each operation on a row in each state.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{
    By, Claim, EffectRow, EffectState, Hold as HoldOf, HoldDecision, Item, Lease, PARKED_SCHEMA,
    Received, RouteAnswer, RouteOutcome, SCHEMA, Settled, Settlement, SweepResult, TRIAL_SCHEMA,
    TrialRecord,
};
use shared::webhook::event::{Event, EventKey};

use crate::support::{ATTEMPTS, NOW, Table, dead, event, ms, n, number, retry_at, s, text};

/// The time of the operations.
const THEN: UnixMillis = UnixMillis(NOW.0 + 3_600_000);

/// The state of a row. The same state can have several cases, which differ only in the time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Received,
    Live,
    Expired,
    Done,
    FailedDue,
    FailedEarly,
    DeadLetter,
    Quarantined,
    /// A trial recorded the event. The route did not accept it.
    Recorded,
    /// A trial recorded the event. The route accepted it.
    Accepted,
    /// The event waits for an approval.
    Held,
}

const STANDS: [Stand; 11] = [
    Stand::Received,
    Stand::Live,
    Stand::Expired,
    Stand::Done,
    Stand::FailedDue,
    Stand::FailedEarly,
    Stand::DeadLetter,
    Stand::Quarantined,
    Stand::Recorded,
    Stand::Accepted,
    Stand::Held,
];

/// The lease of a worker, compared with the lease in the row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fence {
    Right,
    /// The row has another epoch. All other values are the worker's.
    OldEpoch,
    /// The row has another owner. All other values are the worker's.
    OtherOwner,
}

use Fence::{OldEpoch, OtherOwner, Right};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    /// The event arrives again.
    Receive,
    Claim,
    /// A claim of an event that has no attempts left.
    ClaimUsedUp,
    Keep,
    Intend(Fence),
    Done(Fence),
    Retry(Fence),
    Dead(Fence),
    /// A rule holds the event.
    Hold(Fence),
    Approve,
    Reject,
    /// The sweep ends a hold, before and after its end.
    Expire,
    ExpireLate,
    /// The sweep, with a current index entry.
    Look,
    /// The sweep, with an outdated index entry.
    LookLate,
    /// The sweep, with a full queue.
    LookFull,
    LookUsedUp,
    /// The event arrives in a trial.
    Record,
    /// The route of a trial answers with a 2xx status.
    RouteAnswer,
}

/// The expected results. The text before the arrow is the answer, and the text after the arrow is
/// the state of the changed row. Without an arrow, no attribute of the row changes.
#[rustfmt::skip]
const TABLE: [(Op, [&str; 11]); 29] = [
    //                    received                 live                  expired                  done        failed, due              failed, not due          dead letter  quarantined  in a trial          accepted in a trial  held
    (Op::Receive,            ["open",                  "open",               "open",                  "settled",  "open",                  "open",                  "settled",   "settled",   "open → received",  "settled", "open"]),
    (Op::Claim,              ["leased → processing",   "held",               "leased → processing",   "settled",  "leased → processing",   "not due",               "settled",   "settled",   "settled",          "settled", "on hold"]),
    (Op::ClaimUsedUp,        ["exhausted → dead_letter", "held",             "exhausted → dead_letter", "settled", "exhausted → dead_letter", "exhausted → dead_letter", "settled", "settled",   "settled",          "settled", "on hold"]),
    // Workers have claimed each of these rows before.
    (Op::Keep,               ["refused",               "refused",            "refused",               "refused",  "refused",               "refused",               "refused",   "refused",   "refused",          "refused", "refused"]),
    (Op::Intend(Right),      ["refused",               "noted → processing", "noted → processing",    "refused",  "refused",               "refused",               "refused",   "refused",   "refused",          "refused", "refused"]),
    (Op::Intend(OldEpoch),   ["refused",               "refused",            "refused",               "refused",  "refused",               "refused",               "refused",   "refused",   "refused",          "refused", "refused"]),
    (Op::Intend(OtherOwner), ["refused",               "refused",            "refused",               "refused",  "refused",               "refused",               "refused",   "refused",   "refused",          "refused", "refused"]),
    (Op::Done(Right),        ["stale",                 "recorded → done",    "recorded → done",       "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Done(OldEpoch),     ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Done(OtherOwner),   ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Retry(Right),       ["stale",                 "recorded → failed",  "recorded → failed",     "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Retry(OldEpoch),    ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Retry(OtherOwner),  ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    // If a dead letter has another time, another task such as the sweep recorded it.
    (Op::Dead(Right),        ["stale",                 "recorded → dead_letter", "recorded → dead_letter", "stale", "stale",                "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Dead(OldEpoch),     ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Dead(OtherOwner),   ["stale",                 "stale",              "stale",                 "stale",    "stale",                 "stale",                 "stale",     "stale",     "stale",            "stale", "stale"]),
    (Op::Look,               ["rings → received",      "left → processing",  "rings → processing",    "left",     "rings → failed",        "rings → failed",        "left",      "left",      "left",             "left", "left"]),
    (Op::LookLate,           ["left",                  "left",               "left",                  "left",     "left",                  "left",                  "left",      "left",      "left",             "left", "left"]),
    (Op::LookFull,           ["held back",             "left → processing",  "held back",             "left",     "rings → failed",        "rings → failed",        "left",      "left",      "left",             "left", "left"]),
    (Op::LookUsedUp,         ["exhausted → dead_letter", "left → processing", "exhausted → dead_letter", "left",  "exhausted → dead_letter", "exhausted → dead_letter", "left",  "left",      "left",             "left", "left"]),
    (Op::Record,             ["known",                 "known",              "known",                 "known",    "known",                 "known",                 "known",     "known",     "known",            "known", "known"]),
    (Op::RouteAnswer,        ["refused",               "refused",            "refused",               "refused",  "refused",               "refused",               "refused",   "refused",   "recorded → done",  "recorded → done", "refused"]),
    (Op::Hold(Right), ["stale", "recorded → received", "recorded → received", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale"]),
    (Op::Hold(OldEpoch), ["stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale"]),
    (Op::Hold(OtherOwner), ["stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale", "stale"]),
    (Op::Approve, ["moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "made → received"]),
    (Op::Reject, ["moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "made → dead_letter"]),
    (Op::Expire, ["moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved"]),
    (Op::ExpireLate, ["moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "moved", "made → dead_letter"]),
];

#[tokio::test]
async fn each_operation_on_each_state_has_its_outcome() {
    let table = Table::fresh().await;
    let mut wrong = Vec::new();
    let mut cells = 0;
    for (op, outcomes) in TABLE {
        for (stand, expected) in STANDS.into_iter().zip(outcomes) {
            cells += 1;
            let found = Box::pin(try_on(&table, op, stand)).await;
            if found != expected {
                wrong.push(format!("{op:?} on {stand:?}: {found}, not {expected}"));
            }
        }
    }
    assert_eq!(cells, 319);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn try_on(table: &Table, op: Op, stand: Stand) -> String {
    let event = event(&format!("{op:?}/{stand:?}").replace(['(', ')'], "."));
    let key = table.receive(&event).await;
    // This is the second lease, so that the row has an older epoch and a crash.
    table.lease(&key, NOW).await;
    let lease = table.lease(&key, THEN - Duration::from_secs(1)).await;
    let before = table.edit(&key, |row| place(row, op, stand)).await;
    let answer = Box::pin(carry_out(table, op, &event, &before, lease)).await;
    let after = table.row(&key).await;
    if after == before {
        return answer.to_owned();
    }
    let mut before = before;
    if (op, stand) == (Op::Receive, Stand::Recorded) {
        // The event leaves the trial in a new run. All releases process a row of this version.
        assert_eq!(number(&after, "sv"), i64::from(SCHEMA));
        assert_eq!(number(&after, "run"), number(&before, "run") + 1);
        for name in ["sv", "run"] {
            before.insert(name.into(), after[name].clone());
        }
    }
    if matches!(op, Op::Hold(_)) {
        assert_eq!(number(&after, "sv"), i64::from(PARKED_SCHEMA));
        before.insert("sv".into(), after["sv"].clone());
    } else if stand == Stand::Held {
        assert_eq!(number(&after, "sv"), i64::from(SCHEMA));
        before.insert("sv".into(), after["sv"].clone());
    }
    assert_sound(&before, &after);
    format!("{answer} → {}", text(&after, "st"))
}

/// Puts the row into the given state.
fn place(row: &mut Item, op: Op, stand: Stand) {
    let pk = text(row, "pk");
    let owner = text(row, "own");
    // Adds an attribute of newer code.
    row.insert("zz".into(), s("of a later version"));
    let fence = match op {
        Op::Intend(fence)
        | Op::Done(fence)
        | Op::Retry(fence)
        | Op::Dead(fence)
        | Op::Hold(fence) => Some(fence),
        _ => None,
    };
    match stand {
        Stand::Live => {}
        Stand::Expired => {
            row.insert("lu".into(), n(THEN.0 - 5_001));
        }
        Stand::Received => {
            row.insert("st".into(), s("received"));
        }
        Stand::FailedDue | Stand::FailedEarly => {
            let early = i64::from(stand == Stand::FailedEarly);
            row.insert("st".into(), s("failed"));
            row.insert("due".into(), n(THEN.0 + early));
            if fence == Some(OldEpoch) {
                row.insert("due".into(), ms(next_due()));
            }
        }
        Stand::Done => {
            row.insert("st".into(), s("done"));
            row.insert("done_at".into(), ms(NOW));
            row.insert("ttl".into(), n(NOW.secs() + 1));
            // If the epoch is old, the worker itself ended the event.
            let own = fence == Some(OldEpoch);
            let by = if own { owner.as_str() } else { "another/1" };
            row.insert("done_by".into(), s(by));
            row.remove("gpk");
            row.remove("gsk");
        }
        Stand::DeadLetter => {
            row.insert("st".into(), s("dead_letter"));
            row.insert("reason".into(), s("permanent"));
            row.insert("err".into(), s("404"));
            row.insert("dead_at".into(), ms(NOW));
            let part = shared::inbox::ledger::transition::dead_partition(&pk);
            row.insert("gpk".into(), s(part));
            row.insert("gsk".into(), ms(NOW));
        }
        Stand::Quarantined => {
            row.insert("st".into(), s("quarantined"));
            row.remove("gpk");
            row.remove("gsk");
        }
        Stand::Held => place_hold(row),
        Stand::Recorded | Stand::Accepted => place_trial(row, stand == Stand::Accepted),
    }
    let processing = matches!(stand, Stand::Live | Stand::Expired);
    place_fence(row, fence, processing);
}

/// Puts the row into the state of an event that waits for an approval.
fn place_hold(row: &mut Item) {
    let hold = Item::from([
        ("id".to_owned(), s("h1")),
        ("rule".to_owned(), s("large")),
        ("eff".to_owned(), s("http")),
        ("plan".to_owned(), s("p1")),
        ("at".to_owned(), ms(NOW)),
        ("exp".to_owned(), ms(hold_end())),
        ("n".to_owned(), n(1)),
        ("sv".to_owned(), n(SCHEMA)),
    ]);
    row.insert("st".into(), s("received"));
    row.insert("sv".into(), n(PARKED_SCHEMA));
    row.insert("hld".into(), AttributeValue::M(hold));
    row.insert("apv".into(), AttributeValue::M(Item::new()));
    row.insert("gpk".into(), s("H#stripe-main"));
    row.insert("gsk".into(), ms(hold_end()));
}

fn hold_end() -> UnixMillis {
    THEN + Duration::from_secs(3_600)
}

/// Puts the row into the state of an event that a trial recorded.
fn place_trial(row: &mut Item, accepted: bool) {
    row.insert("sv".into(), n(TRIAL_SCHEMA));
    row.insert("st".into(), s("done"));
    row.insert("reason".into(), s("tee"));
    row.insert("done_at".into(), ms(NOW));
    row.insert("ttl".into(), n(NOW.secs() + 1));
    row.remove("gpk");
    row.remove("gsk");
    if accepted {
        row.insert("tok".into(), ms(NOW));
        row.insert("ten".into(), n(1));
        row.insert("teok".into(), n(1));
    }
}

fn place_fence(row: &mut Item, fence: Option<Fence>, processing: bool) {
    match fence {
        // Only the state differs from the state that the worker expects.
        Some(Right) => {}
        Some(OldEpoch) => {
            row.insert("epoch".into(), n(number(row, "epoch") + 1));
        }
        Some(OtherOwner) => {
            row.insert("own".into(), s("another/1"));
        }
        None if processing => {}
        None => {
            row.remove("own");
            row.remove("lu");
        }
    }
}

async fn carry_out(table: &Table, op: Op, event: &Event, row: &Item, lease: Lease) -> &'static str {
    let ledger = &table.ledger;
    let key = event.key();
    let att = u32::try_from(number(row, "att")).unwrap();
    match op {
        Op::Receive => match ledger.receive(event, THEN).await.unwrap() {
            Received::New => "new",
            Received::Parked => "parked",
            Received::Open { .. } => "open",
            Received::Settled => "settled",
            Received::Conflict(_) => "conflict",
            Received::Repeated(_) => "repeated",
            Received::Recorded(_) => "recorded",
        },
        Op::Claim => claim(table, key, ATTEMPTS).await,
        Op::ClaimUsedUp => claim(table, key, att).await,
        Op::Keep => match ledger.keep(key, "worker", THEN, LEASE).await.unwrap() {
            Some(_) => "kept",
            None => "refused",
        },
        Op::Intend(_) => {
            let effect = EffectRow {
                state: EffectState::Intent,
                key: "wh_1".into(),
                keyed: true,
                at: THEN,
                run: 0,
                note: String::new(),
                lease: None,
            };
            let noted = ledger.intend(&lease, "http", &effect).await.unwrap();
            if noted { "noted" } else { "refused" }
        }
        Op::Done(_) => settle(table, lease, Settlement::Done).await,
        Op::Retry(_) => settle(table, lease, retry_at(next_due())).await,
        Op::Dead(_) => settle(table, lease, dead()).await,
        Op::Hold(_) => settle(table, lease, Settlement::Held(Box::new(hold("h2")))).await,
        Op::Approve => decided(&ledger.approve(key, "h1", ANNA, THEN).await.unwrap()),
        Op::Reject => decided(&ledger.reject(key, "h1", ANNA, THEN).await.unwrap()),
        Op::Expire => decided(&ledger.expire_hold(key, THEN).await.unwrap()),
        Op::ExpireLate => decided(&ledger.expire_hold(key, hold_end()).await.unwrap()),
        Op::Look => look(table, key, row, (0, ATTEMPTS, true)).await,
        Op::LookLate => look(table, key, row, (1, ATTEMPTS, true)).await,
        Op::LookFull => look(table, key, row, (0, ATTEMPTS, false)).await,
        Op::LookUsedUp => look(table, key, row, (0, att, true)).await,
        Op::Record => record(table, event).await,
        Op::RouteAnswer => route_answer(table, key).await,
    }
}

const ANNA: By<'static> = By {
    who: "anna",
    why: "the customer asked for it",
};

/// Returns a hold that begins at [`THEN`].
pub(crate) fn hold(id: &str) -> HoldOf {
    HoldOf {
        id: id.into(),
        rule: "large".into(),
        effect: "http".into(),
        plan: "p1".into(),
        summary: "POST to hooks.example.com".into(),
        why: "amount is above 5000".into(),
        read: vec!["amount".into()],
        at: THEN,
        expires: hold_end(),
        count: 1,
        version: SCHEMA,
    }
}

fn decided(decision: &HoldDecision) -> &'static str {
    match decision {
        HoldDecision::Made(_) => "made",
        HoldDecision::Moved(_) => "moved",
        HoldDecision::Expired => "expired",
        HoldDecision::Missing => "missing",
    }
}

async fn record(table: &Table, event: &Event) -> &'static str {
    let placed = table.ledger.store_body(event).await.unwrap();
    let recorded = table.ledger.record_trial(event, &placed, THEN);
    match recorded.await.unwrap() {
        TrialRecord::New => "new",
        TrialRecord::Known => "known",
        TrialRecord::Conflict => "conflict",
    }
}

async fn route_answer(table: &Table, key: &EventKey) -> &'static str {
    let (status, took) = (RouteOutcome::Status(200), Duration::from_millis(5));
    let answer = RouteAnswer::new(THEN, status, took, None, "accepted");
    let noted = table.ledger.record_route_answer(key, &answer);
    if noted.await.unwrap() {
        "recorded"
    } else {
        "refused"
    }
}

async fn claim(table: &Table, key: &EventKey, attempts: u32) -> &'static str {
    let claim = table.ledger.claim(key, "worker", THEN, LEASE, attempts);
    match claim.await.unwrap() {
        Claim::Leased(lease) => {
            assert_eq!((lease.row.epoch, lease.row.attempts), (3, 3));
            "leased"
        }
        Claim::Settled(_) => "settled",
        Claim::Held => "held",
        Claim::OnHold => "on hold",
        Claim::Abandoned => "abandoned",
        Claim::NotDue(due) => {
            assert_eq!(due, THEN + Duration::from_millis(1));
            "not due"
        }
        Claim::Exhausted => "exhausted",
        Claim::Parked => "parked",
        Claim::Missing => "missing",
        Claim::TooNew(_) => "too new",
    }
}

async fn settle(table: &Table, lease: Lease, settlement: Settlement) -> &'static str {
    let settled = table.ledger.settle(lease, settlement.clone(), &[], THEN);
    match settled.await.unwrap() {
        Settled::Recorded(recorded) => {
            assert_eq!(recorded, settlement);
            "recorded"
        }
        Settled::Stale => "stale",
    }
}

/// Sweeps the event. `how` contains the age of the index entry, the number of allowed attempts, and
/// whether the queue has capacity.
async fn look(table: &Table, key: &EventKey, row: &Item, how: (i64, u32, bool)) -> &'static str {
    let seen = row
        .get("gsk")
        .map_or(NOW, |_| UnixMillis(number(row, "gsk")));
    let seen = UnixMillis(seen.0 - how.0);
    let swept = table
        .ledger
        .sweep()
        .sweep_one(key, seen, how.1, how.2, THEN);
    match swept.await.unwrap() {
        SweepResult::Send(work_message, ..) => {
            assert_eq!(work_message.key, *key);
            "rings"
        }
        SweepResult::Exhausted => "exhausted",
        SweepResult::Throttled(_) => "held back",
        SweepResult::Skipped => "left",
    }
}

fn next_due() -> UnixMillis {
    THEN + Duration::from_secs(60)
}

/// Checks the invariants of a changed row.
pub(crate) fn assert_sound(before: &Item, after: &Item) {
    let state = text(after, "st");
    let has = |name: &str| after.contains_key(name);
    assert_eq!(has("ttl"), state == "done", "ttl of a row that is {state}");
    let held = state == "processing";
    assert_eq!((has("own"), has("lu")), (held, held), "owner of {state}");
    assert!(!has("hld") || state == "received", "hold of {state}");
    let (gpk, indexed) = (after.get("gpk"), has("gsk"));
    // Only an open event is in a queue of workers, and its row then has a version of its own.
    let open = matches!(state.as_str(), "received" | "processing" | "failed");
    let in_queue = has("pul");
    assert!(open || !in_queue, "{state}");
    let waits = in_queue || has("hld");
    assert_eq!(waits, number(after, "sv") == i64::from(PARKED_SCHEMA));
    match state.as_str() {
        "done" => assert_eq!((gpk, indexed), (None, false), "{state}"),
        // Quarantined rows of older code are in no partition of the index.
        "quarantined" => match gpk {
            Some(_) => assert!(text(after, "gpk").starts_with("Q#") && indexed),
            None => assert!(!indexed),
        },
        "dead_letter" => assert!(text(after, "gpk").starts_with("D#") && indexed),
        _ if has("hld") => {
            let part = text(after, "gpk");
            assert_eq!((state.as_str(), indexed), ("received", true));
            assert!(part.starts_with("H#"), "{part}");
        }
        _ if in_queue => assert!(text(after, "gpk").starts_with("P#") && indexed, "{state}"),
        _ => assert!(text(after, "gpk").starts_with("W#") && indexed, "{state}"),
    }
    assert!(number(after, "epoch") >= number(before, "epoch"));
    let waited = before.contains_key("pul") || before.contains_key("hld");
    assert!(waited != waits || after.get("sv") == before.get("sv"), "sv");
    let kept = [
        "pk", "sk", "run", "gen", "rcv", "wid", "sha", "len", "via", "ty", "pvd", "pre", "prv",
        "cfg", "tpk", "tsk", "b", "enc", "bref", "zz",
    ];
    for name in kept {
        assert_eq!(after.get(name), before.get(name), "{name}");
    }
}
