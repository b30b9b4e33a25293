//! Parses the days that a sync command covers.

use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;

use crate::cli::SyncSpanArgs;
use crate::output::CliError;
use crate::output::time::DAY_MS;

/// The default time range.
const USUAL: i64 = 7 * DAY_MS;

/// The maximum number of days. The table has an item for each day of each source.
const MOST_DAYS: usize = 180;

/// A time range. The start is inclusive, and the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: UnixMillis,
    pub(super) to: UnixMillis,
}

impl Span {
    pub(super) fn of(args: &SyncSpanArgs, now: i64) -> Result<Self, CliError> {
        let from = args.since.map_or(now - USUAL, |when| when.millis(now));
        let to = args.until.map_or(now, |when| when.millis(now));
        let span = Self {
            from: UnixMillis(from),
            to: UnixMillis(to),
        };
        if span.to <= span.from {
            return Err(CliError::usage(
                "sync.span",
                "the end of the time range is before its start",
            )
            .tip("--since and --until are times like 3d or 2026-11-20"));
        }
        if span.days().len() > MOST_DAYS {
            return Err(CliError::usage(
                "sync.span",
                format!("the time range must be at most {MOST_DAYS} days"),
            )
            .tip("narrow it with --since and --until"));
        }
        Ok(span)
    }

    /// Returns the days of the time range, newest first.
    pub(super) fn days(self) -> Vec<Day> {
        let first = Day::of(self.from);
        let mut day = Day::of(UnixMillis(self.to.0 - 1));
        let mut days = Vec::new();
        while day >= first && days.len() <= MOST_DAYS {
            days.push(day);
            day = day.before(1);
        }
        days
    }

    pub(super) fn has(self, at: UnixMillis) -> bool {
        self.from <= at && at < self.to
    }

    pub(super) fn touches(self, from: UnixMillis, to: UnixMillis) -> bool {
        from < self.to && self.from < to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::time::When;

    /// 2026-11-20T10:14:41Z
    const NOW: i64 = 1_795_169_681_000;

    fn span(since: Option<&str>, until: Option<&str>) -> Result<Span, CliError> {
        let when = |text: &str| When::parse(text).unwrap();
        let args = SyncSpanArgs {
            since: since.map(when),
            until: until.map(when),
            ..SyncSpanArgs::default()
        };
        Span::of(&args, NOW)
    }

    #[test]
    fn a_week_has_eight_days_and_the_end_is_not_in_it() {
        let names = |span: Span| span.days().into_iter().map(Day::name).collect::<Vec<_>>();
        let week = names(span(None, None).unwrap());
        assert_eq!((week.len(), week[0].as_str()), (8, "20261120"));
        let two = span(Some("2026-11-18"), Some("2026-11-20")).unwrap();
        assert_eq!(names(two), ["20261119", "20261118"]);
        assert!(!two.has(two.to) && two.has(two.from));
    }

    #[test]
    fn a_span_that_is_none_or_too_long_is_refused() {
        for (since, until) in [(Some("1h"), Some("2h")), (Some("400d"), None)] {
            assert_eq!(span(since, until).unwrap_err().code, "sync.span");
        }
    }
}
