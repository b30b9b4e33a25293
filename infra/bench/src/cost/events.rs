//! Extrapolates the counts of some events to the bill of a million events.

use serde::Serialize;

use crate::cost::bill::{API_CHUNK, Bill, GB, chunks};
use crate::cost::deployed::{Deployed, Machine};
use crate::cost::measure::Counted;
use crate::cost::prices::{Meter, Prices};
use crate::cost::rows::Kept;
use crate::cost::tally::Tally;

/// Number of events of a bill.
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

/// The total bill of a million events.
pub(crate) fn bill(
    counted: &Counted,
    door: Door,
    deployed: &Deployed,
    prices: &Prices,
) -> anyhow::Result<Bill> {
    let front = front(counted, door, deployed, prices)?;
    Ok(front.and(inside(counted, deployed, prices)?))
}

/// Deliveries of a million events: one each, and a second one for some of them.
fn deliveries(prices: &Prices) -> f64 {
    MILLION * (1.0 + prices.assumed.duplicate_share.value)
}

fn front(
    counted: &Counted,
    door: Door,
    deployed: &Deployed,
    prices: &Prices,
) -> anyhow::Result<Bill> {
    const PART: &str = "front door";
    let (mut bill, all) = (Bill::default(), deliveries(prices));
    let each = |bytes: u64| number(bytes) / f64::from(counted.case.events.max(1));
    let (asked, answered) = (each(counted.asked), each(counted.answered));
    if door == Door::Cloudfront {
        bill.add(prices, PART, "CloudFront", Meter::CloudfrontRequest, all)?;
        bill.add(prices, PART, "WAF", Meter::WafRequest, all)?;
        let to_origin = all * asked / GB;
        bill.add(
            prices,
            PART,
            "to the API",
            Meter::CloudfrontGbToOrigin,
            to_origin,
        )?;
        let out = all * answered / GB;
        bill.add(prices, PART, "answers", Meter::CloudfrontGbOut, out)?;
    } else {
        let out = all * answered / GB;
        bill.add(prices, "transfer", "answers", Meter::TransferGb, out)?;
    }
    if door != Door::FunctionUrl {
        let requests = all * f64::from(chunks(counted.case.size, API_CHUNK));
        bill.add(prices, PART, "HTTP API", Meter::HttpApiRequest, requests)?;
        if let Some(log) = &deployed.access_log {
            let line = log.line(0)?;
            let bytes = u32::try_from(line).map_or(f64::INFINITY, f64::from);
            logs(
                &mut bill,
                prices,
                "access log",
                (all, all * bytes),
                log.days,
            )?;
        }
    }
    Ok(bill)
}

fn inside(counted: &Counted, deployed: &Deployed, prices: &Prices) -> anyhow::Result<Bill> {
    let mut bill = Bill::default();
    let events = f64::from(counted.case.events.max(1));
    // The scale of counts over all events, and of counts over the duplicates.
    let scale = MILLION / events;
    let again =
        MILLION * prices.assumed.duplicate_share.value / number(counted.again.invocations.max(1));
    let catcher = deployed.machine("Catcher")?;
    let processor = deployed.machine("Processor")?;
    let warm = [(&counted.caught, scale), (&counted.again, again)];
    function(
        &mut bill,
        prices,
        "catcher",
        catcher,
        &warm,
        &counted.cold_catcher,
    )?;
    let warm = [(&counted.worked, scale)];
    function(
        &mut bill,
        prices,
        "processor",
        processor,
        &warm,
        &counted.cold_processor,
    )?;

    let shares = [
        (&counted.caught, scale),
        (&counted.again, again),
        (&counted.worked, scale),
        (&counted.looked, scale),
    ];
    ledger(&mut bill, prices, &shares)?;
    let of = |what: fn(&Tally) -> u64| -> f64 {
        shares
            .iter()
            .map(|(tally, by)| number(what(tally)) * by)
            .sum()
    };
    let sends = of(|tally| tally.queue_requests);
    bill.add(prices, "queue", "sends", Meter::QueueRequest, sends)?;
    let mapping = f64::from(counted.mapping_requests) * scale;
    bill.add(
        prices,
        "queue",
        "receives and deletes",
        Meter::QueueRequest,
        mapping,
    )?;
    bill.add(
        prices,
        "bucket",
        "puts",
        Meter::ObjectPut,
        of(|tally| tally.object_puts),
    )?;
    bill.add(
        prices,
        "bucket",
        "gets",
        Meter::ObjectGet,
        of(|tally| tally.object_gets),
    )?;
    for (what, machine, tallies) in [
        ("catcher's log", catcher, &shares[..2]),
        ("processor's log", processor, &shares[2..3]),
    ] {
        let mut volume = (0.0, 0.0);
        for (tally, by) in tallies {
            let (lines, bytes) = log_volume(prices, machine, tally);
            volume = (volume.0 + lines * by, volume.1 + bytes * by);
        }
        logs(&mut bill, prices, what, volume, machine.log_days)?;
    }
    storage(&mut bill, prices, counted, deployed.recovery)?;
    let sent = number(counted.forwarded) * scale / GB;
    bill.add(
        prices,
        "transfer",
        "to destinations",
        Meter::TransferGb,
        sent,
    )?;
    Ok(bill)
}

/// The invocations and their duration. A share of them starts a process.
fn function(
    bill: &mut Bill,
    prices: &Prices,
    part: &'static str,
    machine: &Machine,
    warm: &[(&Tally, f64)],
    cold: &Tally,
) -> anyhow::Result<()> {
    let (mut invocations, mut seconds) = (0.0, 0.0);
    for (tally, by) in warm {
        invocations += number(tally.invocations) * by;
        seconds += billed_seconds(prices, machine, tally) * by;
    }
    let share = prices.assumed.cold_start_share.value;
    let usual = seconds / invocations.max(1.0);
    let start = billed_seconds(prices, machine, cold);
    let starts = invocations * share * (start - usual).max(0.0);
    bill.add(
        prices,
        part,
        "invocations",
        Meter::LambdaRequest,
        invocations,
    )?;
    let gb = machine.memory_mb / 1024.0;
    let what = format!("{:.1} ms each", usual * 1000.0);
    bill.add(prices, part, what, machine.meter, seconds * gb)?;
    let what = format!("starts, {:.0} ms each", start * 1000.0);
    bill.add(prices, part, what, machine.meter, starts * gb)
}

/// The billed time of all invocations of a tally: the wait for other services, and the processor
/// time, scaled to the share of a processor that the function's memory buys. Each invocation is
/// rounded up to a millisecond, which adds half a millisecond on average.
pub(crate) fn billed_seconds(prices: &Prices, machine: &Machine, tally: &Tally) -> f64 {
    let share = (machine.memory_mb / prices.assumed.one_processor_mb.value).min(1.0);
    let rounding = number(tally.invocations) * 0.000_5;
    tally.waited.as_secs_f64() + tally.cpu.as_secs_f64() / share + rounding
}

fn ledger(bill: &mut Bill, prices: &Prices, shares: &[(&Tally, f64)]) -> anyhow::Result<()> {
    const PART: &str = "ledger";
    let mut places: Vec<&str> = Vec::new();
    for (tally, _) in shares {
        places.extend(tally.writes.keys().map(String::as_str));
    }
    places.sort_unstable();
    places.dedup();
    for place in places {
        let units = |tally: &Tally| tally.writes.get(place).copied().unwrap_or_default();
        let units: f64 = shares.iter().map(|(tally, by)| units(tally) * by).sum();
        let what = format!("writes to the {place}");
        bill.add(prices, PART, what, Meter::WriteUnit, units)?;
    }
    let reads: f64 = shares.iter().map(|(tally, by)| tally.reads * by).sum();
    bill.add(prices, PART, "reads", Meter::ReadUnit, reads)
}

/// Number of log lines including Lambda's own, and their bytes.
pub(crate) fn log_volume(prices: &Prices, machine: &Machine, tally: &Tally) -> (f64, f64) {
    let (lines, bytes) = (number(tally.log_lines), number(tally.log_bytes));
    if !machine.platform_lines {
        return (lines, bytes);
    }
    let invocations = number(tally.invocations);
    let own = prices.assumed.platform_line_bytes.value;
    // Lambda writes three lines: start, runtimeDone and report.
    (lines + 3.0 * invocations, bytes + own * invocations)
}

/// Ingested log bytes, and stored log bytes.
pub(crate) fn logs(
    bill: &mut Bill,
    prices: &Prices,
    what: &str,
    (lines, bytes): (f64, f64),
    days: f64,
) -> anyhow::Result<()> {
    let gb = (bytes + lines * prices.assumed.log_line_bytes.value) / GB;
    bill.add(prices, "logs", what, Meter::LogGb, gb)?;
    let kept = gb * prices.assumed.log_compression.value * days / prices.days();
    let what = format!("{what}, kept {days:.0} days");
    bill.add(prices, "logs", what, Meter::LogGbMonth, kept)
}

fn storage(
    bill: &mut Bill,
    prices: &Prices,
    counted: &Counted,
    recovery: bool,
) -> anyhow::Result<()> {
    const PART: &str = "storage";
    let rows = &counted.rows;
    // The events include the first one, which starts the processes.
    let events = f64::from(rows.done.max(1));
    let months = |kept: &Kept| kept.byte_days() * MILLION / events / GB / prices.days();
    let mut table = 0.0;
    for (kind, kept) in &rows.table {
        let what = format!("{kind}, {:.0} days", kept.days_each());
        bill.add(prices, PART, what, Meter::TableGbMonth, months(kept))?;
        table += months(kept);
    }
    for (name, kept) in &rows.indexes {
        let what = format!("index {name}, {:.0} days", kept.days_each());
        bill.add(prices, PART, what, Meter::TableGbMonth, months(kept))?;
    }
    if recovery {
        let what = "point-in-time recovery";
        bill.add(prices, PART, what, Meter::RecoveryGbMonth, table)?;
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts are at most a few million"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
