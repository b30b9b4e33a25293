//! The targets, compared with the measurements.

use anyhow::Context as _;

use crate::speed::report::Measured;
use crate::speed::stats::figure;
use crate::speed::times::megabytes;
use crate::table::Table;

use Target::{AtLeast, AtMost};

#[derive(Clone, Copy, Debug)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Finds a figure among the measurements.
type Of = fn(&Measured) -> Option<f64>;

const TARGETS: [(&str, Target, Of); 15] = [
    (
        "catcher, start, millions of instructions",
        AtMost(1.5),
        start,
    ),
    (
        "catcher, to the first response, millions of instructions",
        AtMost(5.0),
        |it| Some(start(it)? + millions(it, "first")?),
    ),
    (
        "catcher, each further webhook, millions of instructions",
        AtMost(1.4),
        |it| millions(it, "warm"),
    ),
    (
        "processor, ten events forwarded, millions of instructions",
        AtMost(12.0),
        |it| Some(it.figures.get("processor/warm/instructions")? / 1e6),
    ),
    (
        "Node.js / catcher, CPU to the first response",
        AtLeast(30.0),
        |it| it.ratio("Node.js", COLD),
    ),
    (
        "Python / catcher, CPU to the first response",
        AtLeast(50.0),
        |it| it.ratio("Python", COLD),
    ),
    ("Node.js / catcher, warm CPU", AtLeast(8.0), |it| {
        it.ratio("Node.js", WARM)
    }),
    ("Python / catcher, warm CPU", AtLeast(5.0), |it| {
        it.ratio("Python", WARM)
    }),
    ("catcher, peak RSS, MB", AtMost(9.0), |it| {
        it.time("catcher", "peak RSS, MB")
    }),
    ("catcher, executable, MB", AtMost(7.0), |it| {
        Some(sizes(it)?.0)
    }),
    ("catcher, zip, MB", AtMost(3.2), |it| Some(sizes(it)?.1)),
    (
        "two processes each, webhooks answered per second",
        AtLeast(1_500.0),
        |it| Some(it.flow.caught),
    ),
    (
        "two processes each, events done per second",
        AtLeast(1_500.0),
        |it| Some(it.flow.done),
    ),
    (
        "an event of 2 KB from webhook to done, write units",
        AtMost(6.0),
        |it| {
            let of_batch = it.figures.get("processor/warm/write units")?;
            Some(it.figures.get("catcher/warm/write units")? + of_batch / BATCH)
        },
    ),
    ("a webhook, requests to the table", AtMost(2.0), |it| {
        it.figures.get("catcher/warm/table requests").copied()
    }),
];

const COLD: &str = "CPU to the first response, ms";
const WARM: &str = "warm CPU, µs";

/// The number of events in a batch of the processor.
const BATCH: f64 = 10.0;

pub(crate) fn table(measured: &Measured) -> anyhow::Result<Table> {
    let mut table = Table::new(["", "measured", "target", ""]);
    for (what, target, of) in TARGETS {
        let is = of(measured)
            .with_context(|| format!("there is no measurement for the target {what:?}"))?;
        let (bound, holds) = match target {
            AtMost(most) => (format!("≤ {}", figure(most)), is <= most),
            AtLeast(least) => (format!("≥ {}", figure(least)), is >= least),
        };
        let verdict = if holds { "" } else { "**missed**" };
        table.row([what, &figure(is), &bound, verdict]);
    }
    Ok(table)
}

fn start(measured: &Measured) -> Option<f64> {
    millions(measured, "start")
}

/// Returns the catcher's instructions in millions.
fn millions(measured: &Measured, stage: &str) -> Option<f64> {
    let name = format!("catcher/{stage}/instructions");
    Some(measured.figures.get(&name)? / 1e6)
}

/// Returns the size of the catcher in megabytes, uncompressed and zipped.
fn sizes(measured: &Measured) -> Option<(f64, f64)> {
    let mut sizes = measured.sizes.iter();
    let (_, bytes, zipped) = sizes.find(|(name, ..)| *name == "catcher")?;
    Some((megabytes(*bytes), megabytes(*zipped)))
}
