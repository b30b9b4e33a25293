//! Multiplies quantities by prices.

use serde::Serialize;

use crate::cost::prices::{Meter, Prices};

/// The bytes of a gigabyte in the bills for tables, logs and data transfer.
pub(crate) const GB: f64 = 1024.0 * 1024.0 * 1024.0;

/// SQS bills each 64 KB of a request, the HTTP API each 512 KB.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub(crate) const QUEUE_CHUNK: usize = 64 * 1024;
pub(crate) const API_CHUNK: usize = 512 * 1024;

/// Number of requests that AWS bills for one request of this size.
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

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Bill {
    pub(crate) lines: Vec<Line>,
}

impl Bill {
    /// Adds a line, unless the quantity is zero.
    pub(crate) fn add(
        &mut self,
        prices: &Prices,
        part: &'static str,
        what: impl Into<String>,
        meter: Meter,
        quantity: f64,
    ) -> anyhow::Result<()> {
        let price = prices.of(meter)?;
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

    pub(crate) fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.usd).sum()
    }

    pub(crate) fn of_part(&self, part: &str) -> f64 {
        let lines = self.lines.iter().filter(|line| line.part == part);
        lines.map(|line| line.usd).sum()
    }

    /// The parts, in the order of the lines.
    pub(crate) fn parts(&self) -> Vec<&'static str> {
        let mut parts = Vec::new();
        for line in &self.lines {
            if !parts.contains(&line.part) {
                parts.push(line.part);
            }
        }
        parts
    }

    /// The amount to pay after the free tier, if the account has no other usage.
    pub(crate) fn after_free(&self, prices: &Prices) -> anyhow::Result<f64> {
        let mut meters: Vec<Meter> = self.lines.iter().map(|line| line.meter).collect();
        meters.sort_unstable();
        meters.dedup();
        let mut usd = 0.0;
        for meter in meters {
            let price = prices.of(meter)?;
            let lines = self.lines.iter().filter(|line| line.meter == meter);
            let used: f64 = lines.map(|line| line.quantity).sum();
            usd += (used - price.free).max(0.0) * price.usd / price.per;
        }
        Ok(usd)
    }

    #[must_use]
    pub(crate) fn and(mut self, more: Self) -> Self {
        self.lines.extend(more.lines);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::prices::tests::prices;

    fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    }

    #[test]
    fn a_line_is_quantity_times_price() {
        let prices = prices();
        let mut bill = Bill::default();
        let units = bill.add(&prices, "ledger", "units", Meter::WriteUnit, 8_000_000.0);
        units.unwrap();
        near(bill.total(), 5.0);
        bill.add(&prices, "logs", "lines", Meter::LogGb, 3.0)
            .unwrap();
        near(bill.total(), 6.5);
        near(bill.of_part("logs"), 1.5);
        assert_eq!(bill.parts(), ["ledger", "logs"]);
    }

    #[test]
    fn nothing_is_no_line() {
        let mut bill = Bill::default();
        bill.add(&prices(), "bucket", "puts", Meter::ObjectPut, 0.0)
            .unwrap();
        assert_eq!(bill, Bill::default());
    }

    #[test]
    fn what_is_free_is_taken_off_once_for_all_lines_of_a_meter() {
        let prices = prices();
        let mut bill = Bill::default();
        for (part, count) in [("polling", 700_000.0), ("drain", 500_000.0)] {
            bill.add(&prices, part, "requests", Meter::QueueRequest, count)
                .unwrap();
        }
        bill.add(&prices, "alarms", "alarms", Meter::AlarmMetric, 9.0)
            .unwrap();
        near(bill.total(), 0.48 + 0.90);
        near(bill.after_free(&prices).unwrap(), 0.08);
    }

    #[test]
    fn a_request_is_billed_in_chunks() {
        let counts = [0, 1, QUEUE_CHUNK, QUEUE_CHUNK + 1].map(|bytes| chunks(bytes, QUEUE_CHUNK));
        assert_eq!(counts, [1, 1, 1, 2]);
    }
}
