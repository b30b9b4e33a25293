//! Extrapolates the counts of some events to the bill of a million events.

use std::collections::BTreeSet;

use serde::Serialize;

use super::bill::{API_CHUNK, Bill, GB, chunks, number};
use super::deployed::{Deployed, Machine};
use super::measure::Counted;
use super::prices::{Meter, Prices};
use super::rows::Kept;
use super::tally::Tally;

/// The number of events that a bill is for.
pub(crate) const MILLION: f64 = 1_000_000.0;

/// The entry point in front of the catcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Door {
    HttpApi,
    FunctionUrl,
    Cloudfront,
}

impl Door {
    pub(crate) const ALL: [Self; 3] = [Self::HttpApi, Self::FunctionUrl, Self::Cloudfront];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HttpApi => "HTTP API",
            Self::FunctionUrl => "Function URL",
            Self::Cloudfront => "CloudFront and WAF in front of the HTTP API",
        }
    }
}

/// A tally, and the factor that scales it to a million events.
type Share<'t> = (&'t Tally, f64);

/// Returns the total bill of a million events.
pub(crate) fn bill<'p>(
    counted: &Counted,
    door: Door,
    deployed: &Deployed,
    prices: &'p Prices,
) -> anyhow::Result<Bill<'p>> {
    let mut bill = Bill::new(prices);
    front(&mut bill, counted, door, deployed)?;
    inside(&mut bill, counted, deployed)?;
    Ok(bill)
}

fn front(
    bill: &mut Bill<'_>,
    counted: &Counted,
    door: Door,
    deployed: &Deployed,
) -> anyhow::Result<()> {
    const PART: &str = "front door";
    // Each event is delivered once, and some events a second time.
    let all = MILLION * (1.0 + bill.prices.assumed.duplicate_share.value);
    let gb = |bytes| all * number(bytes) / f64::from(counted.case.events.max(1)) / GB;
    let (asked, answered) = (gb(counted.asked), gb(counted.answered));
    if door == Door::Cloudfront {
        bill.add(PART, "CloudFront", Meter::CloudfrontRequest, all)?;
        bill.add(PART, "WAF", Meter::WafRequest, all)?;
        bill.add(PART, "to the API", Meter::CloudfrontGbToOrigin, asked)?;
        bill.add(PART, "answers", Meter::CloudfrontGbOut, answered)?;
    } else {
        bill.add("transfer", "answers", Meter::TransferGb, answered)?;
    }
    if door != Door::FunctionUrl {
        let requests = all * f64::from(chunks(counted.case.size, API_CHUNK));
        bill.add(PART, "HTTP API", Meter::HttpApiRequest, requests)?;
        if let Some(log) = &deployed.access_log {
            let bytes = u32::try_from(log.line(0)?).map_or(f64::INFINITY, f64::from);
            bill.add_logs("access log", (all, all * bytes), log.days)?;
        }
    }
    Ok(())
}

fn inside(bill: &mut Bill<'_>, counted: &Counted, deployed: &Deployed) -> anyhow::Result<()> {
    let scale = MILLION / f64::from(counted.case.events.max(1));
    let duplicates = MILLION * bill.prices.assumed.duplicate_share.value;
    let again = duplicates / number(counted.again.invocations.max(1));
    let caught = [(&counted.caught, scale), (&counted.again, again)];
    let worked = [(&counted.worked, scale)];
    let catcher = deployed.machine("Catcher")?;
    let processor = deployed.machine("Processor")?;
    function(bill, "catcher", catcher, &caught, &counted.cold_catcher)?;
    let cold = &counted.cold_processor;
    function(bill, "processor", processor, &worked, cold)?;

    let all = [&caught[..], &worked, &[(&counted.looked, scale)]].concat();
    ledger(bill, &all)?;
    let sum = |what: fn(&Tally) -> u64| -> f64 {
        let parts = all.iter().map(|(tally, by)| number(what(tally)) * by);
        parts.sum()
    };
    let sends = sum(|tally| tally.queue_requests);
    bill.add("queue", "sends", Meter::QueueRequest, sends)?;
    let mapping = f64::from(counted.mapping_requests) * scale;
    let what = "receives and deletes";
    bill.add("queue", what, Meter::QueueRequest, mapping)?;
    let puts = sum(|tally| tally.object_puts);
    bill.add("bucket", "puts", Meter::ObjectPut, puts)?;
    let gets = sum(|tally| tally.object_gets);
    bill.add("bucket", "gets", Meter::ObjectGet, gets)?;
    logs(bill, "catcher's log", catcher, &caught)?;
    logs(bill, "processor's log", processor, &worked)?;
    storage(bill, counted, deployed.recovery)?;
    let sent = number(counted.forwarded) * scale / GB;
    bill.add("transfer", "to destinations", Meter::TransferGb, sent)
}

/// Adds the invocations and their duration. A share of the invocations starts a process.
fn function(
    bill: &mut Bill<'_>,
    part: &'static str,
    machine: &Machine,
    warm: &[Share<'_>],
    cold: &Tally,
) -> anyhow::Result<()> {
    let (mut invocations, mut seconds) = (0.0, 0.0);
    for (tally, by) in warm {
        invocations += number(tally.invocations) * by;
        seconds += billed_seconds(bill.prices, machine, tally) * by;
    }
    let share = bill.prices.assumed.cold_start_share.value;
    let usual = seconds / invocations.max(1.0);
    let start = billed_seconds(bill.prices, machine, cold);
    let starts = invocations * share * (start - usual).max(0.0);
    bill.add(part, "invocations", Meter::LambdaRequest, invocations)?;
    let gb = machine.memory_mb / 1024.0;
    let what = format!("{:.1} ms each", usual * 1000.0);
    bill.add(part, what, machine.meter, seconds * gb)?;
    let what = format!("starts, {:.0} ms each", start * 1000.0);
    bill.add(part, what, machine.meter, starts * gb)
}

/// Returns the billed time of all invocations of a tally. The time consists of the wait for other
/// services, and of the processor time, scaled to the share of a processor that the function's
/// memory buys. AWS rounds each invocation up to a millisecond, which adds half a millisecond on
/// average.
pub(crate) fn billed_seconds(prices: &Prices, machine: &Machine, tally: &Tally) -> f64 {
    let share = (machine.memory_mb / prices.assumed.one_processor_mb.value).min(1.0);
    let rounding = number(tally.invocations) * 0.000_5;
    tally.waited.as_secs_f64() + tally.cpu.as_secs_f64() / share + rounding
}

fn ledger(bill: &mut Bill<'_>, shares: &[Share<'_>]) -> anyhow::Result<()> {
    const PART: &str = "ledger";
    let places: BTreeSet<&str> = shares
        .iter()
        .flat_map(|(tally, _)| tally.writes.keys().map(String::as_str))
        .collect();
    let sum = |what: &dyn Fn(&Tally) -> f64| -> f64 {
        let parts = shares.iter().map(|(tally, by)| what(tally) * by);
        parts.sum()
    };
    for place in places {
        let units = sum(&|tally| tally.writes.get(place).copied().unwrap_or_default());
        let what = format!("writes to the {place}");
        bill.add(PART, what, Meter::WriteUnit, units)?;
    }
    bill.add(PART, "reads", Meter::ReadUnit, sum(&|tally| tally.reads))
}

fn logs(
    bill: &mut Bill<'_>,
    what: &str,
    machine: &Machine,
    shares: &[Share<'_>],
) -> anyhow::Result<()> {
    let mut volume = (0.0, 0.0);
    for (tally, by) in shares {
        let (lines, bytes) = log_volume(bill.prices, machine, tally);
        volume = (volume.0 + lines * by, volume.1 + bytes * by);
    }
    bill.add_logs(what, volume, machine.log_days)
}

/// Returns the number and the bytes of the log lines, including Lambda's own lines.
pub(crate) fn log_volume(prices: &Prices, machine: &Machine, tally: &Tally) -> (f64, f64) {
    let (lines, bytes) = (number(tally.log_lines), number(tally.log_bytes));
    if !machine.platform_lines {
        return (lines, bytes);
    }
    let invocations = number(tally.invocations);
    let own = prices.assumed.platform_line_bytes.value;
    // Lambda writes three lines for each invocation: start, runtimeDone and report.
    (lines + 3.0 * invocations, bytes + own * invocations)
}

fn storage(bill: &mut Bill<'_>, counted: &Counted, recovery: bool) -> anyhow::Result<()> {
    const PART: &str = "storage";
    let rows = &counted.rows;
    // The events include the first one, which starts the processes.
    let events = f64::from(rows.done.max(1));
    let days = bill.prices.days();
    let months = |kept: &Kept| kept.byte_days() * MILLION / events / GB / days;
    let mut table = 0.0;
    for (kind, kept) in &rows.table {
        let what = format!("{kind}, {:.0} days", kept.days_each());
        bill.add(PART, what, Meter::TableGbMonth, months(kept))?;
        table += months(kept);
    }
    for (name, kept) in &rows.indexes {
        let what = format!("index {name}, {:.0} days", kept.days_each());
        bill.add(PART, what, Meter::TableGbMonth, months(kept))?;
    }
    if recovery {
        let what = "point-in-time recovery";
        bill.add(PART, what, Meter::RecoveryGbMonth, table)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
