//! Measures the time of an answer, and the time from the 2xx to the effect, while webhooks arrive at
//! a fixed rate.
//!
//! The load is an open loop: each webhook has a scheduled time, and its answer counts from this
//! time. If the catchers are late, the webhooks that wait for them therefore have longer times. A
//! loop that waits for each answer would hide this (coordinated omission).
//!
//! The cases with a destination that hangs send every tenth webhook to a second source, whose
//! destination accepts connections and never answers. The measured effects are those of the other
//! source. Two properties of the processor decide how long these wait:
//!
//! - An invocation ends when all of its messages are processed. A call that hangs lets the other
//!   events of its batch continue after a second, but its process receives no further messages
//!   until the time limit of the action.
//! - The circuit breaker opens after five timeouts in a row in one process, or after fewer if the
//!   time limit is long. The other processes read its state at most every five seconds. The events
//!   of the destination are then deferred at once.
//!
//! In [`Case::Hanging`], the circuit breaker is closed at the start. New events wait while all
//! processes wait for the time limit, until the circuit breaker opens. In [`Case::Open`], it is open
//! at the start.

mod hanging;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use self::hanging::{HANGING, HANGING_TIMEOUT, Hanging, open_breaker};
use crate::speed::flow::{joined, rate};
use crate::speed::functions::{Bench, event_id, sources_for, webhook_to};
use crate::speed::runtime::Running;
use crate::speed::stats::{figure, percentile};
use crate::speed::stores::Stores;
use crate::speed::work::{catch, catch_event, process};
use crate::table::Table;
use crate::webhook::SOURCE;

/// Webhooks per second.
const RATES: [u64; 3] = [50, 200, 500];

/// How long each case sends webhooks.
const SECONDS: u64 = 5;

/// The number of catchers. Lambda starts a process for each webhook that arrives while all processes
/// are busy. This many are enough for the highest rate while an answer takes less than 40 ms.
const CATCHERS: usize = 20;

/// The number of processors, as in the template.
const PROCESSORS: usize = 5;

/// In the cases with duplicates or with a destination that hangs, one webhook in this number is one
/// of these.
const EVERY: u64 = 10;

/// A duplicate arrives this many webhooks after the first delivery.
const BEHIND: u64 = 5;

/// The number of the first webhook that is sent before the measurement.
const WARM_UP: u64 = 1_000_000;

/// The time after which events without an effect are an error.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Distinct,
    Duplicates,
    /// Some events have a destination that hangs.
    Hanging,
    /// The same, but the circuit breaker of this destination is open.
    Open,
}

/// The times of a case at a rate, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    case: Case,
    /// Scheduled webhooks per second.
    rate: u64,
    /// Answered webhooks per second.
    answered: f64,
    /// Effects per second.
    done: f64,
    answer: [f64; 2],
    effect: [f64; 2],
}

/// A webhook of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    /// The time since the start.
    at: Duration,
    number: u64,
    hangs: bool,
}

pub(crate) fn run(bench: &Bench, functions: &Path) -> anyhow::Result<Vec<Load>> {
    let cases = [Case::Distinct, Case::Duplicates, Case::Hanging, Case::Open];
    let cases = cases.map(|case| RATES.map(|rate| (case, rate)));
    let loads = cases.as_flattened().iter().map(|&(case, rate)| {
        let stand = Stand::start(bench, functions, case)?;
        let load = stand.measure(case, rate);
        load.with_context(|| format!("measure {rate} webhooks per second, {case}"))
    });
    loads.collect()
}

/// Returns the webhooks of a case in the order of their times.
fn schedule(case: Case, rate: u64) -> Vec<Planned> {
    let webhooks = (0..rate * SECONDS).map(|index| {
        let is_special = index % EVERY == EVERY - 1;
        let repeats = is_special && case == Case::Duplicates;
        Planned {
            at: Duration::from_nanos(index * 1_000_000_000 / rate),
            number: if repeats { index - BEHIND } else { index },
            hangs: is_special && matches!(case, Case::Hanging | Case::Open),
        }
    });
    webhooks.collect()
}

/// The started processes of a case.
struct Stand {
    stores: Stores,
    hanging: Hanging,
    catchers: Vec<Running>,
    processors: Vec<Running>,
}

/// What happened to the webhooks of a schedule.
struct Times {
    /// The time of each answer, by the place in the schedule.
    answers: BTreeMap<usize, Instant>,
    effects: HashMap<String, Instant>,
}

impl Stand {
    /// Starts the processes. Each of them has processed an event, so no time includes a start.
    fn start(bench: &Bench, functions: &Path, case: Case) -> anyhow::Result<Self> {
        let stores = Stores::start()?;
        let hanging = Hanging::start()?;
        if case == Case::Open {
            open_breaker(&stores)?;
        }
        let port = stores.url.rsplit(':').next().unwrap_or_default();
        let sources = bench.file(&format!("sources-load-{port}.toml"));
        let text = sources_for(&stores.url) + &hanging.source();
        std::fs::write(&sources, text).context("write the sources")?;
        let sources = sources.display().to_string();
        let start = |name, count| {
            let starts = (0..count).map(|_| {
                let mut program = bench.function(functions, name, &stores)?;
                let variable = "MITT_SOURCES_FILE".to_owned();
                program.environment.insert(variable, sources.clone());
                Running::start(&program)
            });
            starts.collect::<anyhow::Result<Vec<_>>>()
        };
        let mut catchers = start("catcher", CATCHERS)?;
        let mut processors = start("processor", PROCESSORS)?;
        let count = processors.len();
        for (number, catcher) in (WARM_UP..).zip(&mut catchers) {
            catch(catcher, number)?;
            let processor = usize::try_from(number)? % count;
            let processor = processors.get_mut(processor).context("no processor")?;
            process(processor, &stores)?.context("no message")?;
        }
        stores.take_tally();
        Ok(Self {
            stores,
            hanging,
            catchers,
            processors,
        })
    }

    fn measure(self, case: Case, rate: u64) -> anyhow::Result<Load> {
        let planned = schedule(case, rate);
        let events = planned.iter().map(|it| {
            let source = if it.hangs { HANGING } else { SOURCE };
            webhook_to(source, it.number)
        });
        let events: Vec<String> = events.collect::<anyhow::Result<_>>()?;
        let measured = planned.iter().filter(|it| !it.hangs);
        let measured: BTreeSet<u64> = measured.map(|it| it.number).collect();
        let (stores, hanging) = (self.stores.clone(), self.hanging.clone());
        // The threads need a moment to start.
        let began = Instant::now() + Duration::from_millis(20);
        let times = self.send(&planned, &events, began, measured.len())?;
        check(&stores, measured.len())?;
        let ids = measured.iter().map(|number| event_id(*number));
        let ids = ids.collect::<anyhow::Result<Vec<_>>>()?;
        let hangs = planned.iter().filter(|it| it.hangs).count();
        hanging.check(case, hangs)?;
        summary(case, rate, began, &planned, &ids, &times)
    }

    /// Sends the webhooks, and waits until this many events have had their effect.
    fn send(
        self,
        planned: &[Planned],
        events: &[String],
        began: Instant,
        expected: usize,
    ) -> anyhow::Result<Times> {
        let next = AtomicUsize::new(0);
        let ended = AtomicBool::new(false);
        let stores = &self.stores;
        let answers = std::thread::scope(|scope| {
            let catching = self.catchers.into_iter().map(|catcher| {
                let next = &next;
                scope.spawn(move || send_planned(catcher, planned, events, began, next))
            });
            let catching: Vec<_> = catching.collect();
            let processing = self.processors.into_iter().map(|processor| {
                let ended = &ended;
                scope.spawn(move || work(processor, stores, ended))
            });
            let processing: Vec<_> = processing.collect();
            let answers = joined(catching);
            let until = Instant::now() + PATIENCE;
            while answers.is_ok()
                && stores.effect_count() < CATCHERS + expected
                && Instant::now() < until
                && !processing.iter().any(ScopedJoinHandle::is_finished)
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            ended.store(true, Ordering::Release);
            joined(processing)?;
            answers
        })?;
        Ok(Times {
            answers: answers.into_iter().flatten().collect(),
            effects: stores.effects(),
        })
    }
}

/// Sends the next webhook of the schedule at its time, until no webhook is left. Returns the time of
/// each answer.
fn send_planned(
    mut catcher: Running,
    planned: &[Planned],
    events: &[String],
    began: Instant,
    next: &AtomicUsize,
) -> anyhow::Result<Vec<(usize, Instant)>> {
    let mut answers = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let (Some(planned), Some(event)) = (planned.get(index), events.get(index)) else {
            return Ok(answers);
        };
        let at = began + planned.at;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let answer = catch_event(&mut catcher, event.clone())?;
        answers.push((index, sent + answer.took));
    }
}

/// Processes messages until the measurement ends.
fn work(mut processor: Running, stores: &Stores, ended: &AtomicBool) -> anyhow::Result<()> {
    while !ended.load(Ordering::Acquire) {
        match process(&mut processor, stores)? {
            Some(batch) => ensure!(batch.again == 0, "{} messages failed", batch.again),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(())
}

/// Fails unless this many events had one effect each and are done. The events of the destination
/// that hangs must be neither.
fn check(stores: &Stores, expected: usize) -> anyhow::Result<()> {
    stores.check()?;
    let calls = stores.take_tally().destination;
    ensure!(
        calls == expected as u64,
        "{calls} effects of {expected} events"
    );
    let all = CATCHERS + expected;
    let (effects, done) = (stores.effect_count(), stores.done());
    ensure!(
        effects == all,
        "{effects} instead of {all} events had an effect"
    );
    ensure!(done == all, "{done} instead of {all} events are done");
    Ok(())
}

fn summary(
    case: Case,
    rate: u64,
    began: Instant,
    planned: &[Planned],
    ids: &[String],
    times: &Times,
) -> anyhow::Result<Load> {
    let mut answer = Vec::new();
    let mut answered: HashMap<String, Instant> = HashMap::new();
    for (index, at) in &times.answers {
        let planned = planned.get(*index).context("an unknown webhook")?;
        answer.push(milliseconds(began + planned.at, *at));
        let first = answered.entry(event_id(planned.number)?).or_insert(*at);
        *first = *at.min(first);
    }
    let mut effect = Vec::new();
    for id in ids {
        let answered = answered.get(id).context("an event was not answered")?;
        let at = times.effects.get(id).context("an event had no effect")?;
        effect.push(milliseconds(*answered, *at));
    }
    let effects = ids.iter().filter_map(|id| times.effects.get(id));
    let shares = |times: &[f64]| [0.5, 0.99].map(|share| percentile(times, share));
    Ok(Load {
        case,
        rate,
        answered: per_second(answer.len(), began, times.answers.values().max()),
        done: per_second(ids.len(), began, effects.max()),
        answer: shares(&answer),
        effect: shares(&effect),
    })
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1_000.0
}

/// Returns the rate from the start to the last of these, or to the end of the schedule if it is
/// later.
fn per_second(count: usize, began: Instant, last: Option<&Instant>) -> f64 {
    let took = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
    rate(count as u64) / took.max(Duration::from_secs(SECONDS)).as_secs_f64()
}

/// Returns the table of the report.
pub(crate) fn text(loads: &[Load]) -> String {
    let mut table = Table::new([
        "",
        "webhooks per second",
        "answered per second",
        "effects per second",
        "answer p50, ms",
        "answer p99, ms",
        "2xx to effect p50, ms",
        "2xx to effect p99, ms",
    ]);
    for load in loads {
        let mut cells = vec![load.rate.to_string()];
        let values = [load.answered, load.done].into_iter();
        let values = values.chain(load.answer).chain(load.effect);
        cells.extend(values.map(figure));
        table.named(&load.case.to_string(), cells);
    }
    format!(
        "{SECONDS} s for each row, with {CATCHERS} catchers and {PROCESSORS} processors. The action \
         of the destination that hangs has a time limit of {HANGING_TIMEOUT}.\n\n{table}"
    )
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distinct => f.write_str("no duplicates"),
            Self::Duplicates => write!(f, "{} % duplicates", 100 / EVERY),
            Self::Hanging => f.write_str("another destination hangs"),
            Self::Open => f.write_str("the same, circuit breaker open"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_equal_intervals_and_new_webhooks() {
        for rate in RATES {
            let planned = schedule(Case::Distinct, rate);
            let numbers: BTreeSet<u64> = planned.iter().map(|it| it.number).collect();
            assert_eq!(numbers.len() as u64, rate * SECONDS);
            let interval = Duration::from_secs(1) / u32::try_from(rate).unwrap();
            let mut pairs = planned.windows(2);
            assert!(pairs.all(|pair| pair[0].at + interval == pair[1].at));
            assert!(planned.iter().all(|it| !it.hangs));
        }
    }

    #[test]
    fn a_tenth_of_the_webhooks_repeats_an_earlier_one() {
        let planned = schedule(Case::Duplicates, 50);
        let mut seen = BTreeSet::new();
        let repeats = planned.iter().filter(|it| !seen.insert(it.number)).count();
        assert_eq!(repeats * 10, planned.len());
        assert!(planned.iter().all(|it| !it.hangs));
    }

    #[test]
    fn a_tenth_of_the_webhooks_hangs() {
        for case in [Case::Hanging, Case::Open] {
            let planned = schedule(case, 50);
            let hangs = planned.iter().filter(|it| it.hangs).count();
            assert_eq!(hangs * 10, planned.len());
        }
    }

    #[test]
    fn an_answer_counts_from_its_scheduled_time() {
        let began = Instant::now();
        let after = |ms| began + Duration::from_millis(ms);
        let planned = schedule(Case::Duplicates, 50);
        let planned = [0, 4, 9].map(|index: usize| planned[index].clone());
        let id = |number| event_id(number).unwrap();
        // The duplicate of the second webhook is answered before the webhook itself.
        let times = Times {
            answers: BTreeMap::from([(0, after(7)), (1, after(300)), (2, after(200))]),
            effects: HashMap::from([(id(0), after(8)), (id(4), after(250))]),
        };
        let ids = [id(0), id(4)];
        let load = summary(Case::Duplicates, 50, began, &planned, &ids, &times).unwrap();
        assert_eq!(load.answer.map(figure), ["20.0", "220"]);
        assert_eq!(load.effect.map(figure), ["50.0", "50.0"]);
    }

    #[test]
    fn a_rate_that_was_not_reached_shows() {
        let began = Instant::now();
        let last = began + Duration::from_secs(2 * SECONDS);
        let count = usize::try_from(SECONDS * 100).unwrap();
        assert_eq!(figure(per_second(count, began, Some(&last))), "50.0");
        assert_eq!(figure(per_second(count, began, Some(&began))), "100");
    }

    #[test]
    fn events_without_an_effect_are_an_error() {
        let error = check(&Stores::start().unwrap(), 1).unwrap_err();
        assert_eq!(error.to_string(), "0 effects of 1 events");
    }
}
