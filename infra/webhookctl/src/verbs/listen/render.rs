//! Prints the result of each delivery: a line for people, or an object for scripts.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use shared::base::clock::UnixMillis;

use super::deliver::Item;
use super::wanted::Wanted;
use crate::forward::Answer;
use crate::inspect::{EventView, seven_lines};
use crate::output::column::short_id;
use crate::output::count::plural;
use crate::output::safe::{capped, safe};
use crate::output::style::paint;
use crate::output::{Format, Printer, time};

/// The maximum number of characters of a response body, in the text output and in the output for
/// scripts.
const SHOWN: usize = 300;
const SHOWN_TO_SCRIPTS: usize = 4096;

/// The minimum interval between lines about the number of held events.
const PATIENCE: Duration = Duration::from_secs(5);

/// One delivery, for scripts.
#[derive(Serialize)]
struct Line<'l> {
    at: String,
    phase: &'static str,
    id: &'l str,
    source: &'l str,
    #[serde(rename = "type")]
    kind: &'l str,
    received_at: String,
    /// Whether the user has sent the event again.
    again: bool,
    signed_again: bool,
    status: Option<u16>,
    took_ms: Option<u128>,
    error: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
}

pub(super) struct Teller {
    show_response: bool,
    source_width: usize,
    kind_width: usize,
    phase: Option<bool>,
    taken: usize,
    refused: usize,
    unanswered: usize,
    left_out: usize,
    /// The reason and the number of held events in the last printed line, and the time of this
    /// line.
    held: Option<(String, usize, Instant)>,
    troubled: bool,
}

impl Teller {
    pub(super) fn new(show_response: bool, source_width: usize) -> Self {
        Self {
            show_response,
            source_width,
            kind_width: 16,
            phase: None,
            taken: 0,
            refused: 0,
            unanswered: 0,
            left_out: 0,
            held: None,
            troubled: false,
        }
    }

    pub(super) fn backfill(&mut self, count: usize, wanted: &Wanted, out: &mut Printer) {
        self.phase = Some(true);
        let since = wanted.since.unwrap_or_default().0;
        let most = if wanted.looks_closer() { "up to " } else { "" };
        let since = time::clock_seconds(since, UnixMillis::now().0);
        let count = plural(count, "event");
        out.say(&format!(
            "  ── backfill: {most}{count} since {since}, oldest first ──"
        ));
    }

    pub(super) fn answered(
        &mut self,
        item: &Item,
        answer: &Answer,
        signed_again: bool,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let good = (200..300).contains(&answer.status);
        if good {
            self.taken += 1;
        } else {
            self.refused += 1;
        }
        let body = String::from_utf8_lossy(&answer.body);
        let took = answer.took.as_millis();
        let line = Line {
            signed_again,
            status: Some(answer.status),
            took_ms: Some(took),
            response: self
                .show_response
                .then(|| body.chars().take(SHOWN_TO_SCRIPTS).collect()),
            ..line(item)
        };
        let style = if good {
            AnsiColor::Green.on_default()
        } else {
            AnsiColor::Red.on_default()
        };
        let end = (style, answer.status.to_string(), format!("{took}ms"));
        self.tell(item, &line, &end, out)?;
        if self.show_response && !body.trim().is_empty() && out.format.is_table() {
            let shown = capped(body.trim(), SHOWN);
            out.painted(&format!("            {shown}\n"))?;
        }
        Ok(())
    }

    /// Prints that the program gave no answer. It may have received the event, so `listen` does not
    /// send the event again automatically.
    pub(super) fn unanswered(
        &mut self,
        item: &Item,
        why: &str,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        self.unanswered += 1;
        self.without_status(item, "no answer", why, out)
    }

    pub(super) fn left_out(
        &mut self,
        item: &Item,
        why: &str,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        self.left_out += 1;
        self.without_status(item, "not sent", why, out)
    }

    fn without_status(
        &mut self,
        item: &Item,
        what: &str,
        why: &str,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let line = Line {
            error: Some(why),
            ..line(item)
        };
        let style = AnsiColor::Yellow.on_default();
        let end = (style, format!("{what} ({why})"), String::new());
        self.tell(item, &line, &end, out)
    }

    fn tell(
        &mut self,
        item: &Item,
        line: &Line<'_>,
        (style, end, took): &(Style, String, String),
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        self.held = None;
        self.troubled = false;
        if self.phase != Some(item.past) {
            self.phase = Some(item.past);
            out.say(if item.past {
                "  ── backfill ──"
            } else {
                "  ── live ──"
            });
        }
        match out.format {
            Format::Json | Format::Jsonl => return out.json_line(line),
            Format::Ids => return out.text(&format!("{}\n", line.id)),
            _ => {}
        }
        let (source, kind) = (safe(line.source), safe(line.kind));
        self.kind_width = self.kind_width.max(kind.chars().count().min(40));
        let (of_source, of_kind) = (self.source_width, self.kind_width);
        let end = paint(out.terminal.stdout.colour, *style, &safe(end));
        let received = time::clock_seconds(item.event.received_at.0, UnixMillis::now().0);
        let again = if item.again { "  again" } else { "" };
        out.painted(&format!(
            "  {received}  {source:<of_source$}  {kind:<of_kind$}  → {end} {took:>6}  {}{again}\n",
            short_id(line.id),
        ))
    }

    /// Prints that the program cannot be reached. `listen` holds the events and sends them later.
    pub(super) fn held(&mut self, why: &str, count: usize, out: &mut Printer) {
        let known = self.held.as_ref();
        if known.is_some_and(|(said, ..)| said == why) {
            return self.more_held(count, out);
        }
        out.say(&format!("  → no answer ({why}), {count} held, retrying"));
        self.held = Some((why.to_owned(), count, Instant::now()));
    }

    pub(super) fn more_held(&mut self, count: usize, out: &mut Printer) {
        if let Some((why, said, at)) = &mut self.held
            && count != *said
            && at.elapsed() > PATIENCE
        {
            out.say(&format!("  → no answer ({why}), {count} held, retrying"));
            (*said, *at) = (count, Instant::now());
        }
    }

    pub(super) fn trouble(&mut self, why: &str, out: &mut Printer) {
        if !self.troubled {
            out.say(&format!("  the inbox cannot be read ({why}), retrying"));
        }
        self.troubled = true;
    }

    pub(super) fn summary(&self, under_way: usize, held: usize, out: &mut Printer) {
        let sent = self.taken + self.refused + self.unanswered;
        let mut parts = vec![format!("{sent} sent"), format!("{} accepted", self.taken)];
        for (count, what) in [
            (self.refused, "rejected"),
            (self.unanswered, "unanswered"),
            (self.left_out, "skipped"),
            (under_way, "in progress"),
            (held, "held, not sent"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        out.say("");
        out.say(&format!("  {}", parts.join(" · ")));
    }
}

/// Prints the selected event.
pub(super) fn chosen(item: &Item, out: &mut Printer) {
    let received = time::clock_seconds(item.event.received_at.0, UnixMillis::now().0);
    out.say(&format!(
        "  selected: {received}  {}  {}  {}",
        item.event.key.source(),
        item.event.kind,
        short_id(item.event.id.as_str()),
    ));
}

/// Prints the details of an event.
pub(super) fn details(event: &EventView, out: &mut Printer) -> anyhow::Result<()> {
    let now = UnixMillis::now().0;
    if out.format.is_table() {
        return out.text(&format!("\n{}\n", seven_lines(event, now)));
    }
    // Scripts read deliveries from stdout, so details are printed to stderr.
    for line in seven_lines(event, now).lines() {
        out.say(line);
    }
    Ok(())
}

fn line(item: &Item) -> Line<'_> {
    let event = &item.event;
    Line {
        at: UnixMillis::now().rfc3339(),
        phase: if item.past { "backfill" } else { "live" },
        id: event.id.as_str(),
        source: event.key.source(),
        kind: &event.kind,
        received_at: event.received_at.rfc3339(),
        again: item.again,
        signed_again: false,
        status: None,
        took_ms: None,
        error: None,
        response: None,
    }
}
