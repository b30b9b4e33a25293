//! The report: Markdown tables that are also readable in a terminal.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::cost::bill::Bill;
use crate::cost::deployed::Deployed;
use crate::cost::events::{Door, MILLION, billed_seconds, number};
use crate::cost::measure::Counted;
use crate::cost::prices::Prices;

use crate::table::{self, Table, usd};

/// All results.
pub(crate) struct Found {
    pub(crate) cases: Vec<Priced>,
    pub(crate) idle: Bill,
    /// The bill of an idle month with the parameters of the target.
    pub(crate) least: Bill,
}

/// A case with its bills, in the order of [`Door::ALL`].
pub(crate) struct Priced {
    pub(crate) counted: Counted,
    pub(crate) bills: [Bill; 3],
}

impl Priced {
    fn through(&self, door: Door) -> &Bill {
        let [api, url, cloudfront] = &self.bills;
        match door {
            Door::HttpApi => api,
            Door::FunctionUrl => url,
            Door::Cloudfront => cloudfront,
        }
    }
}

/// A measured cost and its target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: &'static str,
    pub(crate) usd: f64,
    pub(crate) most: f64,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        self.usd <= self.most
    }
}

impl Found {
    pub(crate) fn verdicts(&self, prices: &Prices) -> Vec<Verdict> {
        let million = self.cases.first();
        let million = million.map(|case| Verdict {
            what: "a million events of 2 KB through the HTTP API",
            usd: case.through(Door::HttpApi).total(),
            most: prices.target.million,
        });
        let idle = Verdict {
            what: "a month without events, with the fewest alarms",
            usd: self.least.total(),
            most: prices.target.idle,
        };
        million.into_iter().chain([idle]).collect()
    }

    /// The report as Markdown, for the terminal and for the page.
    pub(crate) fn text(&self, deployed: &Deployed, prices: &Prices) -> anyhow::Result<String> {
        let mut text = format!(
            "List prices of {} as of {}, in US$, without the free tier.\n",
            prices.region, prices.as_of
        );
        let _ = write!(text, "\n{MILLION_TITLE}\n{}", self.parts());
        if let Some(case) = self.cases.first() {
            let _ = write!(text, "\n{DETAIL_TITLE}\n{}", detail(case));
        }
        let _ = write!(text, "\n{DOORS_TITLE}\n{}", self.doors(prices)?);
        let _ = write!(text, "\n{IDLE_TITLE}\n{}", idle(&self.idle, prices)?);
        let _ = write!(
            text,
            "\n{MEASURED_TITLE}\n{}",
            self.measured(deployed, prices)?
        );
        let _ = write!(text, "\n{ASSUMED_TITLE}\n{}", assumed(prices));
        let _ = write!(text, "\n{TARGETS_TITLE}\n{}", self.targets(prices));
        Ok(text)
    }

    pub(crate) fn json(&self, deployed: &Deployed, prices: &Prices) -> anyhow::Result<Value> {
        let mut cases = Vec::new();
        for case in &self.cases {
            let of = &case.counted;
            let (catcher, processor) = milliseconds(of, deployed, prices)?;
            cases.push(json!({
                "case": of.case.name,
                "body_bytes": of.case.size,
                "batch": of.case.batch,
                "events": of.case.events,
                "write_units": of.caught.write_units() + of.worked.write_units(),
                "read_units": of.caught.reads + of.worked.reads + of.looked.reads,
                "catcher_ms": catcher,
                "processor_ms_an_invocation": processor,
                "rows": of.rows,
                "us_dollars_a_million": Door::ALL.map(|door| json!({
                    "door": door,
                    "total": case.through(door).total(),
                    "lines": case.through(door).lines,
                })),
            }));
        }
        let month = |bill: &Bill| -> anyhow::Result<Value> {
            let after_free = bill.after_free(prices)?;
            Ok(json!({"total": bill.total(), "after_free": after_free, "lines": bill.lines}))
        };
        let verdicts = self.verdicts(prices);
        let targets = verdicts.iter().map(|verdict| {
            json!({"what": verdict.what, "us_dollars": verdict.usd, "most": verdict.most,
                "holds": verdict.holds()})
        });
        Ok(json!({
            "v": 1,
            "region": prices.region,
            "as_of": prices.as_of,
            "cases": cases,
            "idle_month": month(&self.idle)?,
            "idle_month_of_the_target": month(&self.least)?,
            "targets": targets.collect::<Vec<_>>(),
        }))
    }

    fn parts(&self) -> String {
        let mut parts = Vec::new();
        for case in &self.cases {
            for part in case.through(Door::HttpApi).parts() {
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        let names = self.cases.iter().map(|case| case.counted.case.name.clone());
        let mut table = Table::new([String::new()].into_iter().chain(names));
        for part in parts {
            let of = |case: &Priced| usd(case.through(Door::HttpApi).of_part(part));
            table.row(
                [part.to_owned()]
                    .into_iter()
                    .chain(self.cases.iter().map(of)),
            );
        }
        let total = |case: &Priced| usd(case.through(Door::HttpApi).total());
        let totals = self.cases.iter().map(total);
        table.row(["**all**".to_owned()].into_iter().chain(totals));
        table.to_string()
    }

    fn doors(&self, prices: &Prices) -> anyhow::Result<String> {
        let mut standing = Bill::default();
        let rules = prices.assumed.waf_rules.value;
        standing.add(
            prices,
            "WAF",
            "web ACL",
            crate::cost::prices::Meter::WafAcl,
            1.0,
        )?;
        standing.add(
            prices,
            "WAF",
            "rules",
            crate::cost::prices::Meter::WafRule,
            rules,
        )?;
        let names = self.cases.iter().map(|case| case.counted.case.name.clone());
        let head = [String::new()].into_iter().chain(names);
        let mut table = Table::new(head.chain(["fixed, a month".to_owned()]));
        for door in Door::ALL {
            let totals = self
                .cases
                .iter()
                .map(|case| usd(case.through(door).total()));
            let month = match door {
                Door::Cloudfront => standing.total(),
                Door::HttpApi | Door::FunctionUrl => 0.0,
            };
            let row = [door.name().to_owned()].into_iter().chain(totals);
            table.row(row.chain([usd(month)]));
        }
        Ok(table.to_string())
    }

    fn measured(&self, deployed: &Deployed, prices: &Prices) -> anyhow::Result<String> {
        let head = [
            "",
            "write units",
            "read units",
            "catcher",
            "processor",
            "state row",
            "body row",
            "log lines",
            "log bytes",
        ];
        let mut table = Table::new(head.map(str::to_owned));
        for case in &self.cases {
            let of = &case.counted;
            let each = |value: f64| value / f64::from(of.case.events.max(1));
            let (catcher, processor) = milliseconds(of, deployed, prices)?;
            let row = |kind| of.rows.table.get(kind);
            let bytes = |kind| {
                row(kind).map_or("-".to_owned(), |kept| {
                    format!("{:.0} B, {:.0} days", kept.bytes_each(), kept.days_each())
                })
            };
            let lines = number(of.caught.log_lines + of.worked.log_lines);
            let written = number(of.caught.log_bytes + of.worked.log_bytes);
            table.row([
                of.case.name.clone(),
                format!(
                    "{:.2}",
                    each(of.caught.write_units() + of.worked.write_units())
                ),
                format!(
                    "{:.2}",
                    each(of.caught.reads + of.worked.reads + of.looked.reads)
                ),
                format!("{catcher:.1} ms"),
                format!("{:.1} ms", processor / events_a_batch(of)),
                bytes("state rows"),
                bytes("body rows"),
                format!("{:.1}", each(lines)),
                format!("{:.0}", each(written)),
            ]);
        }
        Ok(table.to_string())
    }

    fn targets(&self, prices: &Prices) -> String {
        let mut table = Table::new(["", "is", "at most", ""].map(str::to_owned));
        for verdict in self.verdicts(prices) {
            let says = if verdict.holds() {
                "holds"
            } else {
                "**exceeded**"
            };
            table.row([
                verdict.what.to_owned(),
                usd(verdict.usd),
                usd(verdict.most),
                says.to_owned(),
            ]);
        }
        table.to_string()
    }
}

const MILLION_TITLE: &str = "### A million events, through the HTTP API\n";
const DETAIL_TITLE: &str = "### The first case, line by line\n";
const DOORS_TITLE: &str = "### A million events, by entry point\n";
const IDLE_TITLE: &str = "### A month without events\n";
const MEASURED_TITLE: &str = "### Measured per event\n";
const ASSUMED_TITLE: &str = "### Assumptions\n";
const TARGETS_TITLE: &str = "### Targets\n";

fn events_a_batch(counted: &Counted) -> f64 {
    f64::from(counted.case.events) / number(counted.worked.invocations.max(1))
}

/// The billed milliseconds of an invocation, for the catcher and for the processor.
fn milliseconds(
    counted: &Counted,
    deployed: &Deployed,
    prices: &Prices,
) -> anyhow::Result<(f64, f64)> {
    let of = |function: &str, tally: &crate::cost::tally::Tally| -> anyhow::Result<f64> {
        let seconds = billed_seconds(prices, deployed.machine(function)?, tally);
        Ok(seconds * 1000.0 / number(tally.invocations.max(1)))
    };
    Ok((
        of("Catcher", &counted.caught)?,
        of("Processor", &counted.worked)?,
    ))
}

fn detail(case: &Priced) -> String {
    let mut table = Table::new(["", "", "an event", "US$"].map(str::to_owned));
    for line in &case.through(Door::HttpApi).lines {
        table.row([
            line.part.to_owned(),
            line.what.clone(),
            table::quantity(line.quantity / MILLION),
            usd(line.usd),
        ]);
    }
    table.to_string()
}

fn idle(bill: &Bill, prices: &Prices) -> anyhow::Result<String> {
    let mut table = Table::new(["", "", "a month", "US$"].map(str::to_owned));
    // Costs below a tenth of a cent are added up for each part.
    let shown = |usd: f64| usd >= 0.001;
    for part in bill.parts() {
        let mut rest = 0.0;
        for line in bill.lines.iter().filter(|line| line.part == part) {
            if shown(line.usd) {
                table.row([
                    part.to_owned(),
                    line.what.clone(),
                    table::quantity(line.quantity),
                    usd(line.usd),
                ]);
            } else {
                rest += line.usd;
            }
        }
        if rest > 0.0 {
            table.row([part, "the rest", "", &usd(rest)].map(str::to_owned));
        }
    }
    table.row(["**all**", "", "", &usd(bill.total())].map(str::to_owned));
    let free = usd(bill.after_free(prices)?);
    let what = "after the free tier, if it is not used otherwise";
    table.row(["**to pay**", what, "", &free].map(str::to_owned));
    Ok(table.to_string())
}

fn assumed(prices: &Prices) -> String {
    let mut table = Table::new(["", "", "why"].map(str::to_owned));
    for (name, figure) in prices.assumed.all() {
        let why = match &figure.source {
            Some(source) => format!("{} [Source]({source})", figure.why),
            None => figure.why.clone(),
        };
        table.row([name.to_owned(), figure.value.to_string(), why]);
    }
    table.to_string()
}
