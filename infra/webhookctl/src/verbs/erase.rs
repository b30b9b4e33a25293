//! `erase`: what events carried goes; that they were there stays.

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::future::try_join_all;
use serde::Serialize;
use shared::clock::Millis;
use shared::json_path::{JsonPath, scalar};
use shared::ledger::{By, Deed, Erased, Ledger, Row};

use super::aws;
use super::inbox::{find, known_sources};
use crate::cli::{EraseArgs, Global};
use crate::output::table::thousands;
use crate::output::{CliError, Exit, Printer, time};
use crate::place::Inbox;
use crate::who::who;

/// Hours that are looked through at the same time.
const AT_ONCE: usize = 8;

const HOUR_MS: i64 = 3_600_000;

/// No more events of an hour of one source are looked at.
const MOST_AN_HOUR: usize = 1_000_000;

#[derive(Serialize)]
struct Report {
    erased: usize,
    /// Those that somebody was at work on; to be erased again later.
    processing: Vec<String>,
    events: Vec<String>,
    by: String,
    reason: String,
}

pub(super) async fn erase(
    args: EraseArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = args.reason.trim();
    if reason.is_empty() {
        return Err(CliError::usage("erase.reason", "say why: -m WHY").into());
    }
    if args.id.is_empty() && args.matching.is_empty() {
        let error = CliError::usage(
            "erase.nothing",
            "say which events: --id ID or --where PATH=VALUE",
        );
        return Err(error.into());
    }
    let inbox = Inbox::open(global)?;
    let ledger = with_bodies(&inbox, global, &args)?;
    let now = Millis::now();
    let rows = chosen(&inbox, &ledger, &args, now, out).await?;
    if rows.is_empty() {
        out.say("No event has that in its body.");
        return Ok(Exit::Done);
    }
    confirmed(&rows, args.confirm)?;

    let who = who(&inbox, global).await?;
    let deed = Deed {
        what: "erase",
        who: who.clone(),
        why: reason.to_owned(),
        selection: selection(&args),
        count: rows.len(),
    };
    ledger.log(&deed, now).await?;
    let by = By {
        who: &who,
        why: reason,
    };
    let (mut events, mut processing) = (Vec::new(), Vec::new());
    for row in &rows {
        let id = row.id().to_string();
        let erased = ledger.erase(&row.key, by, Millis::now()).await;
        match erased.with_context(|| format!("erase {id}; run it again"))? {
            Erased::Gone | Erased::Missing => events.push(id),
            Erased::Processing => processing.push(id),
        }
    }
    let mut text = format!("{} erased by {who}\n", plural(events.len()));
    if !processing.is_empty() {
        text = format!(
            "{text}{} left, because somebody is at work on them: {}; try again in a minute\n",
            plural(processing.len()),
            processing.join(", ")
        );
    }
    let exit = if processing.is_empty() {
        Exit::Done
    } else {
        Exit::Refused
    };
    let report = Report {
        erased: events.len(),
        processing,
        events,
        by: who,
        reason: reason.to_owned(),
    };
    out.document("erase", &report, "", &text)?;
    Ok(exit)
}

/// The ledger with the bucket of large bodies, where that is known.
fn with_bodies(inbox: &Inbox, global: &Global, args: &EraseArgs) -> anyhow::Result<Ledger> {
    let (Some(bucket), Some(table), None) = (&args.body_bucket, &global.table, &inbox.local) else {
        return Ok(inbox.ledger.clone());
    };
    let aws = aws(global)?;
    let bodies = (aws.s3(), bucket.clone());
    let ledger = Ledger::new(aws.dynamodb(), table, Some(bodies));
    Ok(ledger.keeping(inbox.config.retentions()))
}

fn confirmed(rows: &[Row], confirm: Option<usize>) -> Result<(), CliError> {
    let count = rows.len();
    let shown = rows.iter().take(10).map(|row| {
        let (id, source) = (row.id(), row.key.source());
        format!("{id}  {source}  {}  {}", row.kind, row.state.as_str())
    });
    let mut details: Vec<String> = shown.collect();
    if count > details.len() {
        details.push(format!(
            "and {} more",
            thousands((count - details.len()) as u64)
        ));
    }
    match confirm {
        Some(confirmed) if confirmed == count => Ok(()),
        None => Err(CliError::new(
            "erase.confirm",
            Exit::Refused,
            format!(
                "{} would be erased; say how many: --confirm {count}",
                plural(count)
            ),
        )
        .note("this cannot be undone; backups keep it for up to 35 days")
        .details(details)),
        Some(confirmed) => Err(CliError::new(
            "erase.confirm_mismatch",
            Exit::Refused,
            format!(
                "{} are selected, but --confirm says {confirmed}; nothing was erased",
                plural(count)
            ),
        )
        .details(details)),
    }
}

async fn chosen(
    inbox: &Inbox,
    ledger: &Ledger,
    args: &EraseArgs,
    now: Millis,
    out: &mut Printer,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for id in &args.id {
        rows.push(find(inbox, id).await?);
    }
    if args.matching.is_empty() {
        return Ok(rows);
    }
    let wanted = args.matching.iter().map(|wanted| {
        let path = JsonPath::parse(&wanted.path).with_context(|| {
            CliError::usage("usage.where", format!("'{}' is no path", wanted.path))
                .tip("keys with dots between them, such as data.object.customer")
        })?;
        Ok((path, wanted.value.as_str()))
    });
    let wanted: Vec<(JsonPath, &str)> = wanted.collect::<anyhow::Result<_>>()?;
    let sources = if args.source.is_empty() {
        inbox.sources()
    } else {
        known_sources(inbox, &args.source)?
    };
    // A small body stands in its row, and stays as long as that.
    let kept = inbox.config.sources().map(|source| source.retention.rows);
    let kept = kept.max().unwrap_or_default();
    let from = args.since.map_or((now - kept).0, |when| when.millis(now.0));
    let to = args.until.map_or(now.0, |when| when.millis(now.0) - 1);
    let mut hours = futures::stream::iter(hours(from, to))
        .map(|(from, to)| {
            let of_each = sources
                .iter()
                .map(move |source| ledger.received_in_hour(source, from, to, MOST_AN_HOUR));
            try_join_all(of_each)
        })
        .buffered(AT_ONCE);
    let mut looked = 0;
    while let Some(hour) = hours.next().await {
        for listed in hour?.into_iter().flatten() {
            looked += 1;
            let body = ledger.event_body(&listed.key).await?;
            let Some(Ok(body)) = body else { continue };
            if wanted.iter().all(|(path, value)| has(path, &body.0, value)) {
                rows.extend(ledger.event(&listed.key).await?);
            }
        }
    }
    out.say(&format!(
        "Looked into {looked} bodies since {}.",
        time::rfc3339(from)
    ));
    Ok(rows)
}

/// The hours of UTC from one time to another: the `time` index is read by them.
fn hours(from: i64, to: i64) -> impl Iterator<Item = (Millis, Millis)> {
    let end = move |at: i64| ((at.div_euclid(HOUR_MS) + 1) * HOUR_MS - 1).min(to);
    let starts = std::iter::successors(Some(from), move |at| Some(end(*at) + 1));
    starts
        .take_while(move |at| *at <= to)
        .map(move |at| (Millis(at), Millis(end(at))))
}

/// Whether the body has this value there; of many, one.
fn has(path: &JsonPath, body: &[u8], wanted: &str) -> bool {
    let found = path.all(body).unwrap_or_default().into_iter().flatten();
    let mut texts = found.filter_map(|raw| scalar(raw).ok().flatten());
    texts.any(|text| text == wanted)
}

/// What was asked for, without the values: they are what is to be forgotten.
fn selection(args: &EraseArgs) -> String {
    if args.matching.is_empty() {
        return args.id.join(" ");
    }
    let paths: Vec<&str> = args
        .matching
        .iter()
        .map(|wanted| wanted.path.as_str())
        .collect();
    format!("where {}", paths.join(", "))
}

fn plural(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} event{s}", thousands(count as u64))
}
