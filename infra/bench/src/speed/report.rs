//! The report with its tables.

use std::fmt::Display;

use crate::speed::count::Figures;
use crate::speed::flow::Flow;
use crate::speed::previous::Repeatable;
use crate::speed::stats::{Range, figure, median};
use crate::speed::targets;
use crate::speed::times::{NAMES, Sample, megabytes};
use crate::table::Table;

const PROGRAMS: [&str; 4] = ["catcher", "catcher, duplicates", "processor", "backup-sync"];

/// All measurements.
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    /// The instructions of the floor: its start, its first invocation and each later one.
    pub(crate) floor: [f64; 3],
    /// Samples by program name.
    pub(crate) samples: Vec<(&'static str, Vec<Sample>)>,
    /// Ratios of each other implementation to the catcher.
    pub(crate) ratios: Vec<(&'static str, Vec<Range>)>,
    /// The bytes of each deployed program, uncompressed and zipped.
    pub(crate) sizes: Vec<(&'static str, u64, u64)>,
    pub(crate) flow: Flow,
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
        section("Sizes, MB", &self.sizes());
        section("End to end", &self.end_to_end());
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
        let names = self.samples.iter().map(|(name, _)| *name);
        let mut table = Table::new([""].into_iter().chain(names));
        for (at, name) in NAMES.iter().enumerate() {
            let samples = self.samples.iter();
            table.named(
                name,
                samples.map(|(_, samples)| figure(measure(samples, at))),
            );
        }
        table
    }

    fn compared(&self) -> Table {
        let names = self.ratios.iter().map(|(name, _)| *name);
        let mut table = Table::new([""].into_iter().chain(names));
        for (at, name) in NAMES.iter().enumerate() {
            let ranges = self.ratios.iter().map(|(_, ranges)| ranges.get(at));
            table.named(
                name,
                ranges.map(|it| it.map_or(String::new(), Range::to_string)),
            );
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
        let (deliveries, events) = (flow.deliveries, flow.events);
        format!("{deliveries} deliveries of {events} events.\n\n{table}")
    }

    /// Returns a measurement of a program.
    pub(crate) fn time(&self, program: &str, name: &str) -> Option<f64> {
        let (_, samples) = self.samples.iter().find(|(known, _)| *known == program)?;
        Some(measure(
            samples,
            NAMES.iter().position(|known| *known == name)?,
        ))
    }

    pub(crate) fn ratio(&self, program: &str, name: &str) -> Option<f64> {
        let (_, ranges) = self.ratios.iter().find(|(known, _)| *known == program)?;
        let at = NAMES.iter().position(|known| *known == name)?;
        Some(ranges.get(at)?.median)
    }

    /// Returns the figures for the comparison with another run.
    pub(crate) fn repeatable(&self) -> Repeatable {
        let ratios = self.ratios.iter().flat_map(|(program, ranges)| {
            let named = NAMES.iter().zip(ranges);
            named.map(move |(name, range)| (format!("{program}/{name}"), range.median))
        });
        let of_waiting = |name: &str| !name.contains("CPU") && !name.contains("RSS");
        let (waits, work) = ratios.partition(|(name, _)| of_waiting(name));
        Repeatable {
            counts: self.figures.clone(),
            work,
            waits,
        }
    }
}

fn measure(samples: &[Sample], at: usize) -> f64 {
    let values = samples.iter().filter_map(|sample| sample.get(at).copied());
    median(&values.collect::<Vec<_>>())
}
