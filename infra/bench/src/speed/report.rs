//! The report with its tables.

use std::fmt::Write as _;

use crate::speed::again::Repeatable;
use crate::speed::count::Figures;
use crate::speed::flow::Flow;
use crate::speed::race::{NAMES, Sample, megabytes};
use crate::speed::stats::{Range, figure, median};
use crate::speed::targets::Target;
use crate::table::Table;

/// All measurements.
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    /// Instructions of the floor: start, first and later invocations.
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
        let mut text = String::new();
        let mut section = |title: &str, body: &str| writeln!(text, "### {title}\n\n{body}");
        section("Counts", &self.counts())?;
        section("Instructions, millions", &self.instructions())?;
        section("Times on this machine, medians", &self.times())?;
        section(
            "Compared with the catcher, medians of paired ratios",
            &self.compared(),
        )?;
        section("Sizes, MB", &self.sizes())?;
        section("End to end", &self.end_to_end())?;
        if let Some(scale) = &self.scale {
            section(
                "As the inbox grows",
                &format!("```\n{}\n```\n", scale.trim()),
            )?;
        }
        section("Targets", &self.targets()?)?;
        if let Some(profile) = &self.profile {
            section("Breakdown of the catcher", profile)?;
        }
        Ok(text)
    }

    fn counts(&self) -> String {
        let head = [
            "each invocation",
            "table requests",
            "queue requests",
            "write units",
        ];
        let mut table = Table::new(head.map(str::to_owned));
        for program in ["catcher", "catcher, duplicates", "processor", "backup-sync"] {
            let of = |what: &str| self.figures.get(&format!("{program}/warm/{what}"));
            let cells = head
                .iter()
                .skip(1)
                .map(|what| of(what).map_or_else(String::new, |it| figure(*it)));
            table.row([program.to_owned()].into_iter().chain(cells));
        }
        table.to_string()
    }

    fn instructions(&self) -> String {
        let stages = ["start", "first", "warm"];
        let head = ["", "start", "first invocation", "each further one"];
        let mut table = Table::new(head.map(str::to_owned));
        for program in ["catcher", "catcher, duplicates", "processor", "backup-sync"] {
            let of = |stage: &str| self.figures.get(&format!("{program}/{stage}/instructions"));
            let cells = stages.map(|stage| of(stage).map_or("-".to_owned(), |it| figure(it / 1e6)));
            table.row([program.to_owned()].into_iter().chain(cells));
        }
        let floor = self.floor.map(|it| figure(it / 1e6));
        table.row(["floor".to_owned()].into_iter().chain(floor));
        table.to_string()
    }

    fn times(&self) -> String {
        let names = self.samples.iter().map(|(name, _)| (*name).to_owned());
        let mut table = Table::new([String::new()].into_iter().chain(names));
        for (at, name) in NAMES.iter().enumerate() {
            let cells = self
                .samples
                .iter()
                .map(|(_, samples)| figure(measure(samples, at)));
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        table.to_string()
    }

    fn compared(&self) -> String {
        let names = self.ratios.iter().map(|(name, _)| (*name).to_owned());
        let mut table = Table::new([String::new()].into_iter().chain(names));
        for (at, name) in NAMES.iter().enumerate() {
            let cells = self
                .ratios
                .iter()
                .map(|(_, ranges)| ranges.get(at).map_or_else(String::new, Range::to_string));
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        table.to_string()
    }

    fn sizes(&self) -> String {
        let mut table = Table::new(["", "uncompressed", "zipped"].map(str::to_owned));
        for (name, bytes, zipped) in &self.sizes {
            let cells = [*bytes, *zipped].map(|size| figure(megabytes(size)));
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        table.to_string()
    }

    fn end_to_end(&self) -> String {
        let flow = &self.flow;
        let mut table = Table::new(["", "figure"].map(str::to_owned));
        let mut row = |what: &str, value: f64| table.row([what.to_owned(), figure(value)]);
        row("webhooks answered per second", flow.caught);
        row("events done per second", flow.done);
        row("from 2xx to effect, ms, median", flow.alone_p50);
        row("from 2xx to effect, ms, p99", flow.alone_p99);
        let (deliveries, events) = (flow.deliveries, flow.events);
        format!("{deliveries} deliveries of {events} events.\n\n{table}")
    }

    fn targets(&self) -> anyhow::Result<String> {
        let mut table = Table::new(["", "measured", "target", ""].map(str::to_owned));
        for target in Target::ALL {
            table.row(target.row(self)?);
        }
        Ok(table.to_string())
    }

    /// A measurement of a program.
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

    /// The figures for the comparison with another run.
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
