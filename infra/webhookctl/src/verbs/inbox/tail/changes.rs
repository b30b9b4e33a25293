//! Computes the changes of an event between two reads of its row.

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Moment, Row, State};

use super::Line;

use crate::inspect::{Change, EventView, with_error};
use crate::output::time::duration;

/// The state of a row at the last read.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) status: State,
    pub(super) received_at: i64,
    epoch: u64,
    run: u64,
    /// The time of the last history entry.
    last: UnixMillis,
}

impl Known {
    pub(super) fn of(row: &Row, view: &EventView) -> Self {
        Self {
            status: view.status,
            received_at: row.received_at.0,
            epoch: row.epoch,
            run: row.run,
            last: row.history.last().map_or(UnixMillis(0), |moment| moment.at),
        }
    }

    /// Returns whether the event can still change without an operator.
    pub(super) fn is_open(&self) -> bool {
        matches!(
            self.status,
            State::Received | State::Processing | State::Failed
        )
    }
}

/// Returns the changes since `before`. For a new event, returns all its changes.
pub(super) fn changes(before: Option<&Known>, row: &Row, view: &EventView, now: i64) -> Vec<Line> {
    let line = |at: i64, change: Change, status: State, attempt: u32, detail: String| Line {
        at,
        id: view.id.clone(),
        source: view.source.clone(),
        kind: view.event_type.clone(),
        change,
        status,
        attempt,
        detail,
    };
    let mut lines = Vec::new();
    let mut status = State::Received;
    match before {
        None => {
            let by = format!("by {}", view.via);
            lines.push(line(view.received_at, Change::Stored, status, 0, by));
        }
        Some(before) if before.run < row.run => {
            let run = format!("run {}", row.run + 1);
            lines.push(line(now, Change::Again, status, 0, run));
        }
        Some(before) => status = before.status,
    }
    let last = before.map_or(UnixMillis(0), |before| before.last);
    for moment in row.history.iter().filter(|moment| moment.at > last) {
        let Some(to) = State::parse(&moment.what) else {
            continue;
        };
        let (at, detail) = (moment.at.0, detail(to, moment, row));
        lines.push(line(at, Change::to(to), to, moment.attempt, detail));
        status = to;
    }
    let to = view.status;
    let taken_over = to == State::Processing
        && before.is_some_and(|before| before.status == status && before.epoch < row.epoch);
    if to != status || taken_over {
        // The row has no time of a claim. The claim happened between the two reads.
        let attempt = match to {
            State::Processing => format!("attempt {}", row.attempts),
            _ => String::new(),
        };
        lines.push(line(now, Change::to(to), to, row.attempts, attempt));
    }
    lines
}

fn detail(to: State, moment: &Moment, row: &Row) -> String {
    match to {
        State::Done if moment.attempt <= 1 => elapsed(moment.at.0 - row.received_at.0),
        State::Done => format!("attempt {}", moment.attempt),
        State::Failed => {
            let due = row
                .due
                .map(|due| due.0 - moment.at.0)
                .filter(|wait| *wait > 0);
            let due = due.map(|wait| format!("; retry in {}", duration((wait + 999) / 1000)));
            format!(
                "attempt {}: {}{}",
                moment.attempt,
                moment.note,
                due.unwrap_or_default()
            )
        }
        State::DeadLetter => with_error(&moment.note, row),
        _ => moment.note.clone(),
    }
}

/// Returns a duration such as `0.8s`, or `1m20s` if it is a minute or longer.
fn elapsed(millis: i64) -> String {
    if millis < 60_000 {
        format!("{}.{}s", millis.max(0) / 1000, millis.max(0) % 1000 / 100)
    } else {
        duration(millis / 1000)
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use shared::inbox::ledger::Item;
    use shared::sources::{Config, EMBEDDED};

    use super::*;
    use crate::inspect::view;

    const NOW: i64 = 1_795_169_681_000;

    /// Returns a row in this state, with these history entries.
    fn row(state: &str, epoch: u64, run: u64, history: &[&str]) -> Row {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |number: i64| AttributeValue::N(number.to_string());
        let history = history.iter().map(|entry| text(entry)).collect();
        let row = Item::from([
            ("pk".to_owned(), text("E#stripe-main#evt_1")),
            ("sv".to_owned(), number(1)),
            ("st".to_owned(), text(state)),
            ("epoch".to_owned(), AttributeValue::N(epoch.to_string())),
            ("run".to_owned(), AttributeValue::N(run.to_string())),
            ("att".to_owned(), number(1)),
            ("cr".to_owned(), number(0)),
            ("rcv".to_owned(), number(NOW - 5_000)),
            ("lu".to_owned(), number(NOW + 30_000)),
            ("due".to_owned(), number(NOW + 60_000)),
            ("bref".to_owned(), text("d")),
            ("fx".to_owned(), AttributeValue::M(Item::new())),
            ("h".to_owned(), AttributeValue::L(history)),
        ]);
        Row::read(&row).unwrap()
    }

    fn told(before: Option<&Row>, after: &Row) -> Vec<String> {
        let config = Config::parse(EMBEDDED).unwrap();
        let known = before.map(|row| Known::of(row, &view(row, &config)));
        let lines = changes(known.as_ref(), after, &view(after, &config), NOW);
        let line = |line: Line| format!("{} {}", line.change.as_str(), line.detail);
        lines.into_iter().map(line).collect()
    }

    const FAILED: &str = "1795169680000|failed|1|1795169715000|processor/1|GitHub API 502";
    const DONE: &str = "1795169680800|done|2|1795169715000|processor/1|";

    #[test]
    fn a_new_event_is_told_from_its_beginning() {
        let new = row("received", 0, 0, &[]);
        assert_eq!(told(None, &new), ["stored by webhook"]);
        let done = row("done", 2, 0, &[FAILED, DONE]);
        assert_eq!(
            told(None, &done),
            [
                "stored by webhook",
                "failed attempt 1: GitHub API 502; retry in 1m01s",
                "done attempt 2"
            ]
        );
    }

    #[test]
    fn only_what_is_new_is_told_of_a_known_one() {
        let new = row("received", 0, 0, &[]);
        let first = row("processing", 1, 0, &[]);
        let failed = row("failed", 1, 0, &[FAILED]);
        let second = row("processing", 2, 0, &[FAILED]);
        assert_eq!(told(Some(&new), &new), Vec::<String>::new());
        assert_eq!(told(Some(&new), &first), ["processing attempt 1"]);
        let retry = "failed attempt 1: GitHub API 502; retry in 1m01s";
        assert_eq!(told(Some(&first), &failed), [retry]);
        assert_eq!(told(Some(&failed), &second), ["processing attempt 1"]);
        assert_eq!(
            told(Some(&second), &row("done", 2, 0, &[FAILED, DONE])),
            ["done attempt 2"]
        );
    }

    #[test]
    fn a_takeover_and_a_replay_are_told() {
        let first = row("processing", 1, 0, &[]);
        assert_eq!(
            told(Some(&first), &row("processing", 2, 0, &[])),
            ["processing attempt 1"]
        );
        let done = row("done", 2, 0, &[FAILED, DONE]);
        let again = row("received", 3, 1, &[FAILED, DONE]);
        assert_eq!(told(Some(&done), &again), ["again run 2"]);
    }
}
