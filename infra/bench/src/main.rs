//! `make bench`: the cost of the functions, compared with other implementations. `make budgets`:
//! only the counts, which are repeatable.

mod again;
mod count;
mod flow;
mod functions;
mod http;
mod page;
mod profile;
mod race;
mod report;
mod runtime;
mod stats;
mod stores;
mod targets;
mod units;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};

use functions::Bench;
use race::Runner;
use report::Measured;
use work::Job;

/// Rounds of the time measurement. With half as many rounds, the slowest times differ by a fifth
/// between runs.
const ROUNDS: usize = 41;

const USAGE: &str = "figures FUNCTIONS VALGRIND, profile CATCHER VALGRIND, or table FUNCTIONS VALGRIND NODE-BUNDLE PYTHON \
                     [--rounds N] [--scale FILE] [--named CATCHER] [--page FILE]";

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its results"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["figures", functions, valgrind] => {
            let figures = count::figures(&Bench::new()?, Path::new(functions), valgrind)?;
            Ok(serde_json::to_string_pretty(&figures)?)
        }
        ["profile", catcher, valgrind] => {
            profile::text(&Bench::new()?, Path::new(catcher), valgrind)
        }
        ["table", functions, valgrind, bundle, python, rest @ ..] => {
            let around = Around {
                functions: Path::new(functions),
                valgrind,
                bundle,
                python,
            };
            table_of(&around, &Options::read(rest)?)
        }
        _ => bail!("{USAGE}"),
    }
}

/// The locations of the inputs.
struct Around<'a> {
    /// The folder with the functions and the floor.
    functions: &'a Path,
    valgrind: &'a str,
    /// The bundled catcher for Node.js.
    bundle: &'a str,
    /// The Python interpreter with the dependencies.
    python: &'a str,
}

struct Options {
    rounds: usize,
    /// The output of the scale bench.
    scale: Option<PathBuf>,
    /// The catcher with its symbols.
    named: Option<PathBuf>,
    /// A page whose generated part is rewritten.
    page: Option<PathBuf>,
}

impl Options {
    fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            rounds: ROUNDS,
            scale: None,
            named: None,
            page: None,
        };
        for pair in words.chunks(2) {
            match pair {
                ["--rounds", number] => options.rounds = number.parse().context("--rounds")?,
                ["--scale", file] => options.scale = Some(file.into()),
                ["--named", file] => options.named = Some(file.into()),
                ["--page", file] => options.page = Some(file.into()),
                _ => bail!("{USAGE}"),
            }
        }
        ensure!(options.rounds > 0, "--rounds needs a number above 0");
        Ok(options)
    }
}

fn table_of(around: &Around<'_>, options: &Options) -> anyhow::Result<String> {
    let measured = measured(around, options)?;
    let text = measured.text()?;
    if let Some(page) = &options.page {
        let old = std::fs::read_to_string(page);
        let old = old.with_context(|| format!("read {}", page.display()))?;
        let new = page::replaced(&old, &text)?;
        std::fs::write(page, new).with_context(|| format!("write {}", page.display()))?;
    }
    let kept = around.functions.join("bench-figures.json");
    let again = again::compared(&kept, &measured.repeatable())?;
    Ok(format!("{text}\n{again}"))
}

fn measured(around: &Around<'_>, options: &Options) -> anyhow::Result<Measured> {
    let bench = Bench::new()?;
    let runners = runners(around);
    let samples = race::run(&bench, around.functions, &runners, options.rounds)?;
    let of = |name: &str| {
        let all = runners.iter().zip(&samples);
        let found = all.into_iter().find(|(runner, _)| runner.name == name);
        found.map_or(&[][..], |(_, samples)| samples)
    };
    let peers = ["floor", "Node.js", "Python"];
    let ratios = peers.map(|name| (name, race::ratios(of(name), of("catcher"))));
    let floor = around.functions.join("floor").display().to_string();
    let scale = options.scale.as_ref().map(std::fs::read_to_string);
    let named = options.named.as_ref();
    let profile = named.map(|catcher| profile::text(&bench, catcher, around.valgrind));
    Ok(Measured {
        figures: count::figures(&bench, around.functions, around.valgrind)?,
        floor: count::of_peer(&bench, around.valgrind, "floor", &[floor])?,
        ratios: ratios.into(),
        sizes: sizes(&bench, around)?,
        flow: flow::run(&bench, around.functions)?,
        scale: scale
            .transpose()
            .context("read the output of the scale bench")?,
        profile: profile.transpose()?,
        samples: runners
            .iter()
            .map(|it| it.name)
            .zip(samples.iter().cloned())
            .collect(),
    })
}

fn runners(around: &Around<'_>) -> [Runner; 6] {
    let file = |name: &str| vec![around.functions.join(name).display().to_string()];
    let runner = |name, command, job| Runner { name, command, job };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/runtime.py");
    let node = ["node", around.bundle].map(str::to_owned).to_vec();
    let python = [around.python, script].map(str::to_owned).to_vec();
    [
        runner("catcher", file("catcher"), Job::Webhooks),
        runner("floor", file("floor"), Job::Webhooks),
        runner("Node.js", node, Job::Webhooks),
        runner("Python", python, Job::Webhooks),
        runner("processor", file("processor"), Job::Batches),
        runner("backup-sync", file("backup-sync"), Job::Sweeps),
    ]
}

/// Zips like `infra/package.py`.
const ZIP: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED, \
                   compresslevel=9).write(sys.argv[2], 'bootstrap')";

/// The size of each deployed program, uncompressed and zipped.
fn sizes(bench: &Bench, around: &Around<'_>) -> anyhow::Result<Vec<(&'static str, u64, u64)>> {
    let names = ["catcher", "processor", "backup-sync", "floor"];
    let mut files = names
        .map(|name| (name, around.functions.join(name)))
        .to_vec();
    files.push(("Node.js", around.bundle.into()));
    let sizes = files.iter().map(|(name, file)| {
        let zip = bench.file(&format!("{name}.zip"));
        let mut command = Command::new(around.python);
        command.args(["-c", ZIP]).arg(&zip).arg(file);
        ensure!(
            command.status()?.success(),
            "could not zip {}",
            file.display()
        );
        Ok((
            *name,
            std::fs::metadata(file)?.len(),
            std::fs::metadata(zip)?.len(),
        ))
    });
    sizes.collect()
}
