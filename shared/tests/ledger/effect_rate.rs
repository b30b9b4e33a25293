//! Tests the counts of effects that a rule with a rate allows.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::CountedEffects;
use shared::sources::rules::{EffectRate, Per};

use crate::support::{Table, number};

const RATE: EffectRate = EffectRate {
    most: 3,
    window: Duration::from_secs(3600),
    per: Per::Role,
};

/// The begin of a window.
const NOW: UnixMillis = UnixMillis(3_600_000 * 500_000);

const MINE: CountedEffects<'static> = CountedEffects {
    source: "shop",
    rule: "cap",
    who: "0123456789ab",
};

#[tokio::test]
async fn a_window_takes_as_many_effects_as_the_rate_allows() {
    let table = Table::fresh().await;
    let count = async |counted, rate, now| {
        let counted = table.ledger.count_effect(counted, rate, now);
        counted.await.unwrap()
    };
    let all = join_all((0..20).map(|_| count(MINE, RATE, NOW))).await;
    assert_eq!(all.iter().filter(|allowed| **allowed).count(), 3);
    let end = NOW + RATE.window;
    assert!(!count(MINE, RATE, end - Duration::from_millis(1)).await);
    // Nothing else shares the window.
    for (source, rule, who) in [
        ("shop-2", "cap", MINE.who),
        ("shop", "cap-2", MINE.who),
        ("shop", "cap", "-"),
    ] {
        let other = CountedEffects { source, rule, who };
        assert!(count(other, RATE, NOW).await, "{other:?}");
    }
    let window = Duration::from_secs(60);
    assert!(count(MINE, EffectRate { window, ..RATE }, NOW).await);
    assert!(count(MINE, RATE, end).await, "the next window is empty");
    // A larger rate opens the window again.
    assert!(count(MINE, EffectRate { most: 4, ..RATE }, NOW).await);
    assert!(!count(MINE, EffectRate { most: 4, ..RATE }, NOW).await);

    let item = table.item("SYS", "CAP#shop#cap#3600#0123456789ab#500000");
    let item = item.await.unwrap();
    assert_eq!(number(&item, "n"), 4);
    assert_eq!(number(&item, "ttl"), (end + window * 60).secs());
}
