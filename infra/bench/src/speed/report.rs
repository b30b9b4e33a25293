//! The report with its tables.

use std::fmt::Display;

use crate::speed::count::Figures;
use crate::speed::flow::Flow;
use crate::speed::load::{self, Load};
use crate::speed::previous::Repeatable;
use crate::speed::stats::figure;
use crate::speed::targets;
use crate::speed::times::{NAMES, Times, megabytes};
use crate::table::Table;

const PROGRAMS: [&str; 4] = ["catcher", "catcher, duplicates", "processor", "backup-sync"];

/// The programs and the measurements in the table of times with TLS.
const WITH_TLS: [&str; 4] = ["catcher", "floor", "Node.js", "Python"];
const TLS_NAMES: [&str; 4] = [
    "first response, ms",
    "CPU to the first response, ms",
    "warm p50, ms",
    "warm CPU, µs",
];

/// All measurements.
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    /// The instructions of the floor: its start, its first invocation and each later one.
    pub(crate) floor: [f64; 3],
    /// Without TLS.
    pub(crate) times: Times,
    pub(crate) tls: Times,
    /// The bytes of each deployed program, uncompressed and zipped.
    pub(crate) sizes: Vec<(&'static str, u64, u64)>,
    pub(crate) flow: Flow,
    pub(crate) load: Vec<Load>,
    /// The output of the scale bench.
    pub(crate) scale: Option<String>,
    /// The breakdown of the catcher's instructions, size and memory.
    pub(crate) profile: Option<String>,
}

impl Measured {
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        let mut section = |title: &str, body: &dyn Display| {
            text.push(format!("### {title}\n\n{body}\n"));
        };
        section("Counts", &self.counts());
        section("Instructions, millions", &self.instructions());
        section("Times on this machine, medians", &self.times());
        let title = "Compared with the catcher, medians of paired ratios";
        section(title, &self.compared());
        section(
            "Times with TLS, and ratios to the catcher",
            &self.with_tls(),
        );
        section("Sizes, MB", &self.sizes());
        section("End to end", &self.end_to_end());
        section("Latency under load", &load::text(&self.load));
        if let Some(scale) = &self.scale {
            let scale = format!("```\n{}\n```\n", scale.trim());
            section("As the inbox grows", &scale);
        }
        section("Targets", &targets::table(self)?);
        if let Some(profile) = &self.profile {
            section("Breakdown of the catcher", profile);
        }
        Ok(text.concat())
    }

    fn counts(&self) -> Table {
        let head = [
            "each invocation",
            "table requests",
            "queue requests",
            "write units",
        ];
        let mut table = Table::new(head);
        for program in PROGRAMS {
            let of = |what: &&str| self.figures.get(&format!("{program}/warm/{what}"));
            let cells = head.iter().skip(1).map(of);
            table.named(
                program,
                cells.map(|it| it.map_or(String::new(), |it| figure(*it))),
            );
        }
        table
    }

    fn instructions(&self) -> Table {
        let mut table = Table::new(["", "start", "first invocation", "each further one"]);
        for program in PROGRAMS {
            let of = |stage: &str| self.figures.get(&format!("{program}/{stage}/instructions"));
            let cell = |stage| of(stage).map_or("-".to_owned(), |it| figure(it / 1e6));
            table.named(program, ["start", "first", "warm"].map(cell));
        }
        table.named("floor", self.floor.map(|it| figure(it / 1e6)));
        table
    }

    fn times(&self) -> Table {
        let programs: Vec<&str> = self.times.samples.iter().map(|(name, _)| *name).collect();
        let mut table = Table::new([""].iter().chain(&programs).copied());
        for name in NAMES {
            let times = programs.iter().map(|it| self.times.time(it, name));
            table.named(name, times.map(|it| it.map_or("-".to_owned(), figure)));
        }
        table
    }

    fn compared(&self) -> Table {
        let programs: Vec<&str> = self.times.ratios.iter().map(|(name, _)| *name).collect();
        let mut table = Table::new([""].iter().chain(&programs).copied());
        for name in NAMES {
            let ratios = programs.iter().map(|it| self.times.ratio(it, name));
            table.named(name, ratios.flatten().map(|it| it.to_string()));
        }
        table
    }

    fn with_tls(&self) -> Table {
        let peers = self.tls.ratios.iter().map(|(name, _)| *name);
        let peers: Vec<&str> = peers.collect();
        let ratios = peers.iter().map(|peer| format!("{peer} / catcher"));
        let programs = WITH_TLS.iter().map(|it| (*it).to_owned());
        let mut table = Table::new([String::new()].into_iter().chain(programs).chain(ratios));
        for name in TLS_NAMES {
            let times = WITH_TLS.iter().map(|it| self.tls.time(it, name));
            let times = times.map(|it| it.map_or("-".to_owned(), figure));
            let ratios = peers.iter().map(|it| self.tls.ratio(it, name));
            let ratios = ratios.flatten().map(|it| it.to_string());
            table.named(name, times.chain(ratios));
        }
        table
    }

    fn sizes(&self) -> Table {
        let mut table = Table::new(["", "uncompressed", "zipped"]);
        for (name, bytes, zipped) in &self.sizes {
            table.named(name, [*bytes, *zipped].map(|size| figure(megabytes(size))));
        }
        table
    }

    fn end_to_end(&self) -> String {
        let flow = &self.flow;
        let mut table = Table::new(["", "figure"]);
        let mut row = |what: &str, value: f64| table.named(what, [figure(value)]);
        row("webhooks answered per second", flow.caught);
        row("events done per second", flow.done);
        row("from 2xx to effect, ms, median", flow.alone_p50);
        row("from 2xx to effect, ms, p99", flow.alone_p99);
        let (runs, deliveries, events) = (flow.runs, flow.deliveries, flow.events);
        format!("{runs} runs, each with {deliveries} deliveries of {events} events.\n\n{table}")
    }

    /// Returns a measurement of a program.
    pub(crate) fn time(&self, program: &str, name: &str) -> Option<f64> {
        self.times.time(program, name)
    }

    pub(crate) fn ratio(&self, program: &str, name: &str) -> Option<f64> {
        Some(self.times.ratio(program, name)?.median)
    }

    /// Returns the figures for the comparison with another run.
    pub(crate) fn repeatable(&self) -> Repeatable {
        let named = |times: &Times, suffix: &str| -> Vec<(String, f64)> {
            let ratios = times.ratios.iter().flat_map(|(program, ranges)| {
                let named = NAMES.iter().zip(ranges);
                named.map(move |(name, range)| (format!("{program}{suffix}/{name}"), range.median))
            });
            ratios.collect()
        };
        let ratios = [named(&self.times, ""), named(&self.tls, " with TLS")].concat();
        let of_waiting = |name: &str| !name.contains("CPU") && !name.contains("RSS");
        let (waits, work) = ratios.into_iter().partition(|(name, _)| of_waiting(name));
        Repeatable {
            counts: self.figures.clone(),
            work,
            waits,
        }
    }
}
