//! Prints the result of `status`.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::Status;
use super::item::{Code, Item, Severity};
use crate::output::Spent;
use crate::output::count::{plural, thousands};
use crate::output::table::{Align, Canvas, Head, Room, Weight, headless};
use crate::output::time::{age, clock_seconds, short};
use crate::output::{Format, Printer, safe};

/// The columns of a line. In a narrow terminal, the text is shortened first, and the command last.
const HEADS: [Head; 5] = [
    head(Room::Whole, Weight::Essential),
    head(Room::Whole, Weight::Main),
    head(Room::Text(24), Weight::Main),
    head(Room::Whole, Weight::Lesser),
    head(Room::Whole, Weight::Essential),
];

const fn head(room: Room, weight: Weight) -> Head {
    Head {
        name: "",
        align: Align::Left,
        room,
        weight,
    }
}

pub(super) fn print(status: &Status, out: &mut Printer) -> anyhow::Result<()> {
    if out.format == Format::Jsonl {
        for item in &status.items {
            out.json_line(item)?;
        }
        return Ok(());
    }
    if out.format.is_table() {
        let text = text(status, out);
        out.painted(&text)?;
        out.say(&footer(status));
        return Ok(());
    }
    out.document("status", status, "", "")
}

fn text(status: &Status, out: &Printer) -> String {
    let colour = out.terminal.stdout.colour;
    let rows: Vec<Vec<String>> = status
        .items
        .iter()
        .map(|item| cells(item, status))
        .collect();
    let canvas = Canvas {
        width: out.terminal.width,
        wide: out.format == Format::Wide,
        colour,
    };
    let styles = status.items.iter().map(|item| style(item.severity));
    let mut text = headless(&HEADS, &rows, canvas, &styles.collect::<Vec<_>>());
    for missing in &status.not_read {
        let line = format!("? {}: not read, {}", missing.what, missing.reason);
        let _ = writeln!(text, "{}", safe(&line));
    }
    if rows.is_empty() && status.not_read.is_empty() {
        let _ = writeln!(text, "nothing is wrong{}", newest(status));
    } else if rows.is_empty() {
        let _ = writeln!(text, "nothing is wrong in what was read{}", newest(status));
    }
    text
}

fn cells(item: &Item, status: &Status) -> Vec<String> {
    let mark = match (item.severity, item.code) {
        (Severity::Bad, _) => "■",
        (Severity::Warn, Code::Rejected | Code::Quarantined) => "◇",
        (Severity::Warn, Code::Silent) | (Severity::Note, _) => "○",
        (Severity::Warn, _) => "▲",
    };
    let count = item.count.map(thousands);
    let words = [
        Some(mark.to_owned()),
        count,
        Some(item.code.words(item.count).to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let since = item.since_ms;
    let since = since.map_or(String::new(), |at| {
        format!("since {}", short(at, status.now.0))
    });
    vec![
        words.join(" "),
        item.source.clone().unwrap_or_else(|| "-".to_owned()),
        item.text.clone(),
        since,
        item.command.clone(),
    ]
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Bad => AnsiColor::Red.on_default().bold(),
        Severity::Warn => AnsiColor::Yellow.on_default(),
        Severity::Note => Style::new().dimmed(),
    }
}

fn newest(status: &Status) -> String {
    match &status.newest_event {
        Some(event) => format!(
            "; the newest event arrived {} ago from {}",
            age(event.at, status.now.0),
            event.source
        ),
        None => "; no event arrived in the last 24h".to_owned(),
    }
}

/// Returns a footer such as `5 things · 12 sources · looked 10:14:41 · prod · 46 calls, 61.0 read
/// units`.
fn footer(status: &Status) -> String {
    let now = status.now.0;
    let mut parts = vec![
        plural(status.items.len(), "thing"),
        plural(status.sources, "source"),
        format!("looked {}", clock_seconds(now, now)),
        status.context.clone(),
    ];
    parts.extend(Spent::now().map(Spent::text));
    parts.join(" · ")
}
