//! Counts that repeat exactly or almost exactly: instructions, requests and write units.
//!
//! Valgrind counts the instructions of a process from start to end. The difference between runs
//! with no invocation, with one and with many gives the instructions of the start, of the first
//! invocation and of each later one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::speed::functions::Bench;
use crate::speed::runtime::{Program, Running};
use crate::speed::stores::{Stores, Tally};
use crate::speed::work::{Job, catch};

/// Figures by name, such as `catcher/warm/instructions`.
pub(crate) type Figures = BTreeMap<String, f64>;

/// The number of invocations after the first one.
pub(crate) const WARM: u64 = 20;

const JOBS: [(&str, &str, Job); 5] = [
    ("catcher", "catcher", Job::Webhooks),
    ("catcher, sources in the table", "catcher", Job::Followed),
    ("catcher, duplicates", "catcher", Job::Duplicates),
    ("processor", "processor", Job::Batches),
    ("backup-sync", "backup-sync", Job::Sweeps),
];

/// The instructions and the requests of one run.
struct Counted {
    instructions: f64,
    asked: Tally,
}

pub(crate) fn figures(bench: &Bench, functions: &Path, valgrind: &str) -> anyhow::Result<Figures> {
    let mut figures = Figures::new();
    for (title, function, job) in JOBS {
        let run = |invocations| {
            let counted = counted(bench, functions, valgrind, (function, job), invocations);
            counted.with_context(|| format!("{title}, {invocations} invocations"))
        };
        let (none, first, many) = (run(0)?, run(1)?, run(1 + WARM)?);
        note(&mut figures, title, job, [&none, &first, &many]);
    }
    Ok(figures)
}

/// Counts other implementations of the catcher: the instructions of the start, the first invocation
/// and each later one.
pub(crate) fn of_peer(
    bench: &Bench,
    valgrind: &str,
    name: &'static str,
    command: &[String],
) -> anyhow::Result<[f64; 3]> {
    let run = |invocations| {
        let stores = Stores::start()?;
        let program = bench.program(name, command.to_vec(), &stores)?;
        let mut running = Running::start(&watched(program, valgrind))?;
        for number in 0..invocations {
            catch(&mut running, number)?;
        }
        instructions(&running.end()?)
    };
    let (none, first, many) = (run(0)?, run(1)?, run(1 + WARM)?);
    Ok([none, first - none, (many - first) / rounds(WARM)])
}

fn note(figures: &mut Figures, title: &str, job: Job, [none, first, many]: [&Counted; 3]) {
    let mut put = |stage: &str, of: &str, value: f64| {
        figures.insert(format!("{title}/{stage}/{of}"), value);
    };
    // The start is the same program for each job, so it is counted once.
    if ![Job::Duplicates, Job::Followed].contains(&job) {
        put("start", "instructions", none.instructions.round());
        let first = first.instructions - none.instructions;
        put("first", "instructions", first.round());
    }
    let warm = (many.instructions - first.instructions) / rounds(WARM);
    put("warm", "instructions", warm.round());
    let each = |of: fn(&Tally) -> u64| rounds(of(&many.asked) - of(&first.asked)) / rounds(WARM);
    if [Job::Webhooks, Job::Followed].contains(&job) {
        put("first", "table requests", rounds(first.asked.table));
    }
    put("warm", "table requests", each(|tally| tally.table));
    put("warm", "queue requests", each(|tally| tally.queue));
    put("warm", "write units", each(|tally| tally.write_units));
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
pub(crate) fn rounds(number: u64) -> f64 {
    number as f64
}

fn counted(
    bench: &Bench,
    functions: &Path,
    valgrind: &str,
    (function, job): (&'static str, Job),
    invocations: u64,
) -> anyhow::Result<Counted> {
    let stores = Stores::start()?;
    job.prepare(bench, functions, &stores, 1 + WARM)?;
    stores.take_tally();
    let mut program = bench.function(functions, function, &stores)?;
    if job == Job::Followed {
        let variable = ("MITT_SOURCES".to_owned(), "table".to_owned());
        program.environment.extend([variable]);
    }
    let mut running = Running::start(&watched(program, valgrind))?;
    for number in 0..invocations {
        job.step(&mut running, &stores, number)?;
    }
    let asked = stores.take_tally();
    let said = running.end()?;
    stores.check()?;
    Ok(Counted {
        instructions: instructions(&said)?,
        asked,
    })
}

fn watched(program: Program, valgrind: &str) -> Program {
    let options = "--tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null";
    under(program, valgrind, options)
}

/// Returns the same program, run under valgrind.
pub(crate) fn under(program: Program, valgrind: &str, options: &str) -> Program {
    let mut command: Vec<String> = valgrind.split_whitespace().map(str::to_owned).collect();
    command.extend(options.split(' ').map(str::to_owned));
    command.extend(program.command);
    Program { command, ..program }
}

/// Parses the last line of valgrind's output: `I refs: 1,234,567`.
fn instructions(said: &str) -> anyhow::Result<f64> {
    let count = said
        .rsplit_once("refs:")
        .and_then(|(_, rest)| rest.lines().next());
    let count = count.with_context(|| format!("valgrind printed no instruction count:\n{said}"))?;
    Ok(count.trim().replace(',', "").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_from_the_end_of_what_valgrind_says() {
        let said =
            "==7== Cachegrind\n{\"message\":\"refs:\"}\n==7== \n==7== I   refs:      1,234,567\n";
        assert!((instructions(said).unwrap() - 1_234_567.0).abs() < 0.5);
        assert!(instructions("==7== Segmentation fault").is_err());
    }
}
