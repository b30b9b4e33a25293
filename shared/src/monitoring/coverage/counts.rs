//! The counts of events in a period.

use super::Delays;
use crate::base::clock::UnixMillis;

/// The maximum number of gaps of a day that are listed. Further gaps are only counted. Their rows
/// in the ledger have the value `backup_sync` in `via`.
pub const MOST_GAPS: usize = 50;

/// An event that only the sync had found when the run counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the event happened, by the provider's clock.
    pub happened: UnixMillis,
    /// When the sync stored the event in the ledger.
    pub found: UnixMillis,
    pub kind: String,
    /// The id in the event key.
    pub id: String,
}

/// The number of events that arrived by webhook, and of events that only the sync found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that arrived by webhook, but are missing in the provider's list.
    pub webhook: u64,
    /// Events that arrived by webhook, and are in the list.
    pub both: u64,
    /// The events in `both` that the sync found before the webhook arrived.
    pub late: u64,
    /// Missed events, which are in the list but did not arrive by webhook.
    pub sync: u64,
    /// The delays from the event to the arrival of its webhook.
    pub by_webhook: Delays,
    /// The delays from a missed event to its discovery by the sync.
    pub by_sync: Delays,
    /// The first missed events, at most [`MOST_GAPS`].
    pub gaps: Vec<Gap>,
}

impl Counts {
    /// Returns the number of all known events.
    pub fn all(&self) -> u64 {
        self.webhook + self.both + self.sync
    }

    /// Returns the share of events that did not arrive by webhook, in percent. Returns `None` if
    /// there were no events, because this is not the same as 0 %.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the rate may be slightly inexact above 2^52 events"
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
    /// Returns the stored text, `happened|found|id|kind`. In a map, the attribute names would take
    /// more bytes than the values.
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
