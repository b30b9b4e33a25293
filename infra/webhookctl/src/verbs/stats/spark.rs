//! Shows the received events over time as a line of bars.

use std::collections::BTreeMap;

use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;

use super::gather::Arrivals;
use crate::output::time::{HOUR_MS, MINUTE_MS};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The maximum number of bars.
const MOST: i64 = 48;

/// Returns the bars, such as `per hour ▁▁▂▅▇▃`, newest last. Returns `None` if no events were
/// received.
pub(super) fn line(arrived: &Arrivals, from: UnixMillis, to: UnixMillis) -> Option<String> {
    let minutes = to.0 - from.0 <= MOST * MINUTE_MS;
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for ((_, hour), arrived) in arrived {
        if minutes {
            for (minute, count) in &arrived.minutes {
                *counts.entry(*minute).or_default() += count;
            }
        } else {
            *counts.entry(number(*hour)).or_default() += arrived.events;
        }
    }
    let unit = if minutes { MINUTE_MS } else { HOUR_MS };
    let (first, last) = (from.0.div_euclid(unit), to.0.div_euclid(unit));
    let each = (last - first + 1).div_euclid(MOST + 1) + 1;
    let bars: Vec<u64> = (0..=(last - first) / each)
        .map(|bar| {
            let begin = first + bar * each;
            counts.range(begin..begin + each).map(|(_, n)| n).sum()
        })
        .collect();
    let most = bars.iter().max().copied().filter(|most| *most > 0)?;
    let bars: String = bars.iter().map(|count| bar(*count, most)).collect();
    Some(match (minutes, each) {
        (true, _) => format!("per minute {bars}"),
        (false, 1) => format!("per hour {bars}"),
        (false, hours) => format!("per {hours} hours {bars}"),
    })
}

fn number(hour: Hour) -> i64 {
    hour.begins().0.div_euclid(HOUR_MS)
}

/// Returns a bar. The lowest bar means no events, the highest bar means `most` events.
fn bar(count: u64, most: u64) -> char {
    let steps = BARS.len() as u64 - 1;
    let step = (count * steps).div_ceil(most.max(1));
    let step = usize::try_from(step).unwrap_or(0);
    BARS.get(step).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::monitoring::hours::Arrived;

    fn arrivals(counts: &[(i64, u64)]) -> Arrivals {
        let one = |(hour, events): &(i64, u64)| {
            let hour = Hour::of(UnixMillis(hour * HOUR_MS));
            let arrived = Arrived {
                events: *events,
                ..Arrived::default()
            };
            (("s".to_owned(), hour), arrived)
        };
        counts.iter().map(one).collect()
    }

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest() {
        let arrived = arrivals(&[(100, 1), (101, 70), (103, 35)]);
        let to = UnixMillis(103 * HOUR_MS + 10);
        let line = line(&arrived, UnixMillis(100 * HOUR_MS), to);
        assert_eq!(line.as_deref(), Some("per hour ▂█▁▅"));
    }

    #[test]
    fn a_long_span_has_bars_of_several_hours_and_a_short_one_of_minutes() {
        let arrived = arrivals(&[(100, 1)]);
        let week = line(&arrived, UnixMillis(0), UnixMillis(168 * HOUR_MS)).unwrap();
        assert!(week.starts_with("per 4 hours "), "{week}");
        assert!(week.chars().count() <= 12 + 48, "{week}");
        let mut one = Arrived::default();
        one.add(UnixMillis(30_000), "t");
        one.add(UnixMillis(150_000), "t");
        let arrived = Arrivals::from([(("s".to_owned(), Hour::of(UnixMillis(0))), one)]);
        let minutes = line(&arrived, UnixMillis(0), UnixMillis(179_999));
        assert_eq!(minutes.as_deref(), Some("per minute █▁█"));
        assert_eq!(line(&Arrivals::new(), UnixMillis(0), UnixMillis(1)), None);
    }
}
