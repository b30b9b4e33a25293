//! Computes what long actions cost: the part of an idle month that they add, and the time of the
//! function while it waits for an action.

use shared::base::timing::RENEW_EVERY;

use super::bill::Bill;
use super::deployed::Deployed;
use super::idle::polling;
use super::prices::{Meter, Prices};
use crate::table::{Table, quantity, usd};

/// The waiting time of the example, in seconds.
pub(crate) const WAIT: f64 = 300.0;

/// The number of events of the example.
pub(crate) const EVENTS: f64 = 1000.0;

/// Requests to SQS for an event that the processor sends on: a send, a receive and a delete.
const REQUESTS: f64 = 3.0;

/// Returns what the stack costs more in a month without events than a stack `without` long actions.
pub(crate) fn month<'p>(
    without: &Deployed,
    with: &Deployed,
    prices: &'p Prices,
) -> anyhow::Result<Bill<'p>> {
    let mut bill = Bill::new(prices);
    let known = |queue: &str| without.pollers.iter().any(|it| it.queue == queue);
    for pollers in with.pollers.iter().filter(|it| !known(&it.queue)) {
        polling(&mut bill, pollers)?;
    }
    for (meter, count) in &with.standing {
        let before = without.standing.get(meter).copied().unwrap_or_default();
        bill.add("alarms", &prices.of(*meter)?.unit, *meter, count - before)?;
    }
    Ok(bill)
}

/// Returns the price of [`EVENTS`] events whose action takes [`WAIT`], without what they cost as short
/// events.
pub(crate) fn waiting<'p>(with: &Deployed, prices: &'p Prices) -> anyhow::Result<Bill<'p>> {
    let machine = with.machine("LongProcessor")?;
    let mut bill = Bill::new(prices);
    let seconds = EVENTS * WAIT * machine.memory_mb / 1024.0;
    let what = format!("{WAIT:.0} s each");
    bill.add("function", "invocations", Meter::LambdaRequest, EVENTS)?;
    bill.add("function", what, machine.meter, seconds)?;
    let renewals = EVENTS * (WAIT / RENEW_EVERY.as_secs_f64()).floor();
    bill.add(
        "ledger",
        "renewals of the lease",
        Meter::WriteUnit,
        renewals,
    )?;
    let what = "send, receive and delete";
    bill.add("queue", what, Meter::QueueRequest, EVENTS * REQUESTS)?;
    Ok(bill)
}

/// Returns the two bills as tables, with their titles.
pub(crate) fn tables(month: &Bill<'_>, events: &Bill<'_>) -> [(String, Table); 2] {
    let table = |bill: &Bill<'_>| {
        let mut table = Table::new(["", "", "quantity", "US$"]);
        for line in &bill.lines {
            let count = quantity(line.quantity);
            table.row([line.part, &line.what, &count, &usd(line.usd)]);
        }
        table.row(["**all**", "", "", &usd(bill.total())]);
        table
    };
    let minutes = WAIT / 60.0;
    let title =
        format!("{EVENTS:.0} events of {minutes:.0} minutes, beyond the cost of short events");
    [
        (
            "What `LongActions=true` adds to a month".to_owned(),
            table(month),
        ),
        (title, table(events)),
    ]
}

#[cfg(test)]
mod tests {
    use local::template::Naming;

    use super::*;
    use crate::cost::prices::tests::{near, prices};

    const TEMPLATE: &str = include_str!("../../../../template.yaml");

    const PAGE: &str = include_str!("../../../docs/cost.md");

    fn deployed(long: &str, more: &[(&str, &str)], prices: &Prices) -> Deployed {
        let parameters = [("LongActions", long)]
            .into_iter()
            .chain(more.iter().copied());
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let naming = Naming {
            parameters: parameters.collect(),
            ..Naming::default()
        };
        Deployed::read(TEMPLATE, &naming, prices).unwrap()
    }

    #[test]
    fn a_month_of_long_actions_is_the_polling_of_one_queue() {
        let prices = prices();
        let fewest = [("AlarmProfile", "minimal")];
        let of = |long| deployed(long, &fewest, &prices);
        let (without, with) = (of("false"), of("true"));
        let bill = month(&without, &with, &prices).unwrap();
        near(bill.total(), 5.0 * 3.0 * 60.0 * 730.0 * 0.40 / 1e6);
        assert_eq!(bill.parts(), ["polling"]);
        assert!(month(&with, &with, &prices).unwrap().lines.is_empty());
    }

    /// These tables need no measurement, so the page must have them as they are computed now.
    #[test]
    fn the_page_has_the_computed_tables() {
        let prices = prices();
        let of = |long| deployed(long, &[], &prices);
        let with = of("true");
        let month = month(&of("false"), &with, &prices).unwrap();
        let events = waiting(&with, &prices).unwrap();
        let sections =
            tables(&month, &events).map(|(title, table)| format!("### {title}\n\n{table}\n"));
        assert!(PAGE.contains(&sections.concat()), "{}", sections.concat());
    }

    /// The page and the warning of `sources check` state the price of an event, which a reader
    /// compares with other kinds of actions.
    #[test]
    fn texts_state_the_computed_price_of_five_minutes() {
        let prices = prices();
        let bill = waiting(&deployed("true", &[], &prices), &prices).unwrap();
        let price = format!("US${:.3} for", bill.of_part("function") / EVENTS);
        let texts = [
            include_str!("../../../docs/destinations.md"),
            include_str!("../../../webhookctl/src/verbs/sources/check.rs"),
        ];
        for text in texts {
            assert!(text.contains(&price), "{price} is missing");
        }
    }
}
