//! What can be wrong, and in which order it is shown.

use std::cmp::Reverse;

use serde::Serialize;
use shared::base::clock::UnixMillis;

use crate::output::time::rfc3339;

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    /// The provider no longer lists a time that the sync has not read.
    Lost,
    DeadLetters,
    /// The subscription at the provider is disabled, missing or incomplete.
    Endpoint,
    /// A task of backup-sync does not run.
    Heartbeat,
    /// The dead-letter queue of the work queue has messages.
    WorkDeadLetters,
    /// Events wait in the spill queue for the table.
    SpillWaiting,
    BreakerOpen,
    Failing,
    /// A replay stopped before its end.
    PlanStopped,
    Rejected,
    Quarantined,
    /// Events wait for an approval.
    Held,
    /// Verified events lack a value that Mitt reads.
    PathMissing,
    /// Objects at the provider differ from yours.
    Drift,
    Late,
    QueueBacklog,
    /// The sync found events that did not arrive by webhook.
    Gaps,
    SyncBehind,
    Silent,
    Paused,
    RotationOverdue,
}

/// The order of the list, for items of the same severity: loss, then wrong results, then delays, then
/// silence and what an operator began.
pub(super) const ORDER: [Code; 21] = [
    Code::Lost,
    Code::DeadLetters,
    Code::Endpoint,
    Code::Heartbeat,
    Code::WorkDeadLetters,
    Code::SpillWaiting,
    Code::BreakerOpen,
    Code::Failing,
    Code::PlanStopped,
    Code::Rejected,
    Code::Quarantined,
    Code::Held,
    Code::PathMissing,
    Code::Drift,
    Code::Late,
    Code::QueueBacklog,
    Code::Gaps,
    Code::SyncBehind,
    Code::Silent,
    Code::Paused,
    Code::RotationOverdue,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Events are lost or fail for good, or will be.
    Bad,
    /// Something needs a look.
    Warn,
    /// Good to know. The exit code stays 0.
    Note,
}

/// One problem, and the command that helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Item {
    pub(super) code: Code,
    pub(super) severity: Severity,
    pub(super) source: Option<String>,
    pub(super) count: Option<u64>,
    pub(super) text: String,
    pub(super) since: Option<String>,
    pub(super) command: String,
    #[serde(skip)]
    pub(super) since_ms: Option<i64>,
}

impl Item {
    pub(super) fn new(code: Code, severity: Severity, text: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            source: None,
            count: None,
            text: text.into(),
            since: None,
            command: String::new(),
            since_ms: None,
        }
    }

    #[must_use]
    pub(super) fn of(self, source: &str) -> Self {
        let source = Some(source.to_owned());
        Self { source, ..self }
    }

    #[must_use]
    pub(super) fn count(self, count: u64) -> Self {
        let count = Some(count);
        Self { count, ..self }
    }

    #[must_use]
    pub(super) fn since(self, since: Option<UnixMillis>) -> Self {
        let since_ms = since.map(|since| since.0);
        Self {
            since: since_ms.map(rfc3339),
            since_ms,
            ..self
        }
    }

    #[must_use]
    pub(super) fn command(self, command: impl Into<String>) -> Self {
        let command = command.into();
        Self { command, ..self }
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.severity < Severity::Note
    }
}

impl Code {
    /// Returns the code in words, for a line. A count can precede them.
    pub(super) fn words(self, count: Option<u64>) -> &'static str {
        match self {
            Self::DeadLetters if count == Some(1) => "dead letter",
            Self::WorkDeadLetters if count == Some(1) => "work dead letter",
            Self::Gaps if count == Some(1) => "gap",
            Self::Lost => "lost",
            Self::DeadLetters => "dead letters",
            Self::Endpoint => "endpoint",
            Self::Heartbeat => "task stopped",
            Self::WorkDeadLetters => "work dead letters",
            Self::SpillWaiting => "spilled",
            Self::BreakerOpen => "breaker open",
            Self::Failing => "failing",
            Self::PlanStopped => "replay stopped",
            Self::Rejected => "rejected",
            Self::Quarantined => "quarantined",
            Self::Held => "held",
            Self::PathMissing => "path missing",
            Self::Drift => "drift",
            Self::Late => "late",
            Self::QueueBacklog => "queue backlog",
            Self::Gaps => "gaps",
            Self::SyncBehind => "sync behind",
            Self::Silent => "silent",
            Self::Paused => "paused",
            Self::RotationOverdue => "rotation overdue",
        }
    }

    fn place(self) -> usize {
        let place = ORDER.iter().position(|code| *code == self);
        place.unwrap_or(ORDER.len())
    }
}

/// Sorts the items, worst first: by severity, then by the table, then the largest count, then the
/// oldest.
pub(super) fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| {
        let key = |item: &Item| (item.severity, item.code.place(), Reverse(item.count));
        let age = |item: &Item| item.since_ms.unwrap_or(i64::MAX);
        key(a)
            .cmp(&key(b))
            .then(age(a).cmp(&age(b)))
            .then_with(|| a.source.cmp(&b.source))
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_order_has_every_code_once() {
        let all: HashSet<Code> = ORDER.into_iter().collect();
        assert_eq!(all.len(), ORDER.len());
        // The JSON words are those of the documentation.
        let words = ORDER.map(|code| serde_json::to_value(code).unwrap());
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "lost dead_letters endpoint heartbeat work_dead_letters spill_waiting breaker_open failing \
             plan_stopped rejected quarantined held path_missing drift late queue_backlog gaps sync_behind silent paused \
             rotation_overdue"
        );
    }

    #[test]
    fn the_worst_is_first() {
        let item = |code, severity, count, since| {
            Item::new(code, severity, "")
                .count(count)
                .since(Some(UnixMillis(since)))
        };
        let mut items = [
            item(Code::Paused, Severity::Note, 1, 1),
            item(Code::Late, Severity::Warn, 1, 1),
            item(Code::Failing, Severity::Warn, 1, 2),
            item(Code::Failing, Severity::Warn, 1, 1),
            item(Code::Failing, Severity::Warn, 7, 3),
            item(Code::Heartbeat, Severity::Bad, 1, 1),
            item(Code::DeadLetters, Severity::Bad, 1, 1),
        ];
        sort(&mut items);
        let order: Vec<_> = items
            .iter()
            .map(|item| {
                (
                    item.code.words(None),
                    item.count.unwrap(),
                    item.since_ms.unwrap(),
                )
            })
            .collect();
        assert_eq!(
            order,
            [
                ("dead letters", 1, 1),
                ("task stopped", 1, 1),
                ("failing", 7, 3),
                ("failing", 1, 1),
                ("failing", 1, 2),
                ("late", 1, 1),
                ("paused", 1, 1),
            ]
        );
    }
}
