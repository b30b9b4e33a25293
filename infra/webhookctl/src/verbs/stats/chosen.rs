//! Parses the selection of `inbox stats`: sources, types and a time range.

use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;

use crate::cli::SelectionArgs;
use crate::glob;
use crate::output::CliError;
use crate::output::time::{DAY_MS, duration, rfc3339};
use crate::selection::sources;
use crate::target::Deployment;

/// The maximum time range in days. One read returns the counts of a few hundred hours.
const MOST_DAYS: i64 = 90;

pub(in crate::verbs) struct Chosen {
    pub(in crate::verbs) sources: Vec<String>,
    kinds: Vec<String>,
    /// The start and the end of the time range, both inclusive.
    pub(super) from: UnixMillis,
    pub(super) to: UnixMillis,
}

impl Chosen {
    pub(in crate::verbs) fn of(
        args: &SelectionArgs,
        inbox: &Deployment,
        now: UnixMillis,
    ) -> Result<Self, CliError> {
        can_be_counted(args)?;
        // backup-sync counts whole hours, so the default begins with one.
        let from = args
            .received
            .since
            .map_or(a_day(now).0, |when| when.millis(now.0));
        let to = args
            .received
            .until
            .map_or(now.0, |when| when.millis(now.0) - 1);
        if to < from {
            return Err(CliError::usage(
                "stats.span",
                "the end of the time range is before its start",
            )
            .tip("--since and --until are times like 3d or 2026-11-20"));
        }
        if (to - from) / DAY_MS >= MOST_DAYS {
            return Err(CliError::usage(
                "stats.span",
                format!("the time range must be at most {MOST_DAYS} days"),
            )
            .tip("narrow it with --since and --until"));
        }
        let mut sources = sources(inbox, &args.received.source)?;
        sources.sort();
        Ok(Self {
            sources,
            kinds: args.event_type.clone(),
            from: UnixMillis(from),
            to: UnixMillis(to),
        })
    }

    pub(super) fn has_kind(&self, kind: &str) -> bool {
        any(&self.kinds, kind)
    }

    pub(super) fn all_kinds(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(in crate::verbs) fn has_source(&self, source: &str) -> bool {
        self.sources.iter().any(|name| name == source)
    }

    /// Describes the time range: `last 24h`, or its start and end.
    pub(super) fn said(&self, now: UnixMillis) -> String {
        let seconds = (now.0 - self.from.0) / 1000;
        let mut said = if self.to == now && self.from == a_day(now) {
            "last 24h".to_owned()
        } else if self.to == now {
            format!("last {}", span(seconds))
        } else {
            let to = rfc3339(self.to.0 + 1);
            format!("{} to {to}", rfc3339(self.from.0))
        };
        if !self.kinds.is_empty() {
            said = format!("{said}, type {}", self.kinds.join(" or "));
        }
        said
    }
}

/// Returns the start of the hour a day ago.
fn a_day(now: UnixMillis) -> UnixMillis {
    Hour::of(UnixMillis(now.0 - DAY_MS)).begins()
}

/// A day is written as `24h`, as in the argument.
fn span(seconds: i64) -> String {
    const DAY: i64 = 24 * 3600;
    if seconds == DAY {
        "24h".to_owned()
    } else {
        duration(seconds)
    }
}

/// Returns an error for filters other than source, type and time. The stored counts have no other
/// fields, so another filter would require that the command reads each event.
fn can_be_counted(args: &SelectionArgs) -> Result<(), CliError> {
    let given = [
        ("--status", !args.status.is_empty()),
        ("--error", args.error.is_some()),
        ("--via", !args.via.is_empty()),
        ("--attempts", args.attempts.is_some()),
        ("--id", !args.received.id.is_empty()),
        ("--where", !args.where_.is_empty()),
        ("--account", !args.account.is_empty()),
        ("--header", !args.header.is_empty()),
        ("--tee", !args.tee.is_empty()),
        ("--repeats", !args.repeats.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(CliError::usage(
            "stats.selection",
            format!("counts can be filtered by source, type and time, but not by {flag}"),
        )
        .tip(format!("webhookctl inbox list {flag} …"))),
    }
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| glob::fits(pattern, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_count_knows_is_refused_by_its_flag() {
        let args = SelectionArgs {
            attempts: Some(2),
            ..SelectionArgs::default()
        };
        let error = can_be_counted(&args).unwrap_err();
        assert_eq!(error.code, "stats.selection");
        assert!(error.message.contains("--attempts"));
        assert!(can_be_counted(&SelectionArgs::default()).is_ok());
    }
}
