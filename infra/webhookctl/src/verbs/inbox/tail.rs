//! `inbox tail`: prints events as they arrive and change.

mod changes;
mod follow;

use std::time::Duration;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::State;

pub(in crate::verbs) use self::follow::Follow;
use crate::cli::{Global, Status, TailArgs};
use crate::inspect::{Change, as_word};
use crate::output::column::short_id;
use crate::output::count::plural;
use crate::output::safe::capped;
use crate::output::time::{as_rfc3339, clock, duration};
use crate::output::{CliError, Exit, Format, Printer};
use crate::selection::Selection;
use crate::target::Deployment;

/// The interval between scans.
pub(in crate::verbs) const EACH: Duration = Duration::from_secs(1);

/// The maximum length of a cell.
const CELL_CAP: usize = 200;

/// One change of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::verbs) struct Line {
    #[serde(serialize_with = "as_rfc3339")]
    pub(in crate::verbs) at: i64,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    change: Change,
    #[serde(serialize_with = "as_word")]
    status: State,
    attempt: u32,
    detail: String,
}

pub(in crate::verbs) async fn tail(
    args: TailArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    refuse_unusable(&args)?;
    if out.format == Format::Csv {
        return Err(
            CliError::usage("usage.output", "a stream cannot be printed as CSV")
                .tip("use -o jsonl, or webhookctl inbox export -f FILE.csv")
                .into(),
        );
    }
    let inbox = args.bodies_at.open(global).await?;
    let began = UnixMillis::now().0;
    let selection = Selection::new(&args.selection, &inbox, began)?;
    let mut shown = Shown::default();
    let mut follow = Follow::new(&selection, &inbox);
    let until_gone = async {
        loop {
            for line in follow.look(UnixMillis::now().0).await? {
                if is_wanted(&args, &line) {
                    shown.print(&line, out)?;
                }
            }
            tokio::time::sleep(EACH).await;
        }
    };
    tokio::select! {
        ended = until_gone => return ended,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    out.say(&shown.summary(UnixMillis::now().0 - began));
    Ok(Exit::Interrupted)
}

/// Returns an error for flags that do not fit events of the future.
pub(in crate::verbs) fn refuse_unusable(args: &TailArgs) -> Result<(), CliError> {
    if args.selection.status.contains(&Status::Held) {
        let error = CliError::usage(
            "inbox.tail",
            "tail shows new events and attempts, and does not accept --status held",
        );
        return Err(error.tip("webhookctl hold list"));
    }
    let received = &args.selection.received;
    if received.until.is_none() && received.id.is_empty() {
        return Ok(());
    }
    let error = CliError::usage(
        "inbox.tail",
        "tail follows new events and does not accept --until or --id",
    );
    Err(error.tip("webhookctl inbox inspect <ID> --watch"))
}

/// Returns whether the flags select this change of an event that the selection follows.
pub(in crate::verbs) fn is_wanted(args: &TailArgs, line: &Line) -> bool {
    let asked = args.only.is_empty() || args.only.contains(&line.change);
    let of_status = &args.selection.status;
    asked && (of_status.is_empty() || of_status.contains(&Status::Of(line.status)))
}

/// Follows events for another command. This command has its own loop and calls the tail from there.
pub(in crate::verbs) struct Tail<'a> {
    follow: Follow<'a>,
    shown: Shown,
}

impl<'a> Tail<'a> {
    pub(in crate::verbs) fn new(selection: &'a Selection, inbox: &'a Deployment) -> Self {
        Self {
            follow: Follow::new(selection, inbox),
            shown: Shown::default(),
        }
    }

    /// Prints the changes since the last scan. Returns the ids of events that became done.
    pub(in crate::verbs) async fn look(
        &mut self,
        out: &mut Printer,
    ) -> anyhow::Result<Vec<String>> {
        let mut done = Vec::new();
        for line in self.follow.look(UnixMillis::now().0).await? {
            self.shown.print(&line, out)?;
            if line.change == Change::Done {
                done.push(line.id);
            }
        }
        Ok(done)
    }
}

/// The counts and the column widths of the lines printed so far.
#[derive(Default)]
struct Shown {
    events: std::collections::HashSet<String>,
    done: usize,
    failed: usize,
    dead: usize,
    /// The width of the column. It grows with the longest value, and never shrinks.
    source: usize,
    kind: usize,
}

impl Shown {
    fn print(&mut self, line: &Line, out: &mut Printer) -> anyhow::Result<()> {
        self.events.insert(line.id.clone());
        match line.change {
            Change::Done => self.done += 1,
            Change::Failed => self.failed += 1,
            Change::DeadLetter => self.dead += 1,
            _ => {}
        }
        match out.format {
            Format::Json | Format::Jsonl => out.json_line(line),
            Format::Ids => out.text(&format!("{}\n", line.id)),
            Format::Table | Format::Wide | Format::Csv | Format::Otlp => {
                let text = self.line(line, out.format == Format::Wide);
                out.text(&text)
            }
        }
    }

    fn line(&mut self, line: &Line, wide: bool) -> String {
        let id = if wide { &line.id } else { short_id(&line.id) };
        let (source, kind) = (capped(&line.source, CELL_CAP), capped(&line.kind, CELL_CAP));
        self.source = self.source.max(source.chars().count());
        self.kind = self.kind.max(kind.chars().count());
        let text = format!(
            "{}  {id}  {source:<of_source$}  {kind:<of_kind$}  {change:<11}  {detail}",
            clock(line.at, line.at),
            change = line.change.as_str(),
            detail = capped(&line.detail, CELL_CAP),
            of_source = self.source,
            of_kind = self.kind.min(24),
        );
        format!("{}\n", text.trim_end())
    }

    fn summary(&self, millis: i64) -> String {
        let mut words = vec![plural(self.events.len(), "event")];
        let counts = [
            (self.done, "done"),
            (self.failed, "failed"),
            (self.dead, "dead"),
        ];
        let some = counts.iter().filter(|(count, _)| *count > 0);
        words.extend(some.map(|(count, what)| format!("{count} {what}")));
        format!("{} in {}", words.join(", "), duration(millis / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::safe::tests::{corpus, is_inert};

    fn line() -> Line {
        Line {
            at: 1_795_169_690_201,
            id: "evt_01M7W778JS0AAAAAAAAAAAAAAA".into(),
            source: "github-org".into(),
            kind: "issues.opened".into(),
            change: Change::Stored,
            status: State::Received,
            attempt: 0,
            detail: "by webhook".into(),
        }
    }

    #[test]
    fn a_change_is_a_line() {
        let mut shown = Shown::default();
        assert_eq!(
            shown.line(&line(), false),
            "10:14:50.201  evt_01M7W778JS0  github-org  issues.opened  stored       by webhook\n"
        );
        shown.done = 2;
        shown.failed = 1;
        shown.events.insert("evt_1".into());
        assert_eq!(shown.summary(9_400), "1 event, 2 done, 1 failed in 9s");
    }

    #[test]
    fn a_hostile_change_stays_one_inert_line() {
        for text in corpus() {
            let hostile = Line {
                source: text.clone(),
                kind: text.clone(),
                detail: text,
                ..line()
            };
            let shown = Shown::default().line(&hostile, true);
            assert_eq!(shown.lines().count(), 1);
            assert!(shown.lines().all(is_inert) && shown.len() < 5000);
        }
    }
}
