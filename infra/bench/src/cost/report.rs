//! The report: Markdown tables that are also readable in a terminal.

use serde::Serialize;
use serde_json::{Value, json};

use super::bill::{Bill, number};
use super::deployed::Deployed;
use super::events::{Door, MILLION, billed_seconds};
use super::long;
use super::measure::Counted;
use super::prices::{Meter, Prices};
use super::tally::Tally;
use crate::table::{Table, quantity, usd};

/// All results.
pub(crate) struct Report<'a> {
    pub(crate) deployed: &'a Deployed,
    pub(crate) prices: &'a Prices,
    pub(crate) cases: Vec<Priced<'a>>,
    pub(crate) idle: Bill<'a>,
    /// What long actions add to an idle month.
    pub(crate) long_month: Bill<'a>,
    pub(crate) long_events: Bill<'a>,
}

/// A case with its bills, in the order of [`Door::ALL`].
pub(crate) struct Priced<'a> {
    pub(crate) counted: Counted,
    pub(crate) bills: [Bill<'a>; 3],
}

impl Priced<'_> {
    fn through(&self, door: Door) -> &Bill<'_> {
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

impl Report<'_> {
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let target = &self.prices.target;
        let verdict = |what, case: Option<&Priced<'_>>, door, most| {
            let usd = case?.through(door).total();
            Some(Verdict { what, usd, most })
        };
        let first = self.cases.first();
        let forwarded = self.forwarded();
        let million = [
            verdict(
                "a million events of 2 KB through the HTTP API",
                first,
                Door::HttpApi,
                target.million,
            ),
            verdict(
                "the same through a function URL",
                first,
                Door::FunctionUrl,
                target.million_function_url,
            ),
            verdict(
                "a million events of 2 KB through the HTTP API, forwarded",
                forwarded,
                Door::HttpApi,
                target.million_forwarded,
            ),
        ];
        let idle = Verdict {
            what: "a month without events",
            usd: self.idle.total(),
            most: target.idle,
        };
        million.into_iter().flatten().chain([idle]).collect()
    }

    /// Returns the report as Markdown, for the terminal and for the page.
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let head = format!(
            "List prices of {} as of {}, in US$, without the free tier.\n",
            self.prices.region, self.prices.as_of
        );
        let mut text = vec![head];
        let mut section = |title: &str, table: Table| {
            text.push(format!("\n### {title}\n\n{table}"));
        };
        section("A million events, through the HTTP API", self.parts());
        if let Some(case) = self.cases.first() {
            section("The first case, line by line", lines(case));
        }
        if let Some(case) = self.forwarded() {
            let title = format!("The case \"{}\", line by line", case.counted.case.name);
            section(&title, lines(case));
        }
        section("A million events, by entry point", self.doors()?);
        section("A month without events", idle(&self.idle)?);
        for (title, table) in long::tables(&self.long_month, &self.long_events) {
            section(&title, table);
        }
        section("Measured per event", self.measured()?);
        section("Assumptions", assumptions(self.prices));
        section("Targets", self.targets());
        Ok(text.concat())
    }

    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        let cases = self.cases.iter().map(|case| {
            let of = &case.counted;
            let (catcher, processor) = self.milliseconds(of)?;
            Ok(json!({
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
            }))
        });
        let month = |bill: &Bill<'_>| -> anyhow::Result<Value> {
            let after_free = bill.after_free()?;
            Ok(json!({"total": bill.total(), "after_free": after_free, "lines": bill.lines}))
        };
        let verdicts = self.verdicts();
        let targets = verdicts.iter().map(|verdict| {
            json!({"what": verdict.what, "us_dollars": verdict.usd, "most": verdict.most,
                "holds": verdict.holds()})
        });
        Ok(json!({
            "v": 1,
            "region": self.prices.region,
            "as_of": self.prices.as_of,
            "cases": cases.collect::<anyhow::Result<Vec<_>>>()?,
            "idle_month": month(&self.idle)?,
            "long_actions": {
                "idle_month": month(&self.long_month)?,
                "events": month(&self.long_events)?,
            },
            "targets": targets.collect::<Vec<_>>(),
        }))
    }

    /// Returns the case whose events a destination receives.
    fn forwarded(&self) -> Option<&Priced<'_>> {
        self.cases.iter().find(|case| case.counted.case.forwards)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| &*case.counted.case.name)
    }

    fn parts(&self) -> Table {
        let bills: Vec<&Bill<'_>> = self
            .cases
            .iter()
            .map(|it| it.through(Door::HttpApi))
            .collect();
        let mut parts = Vec::new();
        for part in bills.iter().flat_map(|bill| bill.parts()) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let mut table = Table::new([""].into_iter().chain(self.names()));
        for part in parts {
            table.named(part, bills.iter().map(|bill| usd(bill.of_part(part))));
        }
        table.named("**all**", bills.iter().map(|bill| usd(bill.total())));
        table
    }

    fn doors(&self) -> anyhow::Result<Table> {
        let mut firewall = Bill::new(self.prices);
        let rules = self.prices.assumed.waf_rules.value;
        firewall.add("WAF", "web ACL", Meter::WafAcl, 1.0)?;
        firewall.add("WAF", "rules", Meter::WafRule, rules)?;
        let head = [""].into_iter().chain(self.names());
        let mut table = Table::new(head.chain(["fixed, a month"]));
        for door in Door::ALL {
            let totals = self.cases.iter().map(|case| case.through(door).total());
            let month = match door {
                Door::Cloudfront => firewall.total(),
                Door::HttpApi | Door::FunctionUrl => 0.0,
            };
            table.named(door.name(), totals.chain([month]).map(usd));
        }
        Ok(table)
    }

    fn measured(&self) -> anyhow::Result<Table> {
        let mut table = Table::new([
            "",
            "write units",
            "read units",
            "catcher",
            "processor",
            "state row",
            "body row",
            "log lines",
            "log bytes",
        ]);
        for case in &self.cases {
            let of = &case.counted;
            let each = |value: f64| value / f64::from(of.case.events.max(1));
            let (catcher, processor) = self.milliseconds(of)?;
            let batch = f64::from(of.case.events) / number(of.worked.invocations.max(1));
            let row = |kind| {
                of.rows.table.get(kind).map_or("-".to_owned(), |kept| {
                    format!("{:.0} B, {:.0} days", kept.bytes_each(), kept.days_each())
                })
            };
            let writes = of.caught.write_units() + of.worked.write_units();
            let reads = of.caught.reads + of.worked.reads + of.looked.reads;
            let lines = number(of.caught.log_lines + of.worked.log_lines);
            let bytes = number(of.caught.log_bytes + of.worked.log_bytes);
            let cells = [
                format!("{:.2}", each(writes)),
                format!("{:.2}", each(reads)),
                format!("{catcher:.1} ms"),
                format!("{:.1} ms", processor / batch),
                row("state rows"),
                row("body rows"),
                format!("{:.1}", each(lines)),
                format!("{:.0}", each(bytes)),
            ];
            table.named(&of.case.name, cells);
        }
        Ok(table)
    }

    /// Returns the billed milliseconds of an invocation, for the catcher and for the processor.
    fn milliseconds(&self, counted: &Counted) -> anyhow::Result<(f64, f64)> {
        let of = |function: &str, tally: &Tally| -> anyhow::Result<f64> {
            let machine = self.deployed.machine(function)?;
            let seconds = billed_seconds(self.prices, machine, tally);
            Ok(seconds * 1000.0 / number(tally.invocations.max(1)))
        };
        Ok((
            of("Catcher", &counted.caught)?,
            of("Processor", &counted.worked)?,
        ))
    }

    fn targets(&self) -> Table {
        let mut table = Table::new(["", "is", "at most", ""]);
        for verdict in self.verdicts() {
            let holds = verdict.holds();
            let word = if holds { "holds" } else { "**exceeded**" };
            let cells = [usd(verdict.usd), usd(verdict.most), word.to_owned()];
            table.named(verdict.what, cells);
        }
        table
    }
}

fn lines(case: &Priced<'_>) -> Table {
    let mut table = Table::new(["", "", "an event", "US$"]);
    for line in &case.through(Door::HttpApi).lines {
        let each = quantity(line.quantity / MILLION);
        table.row([line.part, &line.what, &each, &usd(line.usd)]);
    }
    table
}

fn idle(bill: &Bill<'_>) -> anyhow::Result<Table> {
    let mut table = Table::new(["", "", "a month", "US$"]);
    for part in bill.parts() {
        // Costs below a tenth of a cent are combined into one line for each part.
        let mut rest = 0.0;
        for line in bill.lines.iter().filter(|line| line.part == part) {
            if line.usd >= 0.001 {
                let month = quantity(line.quantity);
                table.row([part, &line.what, &month, &usd(line.usd)]);
            } else {
                rest += line.usd;
            }
        }
        if rest > 0.0 {
            table.row([part, "the rest", "", &usd(rest)]);
        }
    }
    table.row(["**all**", "", "", &usd(bill.total())]);
    let free = usd(bill.after_free()?);
    let what = "after the free tier, if it is not used otherwise";
    table.row(["**to pay**", what, "", &free]);
    Ok(table)
}

fn assumptions(prices: &Prices) -> Table {
    let mut table = Table::new(["", "", "why"]);
    for (name, figure) in prices.assumed.all() {
        let why = match &figure.source {
            Some(source) => format!("{} [Source]({source})", figure.why),
            None => figure.why.clone(),
        };
        table.named(name, [figure.value.to_string(), why]);
    }
    table
}
