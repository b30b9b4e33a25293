//! `dlq inspect`: shows one error, or one dead letter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State};

use super::group::{Group, redrive, source_words, text};
use super::histogram::Histogram;
use super::replay_safety::{Standings, effects};
use super::{MOST, dead_letters, died_at};
use crate::cli::{DlqInspectArgs, Global, SelectionArgs};
use crate::fingerprint::is_a_name;
use crate::inspect::view;
use crate::inspect::{Answer, SCHEMA, answer_lines, document, full};
use crate::output::count::plural;
use crate::output::safe::capped;
use crate::output::time::{age, clock_seconds, rfc3339};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::inbox::{self, answers};

/// The maximum length of a line. The text is from a destination and can have any length.
const LINE_CAP: usize = 1000;

#[derive(Serialize)]
struct Document {
    error: String,
    message: String,
    events: usize,
    /// Whether there are more dead letters than the command has read.
    truncated: bool,
    sources: Vec<String>,
    first: At,
    last: At,
    histogram: Histogram,
    types: BTreeMap<String, usize>,
    reasons: BTreeMap<String, usize>,
    attempts: Attempts,
    effects: BTreeMap<&'static str, usize>,
    replay: Standings,
    sample: String,
    next_action: String,
    /// The answers of destinations to the newest dead letter.
    answers: Vec<Answer>,
    #[serde(skip)]
    redrivable: bool,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "JSON field names")]
struct At {
    at: String,
    id: String,
    #[serde(skip)]
    millis: i64,
}

#[derive(Serialize)]
struct Attempts {
    least: u32,
    most: u32,
}

pub(super) async fn inspect(
    args: DlqInspectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now().0;
    if is_a_name(&args.what) {
        let all = SelectionArgs::default();
        let found = dead_letters(&inbox, &all, MOST, None, now).await?;
        let groups = Group::all(&found.rows);
        let digits = Group::digits(&groups);
        if let Some(group) = named(&groups, &args.what, digits, now)? {
            let shown = Document::new(group, digits, found.more, &inbox, now);
            if let (Some(mut shown), Some(newest)) = (shown, group.newest()) {
                shown.answers = answers(&inbox, newest, args.reveal).await?;
                return show(&shown, now, out);
            }
        }
    }
    one(&args, &inbox, now, out).await
}

/// Returns the group whose fingerprint starts with `what`, if there is one. Returns an error if
/// several groups match.
fn named<'g, 'r>(
    groups: &'g [Group<'r>],
    what: &str,
    digits: usize,
    now: i64,
) -> Result<Option<&'g Group<'r>>, CliError> {
    let found: Vec<&Group<'_>> = groups
        .iter()
        .filter(|group| group.error.is_named_by(what))
        .collect();
    if found.len() < 2 {
        return Ok(groups.iter().find(|group| group.error.is_named_by(what)));
    }
    let details = found.iter().take(10).map(|group| {
        let last = group.newest().map_or(0, died_at);
        let error = group.error.first(digits);
        format!(
            "{error}  {}  {}  {}",
            group.rows.len(),
            group.message(),
            age(last, now)
        )
    });
    Err(CliError::not_found(
        "dlq.ambiguous_error",
        format!("'{what}' matches {} errors", found.len()),
    )
    .details(details.collect()))
}

/// Shows a single dead letter. The caller has checked that `what` is not the fingerprint of an
/// error.
async fn one(
    args: &DlqInspectArgs,
    inbox: &Deployment,
    now: i64,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let what = args.what.as_str();
    let row = match inbox::find(inbox, what).await {
        Ok(row) => row,
        Err(error) => {
            let missing = error
                .downcast_ref::<CliError>()
                .is_some_and(|error| error.code == "inbox.not_found");
            return Err(if missing {
                nothing(inbox, what).into()
            } else {
                error
            });
        }
    };
    if row.state != State::DeadLetter {
        return Err(CliError::not_found(
            "dlq.not_dead",
            format!("{what} is not a dead letter; its status is {}", row.state),
        )
        .tip(format!("webhookctl inbox inspect {}", row.id()))
        .into());
    }
    let mut event = view(&row, &inbox.config);
    event.answers = answers(inbox, &row, args.reveal).await?;
    let text = full(&event, now);
    out.document(SCHEMA, &document(&event, now), &event.id, &text)?;
    Ok(Exit::Done)
}

fn nothing(inbox: &Deployment, what: &str) -> CliError {
    CliError::not_found(
        "dlq.not_found",
        format!("no dead letter '{what}' in {}", inbox.name),
    )
    .note("expected at least 4 digits of an error's fingerprint, or the id of an event")
    .tip("webhookctl dlq list")
}

impl Document {
    fn new(
        group: &Group<'_>,
        digits: usize,
        truncated: bool,
        inbox: &Deployment,
        now: i64,
    ) -> Option<Self> {
        let (newest, oldest) = (group.newest()?, group.oldest()?);
        let rows = group.rows.iter();
        let attempts = rows.clone().map(|row| row.attempts);
        let times: Vec<i64> = rows.clone().map(|row| died_at(row)).collect();
        let reason = |row: &&Row| row.reason.clone().unwrap_or_default();
        let replay = group.standings(&inbox.config, now);
        Some(Self {
            error: group.error.first(digits).to_owned(),
            message: group.message(),
            events: group.rows.len(),
            truncated,
            sources: group.sources(),
            first: At::of(oldest),
            last: At::of(newest),
            histogram: Histogram::of(&times),
            types: counted(rows.clone().map(|row| row.kind.clone())),
            reasons: counted(rows.clone().map(reason)),
            attempts: Attempts {
                least: attempts.clone().min().unwrap_or(0),
                most: attempts.max().unwrap_or(0),
            },
            effects: counted(rows.map(|row| effects(&view(row, &inbox.config)))),
            next_action: replay.next_action(),
            replay,
            sample: text(newest).to_owned(),
            answers: Vec::new(),
            redrivable: group.is_redrivable(&inbox.config, now),
        })
    }
}

impl At {
    fn of(row: &Row) -> Self {
        Self {
            at: rfc3339(died_at(row)),
            id: row.id().to_string(),
            millis: died_at(row),
        }
    }
}

fn counted<K: Ord>(all: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

fn show(document: &Document, now: i64, out: &mut Printer) -> anyhow::Result<Exit> {
    let text = lines(document, now);
    out.document("dlq.error", document, &document.error, &text)?;
    if document.redrivable {
        out.tip(&redrive(&document.error));
    }
    Ok(Exit::Done)
}

fn lines(document: &Document, now: i64) -> String {
    let short = crate::output::column::short_id;
    let (first, last) = (&document.first, &document.last);
    let mut text = format!(
        "{}  {}    {}, {}\n\n",
        document.error,
        capped(&document.message, LINE_CAP),
        plural(document.events, "event"),
        source_words(&document.sources)
    );
    let attempts = match &document.attempts {
        Attempts { least, most } if least == most => format!("{most} each"),
        Attempts { least, most } => format!("{least} to {most}"),
    };
    let whole_seconds = clock_seconds(first.millis, now);
    let pairs = [
        ("first", format!("{whole_seconds}   {}", short(&first.id))),
        (
            "last",
            format!("{}   {}", ago(last.millis, now), short(&last.id)),
        ),
        (&*document.histogram.label(), document.histogram.line(now)),
        ("types", most_first(&document.types)),
        ("reason", most_first(&document.reasons)),
        ("attempts", attempts),
        ("effects", most_first(&document.effects)),
        ("replay", document.replay.text()),
        ("sample", document.sample.clone()),
    ];
    for (name, value) in pairs {
        let _ = writeln!(text, "  {name:<9}  {}", capped(&value, LINE_CAP));
    }
    if !document.answers.is_empty() {
        let answers = answer_lines(&document.answers, now);
        let _ = write!(text, "\nAnswers to {}\n{answers}", short(&last.id));
    }
    if document.truncated {
        let _ = writeln!(text, "  based on the {MOST} newest dead letters");
    }
    let _ = writeln!(text, "\nnext_action  {}", document.next_action);
    text
}

/// Returns an age such as `2m10s ago`, or the date if the age is more than a day.
fn ago(then: i64, now: i64) -> String {
    let age = age(then, now);
    if age.contains('-') {
        age
    } else {
        format!("{age} ago")
    }
}

/// Returns names with their counts, such as `issues.opened 29 · pull_request.closed 12`. The text
/// has at most five names.
fn most_first<K: AsRef<str>>(counts: &BTreeMap<K, usize>) -> String {
    let mut counts: Vec<(&str, usize)> = counts.iter().map(|(k, n)| (k.as_ref(), *n)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = counts.len().saturating_sub(5);
    let mut texts: Vec<String> = counts
        .iter()
        .take(5)
        .map(|(name, count)| match *name {
            "" => format!("- {count}"),
            name => format!("{name} {count}"),
        })
        .collect();
    if others > 0 {
        texts.push(format!("{others} others"));
    }
    texts.join(" · ")
}
