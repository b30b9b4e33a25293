//! Sends webhooks through the catcher, the queue and the processor to a destination. Measures the
//! events per second under full load, and the time from the 2xx to the effect without load.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::speed::functions::{Bench, event_id};
use crate::speed::runtime::Running;
use crate::speed::stats::{median, percentile};
use crate::speed::stores::Stores;
use crate::speed::work::{catch, process};

/// The number of events.
const EVENTS: u64 = 2_000;
/// Every tenth event is sent a second time.
const EVERY: u64 = 10;

/// The number of runs under full load, because a run takes only a second or two.
const RUNS: usize = 5;

/// The number of webhooks that are each sent only after the previous one had its effect.
const ALONE: u64 = 200;

/// The number of processes of each function. A small machine has at least as many processors.
const PROCESSES: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) runs: usize,
    pub(crate) deliveries: u64,
    pub(crate) events: u64,
    /// Deliveries answered per second, the median of all runs.
    pub(crate) caught: f64,
    /// Events with an effect per second, the median of all runs.
    pub(crate) done: f64,
    /// The median time from the answer to the effect, in milliseconds.
    pub(crate) alone_p50: f64,
    pub(crate) alone_p99: f64,
}

pub(crate) fn run(bench: &Bench, functions: &Path) -> anyhow::Result<Flow> {
    let alone = alone(bench, functions).context("measure one webhook at a time")?;
    let busy = (0..RUNS).map(|_| busy(bench, functions));
    let busy: anyhow::Result<Vec<(f64, f64)>> = busy.collect();
    let (caught, done): (Vec<_>, Vec<_>) =
        busy.context("measure under full load")?.into_iter().unzip();
    Ok(Flow {
        runs: RUNS,
        deliveries: EVENTS + EVENTS.div_ceil(EVERY),
        events: EVENTS,
        caught: median(&caught),
        done: median(&done),
        alone_p50: percentile(&alone, 0.5),
        alone_p99: percentile(&alone, 0.99),
    })
}

/// Sends each webhook as soon as a catcher is free, while processors run. Returns the deliveries and
/// effects per second.
fn busy(bench: &Bench, functions: &Path) -> anyhow::Result<(f64, f64)> {
    let stores = Stores::start()?;
    let numbers = (0..EVENTS).flat_map(|number| {
        let again = number.is_multiple_of(EVERY).then_some(number);
        [Some(number), again].into_iter().flatten()
    });
    let numbers: Vec<u64> = numbers.collect();
    let start = |name| {
        let starts =
            (0..PROCESSES).map(|_| Running::start(&bench.function(functions, name, &stores)?));
        starts.collect::<anyhow::Result<Vec<_>>>()
    };
    let (catchers, processors) = (start("catcher")?, start("processor")?);
    let next = AtomicUsize::new(0);
    let all_sent = AtomicBool::new(false);
    let began = Instant::now();
    let (caught, done) = std::thread::scope(|scope| {
        let catching = catchers.into_iter().map(|mut catcher| {
            let (next, numbers) = (&next, &numbers);
            scope.spawn(move || -> anyhow::Result<()> {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    catch(&mut catcher, *number)?;
                }
                Ok(())
            })
        });
        let catching: Vec<_> = catching.collect();
        let processing = processors.into_iter().map(|processor| {
            let (stores, all_sent) = (&stores, &all_sent);
            scope.spawn(move || work(processor, stores, all_sent))
        });
        let processing: Vec<_> = processing.collect();
        let caught = joined(catching).map(|_| began.elapsed());
        all_sent.store(true, Ordering::Release);
        let done = joined(processing).map(|_| began.elapsed());
        anyhow::Ok((caught?, done?))
    })?;
    stores.check()?;
    let expected = usize::try_from(EVENTS)?;
    let (rows, effects) = (stores.done(), stores.effects());
    ensure!(rows == expected, "{rows} of {expected} events are done");
    ensure!(effects.len() == expected, "{} effects", effects.len());
    let deliveries = numbers.len() as u64;
    let a_second = |many: u64, time: Duration| rate(many) / time.as_secs_f64();
    Ok((a_second(deliveries, caught), a_second(EVENTS, done)))
}

/// Processes messages until all events that were sent are done.
fn work(mut processor: Running, stores: &Stores, all_sent: &AtomicBool) -> anyhow::Result<()> {
    loop {
        let was_last = all_sent.load(Ordering::Acquire);
        if process(&mut processor, stores)?.is_none() {
            if was_last {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Waits for threads, and returns their results.
pub(crate) fn joined<T>(
    threads: Vec<std::thread::ScopedJoinHandle<'_, anyhow::Result<T>>>,
) -> anyhow::Result<Vec<T>> {
    let ended = threads.into_iter().map(|thread| {
        let ended = thread.join();
        ended.map_err(|_| anyhow::anyhow!("a thread panicked"))?
    });
    ended.collect()
}

/// Sends a webhook, waits for its effect, and sends the next one.
fn alone(bench: &Bench, functions: &Path) -> anyhow::Result<Vec<f64>> {
    let stores = Stores::start()?;
    let mut catcher = Running::start(&bench.function(functions, "catcher", &stores)?)?;
    let processor = Running::start(&bench.function(functions, "processor", &stores)?)?;
    let answered: Mutex<HashMap<String, Instant>> = Mutex::default();
    let all_sent = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| work(processor, &stores, &all_sent));
        let sent = (0..ALONE).try_for_each(|number| {
            let id = event_id(number)?;
            let began = Instant::now();
            let took = catch(&mut catcher, number)?.took;
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.insert(id.clone(), began + took);
            while !stores.has_effect(&id) {
                ensure!(
                    began.elapsed() < Duration::from_secs(10),
                    "the webhook had no effect within 10 s"
                );
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        });
        all_sent.store(true, Ordering::Release);
        sent.and(joined(vec![working]).map(drop))
    })?;
    let effects = stores.effects();
    let answered = answered
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let times = answered.iter().filter_map(|(id, answered)| {
        let effect = effects.get(id)?;
        Some(effect.saturating_duration_since(*answered).as_secs_f64() * 1_000.0)
    });
    Ok(times.collect())
}

#[expect(clippy::cast_precision_loss, reason = "the number is small")]
pub(crate) fn rate(many: u64) -> f64 {
    many as f64
}
