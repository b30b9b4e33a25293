//! Counts and times of the functions, and comparisons with other implementations.

mod count;
mod flow;
mod functions;
mod load;
mod previous;
mod profile;
mod report;
mod runtime;
mod stats;
mod stores;
mod targets;
mod times;
mod tls;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use self::functions::Bench;
use self::report::Measured;
use self::times::{Runner, Times};
use self::work::Job;
use crate::{Outcome, USAGE, page};

/// The number of rounds of the time measurement. With half as many rounds, the slowest times differ
/// by a fifth between runs.
const ROUNDS: usize = 41;

/// The other implementations of the catcher, which the report compares with it.
const PEERS: [&str; 5] = [
    "floor",
    "Node.js",
    "Python",
    NODE_POWERTOOLS,
    PYTHON_POWERTOOLS,
];
const NODE_POWERTOOLS: &str = "Node.js + Powertools";
const PYTHON_POWERTOOLS: &str = "Python + Powertools";

pub(crate) fn run(words: &[&str]) -> Outcome {
    let text = match words {
        ["figures", functions, valgrind] => {
            let figures = count::figures(&Bench::new()?, Path::new(functions), valgrind)?;
            serde_json::to_string_pretty(&figures)?
        }
        ["profile", catcher, valgrind] => {
            profile::text(&Bench::new()?, Path::new(catcher), valgrind)?
        }
        ["table", functions, valgrind, bundles, python, rest @ ..] => {
            let inputs = Inputs {
                functions: Path::new(functions),
                valgrind,
                bundles: Path::new(bundles),
                python,
            };
            table_of(&inputs, &Options::read(rest)?)?
        }
        _ => bail!("{USAGE}"),
    };
    Ok((text, true))
}

/// The locations of the inputs.
struct Inputs<'a> {
    /// The folder with the functions and the floor.
    functions: &'a Path,
    valgrind: &'a str,
    /// The folder with the bundled programs for Node.js.
    bundles: &'a Path,
    /// The Python interpreter with the dependencies.
    python: &'a str,
}

impl Inputs<'_> {
    fn bundle(&self, name: &str) -> PathBuf {
        self.bundles.join(format!("{name}.mjs"))
    }
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

fn table_of(inputs: &Inputs<'_>, options: &Options) -> anyhow::Result<String> {
    let measured = measured(inputs, options)?;
    let text = measured.text()?;
    if let Some(page) = &options.page {
        page::rewrite(page, "bench", &text)?;
    }
    let kept = inputs.functions.join("bench-figures.json");
    let again = previous::compared(&kept, &measured.repeatable())?;
    Ok(format!("{text}\n{again}"))
}

fn measured(inputs: &Inputs<'_>, options: &Options) -> anyhow::Result<Measured> {
    let bench = Bench::new()?;
    let runners = runners(inputs);
    let samples = times::run(&bench, inputs.functions, &runners, options.rounds)?;
    let times = |tls: bool| {
        let all = runners.iter().zip(&samples);
        let these = all.filter(|(runner, _)| runner.tls == tls);
        let named = these.map(|(runner, samples)| (runner.name, samples.clone()));
        Times::new(named.collect(), &PEERS)
    };
    let floor = inputs.functions.join("floor").display().to_string();
    let scale = options.scale.as_ref().map(std::fs::read_to_string);
    let named = options.named.as_ref();
    let profile = named.map(|catcher| profile::text(&bench, catcher, inputs.valgrind));
    Ok(Measured {
        figures: count::figures(&bench, inputs.functions, inputs.valgrind)?,
        floor: count::of_peer(&bench, inputs.valgrind, "floor", &[floor])?,
        times: times(false),
        tls: times(true),
        sizes: sizes(&bench, inputs)?,
        flow: flow::run(&bench, inputs.functions)?,
        load: load::run(&bench, inputs.functions)?,
        scale: scale
            .transpose()
            .context("read the output of the scale bench")?,
        profile: profile.transpose()?,
    })
}

fn runners(inputs: &Inputs<'_>) -> Vec<Runner> {
    let file = |name: &str| vec![inputs.functions.join(name).display().to_string()];
    let node = |name: &str| vec!["node".to_owned(), inputs.bundle(name).display().to_string()];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/runtime.py");
    let python = |module: &str| [inputs.python, script, module].map(str::to_owned).to_vec();
    let runner = |name, command, job| Runner {
        name,
        command,
        job,
        tls: false,
    };
    let catcher = runner("catcher", file("catcher"), Job::Webhooks);
    let in_node = runner("Node.js", node("catcher"), Job::Webhooks);
    let in_python = runner("Python", python("catcher"), Job::Webhooks);
    let with_tls = [&catcher, &in_node, &in_python].map(|runner| Runner {
        tls: true,
        ..runner.clone()
    });
    let without = [
        catcher,
        runner("floor", file("floor"), Job::Webhooks),
        in_node,
        in_python,
        runner(NODE_POWERTOOLS, node("powertools"), Job::Webhooks),
        runner(PYTHON_POWERTOOLS, python("powertools"), Job::Webhooks),
        runner("processor", file("processor"), Job::Batches),
        runner("backup-sync", file("backup-sync"), Job::Sweeps),
    ];
    without.into_iter().chain(with_tls).collect()
}

/// A Python program that creates a zip in the same way as `infra/package.py`.
const ZIP: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED, \
                   compresslevel=9).write(sys.argv[2], 'bootstrap')";

/// Returns the size of each deployed program, uncompressed and zipped.
fn sizes(bench: &Bench, inputs: &Inputs<'_>) -> anyhow::Result<Vec<(&'static str, u64, u64)>> {
    let names = ["catcher", "processor", "backup-sync", "floor"];
    let mut files = names
        .map(|name| (name, inputs.functions.join(name)))
        .to_vec();
    files.push(("Node.js", inputs.bundle("catcher")));
    files.push((NODE_POWERTOOLS, inputs.bundle("powertools")));
    let sizes = files.iter().map(|(name, file)| {
        let zip = bench.file(&format!("{name}.zip"));
        let mut command = Command::new(inputs.python);
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
