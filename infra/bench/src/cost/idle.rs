//! Computes the bill of a month without events.

use std::collections::BTreeMap;

use super::bill::{Bill, number};
use super::deployed::{Deployed, Pollers, Schedule};
use super::events::{billed_seconds, log_volume};
use super::measure::Rest;
use super::prices::{Meter, Prices};
use super::tally::Tally;

pub(crate) fn bill<'p>(
    rest: &Rest,
    deployed: &Deployed,
    prices: &'p Prices,
) -> anyhow::Result<Bill<'p>> {
    let mut bill = Bill::new(prices);
    for pollers in &deployed.pollers {
        polling(&mut bill, pollers)?;
    }
    for schedule in &deployed.schedules {
        runs(&mut bill, rest, schedule, deployed)?;
    }
    for (meter, count) in &deployed.standing {
        let part = match meter {
            Meter::AlarmMetric | Meter::AlarmMetricFine | Meter::AlarmComposite => "alarms",
            _ => "standing",
        };
        bill.add(part, &prices.of(*meter)?.unit, *meter, *count)?;
    }
    let names: Vec<&str> = rest.metrics.iter().map(String::as_str).collect();
    let count = f64::from(u32::try_from(names.len())?);
    bill.add("metrics", names.join(", "), Meter::CustomMetric, count)?;
    Ok(bill)
}

/// Adds the requests with which Lambda asks an idle queue for messages.
pub(crate) fn polling(bill: &mut Bill<'_>, pollers: &Pollers) -> anyhow::Result<()> {
    let prices = bill.prices;
    let receives = pollers.count * prices.seconds() / prices.assumed.poll_seconds.value;
    let what = format!("{:.0} connections to {}", pollers.count, pollers.queue);
    bill.add("polling", what, Meter::QueueRequest, receives)
}

/// Adds the monthly cost of a schedule to the bill. Each run costs as much as a later run. The
/// additional cost of the first run recurs at its hourly rate.
fn runs(
    bill: &mut Bill<'_>,
    rest: &Rest,
    schedule: &Schedule,
    deployed: &Deployed,
) -> anyhow::Result<()> {
    let prices = bill.prices;
    let name = &schedule.id;
    let of = |all: &BTreeMap<String, Tally>| all.get(name).cloned().unwrap_or_default();
    let (first, later) = (of(&rest.first), of(&rest.later));
    let all = schedule.runs_a_month;
    let hourly = all.min(prices.assumed.month_hours.value);
    let share = rest.hourly.get(name).copied().unwrap_or(1.0);
    let counted = number(later.invocations.max(1));
    let month = |what: &dyn Fn(&Tally) -> f64| {
        let each = what(&later) / counted;
        all * each + hourly * share * (what(&first) - each).max(0.0)
    };
    let machine = deployed.machine(&schedule.function)?;
    let seconds = month(&|tally| billed_seconds(prices, machine, tally));
    let what = |what: &str| format!("{name}, {what}");
    bill.add("schedules", what("runs"), Meter::ScheduleRun, all)?;
    let function = "backup-sync";
    bill.add(function, what("invocations"), Meter::LambdaRequest, all)?;
    let each = what(&format!("{:.0} ms each", seconds / all.max(1.0) * 1000.0));
    let gb = machine.memory_mb / 1024.0;
    bill.add(function, each, machine.meter, seconds * gb)?;
    let writes = month(&Tally::write_units);
    bill.add("ledger", what("writes"), Meter::WriteUnit, writes)?;
    let reads = month(&|tally| tally.reads);
    bill.add("ledger", what("reads"), Meter::ReadUnit, reads)?;
    let requests = month(&|tally| number(tally.queue_requests));
    bill.add("queue", what("requests"), Meter::QueueRequest, requests)?;
    let lines = month(&|tally| log_volume(prices, machine, tally).0);
    let bytes = month(&|tally| log_volume(prices, machine, tally).1);
    bill.add_logs(name, (lines, bytes), machine.log_days)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::cost::deployed::Machine;
    use crate::cost::prices::tests::{near, prices};

    fn deployed() -> Deployed {
        let machine = Machine {
            memory_mb: 256.0,
            meter: Meter::LambdaGbSecondArm64,
            platform_lines: false,
            log_group: "Logs".into(),
            log_days: 30.0,
        };
        Deployed {
            functions: BTreeMap::from([("BackupSync".to_owned(), machine)]),
            standing: BTreeMap::from([(Meter::AlarmMetric, 9.0), (Meter::Key, 1.0)]),
            filters: Vec::new(),
            access_log: None,
            pollers: vec![Pollers {
                queue: "WorkQueue".into(),
                count: 5.0,
                batch: 10,
            }],
            schedules: vec![Schedule {
                id: "Sweep".into(),
                function: "BackupSync".into(),
                input: serde_json::Value::Null,
                runs_a_month: 43_800.0,
            }],
            recovery: true,
        }
    }

    fn rest(first_reads: f64, later_reads: f64) -> Rest {
        let tally = |invocations, reads| Tally {
            invocations,
            reads,
            waited: Duration::from_millis(10),
            ..Tally::default()
        };
        Rest {
            first: BTreeMap::from([("Sweep".to_owned(), tally(1, first_reads))]),
            later: BTreeMap::from([("Sweep".to_owned(), tally(1, later_reads))]),
            hourly: BTreeMap::from([("Sweep".to_owned(), 0.5)]),
            metrics: BTreeSet::new(),
        }
    }

    #[test]
    fn five_connections_ask_three_times_a_minute_each() {
        let prices = prices();
        let bill = bill(&rest(0.0, 0.0), &deployed(), &prices).unwrap();
        near(
            bill.of_part("polling"),
            5.0 * 3.0 * 60.0 * 730.0 * 0.40 / 1e6,
        );
        near(bill.of_part("alarms"), 0.90);
        near(bill.of_part("standing"), 1.00);
        near(bill.of_part("schedules"), 43_800.0 / 1e6);
    }

    #[test]
    fn what_the_first_run_does_more_is_done_once_an_hour() {
        let prices = prices();
        let reads = |first, later| {
            let bill = bill(&rest(first, later), &deployed(), &prices).unwrap();
            bill.of_part("ledger") / 0.125 * 1e6
        };
        near(reads(8.0, 8.0), 43_800.0 * 8.0);
        near(reads(108.0, 8.0), 43_800.0 * 8.0 + 730.0 * 0.5 * 100.0);
        near(reads(0.0, 8.0), 43_800.0 * 8.0);
    }

    #[test]
    fn a_metric_that_lines_make_is_billed_by_its_name() {
        let mut rest = rest(0.0, 0.0);
        rest.metrics.insert("ViolatedChecks".to_owned());
        let prices = prices();
        let bill = bill(&rest, &deployed(), &prices).unwrap();
        near(bill.of_part("metrics"), 0.30);
    }
}
