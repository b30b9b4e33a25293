//! Measures how the cost of commands, and of the functions' work on an event, changes as the inbox
//! grows: calls, read and write units and processor time, on tables of several sizes. All events
//! are from the last thirty days.
//!
//! Each command runs as users run it, against the embedded DynamoDB. A proxy counts the calls. The
//! numbers must not grow with the table. `make bench-scale ROWS="1000 100000"` runs the benchmark.
//!
//! With the words `serve ROWS FOLDER`, the benchmark fills one table of ten sources, and serves it to
//! commands in that folder until its standard input ends. `make bench-console ROWS=…` uses this.

#![expect(clippy::unwrap_used, reason = "a wrong number is worse than none")]
#![expect(clippy::print_stdout, reason = "printing a table is its job")]

mod fill;
mod ledger;
mod meter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use shared::base::clock::UnixMillis;
use webhookctl::cli::Cli;

use fill::{Folder, Inbox, announce};
use meter::{Cost, Meter};

/// The numbers of sources.
const SOURCES: [usize; 2] = [10, 100];

/// The number of runs of each command. One run is too short to measure its processor time.
const RUNS: u32 = 5;

/// The maximum ratio of the cost on a larger table to the cost on a smaller table. A larger table has more
/// events in the same second, and more events in each hour.
const SLACK: f64 = 1.5;

/// The minimum size of a table for the comparison. On smaller tables, a list of twenty events reads
/// many hours.
const LARGE: usize = 100_000;

/// The measured commands: a description, and the command line. `{event}` is the id of an existing
/// event.
const LINES: [(&str, &str); 11] = [
    ("status", "status"),
    ("list", "inbox list"),
    ("list of a month", "inbox list --since 30d -n 500"),
    ("list by source", "inbox list -s source-3"),
    ("inspect by id", "inbox inspect {event}"),
    ("inspect by key", "inbox inspect {key}"),
    ("stats", "inbox stats"),
    ("stats of a month", "inbox stats --since 30d"),
    (
        "plan of 1,000",
        "replay plan --status dead_letter --since 30d --max 1000 -m bench",
    ),
    ("dlq list", "dlq list"),
    ("sources list", "sources list"),
];

struct Measured {
    sources: usize,
    rows: usize,
    name: &'static str,
    cost: Cost,
    cpu: Duration,
    wall: Duration,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, step @ ..] = words.as_slice()
        && first == "step"
    {
        return ledger::step(step).await;
    }
    if let [first, rows, folder] = words.as_slice()
        && first == "serve"
    {
        return serve(rows.parse().unwrap(), Path::new(folder)).await;
    }
    let sizes = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let mut sizes: Vec<usize> = sizes.collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 100_000];
    }
    sizes.sort_unstable();
    println!(
        "{:>7}  {:>9}  {:<16}  {:>6}  {:>10}  {:>11}  {:>8}  {:>8}",
        "sources", "rows", "command", "calls", "read units", "write units", "CPU", "time"
    );
    let mut all = Vec::new();
    for sources in SOURCES {
        for rows in &sizes {
            all.extend(measure(*rows, sources).await);
        }
    }
    let grown = grown(&all);
    for line in &grown {
        println!("GROWS: {line}");
    }
    std::process::exit(i32::from(!grown.is_empty()));
}

/// Serves an inbox to the commands that run in `folder`, and prints the id of one of its events.
async fn serve(rows: usize, folder: &Path) {
    let sources = SOURCES[0];
    let inbox = Inbox::fill(folder, (rows, sources), UnixMillis::now()).await;
    let meter = Meter::stand_before(&inbox.url).await;
    let services = announce(folder, &meter.url, &inbox.table, sources).await;
    println!("event {}", inbox.an_event);
    let ended =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    ended.await.unwrap().unwrap();
    services.stop().await;
}

async fn measure(rows: usize, sources: usize) -> Vec<Measured> {
    let folder = Folder::new(&format!("scale-{rows}"));
    let begun = Instant::now();
    let inbox = Inbox::fill(&folder.0, (rows, sources), UnixMillis::now()).await;
    let meter = Meter::stand_before(&inbox.url).await;
    let services = announce(&folder.0, &meter.url, &inbox.table, sources).await;
    println!(
        "{sources:>7}  {rows:>9}  filled in {:.1}s, {} MB on disk",
        begun.elapsed().as_secs_f64(),
        inbox.bytes() / 1_000_000
    );
    let mut measured = Vec::new();
    for (name, line) in LINES {
        let line = line
            .replace("{event}", &inbox.an_event)
            .replace("{key}", &inbox.a_key);
        let words: Vec<&str> = line.split_whitespace().collect();
        if !exists(&words) {
            println!("{sources:>7}  {rows:>9}  {name:<16}  there is no such command");
            continue;
        }
        let command = |_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
            command.args(&words);
            command
        };
        measured.extend(run(&folder.0, &meter, command, (sources, rows, name)).await);
    }
    for (name, step) in ledger::STEPS {
        let command = |round| ledger::command(step, &meter.url, &inbox.table, round);
        measured.extend(run(&folder.0, &meter, command, (sources, rows, name)).await);
    }
    services.stop().await;
    measured
}

/// Returns whether the words begin with a command of the CLI.
fn exists(words: &[&str]) -> bool {
    let mut command = Cli::command();
    for word in words {
        match command.find_subcommand(word) {
            Some(below) => command = below.clone(),
            None => break,
        }
    }
    !command.has_subcommands()
}

/// Runs a command several times, and prints the cost of one run.
async fn run(
    folder: &Path,
    meter: &Meter,
    command: impl Fn(u32) -> Command,
    (sources, rows, name): (usize, usize, &'static str),
) -> Option<Measured> {
    let (before, begun) = (children(), Instant::now());
    meter.take();
    for round in 0..RUNS {
        let mut command = command(round);
        command.current_dir(folder).env_remove("MITT_TABLE");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.status());
        // Exit code 5 is a negative result, not a failure.
        let code = done.await.unwrap().unwrap().code();
        if !matches!(code, Some(0 | 5)) {
            println!("{sources:>7}  {rows:>9}  {name:<16}  failed");
            return None;
        }
    }
    let one = Measured {
        sources,
        rows,
        name,
        cost: meter.take().each(RUNS),
        cpu: children().checked_sub(before).unwrap() / RUNS,
        wall: begun.elapsed() / RUNS,
    };
    println!(
        "{sources:>7}  {rows:>9}  {name:<16}  {:>6}  {:>10.1}  {:>11.1}  {:>6}ms  {:>6}ms",
        one.cost.calls,
        one.cost.read_units,
        one.cost.write_units,
        one.cpu.as_millis(),
        one.wall.as_millis()
    );
    Some(one)
}

/// Returns the processor time of the child processes that have ended. Linux counts it in ticks of
/// ten milliseconds.
/// <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn grown(all: &[Measured]) -> Vec<String> {
    let mut grown = Vec::new();
    let large = all.iter().filter(|one| one.rows >= LARGE);
    for one in large.clone() {
        let like = |other: &&Measured| other.name == one.name && other.sources == one.sources;
        let least = large.clone().filter(like);
        let Some(least) = least.min_by_key(|other| other.rows) else {
            continue;
        };
        for (what, now, then) in [
            ("calls", one.cost.calls, least.cost.calls),
            ("read units", one.cost.read_units, least.cost.read_units),
            ("write units", one.cost.write_units, least.cost.write_units),
        ] {
            if now > then * SLACK + 4.0 {
                grown.push(format!(
                    "{}: {then:.1} {what} at {} rows, {now:.1} at {}",
                    one.name, least.rows, one.rows
                ));
            }
        }
    }
    grown
}
