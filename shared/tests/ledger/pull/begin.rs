//! Tests what an effect needs before it begins.

use std::time::Duration;

use shared::delivery::effects::{Begin, Inquiry, before, effect_row, open_effects};
use shared::inbox::ledger::{EffectLease, EffectRow, EffectState, Intended, Row, WorkLease};
use shared::sources::policy::IdempotencySupport::{Honoured, HonouredWithFailures, Ignored};

use super::{HELD, NOW, park, work};
use crate::support::Table;

const MINUTE: Duration = Duration::from_secs(60);

async fn row() -> Row {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    work(&table, &key, NOW).await.row
}

/// Returns a record that a lease with this fencing token wrote.
fn under(row: &Row, state: EffectState, epoch: u64) -> EffectRow {
    let until = NOW + HELD;
    EffectRow {
        lease: Some(EffectLease { epoch, until }),
        ..effect_row(row, "ticket", state, Honoured, "issue 7", NOW)
    }
}

#[tokio::test]
async fn an_effect_begins_as_the_row_says() {
    let mut row = row().await;
    let later = NOW + HELD + MINUTE;
    let mut ask = |effect: Option<EffectRow>, keys, asked, now| {
        row.effects.remove("ticket");
        row.effects
            .extend(effect.map(|it| ("ticket".to_owned(), it)));
        before(&row, "ticket", keys, asked, now)
    };
    let in_doubt = Begin::InDoubt {
        since: NOW,
        ask_from: later,
    };
    assert_eq!(ask(None, Ignored, Inquiry::Possible, NOW), Begin::Go);
    let row = self::row().await;
    let of = |state, epoch| Some(under(&row, state, epoch));
    let note = || "issue 7".to_owned();
    let done = of(EffectState::Done, 1);
    assert_eq!(
        ask(done, Ignored, Inquiry::Never, NOW),
        Begin::Done { note: note() }
    );
    let refused = of(EffectState::Refused, 1);
    let found = ask(refused.clone(), Honoured, Inquiry::Never, NOW);
    assert_eq!(found, Begin::Refused { note: note() });
    let of_last_run = refused.map(|it| EffectRow { run: 7, ..it });
    assert_eq!(ask(of_last_run, Honoured, Inquiry::Never, NOW), Begin::Go);
    let not = of(EffectState::Not, 1);
    assert_eq!(ask(not, Ignored, Inquiry::Never, NOW), Begin::Go);

    for state in [EffectState::Intent, EffectState::Unknown] {
        let doubt = || of(state, 1);
        assert_eq!(ask(doubt(), Honoured, Inquiry::Never, NOW), Begin::Go);
        assert_eq!(ask(doubt(), Ignored, Inquiry::Never, NOW), in_doubt);
        assert_eq!(ask(doubt(), Honoured, Inquiry::Possible, later), in_doubt);
        // A call of the earlier attempt may still arrive.
        let early = later - Duration::from_millis(1);
        assert_eq!(ask(doubt(), Honoured, Inquiry::DidNot, early), in_doubt);
        assert_eq!(ask(doubt(), Honoured, Inquiry::DidNot, later), Begin::Go);
    }
    // The worker repeats its own request.
    let own = of(EffectState::Intent, row.epoch);
    assert_eq!(ask(own, Ignored, Inquiry::Never, NOW), Begin::Go);
    // The worker itself reported that the result is unknown.
    let own = of(EffectState::Unknown, row.epoch);
    assert_eq!(ask(own, Ignored, Inquiry::Never, NOW), in_doubt);
}

#[tokio::test]
async fn a_stored_failure_is_not_repeated() {
    let mut row = row().await;
    let spent = EffectRow {
        keyed: false,
        ..under(&row, EffectState::Unknown, 1)
    };
    row.effects.insert("ticket".to_owned(), spent);
    let later = NOW + HELD + MINUTE;
    let ask = |keys, asked| before(&row, "ticket", keys, asked, later);
    let found = ask(HonouredWithFailures, Inquiry::Never);
    assert!(matches!(found, Begin::InDoubt { .. }), "{found:?}");
    let found = ask(HonouredWithFailures, Inquiry::DidNot);
    assert!(matches!(found, Begin::Refused { .. }), "{found:?}");
    assert_eq!(ask(Ignored, Inquiry::DidNot), Begin::Go);
    assert_eq!(ask(Honoured, Inquiry::Never), Begin::Go);
}

#[tokio::test]
async fn an_intent_without_a_lease_waits_for_the_longest_one() {
    let mut row = row().await;
    let intent = effect_row(&row, "ticket", EffectState::Intent, Honoured, "", NOW);
    row.effects.insert("ticket".to_owned(), intent);
    // The worker did not begin it, so it does not have to end it.
    assert_eq!(open_effects(&row).count(), 0);
    let found = before(&row, "ticket", Honoured, Inquiry::Possible, NOW);
    let Begin::InDoubt { ask_from, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(ask_from, NOW + 16 * MINUTE);
}

#[tokio::test]
async fn the_lease_of_an_effect_is_read_back() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    let intent = under(&lease.row, EffectState::Intent, 2);
    table
        .ledger
        .begin_effect(&lease, "ticket", &intent)
        .await
        .unwrap();
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.effects["ticket"], intent);
}

#[tokio::test]
async fn a_call_can_last_as_long_as_the_extended_lease() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    for name in ["ticket", "mail"] {
        let intent = under(&lease.row, EffectState::Intent, lease.row.epoch);
        let intended = table.ledger.begin_effect(&lease, name, &intent).await;
        assert_eq!(intended.unwrap(), Intended::Recorded);
    }
    let read = table
        .ledger
        .work_lease(&key, lease.row.epoch, lease.owner());
    let WorkLease::Held(held) = read.await.unwrap() else {
        panic!("the lease is lost");
    };
    // This effect ends between the read and the write of the extension.
    let done = under(&lease.row, EffectState::Done, lease.row.epoch);
    let ended = table.ledger.end_effect(&lease, "mail", &done).await;
    assert!(ended.unwrap());
    let until = NOW + HELD + MINUTE;
    let extended = table.ledger.extend_work(&held, NOW, until).await;
    assert!(extended.unwrap());

    let row = work(&table, &key, until + MINUTE).await.row;
    assert_eq!(row.effects["mail"].state, EffectState::Done);
    let asked = |now| before(&row, "ticket", Honoured, Inquiry::DidNot, now);
    let ask_from = until + MINUTE;
    let since = NOW;
    let early = asked(ask_from - Duration::from_millis(1));
    assert_eq!(early, Begin::InDoubt { since, ask_from });
    assert_eq!(asked(ask_from), Begin::Go);
}
