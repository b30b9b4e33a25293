//! `inbox export`: writes events to a file, and records the export in the audit log.

mod record;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;

use self::record::{Record, Redaction, Request};
use super::body::without_tokens;
use crate::audit::Change;
use crate::cli::{ExportArgs, Global};
use crate::files;
use crate::inspect::view;
use crate::output::count::{plural, thousands};
use crate::output::{CliError, Exit, Format, Printer, Progress};
use crate::selection::{Selection, Want};
use crate::target::Deployment;

/// The maximum number of events of one export.
const MOST_EVENTS: usize = 100_000;

/// The number of bodies that are read in parallel.
const AT_ONCE: usize = 16;

#[derive(Serialize)]
struct Report {
    file: String,
    events: usize,
    bytes: u64,
    /// The number of events with at least one redacted value.
    redacted: usize,
    by: String,
}

pub(in crate::verbs) async fn export(
    args: ExportArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let redaction = Redaction::parse(&args.redact)?;
    let to_stdout = args.file == Path::new("-");
    let csv = is_csv(&args.file, out.format)?;
    let inbox = args.bodies_at.open(global).await?;
    inbox.may_write("write the export to the audit log")?;
    let now = UnixMillis::now();
    let selection = Selection::new(&args.selection, &inbox, now.0)?;
    let rows = rows(&selection, &inbox, out).await?;
    if rows.is_empty() {
        out.say(&format!("No events match ({}).", selection.asked()));
        return Ok(Exit::Done);
    }
    let mut file = (!to_stdout)
        .then(|| NewFile::create(&args.file))
        .transpose()?;

    // The command records the export in the audit log before it writes the first event.
    let by = Change {
        what: "export",
        why: &args.reason,
        selection: selection.words(),
        count: rows.len(),
    }
    .record(&inbox)
    .await?;

    let mut report = Report {
        file: args.file.display().to_string(),
        events: rows.len(),
        bytes: 0,
        redacted: 0,
        by,
    };
    let how = How {
        csv,
        with_request: args.with_request,
        redaction,
    };
    write(&rows, &how, &inbox, &mut file, &mut report, out).await?;
    if let Some(file) = file {
        file.keep()?;
    }
    let text = told(&report, args.redact.len());
    if to_stdout {
        out.say(text.trim_end());
    } else {
        out.document("inbox.export", &report, "", &text)?;
    }
    Ok(Exit::Done)
}

/// The format of the events, and the values to redact.
struct How {
    csv: bool,
    with_request: bool,
    redaction: Redaction,
}

/// Writes the events to the file or to stdout.
async fn write(
    rows: &[Row],
    how: &How,
    inbox: &Deployment,
    file: &mut Option<NewFile>,
    report: &mut Report,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let mut progress = if file.is_none() && out.terminal.stdout.terminal {
        // The exported lines on the terminal already show the progress.
        Progress::Quiet
    } else {
        Progress::new(out, "exported", rows.len())
    };
    let mut put = |text: &str| {
        report.bytes += text.len() as u64;
        match file {
            Some(file) => file.write(text),
            None => out.bytes(text.as_bytes()),
        }
    };
    if how.csv {
        put(&record::csv_head(how.with_request))?;
    }
    let records = rows
        .iter()
        .map(|row| record(row, inbox, &how.redaction, how.with_request));
    let mut records = futures::stream::iter(records).buffered(AT_ONCE);
    while let Some(record) = records.try_next().await? {
        report.redacted += usize::from(record.redacted > 0);
        put(&if how.csv {
            record.csv(how.with_request)?
        } else {
            record.json_line()
        })?;
        progress.step();
    }
    progress.end();
    Ok(())
}

/// Returns whether to write CSV. For a file, its extension decides. For stdout, `-o` decides.
fn is_csv(file: &Path, format: Format) -> Result<bool, CliError> {
    if file == Path::new("-") {
        return Ok(format == Format::Csv);
    }
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(true),
        Some("jsonl" | "ndjson") => Ok(false),
        _ => Err(CliError::usage(
            "export.format",
            "the file name has no extension of a supported format",
        )
        .tip("use -f events.jsonl or -f events.csv")),
    }
}

async fn rows(
    selection: &Selection,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Vec<Row>> {
    let all = Want {
        limit: MOST_EVENTS,
        reverse: true,
        after: None,
    };
    let found = selection
        .find_saying(inbox, all, &mut |line| out.say(line))
        .await?;
    if found.more {
        let message = format!("more than {} events match", thousands(MOST_EVENTS));
        return Err(CliError::refused("export.too_many", message)
            .note("nothing was written")
            .tip("export them in parts: --since and --until")
            .into());
    }
    Ok(found.rows)
}

async fn record(
    row: &Row,
    inbox: &Deployment,
    redaction: &Redaction,
    with_request: bool,
) -> anyhow::Result<Record> {
    let content = if with_request {
        // A missing body is null in the export.
        let content = inbox.ledger.event_content(&row.key).await?;
        content.and_then(|(_, content)| content.ok())
    } else {
        None
    };
    let body = content.as_ref();
    let body = body.map(|content| without_tokens(row, &content.body).0);
    let kept = content
        .as_ref()
        .and_then(|content| content.request.as_ref());
    let request = with_request.then_some(Request {
        headers: &row.headers,
        context: kept.map(|kept| &kept.context),
        body: body.as_deref(),
    });
    Record::new(
        &view(row, &inbox.config),
        request,
        redaction,
        UnixMillis::now().0,
    )
}

/// Prints the result, such as `41 events, 212 KB → dead.jsonl   1 path redacted in 29 of them
/// recorded`.
fn told(report: &Report, paths: usize) -> String {
    let mut text = format!(
        "{}, {} → {}",
        plural(report.events, "event"),
        size(report.bytes),
        report.file
    );
    if paths > 0 {
        let of = thousands(report.redacted);
        let paths = plural(paths, "path");
        text = format!("{text}   {paths} redacted in {of} of them");
    }
    format!("{text}   recorded, by {}\n", report.by)
}

fn size(bytes: u64) -> String {
    match bytes {
        ..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// A new file that only its owner can read. The file gets its final name when it is complete.
struct NewFile {
    part: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    kept: bool,
}

impl NewFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if path.exists() {
            let message = format!("{} already exists", path.display());
            return Err(CliError::refused("export.exists", message)
                .tip("use another file name; existing files are not overwritten")
                .into());
        }
        let mut part = path.to_owned().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = files::create_private(&part);
        let file = file.with_context(|| format!("create {}", part.display()))?;
        Ok(Self {
            part,
            path: path.to_owned(),
            file: BufWriter::new(file),
            kept: false,
        })
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("write {}", self.part.display()))
    }

    fn keep(mut self) -> anyhow::Result<()> {
        let path = self.path.display().to_string();
        self.file.flush().with_context(|| format!("write {path}"))?;
        std::fs::rename(&self.part, &self.path).with_context(|| format!("create {path}"))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // An incomplete file is useless, and can contain personal data, so it is removed.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}
