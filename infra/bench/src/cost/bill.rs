//! Multiplies quantities by prices.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cost::prices::{Meter, Prices};

/// The bytes of a gigabyte in the bills for tables, logs and data transfer.
pub(crate) const GB: f64 = 1024.0 * 1024.0 * 1024.0;

/// The size that counts as one request. SQS bills each 64 KB of a request, and the HTTP API each
/// 512 KB.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub(crate) const QUEUE_CHUNK: usize = 64 * 1024;
pub(crate) const API_CHUNK: usize = 512 * 1024;

/// Returns the number of requests that AWS bills for one request of this size.
pub(crate) fn chunks(bytes: usize, chunk: usize) -> u32 {
    u32::try_from(bytes.div_ceil(chunk).max(1)).unwrap_or(u32::MAX)
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Line {
    /// The part of the inbox that causes the cost.
    pub(crate) part: &'static str,
    /// A description of what was counted.
    pub(crate) what: String,
    pub(crate) meter: Meter,
    pub(crate) quantity: f64,
    pub(crate) usd: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Bill<'p> {
    pub(crate) prices: &'p Prices,
    pub(crate) lines: Vec<Line>,
}

impl<'p> Bill<'p> {
    pub(crate) fn new(prices: &'p Prices) -> Self {
        let lines = Vec::new();
        Self { prices, lines }
    }

    /// Adds a line, unless the quantity is zero.
    pub(crate) fn add(
        &mut self,
        part: &'static str,
        what: impl Into<String>,
        meter: Meter,
        quantity: f64,
    ) -> anyhow::Result<()> {
        let price = self.prices.of(meter)?;
        if quantity > 0.0 {
            self.lines.push(Line {
                part,
                what: what.into(),
                meter,
                quantity,
                usd: quantity * price.usd / price.per,
            });
        }
        Ok(())
    }

    /// Adds ingested log lines and bytes, and the bytes that are stored for some days.
    pub(crate) fn add_logs(
        &mut self,
        what: &str,
        (lines, bytes): (f64, f64),
        days: f64,
    ) -> anyhow::Result<()> {
        let assumed = &self.prices.assumed;
        let gb = (bytes + lines * assumed.log_line_bytes.value) / GB;
        let stored = gb * assumed.log_compression.value * days / self.prices.days();
        self.add("logs", what, Meter::LogGb, gb)?;
        let what = format!("{what}, kept {days:.0} days");
        self.add("logs", what, Meter::LogGbMonth, stored)
    }

    pub(crate) fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.usd).sum()
    }

    pub(crate) fn of_part(&self, part: &str) -> f64 {
        let lines = self.lines.iter().filter(|line| line.part == part);
        lines.map(|line| line.usd).sum()
    }

    /// Returns the parts, in the order of the lines.
    pub(crate) fn parts(&self) -> Vec<&'static str> {
        let mut parts = Vec::new();
        for line in &self.lines {
            if !parts.contains(&line.part) {
                parts.push(line.part);
            }
        }
        parts
    }

    /// Returns the amount to pay after the free tier, if the account has no other usage.
    pub(crate) fn after_free(&self) -> anyhow::Result<f64> {
        let mut used: BTreeMap<Meter, f64> = BTreeMap::new();
        for line in &self.lines {
            *used.entry(line.meter).or_default() += line.quantity;
        }
        let usd = used.into_iter().map(|(meter, used)| {
            let price = self.prices.of(meter)?;
            Ok((used - price.free).max(0.0) * price.usd / price.per)
        });
        usd.sum()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts are at most a few million"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::prices::tests::{near, prices};

    #[test]
    fn a_line_is_quantity_times_price() {
        let prices = prices();
        let mut bill = Bill::new(&prices);
        bill.add("ledger", "units", Meter::WriteUnit, 8_000_000.0)
            .unwrap();
        near(bill.total(), 5.0);
        bill.add("logs", "lines", Meter::LogGb, 3.0).unwrap();
        near(bill.total(), 6.5);
        near(bill.of_part("logs"), 1.5);
        assert_eq!(bill.parts(), ["ledger", "logs"]);
    }

    #[test]
    fn nothing_is_no_line() {
        let prices = prices();
        let mut bill = Bill::new(&prices);
        bill.add("bucket", "puts", Meter::ObjectPut, 0.0).unwrap();
        assert!(bill.lines.is_empty());
    }

    #[test]
    fn lines_cost_their_bytes_and_some_beside() {
        let prices = prices();
        let mut bill = Bill::new(&prices);
        let month = 365.0 / 12.0;
        bill.add_logs("log", (1e6, 174.0 * 1e6), month).unwrap();
        let gb = 200.0 * 1e6 / GB;
        near(bill.total(), gb * 0.50 + gb * 0.15 * 0.03);
    }

    #[test]
    fn what_is_free_is_taken_off_once_for_all_lines_of_a_meter() {
        let prices = prices();
        let mut bill = Bill::new(&prices);
        for (part, count) in [("polling", 700_000.0), ("drain", 500_000.0)] {
            bill.add(part, "requests", Meter::QueueRequest, count)
                .unwrap();
        }
        bill.add("alarms", "alarms", Meter::AlarmMetric, 9.0)
            .unwrap();
        near(bill.total(), 0.48 + 0.90);
        near(bill.after_free().unwrap(), 0.08);
    }

    #[test]
    fn a_request_is_billed_in_chunks() {
        let counts = [0, 1, QUEUE_CHUNK, QUEUE_CHUNK + 1].map(|bytes| chunks(bytes, QUEUE_CHUNK));
        assert_eq!(counts, [1, 1, 1, 2]);
    }
}
