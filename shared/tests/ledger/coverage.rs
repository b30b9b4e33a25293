//! Tests the coverage counts of the sync. Each minute of a day is counted once, regardless of the
//! run that counts it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::base::timing::KEEP_ROW_SHORT;
use shared::inbox::ledger::Item;
use shared::monitoring::coverage::{Comparison, DayCount};
use shared::monitoring::coverage::{Counts, MOST_GAPS, Piece, Sighting, Tally, Window};
use shared::sources::policy::Retention;

use crate::support::{NOW, Table, after, n, number, s};

const SOURCE: &str = "stripe-main";
const OVERLAP: Duration = Duration::from_secs(900);

fn before(seconds: u64) -> UnixMillis {
    NOW - Duration::from_secs(seconds)
}

/// Returns an event that is in the provider's list and did not arrive by webhook. The tests use one
/// event per minute.
fn missed(minutes_ago: u64) -> Sighting {
    let happened = before(minutes_ago * 60);
    Sighting {
        id: format!("evt_{minutes_ago}"),
        kind: "invoice.paid".into(),
        happened,
        webhook: None,
        kept: happened + OVERLAP,
    }
}

/// Returns the counts of a run that began at `started` and listed the events since a short time
/// before `cursor`.
fn run(cursor: UnixMillis, started: UnixMillis) -> Tally {
    let from = cursor - OVERLAP;
    let mut tally = Tally::new(Window::closed(from, started, OVERLAP));
    for event in (0..120).map(missed) {
        if from <= event.happened && event.happened < started {
            tally.saw(event);
        }
    }
    tally
}

impl Table {
    /// Adds the events that a run has seen to the stored counts. Returns the number of added
    /// events.
    async fn count(&self, tally: &Tally) -> u64 {
        let mut added = 0;
        for day in tally.days() {
            let piece = async |counted| {
                let piece = tally.piece(day, counted)?;
                Some((piece, Comparison { done: true }))
            };
            let won = self
                .ledger
                .statistics()
                .count_day(SOURCE, day, piece)
                .await
                .unwrap();
            added += won.map_or(0, |(piece, _)| piece.counts.sync);
        }
        added
    }

    async fn today(&self) -> DayCount {
        let day = Day::of(NOW);
        self.ledger
            .statistics()
            .day_count(SOURCE, day)
            .await
            .unwrap()
    }

    async fn day_item(&self) -> Item {
        let sk = format!("DAY#{}", Day::of(NOW).name());
        self.item(&format!("SYNC#{SOURCE}"), &sk).await.unwrap()
    }
}

#[tokio::test]
async fn runs_that_overlap_or_are_repeated_count_each_event_once() {
    let table = Table::fresh().await;
    let mut sum = 0;
    let mut cursor = before(5400);
    for started in [before(4500), before(3600), before(2700)] {
        // The first of the two runs crashed before it could move the cursor.
        for _ in 0..2 {
            sum += table.count(&run(cursor, started)).await;
        }
        cursor = started;
    }
    let today = table.today().await;
    assert_eq!(today.counts.sync, sum);
    assert_eq!(today.minutes, 45);
    assert_eq!(sum, 45, "one event per minute");
    assert_eq!(today.counted, Some(run(cursor, before(2700)).window().to));
}

#[tokio::test]
async fn of_runs_at_the_same_time_each_minute_is_counted_by_one() {
    let table = Table::fresh().await;
    let cursor = before(5400);
    // The runs start at different times, and end in any order.
    let tallies: Vec<Tally> = (0..6).map(|n| run(cursor, before(3000 - n * 60))).collect();
    let added = join_all(tallies.iter().map(|tally| table.count(tally))).await;
    let today = table.today().await;
    assert_eq!(added.iter().sum::<u64>(), today.counts.sync);
    let longest = tallies.last().unwrap();
    let alone = longest.piece(Day::of(NOW), None).unwrap();
    assert_eq!(today.counts.sync, alone.counts.sync);
    assert_eq!(today.minutes, alone.minutes());
}

/// Two runs read the same counts and race to add to them. The first race is on a day without
/// counts, and the second race is on a day with counts.
#[tokio::test]
async fn who_comes_second_counts_on_top_of_the_first() {
    let table = Table::fresh().await;
    let mut sum = 0;
    let mut cursor = before(5400);
    for started in [before(4500), before(3600)] {
        let (one, two) = (run(cursor, started), run(cursor, started));
        let (proxy, slow) = table.through_proxy().await;
        let held = proxy.hold("UpdateItem", "DAY#");
        let add = async |counted| {
            let piece = one.piece(Day::of(NOW), counted)?;
            Some((piece, Comparison { done: true }))
        };
        let (first, second) = held
            .around(
                slow.statistics().count_day(SOURCE, Day::of(NOW), add),
                table.count(&two),
            )
            .await;
        assert!(first.unwrap().is_none(), "no minute was left to count");
        sum += second;
        assert_eq!(table.today().await.counts.sync, sum);
        cursor = started;
    }
}

#[tokio::test]
async fn a_count_whose_answer_was_lost_is_neither_lost_nor_made_twice() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let tally = run(before(5400), before(3600));
    proxy.lose_answer("UpdateItem", "DAY#");
    for _ in 0..2 {
        let piece = async |counted| {
            let piece = tally.piece(Day::of(NOW), counted)?;
            Some((piece, Comparison { done: false }))
        };
        let won = ledger
            .statistics()
            .count_day(SOURCE, Day::of(NOW), piece)
            .await
            .unwrap();
        let counted = table.today().await.counts.sync;
        assert_eq!(
            counted,
            tally.piece(Day::of(NOW), None).unwrap().counts.sync
        );
        if let Some((piece, day)) = won {
            assert_eq!((piece.counts.sync, day.counts.sync), (counted, counted));
        }
    }
    let today = table.today().await;
    assert_eq!((today.minutes, today.compared), (30, 0));
}

#[tokio::test]
async fn figures_keep_what_newer_code_wrote_beside_them_and_expire_after_the_rows() {
    let mut table = Table::fresh().await;
    let short = Retention {
        rows: KEEP_ROW_SHORT,
        ..Retention::default()
    };
    let retentions = BTreeMap::from([(SOURCE.to_owned(), short)]);
    table.ledger = table.ledger.clone().keeping(retentions.into());
    table.count(&run(before(5400), before(4500))).await;
    let mut item = table.day_item().await;
    item.insert("later_code".into(), s("keeps this"));
    table.put(item).await;
    table.count(&run(before(4500), before(3600))).await;
    let item = table.day_item().await;
    assert_eq!(item.get("later_code"), Some(&s("keeps this")));
    // The counts expire after twice 90 days, even if the rows of the source expire earlier.
    let expires = number(&item, "ttl");
    let day = Day::of(NOW);
    assert_eq!(expires, day.ends().secs() + 2 * 90 * 24 * 3600);
}

#[tokio::test]
async fn a_day_names_only_so_many_gaps_and_stays_small() {
    let table = Table::fresh().await;
    let day = Day::of(NOW);
    let mut tally = Tally::new(Window {
        from: day.begins(),
        to: day.ends(),
    });
    for second in 0..5_000 {
        let happened = day.begins() + Duration::from_secs(second);
        tally.saw(Sighting {
            id: format!("evt_{second:0200}"),
            happened,
            kept: happened,
            ..missed(0)
        });
    }
    assert_eq!(table.count(&tally).await, 5_000);
    let today = table.today().await;
    assert_eq!(today.counts.gaps.len(), MOST_GAPS);
    assert_eq!(today.counts.sync, 5_000);
    let item = format!("{:?}", table.day_item().await);
    assert!(item.len() < 32_000, "{}", item.len());
}

#[tokio::test]
async fn days_are_listed_in_order_and_without_those_that_have_no_data() {
    let table = Table::fresh().await;
    let day = Day::of(NOW);
    for days in [0, 3, 40] {
        let day = day.before(days);
        let piece = Piece {
            day,
            from: day.begins(),
            to: day.ends(),
            counts: Counts {
                both: 7,
                ..Counts::default()
            },
        };
        let add = async |_| Some((piece.clone(), Comparison { done: true }));
        table
            .ledger
            .statistics()
            .count_day(SOURCE, day, add)
            .await
            .unwrap();
    }
    let listed = table
        .ledger
        .statistics()
        .day_counts(SOURCE, day.before(30), day)
        .await;
    let listed = listed.unwrap();
    let days: Vec<Day> = listed.iter().map(|count| count.day).collect();
    assert_eq!(days, [day.before(3), day]);
    assert_eq!((listed[1].minutes, listed[1].compared), (1440, 1440));
    assert_eq!(listed[1].counts.both, 7);
}

#[tokio::test]
async fn a_run_goes_on_from_the_page_that_was_noted_or_from_the_one_before() {
    let table = Table::fresh().await;
    let day = Day::of(NOW);
    let counted = |sync| BTreeMap::from([(day, counts(sync))]);
    let places = [("p1".to_owned(), counted(1)), ("p2".to_owned(), counted(2))];
    let keep = |now, was| {
        table
            .ledger
            .statistics()
            .keep_tally(SOURCE, NOW, [now, was])
    };
    let kept = async |started, page| {
        let kept = table
            .ledger
            .statistics()
            .kept_tally(SOURCE, started, page)
            .await
            .unwrap();
        kept.map(|days| days[&day].sync)
    };
    assert_eq!(kept(NOW, "p1").await, None);
    keep(Some(&places[0]), None).await.unwrap();
    assert_eq!(kept(NOW, "p1").await, Some(1));
    // If the run is stopped here, the cursor still contains the first page.
    keep(Some(&places[1]), Some(&places[0])).await.unwrap();
    assert_eq!(
        (kept(NOW, "p1").await, kept(NOW, "p2").await),
        (Some(1), Some(2))
    );
    assert_eq!(kept(NOW, "p3").await, None);
    assert_eq!(kept(after(1), "p2").await, None, "another run");
}

fn counts(sync: u64) -> Counts {
    Counts {
        sync,
        ..Counts::default()
    }
}

#[tokio::test]
async fn an_item_of_other_code_is_no_data_and_no_error() {
    let table = Table::fresh().await;
    table.count(&run(before(5400), before(4500))).await;
    let mut item = table.day_item().await;
    item.insert("d_sync".into(), n(5));
    item.insert("n_both".into(), s("many"));
    item.remove("gaps");
    table.put(item).await;
    let today = table.today().await;
    assert_eq!(today.counts.both, 0);
    assert!(today.counts.by_sync.is_empty() && today.counts.gaps.is_empty());
}
