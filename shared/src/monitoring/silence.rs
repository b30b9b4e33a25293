//! Checks whether a source has been silent for an unusually long time. The functions are pure. They
//! compare the time since the last webhook with the usual gaps between webhooks.
//!
//! Mitt learns the limit from the gaps between the last webhooks, unless `quiet_after` sets it for
//! the source. After a few days, Mitt has learned the gaps at night. A source without webhooks at
//! weekends needs `quiet_after`.

mod store;

use std::time::Duration;

use serde::Serialize;

use crate::base::clock::UnixMillis;
use crate::monitoring::coverage::DayCount;
use crate::sources::policy::QuietAfter;

/// The maximum number of gaps that are stored.
pub const REMEMBERED: usize = 200;

/// The minimum number of gaps from which Mitt learns a limit.
const ENOUGH: usize = 8;

/// The minimum of the learned limit.
const LEAST: Duration = Duration::from_secs(600);

/// The longest stored gap is multiplied by this factor to get the learned limit.
const PATIENCE: u32 = 2;

/// The recent gaps between the webhooks of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalGaps {
    /// When the last webhook arrived.
    pub last: Option<UnixMillis>,
    /// The time up to which webhooks are counted.
    pub looked: Option<UnixMillis>,
    /// The seconds between the last webhooks. The newest gap is at the end.
    pub gaps: Vec<u32>,
}

/// Whether a source is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// The source has no limit, or no webhook has arrived. A source has no limit if the check is
    /// off, or if too few webhooks have arrived to learn a limit.
    Unknown,
    Ok,
    Silent {
        /// How long the source has been silent.
        silent: Duration,
        /// The limit, which is the longest time without a webhook that counts as normal.
        after: Duration,
    },
}

/// The reason for a silence, according to the provider's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "events")]
pub enum Why {
    /// There is no list, or no complete list of this period.
    Unknown,
    /// The list contains no events of this period either.
    NothingHappened,
    /// The list contains at least this many events that did not arrive.
    NotArriving(usize),
}

impl Why {
    /// Finds the reason from the daily counts and the time of the last webhook.
    pub fn of(days: &[DayCount], last: UnixMillis) -> Self {
        let gaps = days.iter().flat_map(|day| &day.counts.gaps);
        let missed = gaps.filter(|gap| gap.happened > last).count();
        let counted = days.iter().filter_map(|day| day.counted).max();
        match missed {
            0 if counted.is_some_and(|counted| counted > last) => Self::NothingHappened,
            0 => Self::Unknown,
            missed => Self::NotArriving(missed),
        }
    }
}

impl ArrivalGaps {
    /// Adds the arrival times since the last check, in any order. `cut` means that `times` is
    /// incomplete, because earlier webhooks since the last check are missing.
    pub fn heard(&mut self, times: &[UnixMillis], cut: bool, now: UnixMillis) {
        let mut times: Vec<UnixMillis> = times.iter().copied().filter(|at| *at <= now).collect();
        times.sort_unstable();
        let mut last = self.last.filter(|_| !cut);
        for at in times {
            if let Some(last) = last.filter(|last| *last <= at) {
                let gap = at.since(last).as_secs();
                self.gaps.push(u32::try_from(gap).unwrap_or(u32::MAX));
            }
            last = Some(at).max(last);
        }
        self.last = last.max(self.last);
        self.looked = self.looked.max(Some(now));
        let forgotten = self.gaps.len().saturating_sub(REMEMBERED);
        self.gaps.drain(..forgotten);
    }

    /// Returns the usual gap between webhooks, which is the median. Returns `None` if there are too
    /// few gaps.
    pub fn usual(&self) -> Option<Duration> {
        if self.gaps.len() < ENOUGH {
            return None;
        }
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        let middle = gaps.get(gaps.len() / 2)?;
        Some(Duration::from_secs(u64::from(*middle)))
    }

    /// Returns the time without a webhook after which the source counts as silent.
    pub fn quiet_after(&self, set: QuietAfter) -> Option<Duration> {
        match set {
            QuietAfter::Off => None,
            QuietAfter::Set(after) => Some(after),
            QuietAfter::Learned => {
                self.usual()?;
                let longest = self.gaps.iter().max()?;
                let longest = Duration::from_secs(u64::from(*longest));
                Some((longest * PATIENCE).max(LEAST))
            }
        }
    }

    /// Returns whether the source is silent at the time `now`. Webhooks must be counted up to this
    /// time.
    pub fn judge(&self, set: QuietAfter, now: UnixMillis) -> Quiet {
        let (Some(last), Some(after)) = (self.last, self.quiet_after(set)) else {
            return Quiet::Unknown;
        };
        let silent = now.since(last);
        if silent > after {
            Quiet::Silent { silent, after }
        } else {
            Quiet::Ok
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::calendar::Day;
    use crate::monitoring::coverage::{Counts, Gap};

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

    fn at(seconds: u64) -> UnixMillis {
        NOW + Duration::from_secs(seconds)
    }

    /// Returns the gaps of twenty webhooks, one every four minutes.
    fn steady() -> ArrivalGaps {
        let mut rhythm = ArrivalGaps::default();
        let times: Vec<UnixMillis> = (0..20).map(|n| at(n * 240)).collect();
        rhythm.heard(&times, false, at(19 * 240));
        rhythm
    }

    #[test]
    fn silence_is_what_the_rhythm_does_not_explain() {
        let rhythm = steady();
        assert_eq!(rhythm.usual(), Some(Duration::from_secs(240)));
        let judge = |minutes: u64| rhythm.judge(QuietAfter::Learned, at(19 * 240 + minutes * 60));
        assert_eq!((judge(4), judge(10)), (Quiet::Ok, Quiet::Ok));
        let silent = Quiet::Silent {
            silent: Duration::from_secs(36 * 60),
            after: LEAST,
        };
        assert_eq!(judge(36), silent);
    }

    #[test]
    fn a_night_that_was_learned_is_no_silence() {
        let mut rhythm = steady();
        let morning = 19 * 240 + 9 * 3600;
        rhythm.heard(&[at(morning)], false, at(morning));
        let later = |hours: u64| rhythm.judge(QuietAfter::Learned, at(morning + hours * 3600));
        assert_eq!(later(17), Quiet::Ok);
        assert!(matches!(later(19), Quiet::Silent { .. }));
    }

    #[test]
    fn what_is_set_needs_no_rhythm_and_what_is_off_is_not_said() {
        let rhythm = ArrivalGaps {
            last: Some(NOW),
            ..ArrivalGaps::default()
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(
            rhythm.judge(QuietAfter::Learned, at(90_000)),
            Quiet::Unknown
        );
        assert_eq!(rhythm.judge(QuietAfter::Off, at(90_000)), Quiet::Unknown);
        assert_eq!(rhythm.judge(QuietAfter::Set(hour), at(3600)), Quiet::Ok);
        assert!(matches!(
            rhythm.judge(QuietAfter::Set(hour), at(3601)),
            Quiet::Silent { .. }
        ));
        // A source that never sent a webhook does not count as silent.
        let never = ArrivalGaps::default().judge(QuietAfter::Set(hour), NOW);
        assert_eq!(never, Quiet::Unknown);
    }

    #[test]
    fn what_was_cut_off_is_no_gap_and_only_so_many_are_remembered() {
        let mut rhythm = steady();
        rhythm.heard(&[at(90_002), at(90_000), at(90_001)], true, at(90_002));
        assert_eq!(rhythm.gaps.iter().max(), Some(&240));
        assert_eq!(rhythm.last, Some(at(90_002)));
        let many: Vec<UnixMillis> = (90_003..91_000).map(at).collect();
        rhythm.heard(&many, false, at(91_000));
        assert_eq!(rhythm.gaps, vec![1; REMEMBERED]);
    }

    #[test]
    fn the_list_says_whether_there_was_anything_to_send() {
        let day = |counted, gaps: &[UnixMillis]| {
            let gaps = gaps.iter().map(|happened| Gap {
                happened: *happened,
                found: at(600),
                kind: String::new(),
                id: "1".into(),
            });
            DayCount {
                day: Day::of(NOW),
                counted,
                minutes: 1,
                compared: 1,
                counts: Counts {
                    gaps: gaps.collect(),
                    ..Counts::default()
                },
            }
        };
        let before = UnixMillis(NOW.0 - 1000);
        for (days, why) in [
            (vec![], Why::Unknown),
            (vec![day(Some(NOW), &[])], Why::Unknown),
            (vec![day(Some(at(600)), &[])], Why::NothingHappened),
            (vec![day(Some(at(600)), &[before])], Why::NothingHappened),
            (
                vec![day(Some(at(600)), &[before, at(1)])],
                Why::NotArriving(1),
            ),
        ] {
            assert_eq!(Why::of(&days, NOW), why);
        }
    }

    #[test]
    fn what_was_heard_before_or_comes_from_the_future_changes_nothing() {
        let mut rhythm = steady();
        let before = rhythm.clone();
        rhythm.heard(&[at(240), at(999_999)], false, at(19 * 240));
        assert_eq!(rhythm.last, before.last);
        assert_eq!(rhythm.gaps, before.gaps);
    }
}
