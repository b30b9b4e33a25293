//! `send --wait` at a terminal: prints the progress of the event on stderr.

use std::cell::Cell;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State};

use crate::output::progress::line;
use crate::output::time::duration;
use crate::output::{Printer, Talk};

/// The progress of the events of one command.
pub(super) struct Watch {
    /// Whether the command waits for the final status.
    pub(super) waits: bool,
    /// Whether it prints progress.
    tells: bool,
    /// The state in the last printed line. A line is printed only if the state has changed.
    last: Cell<Option<(State, u32)>>,
}

impl Watch {
    /// Progress is printed only at a terminal, and only if the output is text.
    pub(super) fn new(waits: bool, out: &Printer) -> Self {
        let terminal = out.terminal;
        let has_reader = terminal.stderr.terminal && terminal.talk != Talk::Quiet;
        Self {
            waits,
            tells: waits && has_reader && out.format.is_table(),
            last: Cell::new(None),
        }
    }

    /// Waits without any output.
    pub(super) fn silent() -> Self {
        Self {
            waits: true,
            tells: false,
            last: Cell::new(None),
        }
    }

    pub(super) fn sends(&self, url: &str) {
        self.last.set(None);
        let shown = url.split('?').next().unwrap_or(url);
        self.tell(&format!("sending to {shown}"));
    }

    pub(super) fn answered(&self, status: u16, took_ms: u128) {
        let then = match status {
            200..=299 => "; waiting until the event is stored",
            _ => "",
        };
        self.tell(&format!("answered {status} in {took_ms}ms{then}"));
    }

    /// Prints the state of the event if it has changed.
    pub(super) fn sees(&self, row: &Row) {
        let now = (row.state, row.attempts);
        if self.last.replace(Some(now)) != Some(now)
            && let Some(text) = text(row, UnixMillis::now())
        {
            self.tell(&text);
        }
    }

    fn tell(&self, text: &str) {
        if self.tells {
            line(&format!("  {}", crate::output::safe::safe(text)));
        }
    }
}

/// Describes an open event. The result of the command describes the final status.
fn text(row: &Row, now: UnixMillis) -> Option<String> {
    Some(match row.state {
        State::Received => format!("stored as {}; waiting for the processor", row.id()),
        State::Processing => format!("attempt {}: running the actions", row.attempts),
        State::Failed => {
            let due = row.due.map(|due| due.since(now).as_secs());
            let wait = due.map(|secs| format!("; next attempt in {}", duration(secs)));
            let error = row.error.as_deref().unwrap_or("no error is recorded");
            let attempts = row.attempts;
            format!(
                "attempt {attempts} failed: {error}{}",
                wait.unwrap_or_default()
            )
        }
        _ => return None,
    })
}
