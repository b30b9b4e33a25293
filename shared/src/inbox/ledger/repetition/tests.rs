//! Tests the kind of a repeated request, and the sampling of the counts.

use super::*;
use crate::webhook::event::Fetched;

const FIRST: UnixMillis = UnixMillis(1_000_000);
const LATER: UnixMillis = UnixMillis(1_000_001);

fn event(via: Via, signed_at: Option<UnixMillis>) -> Event {
    let mut event = Event::fetched(Fetched {
        source: "s",
        provider: "p",
        preset: "p",
        id: "1",
        kind: "k",
        body: "{}".into(),
        now: FIRST,
        via,
        config: "c",
    });
    event.signed_at = signed_at;
    event
}

fn row(more: &[(&str, &str)]) -> Row {
    let mut row = Item::from([
        ("pk".to_owned(), item::s("E#s#1")),
        ("st".to_owned(), item::s("received")),
        ("bref".to_owned(), item::s("i")),
        (
            "fx".to_owned(),
            aws_sdk_dynamodb::types::AttributeValue::M(Item::new()),
        ),
    ]);
    for name in ["sv", "epoch", "run", "att", "cr", "rcv"] {
        row.insert(name.to_owned(), item::n(1));
    }
    for (name, value) in more {
        let value = match *name {
            "via" => item::s(*value),
            _ => item::n(value),
        };
        row.insert((*name).to_owned(), value);
    }
    Row::read(&row).unwrap()
}

#[test]
fn the_signed_times_decide_the_kind() {
    use Repetition::{Copied, Repeated, Resent};
    let signed = row(&[("sgt", "1000000")]);
    let unsigned = row(&[]);
    for (row, again, expected) in [
        (&signed, Some(LATER), Resent),
        (&signed, Some(FIRST), Copied),
        (&signed, Some(UnixMillis(999_999)), Repeated),
        (&signed, None, Repeated),
        (&unsigned, Some(LATER), Repeated),
        (&unsigned, None, Repeated),
    ] {
        let found = kind(row, &event(Via::Webhook, again));
        assert_eq!(found, Some(expected), "{again:?}");
    }
}

#[test]
fn only_a_webhook_after_a_webhook_is_a_repetition() {
    let webhook = event(Via::Webhook, None);
    for first in ["backup_sync", "recon", "spill"] {
        let by_other = row(&[("via", first)]);
        assert_eq!(kind(&by_other, &webhook), None, "{first}");
        let by_both = row(&[("via", first), ("also_webhook", "5")]);
        assert!(kind(&by_both, &webhook).is_some(), "{first}");
        let by_webhook = row(&[("via", "webhook")]);
        let other = event(Via::parse(first).unwrap(), None);
        assert_eq!(kind(&by_webhook, &other), None, "{first}");
    }
}

#[test]
fn a_row_without_counts_has_no_repetitions() {
    assert_eq!(row(&[]).repetitions, Repetitions::default());
    let counted = row(&[("dr", "3"), ("dc", "2"), ("du", "1"), ("dat", "9")]).repetitions;
    let expected = Repetitions {
        resent: 3,
        copied: 2,
        repeated: 1,
        last: Some(UnixMillis(9)),
    };
    assert_eq!((counted, counted.all()), (expected, 6));
}

#[test]
fn a_count_is_exact_until_thirty_two() {
    for known in 0..EXACT {
        assert_eq!(weight(known, u64::MAX), Some(1), "{known}");
    }
}

#[test]
fn a_sample_stands_for_the_largest_power_that_fits() {
    for (known, k) in [
        (32, 2),
        (63, 2),
        (64, 4),
        (127, 4),
        (128, 8),
        (1_000_000, 32_768),
        (u64::MAX, 1 << 59),
    ] {
        assert_eq!(weight(known, 0), Some(k), "{known}");
        assert_eq!(weight(known, k), Some(k), "{known}");
        assert_eq!(weight(known, 1), None, "{known}");
        assert_eq!(weight(known, k - 1), None, "{known}");
    }
}

#[test]
fn a_hundred_thousand_duplicates_cost_some_hundred_writes() {
    const DUPLICATES: u64 = 100_000;
    random::seed(7);
    let mut total = 0;
    for _ in 0..20 {
        let (mut known, mut writes) = (0, 0);
        for _ in 0..DUPLICATES {
            let mut drawn = [0; 8];
            random::fill(&mut drawn).unwrap();
            if let Some(weight) = weight(known, u64::from_le_bytes(drawn)) {
                known += weight;
                writes += 1;
            }
        }
        assert!((150..350).contains(&writes), "{writes} writes");
        assert!((50_000..200_000).contains(&known), "{known} counted");
        total += known;
    }
    // The count is not biased: the mean of 20 runs is close to the number of duplicates.
    let mean = total / 20;
    assert!((90_000..110_000).contains(&mean), "{mean}");
}
