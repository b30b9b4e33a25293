//! Measures times on this machine. The programs alternate, round after round, so that other load
//! affects all of them. The comparison of two programs is the median of the ratios of the rounds.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::speed::functions::Bench;
use crate::speed::runtime::Running;
use crate::speed::stats::{Range, median, percentile};
use crate::speed::stores::Stores;
use crate::speed::work::Job;

/// A program and its job.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) job: Job,
    /// Whether the program calls the stores with TLS.
    pub(crate) tls: bool,
}

/// The measurements of one process, in the order of [`NAMES`].
pub(crate) type Sample = [f64; 8];

pub(crate) const NAMES: [&str; 8] = [
    "init, ms",
    "init CPU, ms",
    "first response, ms",
    "CPU to the first response, ms",
    "warm p50, ms",
    "warm p99, ms",
    "warm CPU, µs",
    "peak RSS, MB",
];

/// Returns the number of invocations after the first one. A batch or a sweep takes longer than a
/// webhook.
fn warm(job: Job) -> u32 {
    match job {
        Job::Webhooks | Job::Followed | Job::Duplicates => 200,
        Job::Batches | Job::Sweeps => 20,
    }
}

/// Returns the samples of each runner, by round.
pub(crate) fn run(
    bench: &Bench,
    functions: &Path,
    runners: &[Runner],
    rounds: usize,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); runners.len()];
    for round in 0..=rounds {
        for at in 0..runners.len() {
            // The order of the programs must not influence the result.
            let at = (at + round) % runners.len();
            let (Some(runner), Some(all)) = (runners.get(at), samples.get_mut(at)) else {
                continue;
            };
            let sample = measure(bench, functions, runner).context(runner.name)?;
            // The first round reads the files from the disk, so its times are not used.
            if round > 0 {
                all.push(sample);
            }
        }
    }
    Ok(samples)
}

/// The measurements of programs, and their comparison with the catcher.
pub(crate) struct Times {
    /// Samples by program name.
    pub(crate) samples: Vec<(&'static str, Vec<Sample>)>,
    /// Ratios of each other implementation to the catcher.
    pub(crate) ratios: Vec<(&'static str, Vec<Range>)>,
}

impl Times {
    pub(crate) fn new(samples: Vec<(&'static str, Vec<Sample>)>, peers: &[&str]) -> Self {
        let catcher = samples.iter().find(|(name, _)| *name == "catcher");
        let catcher = catcher.map_or(&[][..], |(_, samples)| samples);
        let peers = samples.iter().filter(|(name, _)| peers.contains(name));
        let ratios = peers.map(|(name, samples)| (*name, ratios(samples, catcher)));
        Self {
            ratios: ratios.collect(),
            samples,
        }
    }

    /// Returns the median of a measurement of a program.
    pub(crate) fn time(&self, program: &str, name: &str) -> Option<f64> {
        let (_, samples) = self.samples.iter().find(|(known, _)| *known == program)?;
        let at = NAMES.iter().position(|known| *known == name)?;
        let values = samples.iter().filter_map(|sample| sample.get(at).copied());
        Some(median(&values.collect::<Vec<_>>()))
    }

    /// Returns the ratio of a measurement of a program to that of the catcher.
    pub(crate) fn ratio(&self, program: &str, name: &str) -> Option<Range> {
        let (_, ranges) = self.ratios.iter().find(|(known, _)| *known == program)?;
        let at = NAMES.iter().position(|known| *known == name)?;
        ranges.get(at).copied()
    }
}

/// Returns the ratios of two runners' rounds, for each measurement.
fn ratios(of: &[Sample], to: &[Sample]) -> Vec<Range> {
    let measures = 0..NAMES.len();
    let measures = measures.map(|at| {
        let pairs = of.iter().zip(to);
        let ratios =
            pairs.map(|(of, to)| of.get(at).zip(to.get(at)).map_or(f64::NAN, |(a, b)| a / b));
        Range::of_median(&ratios.collect::<Vec<_>>())
    });
    measures.collect()
}

fn measure(bench: &Bench, functions: &Path, runner: &Runner) -> anyhow::Result<Sample> {
    let stores = Stores::start()?;
    let job = runner.job;
    let times = warm(job);
    job.prepare(bench, functions, &stores, u64::from(times) + 1)?;
    let mut program = bench.program(runner.name, runner.command.clone(), &stores)?;
    if runner.tls {
        program = bench.over_tls(program, &stores)?;
    }
    let mut running = Running::start(&program)?;
    let init_cpu = running.cpu()?;
    let first = job.step(&mut running, &stores, 0)?.took;
    let cold_cpu = running.cpu()?;
    let mut took = Vec::new();
    for number in 1..=u64::from(times) {
        took.push(milliseconds(job.step(&mut running, &stores, number)?.took));
    }
    let warm_cpu = running.cpu()?.saturating_sub(cold_cpu) / times;
    let memory = running.peak_memory()?;
    stores.check()?;
    Ok([
        milliseconds(running.init),
        milliseconds(init_cpu),
        milliseconds(first),
        milliseconds(cold_cpu),
        percentile(&took, 0.5),
        percentile(&took, 0.99),
        milliseconds(warm_cpu) * 1_000.0,
        megabytes(memory),
    ])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "a size for display")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
