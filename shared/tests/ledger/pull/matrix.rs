//! Tests each operation on an event in each state that it can have in a queue.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::transition::{dead_partition, work_partition};
use shared::inbox::ledger::{
    Again, By, Claim, EffectState, Erased, Intended, Item, Lease, PARKED_SCHEMA, Received,
    Replayed, SCHEMA, Settled, Settlement, SweepResult, WorkClaim,
};
use shared::webhook::event::{Event, EventKey};

use super::{HELD, claim_of, park, parked_in, work};
use crate::matrix::{assert_sound, decided, hold, hold_end};
use crate::settle::effect;
use crate::support::{ATTEMPTS, NOW, Table, dead, event, ms, n, number, retry_at, s, text};

/// The time of the operations.
const THEN: UnixMillis = UnixMillis(NOW.0 + 3_600_000);

const PLAN: &str = "rpl_7KQ2M4";

const BY: By<'static> = By {
    who: "operator",
    why: "a request",
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// The processor has not parked the event.
    New,
    Waiting,
    /// The event waits in another queue.
    Elsewhere,
    Due,
    NotDue,
    Live,
    Expired,
    Done,
    Dead,
    /// A rule holds an effect of a worker.
    Held,
}

use Stand::{Dead, Done, Due, Elsewhere, Expired, Held, Live, New, NotDue, Waiting};

const STANDS: [Stand; 10] = [
    New, Waiting, Elsewhere, Due, NotDue, Live, Expired, Done, Dead, Held,
];

/// The lease of a worker, compared with the lease in the row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fence {
    Right,
    OldEpoch,
    OtherOwner,
}

use Fence::{OldEpoch, OtherOwner, Right};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Park(Fence),
    Claim,
    ClaimUsedUp,
    /// The processor claims the event.
    Process,
    Keep,
    Extend(Fence),
    Begin(Fence),
    End(Fence),
    Finish(Fence),
    Retry(Fence),
    DeadLetter(Fence),
    Hold(Fence),
    Approve,
    Reject,
    Expire,
    Receive,
    Sweep,
    Replay,
    Erase,
}

/// The expected results. The text before the arrow is the answer, and the text after the arrow is
/// the state of the changed row. Without an arrow, no attribute of the row changes.
#[rustfmt::skip]
const TABLE: [(Op, [&str; 10]); 35] = [
    //                     new                     waiting                    elsewhere               due                        not due                    live                     expired                    done             dead    held
    (Op::Park(Right),       ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "recorded → received",   "recorded → received",     "stale",         "stale", "stale"]),
    (Op::Park(OldEpoch),    ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Park(OtherOwner),  ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Claim,             ["not in queue",        "leased → processing",     "leased → processing",  "leased → processing",     "busy",                    "busy",                  "leased → processing",     "settled",       "settled", "busy"]),
    (Op::ClaimUsedUp,       ["not in queue",        "exhausted → dead_letter", "exhausted → dead_letter", "exhausted → dead_letter", "exhausted → dead_letter", "busy",                  "exhausted → dead_letter", "settled",       "settled", "busy"]),
    (Op::Process,           ["leased → processing", "parked",                  "parked",               "parked",                  "parked",                  "parked",                "parked",                  "settled",       "settled", "on hold"]),
    (Op::Keep,              ["refused",             "refused",                 "refused",              "refused",                 "refused",                 "refused",               "refused",                 "refused",       "refused", "refused"]),
    (Op::Extend(Right),     ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "recorded → processing", "lost",                    "lost",          "lost", "lost"]),
    (Op::Extend(OldEpoch),  ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::Extend(OtherOwner),["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::Begin(Right),      ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "recorded → processing", "recorded → processing",   "lost",          "lost", "lost"]),
    (Op::Begin(OldEpoch),   ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::Begin(OtherOwner), ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::End(Right),        ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "recorded → processing", "recorded → processing",   "lost",          "lost", "lost"]),
    (Op::End(OldEpoch),     ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::End(OtherOwner),   ["lost",                "lost",                    "lost",                 "lost",                    "lost",                    "lost",                  "lost",                    "lost",          "lost", "lost"]),
    (Op::Finish(Right),     ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "recorded → done",       "recorded → done",         "stale",         "stale", "stale"]),
    (Op::Finish(OldEpoch),  ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Finish(OtherOwner),["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Retry(Right),      ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "recorded → failed",     "recorded → failed",       "stale",         "stale", "stale"]),
    (Op::Retry(OldEpoch),   ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Retry(OtherOwner), ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::DeadLetter(Right), ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "recorded → dead_letter", "recorded → dead_letter", "stale",         "stale", "stale"]),
    (Op::DeadLetter(OldEpoch), ["stale",            "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::DeadLetter(OtherOwner), ["stale",          "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Hold(Right),       ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "recorded → received",   "recorded → received",     "stale",         "stale", "stale"]),
    (Op::Hold(OldEpoch),    ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Hold(OtherOwner),  ["stale",               "stale",                   "stale",                "stale",                   "stale",                   "stale",                 "stale",                   "stale",         "stale", "stale"]),
    (Op::Approve,           ["moved",               "moved",                   "moved",                "moved",                   "moved",                   "moved",                 "moved",                   "moved",         "moved", "made → received"]),
    (Op::Reject,            ["moved",               "moved",                   "moved",                "moved",                   "moved",                   "moved",                 "moved",                   "moved",         "moved", "made → dead_letter"]),
    (Op::Expire,            ["moved",               "moved",                   "moved",                "moved",                   "moved",                   "moved",                 "moved",                   "moved",         "moved", "made → dead_letter"]),
    (Op::Receive,           ["open",                "open",                    "open",                 "open",                    "open",                    "open",                  "open",                    "settled",       "settled", "open"]),
    // The sweep sends no message for an event that waits for a worker.
    (Op::Sweep,             ["sent → received",     "left",                    "left",                 "left",                    "left",                    "left",                  "left",                    "left",          "left", "left"]),
    (Op::Replay,            ["moved",               "moved",                   "moved",                "again → received",        "again → received",        "moved",                 "moved",                   "again → received", "again → received", "moved"]),
    (Op::Erase,             ["gone → dead_letter",  "gone → dead_letter",      "gone → dead_letter",   "gone → dead_letter",      "gone → dead_letter",      "held",                  "held",                    "gone → done",   "gone → dead_letter", "gone → dead_letter"]),
];

#[tokio::test]
async fn each_operation_on_each_state_of_a_queue_has_its_outcome() {
    let table = Table::fresh().await;
    let mut wrong = Vec::new();
    for (op, outcomes) in TABLE {
        for (stand, expected) in STANDS.into_iter().zip(outcomes) {
            let found = Box::pin(try_on(&table, op, stand)).await;
            if found != expected {
                wrong.push(format!("{op:?} on {stand:?}: {found}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn try_on(table: &Table, op: Op, stand: Stand) -> String {
    let id = format!("{op:?}/{stand:?}").replace(['(', ')'], ".");
    let key = park(table, &id).await;
    let lease = work(table, &key, NOW).await;
    let before = table.edit(&key, |row| place(row, op, stand)).await;
    let answer = Box::pin(carry_out(table, op, &event(&id), &before, lease)).await;
    let after = table.row(&key).await;
    if after == before {
        return answer.to_owned();
    }
    match op {
        // The content of the row is gone, so only its place is checked.
        Op::Erase => {
            assert!(!after.contains_key("pul"), "{op:?} on {stand:?}");
            assert_eq!(number(&after, "sv"), i64::from(SCHEMA));
        }
        Op::Replay => {
            let mut before = before;
            before.insert("run".into(), n(number(&before, "run") + 1));
            assert_sound(&before, &after);
            assert!(!after.contains_key("pul"), "{op:?} on {stand:?}");
        }
        _ => assert_sound(&before, &after),
    }
    format!("{answer} → {}", text(&after, "st"))
}

/// Puts the row of a worker's lease into the given state.
fn place(row: &mut Item, op: Op, stand: Stand) {
    let pk = text(row, "pk");
    row.insert("zz".into(), s("of a later version"));
    // An earlier retry left its time, which does not matter while a worker holds the event.
    row.insert("due".into(), ms(NOW));
    let leaves = |row: &mut Item| {
        row.remove("pul");
        row.insert("sv".into(), n(SCHEMA));
    };
    match stand {
        Live => drop(row.insert("lu".into(), n(THEN.0 + 1))),
        Expired => drop(row.insert("lu".into(), n(THEN.0 - 5_001))),
        Waiting | Elsewhere | New => {
            row.insert("st".into(), s("received"));
            row.remove("due");
        }
        Due | NotDue => {
            let early = i64::from(stand == NotDue);
            row.insert("st".into(), s("failed"));
            row.insert("due".into(), n(THEN.0 + early));
        }
        Done => {
            row.insert("st".into(), s("done"));
            row.insert("done_at".into(), ms(NOW));
            row.insert("done_by".into(), s("another/1"));
            row.insert("ttl".into(), n(NOW.secs() + 1));
            row.remove("gpk");
            row.remove("gsk");
            leaves(row);
        }
        Dead => {
            row.insert("st".into(), s("dead_letter"));
            row.insert("reason".into(), s("permanent"));
            row.insert("dead_at".into(), ms(NOW));
            row.insert("gpk".into(), s(dead_partition(&pk)));
            leaves(row);
        }
        Held => place_hold(row),
    }
    match stand {
        Elsewhere => drop(row.insert("pul".into(), s("billing"))),
        New => {
            row.insert("gpk".into(), s(work_partition(&pk)));
            leaves(row);
        }
        _ => {}
    }
    place_fence(row, fence_of(op), matches!(stand, Live | Expired));
}

fn place_hold(row: &mut Item) {
    let hold = Item::from([
        ("id".to_owned(), s("h1")),
        ("rule".to_owned(), s("large")),
        ("eff".to_owned(), s("refund")),
        ("plan".to_owned(), s("p1")),
        ("exp".to_owned(), ms(hold_end())),
        ("n".to_owned(), n(1)),
        ("sv".to_owned(), n(PARKED_SCHEMA)),
    ]);
    row.insert("st".into(), s("received"));
    row.insert("hld".into(), AttributeValue::M(hold));
    row.insert("apv".into(), AttributeValue::M(Item::new()));
    row.insert("gpk".into(), s("H#stripe-main"));
    row.insert("gsk".into(), ms(hold_end()));
    row.remove("due");
}

fn fence_of(op: Op) -> Option<Fence> {
    match op {
        Op::Park(fence)
        | Op::Extend(fence)
        | Op::Begin(fence)
        | Op::End(fence)
        | Op::Finish(fence)
        | Op::Retry(fence)
        | Op::DeadLetter(fence)
        | Op::Hold(fence) => Some(fence),
        _ => None,
    }
}

fn place_fence(row: &mut Item, fence: Option<Fence>, processing: bool) {
    match fence {
        Some(Right) => {}
        Some(OldEpoch) => drop(row.insert("epoch".into(), n(number(row, "epoch") + 1))),
        Some(OtherOwner) => drop(row.insert("own".into(), s("another/1"))),
        None if processing => {}
        None => {
            row.remove("own");
            row.remove("lu");
        }
    }
}

async fn carry_out(table: &Table, op: Op, event: &Event, row: &Item, lease: Lease) -> &'static str {
    let (ledger, key) = (&table.ledger, event.key());
    let used_up = u32::try_from(number(row, "att")).unwrap();
    let noted = |noted| if noted { "recorded" } else { "lost" };
    match op {
        Op::Park(_) => settle(table, lease, parked_in("later")).await,
        Op::Claim => worded(&claim_of(table, key, THEN, ATTEMPTS).await),
        Op::ClaimUsedUp => worded(&claim_of(table, key, THEN, used_up).await),
        Op::Process => match table.claim(key, THEN).await {
            Claim::Leased(_) => "leased",
            Claim::Parked => "parked",
            Claim::OnHold => "on hold",
            Claim::Settled(_) => "settled",
            other => panic!("{other:?}"),
        },
        Op::Keep => match ledger.keep(key, "worker", THEN, LEASE).await.unwrap() {
            Some(_) => "kept",
            None => "refused",
        },
        Op::Extend(_) => noted(ledger.extend_work(&lease, THEN, THEN + HELD).await.unwrap()),
        Op::Begin(_) => {
            let intent = effect(EffectState::Intent);
            let begun = ledger.begin_effect(&lease, "ticket", &intent).await;
            noted(begun.unwrap() == Intended::Recorded)
        }
        Op::End(_) => {
            let done = effect(EffectState::Done);
            noted(ledger.end_effect(&lease, "ticket", &done).await.unwrap())
        }
        Op::Finish(_) => settle(table, lease, Settlement::Done).await,
        Op::Retry(_) => settle(table, lease, retry_at(THEN + HELD)).await,
        Op::DeadLetter(_) => settle(table, lease, dead()).await,
        Op::Hold(_) => settle(table, lease, Settlement::Held(Box::new(hold("h2")))).await,
        Op::Approve => decided(&ledger.approve(key, "h1", BY, THEN).await.unwrap()),
        Op::Reject => decided(&ledger.reject(key, "h1", BY, THEN).await.unwrap()),
        Op::Expire => decided(&ledger.expire_hold(key, hold_end()).await.unwrap()),
        Op::Receive => match ledger.receive(event, THEN).await.unwrap() {
            Received::Open { .. } => "open",
            Received::Settled => "settled",
            other => panic!("{other:?}"),
        },
        Op::Sweep => sweep(table, key, row).await,
        Op::Replay => replay(table, key, row).await,
        Op::Erase => match ledger.erase(key, BY, THEN).await.unwrap() {
            Erased::Gone => "gone",
            Erased::Processing => "held",
            Erased::Missing => "missing",
        },
    }
}

fn worded(claim: &WorkClaim) -> &'static str {
    match claim {
        WorkClaim::Leased(_) => "leased",
        WorkClaim::Busy => "busy",
        WorkClaim::NotInQueue => "not in queue",
        WorkClaim::Exhausted => "exhausted",
        WorkClaim::Settled(_) => "settled",
        WorkClaim::Missing => "missing",
        WorkClaim::TooNew(_) => "too new",
    }
}

async fn settle(table: &Table, lease: Lease, settlement: Settlement) -> &'static str {
    let settled = table.ledger.settle(lease, settlement, &[], THEN);
    match settled.await.unwrap() {
        Settled::Recorded(_) => "recorded",
        Settled::Stale => "stale",
    }
}

/// Sweeps the event with its index entry, if it has one.
async fn sweep(table: &Table, key: &EventKey, row: &Item) -> &'static str {
    let seen = row
        .get("gsk")
        .map_or(NOW, |_| UnixMillis(number(row, "gsk")));
    let swept = table
        .ledger
        .sweep()
        .sweep_one(key, seen, ATTEMPTS, true, THEN);
    match swept.await.unwrap() {
        SweepResult::Send(..) => "sent",
        SweepResult::Exhausted => "exhausted",
        SweepResult::Throttled(_) => "throttled",
        SweepResult::Skipped => "left",
    }
}

async fn replay(table: &Table, key: &EventKey, row: &Item) -> &'static str {
    let plans = table.ledger.plans();
    let seen = u64::try_from(number(row, "epoch")).unwrap();
    let expires = THEN + Duration::from_secs(86_400);
    let events = [(key.clone(), seen)];
    plans.plan_events(PLAN, &events, expires).await.unwrap();
    let again = Again {
        plan: PLAN,
        seen,
        new_effects: false,
    };
    match plans.replay(key, &again, THEN).await.unwrap() {
        Replayed::Again => "again",
        Replayed::Moved => "moved",
        other => panic!("{other:?}"),
    }
}
