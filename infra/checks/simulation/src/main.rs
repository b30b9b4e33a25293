//! Runs the scenarios on all cores and prints the results. Fails if a figure is above its maximum,
//! or if an ablation violates nothing.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::Instant;

use anyhow::{Context as _, bail};
use simulation::cases::{
    AGENTS, Case, LATEST, MONTH, ROUGH, STOPPED, STRANGER, STRANGER_AMID_TROUBLE, STRICT, ablations,
};
use simulation::observer::Figures;
use simulation::report::{Line, Tooth, table};
use simulation::run::{Found, run};
use simulation::scenario::Scenario;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of events in one run. More events need more memory; fewer events need more runs.
const WORLD: usize = 10_000;

/// The number of events in one run with an order, where each event is read many times.
const ORDERED: usize = 2_000;

/// The number of events in the month, and in the hours in which the processor stops.
const MONTH_EVENTS: usize = 3_000;
const STOPPED_EVENTS: usize = 2_000;

/// The number of events in a run with a stranger, who makes more requests than the senders.
const STRANGER_EVENTS: usize = 1_400;

/// The number of events in one run with workers outside of Lambda.
const AGENTS_EVENTS: usize = 5_000;

/// The cases whose figures are checked. The ablations follow them.
const JUDGED: [Case; 8] = [
    ROUGH,
    MONTH,
    STOPPED,
    LATEST,
    STRICT,
    STRANGER,
    STRANGER_AMID_TROUBLE,
    AGENTS,
];
const CASES: usize = JUDGED.len();

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its results"
)]
fn main() -> ExitCode {
    let began = Instant::now();
    match Options::read(std::env::args().skip(1)).and_then(|options| all(&options)) {
        Ok((lines, teeth, hours)) => {
            println!("{}", table(&lines, &teeth));
            println!(
                "{hours} hours passed in {:.1} s",
                began.elapsed().as_secs_f64()
            );
            let good = lines.iter().all(Line::holds) && teeth.iter().all(Tooth::bites);
            if good {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    seed: u64,
    events: usize,
    /// A part of the name of the only case to run. No ablation runs then.
    only: Option<String>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut options = Self {
            seed: 1,
            events: 100_000,
            only: None,
        };
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            let number = || {
                value
                    .parse::<u64>()
                    .with_context(|| format!("{word} {value:?} is not a number"))
            };
            match word.as_str() {
                "--seed" => options.seed = number()?,
                "--events" => options.events = usize::try_from(number()?)?,
                "--only" => options.only = Some(value),
                _ => bail!("unknown option {word:?}; use --seed N, --events N or --only CASE"),
            }
        }
        Ok(options)
    }

    /// Returns the seed of one of several runs.
    fn seed(&self, world: usize) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(world as u64)
    }
}

/// A run, and the index of its result.
struct Job {
    place: usize,
    /// The case of the run. `None` for an ablation, which must violate something.
    judged: Option<Case>,
    scenario: Scenario,
}

fn all(options: &Options) -> anyhow::Result<(Vec<Line>, Vec<Tooth>, u64)> {
    if let Some(only) = &options.only {
        return one(options, only);
    }
    let worlds = options.events.div_ceil(WORLD);
    let mut jobs = Vec::new();
    let mut add = |place, scenario| {
        let judged = JUDGED.get(place).copied();
        jobs.push(Job {
            place,
            judged,
            scenario,
        });
    };
    add(
        1,
        (MONTH.scenario)(options.seed(0), MONTH_EVENTS.min(options.events)),
    );
    add(
        2,
        (STOPPED.scenario)(options.seed(1), STOPPED_EVENTS.min(options.events)),
    );
    let ordered = options.events / 100;
    for (place, case) in [(3, LATEST), (4, STRICT)] {
        for world in 0..ordered.div_ceil(ORDERED) {
            let events = ORDERED.min(ordered - world * ORDERED);
            add(place, (case.scenario)(options.seed(1_000 + world), events));
        }
    }
    for (place, case) in [(5, STRANGER), (6, STRANGER_AMID_TROUBLE)] {
        let events = STRANGER_EVENTS.min(options.events);
        add(place, (case.scenario)(options.seed(2_000 + place), events));
    }
    add(
        7,
        (AGENTS.scenario)(options.seed(3_000), AGENTS_EVENTS.min(options.events)),
    );
    for world in 0..worlds {
        let events = WORLD.min(options.events - world * WORLD);
        add(0, (ROUGH.scenario)(options.seed(2 + world), events));
    }
    let ablations = ablations();
    for (n, ablation) in ablations.iter().enumerate() {
        let mut scenario = (ablation.case.scenario)(options.seed(2 + n), ablation.events);
        (ablation.change)(&mut scenario);
        add(CASES + n, scenario);
    }
    let (figures, hours) = run_all(jobs, CASES + ablations.len())?;
    let lines = JUDGED
        .into_iter()
        .zip(&figures)
        .map(|(case, figures)| Line {
            case,
            figures: *figures,
        });
    let teeth = ablations.into_iter().zip(figures.iter().skip(CASES));
    let teeth = teeth.map(|(ablation, figures)| Tooth {
        ablation,
        figures: *figures,
    });
    Ok((lines.collect(), teeth.collect(), hours))
}

/// Runs all events in one case. If the case has an order, its first runs have the same seeds as in
/// a full run.
fn one(options: &Options, only: &str) -> anyhow::Result<(Vec<Line>, Vec<Tooth>, u64)> {
    let case = JUDGED.into_iter().find(|case| case.name.contains(only));
    let case =
        case.with_context(|| format!("--only {only:?}: no case has this text in its name"))?;
    let seeds = if case.name == ROUGH.name { 2 } else { 1_000 };
    let most = match case.name {
        name if [LATEST.name, STRICT.name].contains(&name) => ORDERED,
        name if name == AGENTS.name => AGENTS_EVENTS,
        _ => WORLD,
    };
    let jobs = (0..options.events.div_ceil(most)).map(|world| {
        let events = most.min(options.events - world * most);
        let scenario = (case.scenario)(options.seed(seeds + world), events);
        Job {
            place: 0,
            judged: Some(case),
            scenario,
        }
    });
    let (figures, hours) = run_all(jobs.collect(), 1)?;
    let lines = figures.into_iter().map(|figures| Line { case, figures });
    Ok((lines.collect(), Vec::new(), hours))
}

/// Runs the jobs on all cores and adds up the results of each case.
fn run_all(jobs: Vec<Job>, places: usize) -> anyhow::Result<(Vec<Figures>, u64)> {
    let jobs = Mutex::new(jobs.into_iter());
    let work = || {
        let mut found: Vec<(usize, Found)> = Vec::new();
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = next else {
                return anyhow::Ok(found);
            };
            let seed = job.scenario.seed;
            let began = Instant::now();
            let outcome = run(job.scenario).with_context(|| format!("the run with seed {seed}"))?;
            let took = began.elapsed().as_secs_f64();
            let broken = job.judged.map(|case| case.broken(&outcome.figures));
            let broken = broken.unwrap_or_default();
            eprintln!("{} {seed} {took:.1}s {broken}", job.place);
            found.push((job.place, outcome));
        }
    };
    let cores = available_parallelism().map_or(1, usize::from);
    let mut figures = vec![Figures::default(); places];
    let mut hours = 0;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let found = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a run panicked"))??;
            for (place, found) in found {
                if let Some(sum) = figures.get_mut(place) {
                    *sum = sum.and(found.figures);
                }
                hours += found.hours;
            }
        }
        Ok((figures, hours))
    })
}
