//! The counts of a period.

use super::Delays;
use crate::base::clock::UnixMillis;

/// The most gaps of a day that are listed. The others are only counted; their rows in the inbox
/// have `via` `backup_sync`.
pub const MOST_GAPS: usize = 50;

/// An event that only the sync had found when it was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it happened, by the provider's clock.
    pub happened: UnixMillis,
    /// When the sync stored it in the ledger.
    pub found: UnixMillis,
    pub kind: String,
    /// The id of its key.
    pub id: String,
}

/// How many events arrived by webhook, and how many only the sync found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrived by webhook, and missing in the provider's list.
    pub webhook: u64,
    /// Arrived by webhook, and in the list.
    pub both: u64,
    /// Of these, the events that the sync found before the webhook arrived.
    pub late: u64,
    /// In the list, but not received by webhook: missed.
    pub sync: u64,
    /// Delays from the event to the arrival of its webhook.
    pub by_webhook: Delays,
    /// Delays from a missed event to its discovery by the sync.
    pub by_sync: Delays,
    /// The first missed events, at most [`MOST_GAPS`].
    pub gaps: Vec<Gap>,
}

impl Counts {
    /// All events that are known to have happened.
    pub fn all(&self) -> u64 {
        self.webhook + self.both + self.sync
    }

    /// The share of events that did not arrive by webhook, in percent. `None` if there were no
    /// events, which is not the same as 0 %.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate of more than 2^52 events may be off by a little"
    )]
    pub fn miss_rate(&self) -> Option<f64> {
        (self.all() > 0).then(|| 100.0 * self.sync as f64 / self.all() as f64)
    }

    pub fn merge(&mut self, other: Self) {
        self.webhook += other.webhook;
        self.both += other.both;
        self.late += other.late;
        self.sync += other.sync;
        self.by_webhook.merge(&other.by_webhook);
        self.by_sync.merge(&other.by_sync);
        let room = MOST_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(other.gaps.into_iter().take(room));
    }
}

impl Gap {
    /// One text, `happened|found|id|kind`: the attribute names of a map would take more bytes than
    /// the values.
    pub(crate) fn written(&self) -> String {
        let kind: String = self.kind.chars().take(60).collect();
        format!("{}|{}|{}|{kind}", self.happened.0, self.found.0, self.id)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '|');
        Some(Self {
            happened: UnixMillis(parts.next()?.parse().ok()?),
            found: UnixMillis(parts.next()?.parse().ok()?),
            id: parts.next()?.to_owned(),
            kind: parts.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_zero_percent() {
        let counts = |both, sync| Counts {
            both,
            sync,
            ..Counts::default()
        };
        assert_eq!(counts(0, 0).miss_rate(), None);
        assert_eq!(counts(5, 0).miss_rate(), Some(0.0));
        assert_eq!(counts(3, 1).miss_rate(), Some(25.0));
    }

    #[test]
    fn a_gap_is_read_back_and_only_so_many_are_named() {
        let gap = Gap {
            happened: UnixMillis(1),
            found: UnixMillis(2),
            kind: "a|b".into(),
            id: "evt_1".into(),
        };
        assert_eq!(Gap::read(&gap.written()), Some(gap.clone()));
        for text in ["", "1", "1|2", "1|2|x", "a|2|x|k"] {
            assert_eq!(Gap::read(text), None, "{text}");
        }
        let one = Counts {
            sync: 1,
            gaps: vec![gap],
            ..Counts::default()
        };
        let mut sum = Counts::default();
        for _ in 0..200 {
            sum.merge(one.clone());
        }
        assert_eq!((sum.sync, sum.gaps.len()), (200, MOST_GAPS));
    }
}
