use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::cost::measure::Case;
use crate::cost::prices::tests::{near, prices};
use crate::cost::rows::Rows;
use crate::webhook::Shape;

fn machine() -> Machine {
    Machine {
        memory_mb: 1769.0,
        meter: Meter::LambdaGbSecondArm64,
        platform_lines: false,
        log_group: "Logs".into(),
        log_days: 30.0,
    }
}

fn deployed() -> Deployed {
    Deployed {
        functions: ["Catcher", "Processor"]
            .map(|name| (name.to_owned(), machine()))
            .into(),
        standing: BTreeMap::new(),
        filters: Vec::new(),
        access_log: None,
        pollers: Vec::new(),
        schedules: Vec::new(),
        recovery: true,
    }
}

/// Returns the counts of ten events and one duplicate, each with this number of write units.
fn counted(units: f64) -> Counted {
    let tally = |invocations: u64, units: f64| Tally {
        invocations,
        writes: BTreeMap::from([("table".to_owned(), units)]),
        waited: Duration::from_millis(10 * invocations),
        queue_requests: invocations,
        ..Tally::default()
    };
    Counted {
        case: Case {
            name: "2 KB".into(),
            size: 2_048,
            shape: Shape::Documented,
            batch: 10,
            forwards: false,
            events: 10,
        },
        caught: tally(10, 10.0 * units),
        again: Tally {
            queue_requests: 0,
            ..tally(1, 2.0)
        },
        worked: Tally {
            queue_requests: 0,
            ..tally(1, 0.0)
        },
        looked: Tally::default(),
        cold_catcher: tally(1, 0.0),
        cold_processor: tally(1, 0.0),
        mapping_requests: 2,
        rows: Rows::default(),
        answered: 0,
        asked: 0,
        forwarded: 0,
    }
}

fn inside_of<'p>(counted: &Counted, prices: &'p Prices) -> Bill<'p> {
    let mut bill = Bill::new(prices);
    inside(&mut bill, counted, &deployed()).unwrap();
    bill
}

#[test]
fn what_ten_events_cost_a_million_cost_a_hundred_thousand_times() {
    let prices = prices();
    let bill = inside_of(&counted(6.0), &prices);
    // Six write units for each event, and two for each of the 20,000 duplicates.
    near(bill.of_part("ledger"), (6e6 + 2.0 * 20_000.0) * 0.625 / 1e6);
    // One send for each event, and a receive and a delete for each ten events.
    near(bill.of_part("queue"), (1e6 + 0.2 * 1e6) * 0.40 / 1e6);
}

#[test]
fn a_row_costs_its_bytes_for_its_days_and_what_can_be_brought_back_more() {
    let prices = prices();
    let mut counted = counted(6.0);
    let (mut state, mut entry) = (Kept::default(), Kept::default());
    for _ in 0..10 {
        state.add(1_000.0, 73.0);
        entry.add(300.0, 73.0);
    }
    counted.rows = Rows {
        table: BTreeMap::from([("state rows", state)]),
        indexes: BTreeMap::from([("time".to_owned(), entry)]),
        done: 10,
    };
    let price = |recovery| {
        let mut bill = Bill::new(&prices);
        storage(&mut bill, &counted, recovery).unwrap();
        bill.total()
    };
    // 73 days are 2.4 months.
    let table = 1_000.0 * 1e6 / GB * 2.4;
    let index = 300.0 * 1e6 / GB * 2.4;
    near(price(false), (table + index) * 0.25);
    near(price(true), (table + index) * 0.25 + table * 0.20);
}

#[test]
fn each_door_has_its_price() {
    let prices = prices();
    let price = |door| {
        let mut bill = Bill::new(&prices);
        front(&mut bill, &counted(6.0), door, &deployed()).unwrap();
        bill.of_part("front door")
    };
    near(price(Door::HttpApi), 1.02);
    near(price(Door::FunctionUrl), 0.0);
    near(price(Door::Cloudfront), 1.02 + 1.02 * (1.00 + 0.60));
}

#[test]
fn time_is_the_wait_and_the_processor_time_at_its_share() {
    let prices = prices();
    let tally = Tally {
        invocations: 1,
        waited: Duration::from_millis(20),
        cpu: Duration::from_millis(2),
        ..Tally::default()
    };
    near(billed_seconds(&prices, &machine(), &tally), 0.0225);
    let small = Machine {
        memory_mb: 176.9,
        ..machine()
    };
    near(billed_seconds(&prices, &small, &tally), 0.0405);
    let large = Machine {
        memory_mb: 10_000.0,
        ..machine()
    };
    near(billed_seconds(&prices, &large, &tally), 0.0225);
}

#[test]
fn one_in_a_hundred_invocations_starts_a_process() {
    let prices = prices();
    let mut counted = counted(6.0);
    let without = inside_of(&counted, &prices);
    counted.cold_catcher.waited = Duration::from_millis(110);
    let with = inside_of(&counted, &prices);
    let more = with.of_part("catcher") - without.of_part("catcher");
    // 100 ms longer than usual, for one hundredth of 1.02 million.
    near(more, 1.02e4 * 0.1 * 1769.0 / 1024.0 * 0.000_013_333_4);
}

#[test]
fn lambda_writes_three_lines_of_its_own() {
    let prices = prices();
    let tally = Tally {
        invocations: 2,
        log_lines: 2,
        log_bytes: 300,
        ..Tally::default()
    };
    assert_eq!(log_volume(&prices, &machine(), &tally), (2.0, 300.0));
    let loud = Machine {
        platform_lines: true,
        ..machine()
    };
    assert_eq!(log_volume(&prices, &loud, &tally), (8.0, 2_100.0));
}
