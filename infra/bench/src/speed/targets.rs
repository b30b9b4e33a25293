//! The targets, compared with the measurements.

use anyhow::Context as _;

use crate::speed::race::megabytes;
use crate::speed::report::Measured;
use crate::speed::stats::figure;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    what: &'static str,
    wanted: Wanted,
    of: Of,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

/// The source of the figure.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// Millions of instructions, summed over the stages.
    Instructions(&'static [&'static str]),
    Count(&'static [&'static str], f64),
    Time(&'static str),
    /// The ratio of another implementation to the catcher.
    Ratio(&'static str, &'static str),
    Size,
    Zip,
}

const COLD: &str = "CPU to the first response, ms";
const WARM: &str = "warm CPU, µs";

impl Target {
    pub(crate) const ALL: [Self; 12] = [
        Self {
            what: "catcher, start, millions of instructions",
            wanted: Wanted::AtMost(2.0),
            of: Of::Instructions(&["catcher/start/instructions"]),
        },
        Self {
            what: "catcher, to the first response, millions of instructions",
            wanted: Wanted::AtMost(8.0),
            of: Of::Instructions(&["catcher/start/instructions", "catcher/first/instructions"]),
        },
        Self {
            what: "catcher, each further webhook, millions of instructions",
            wanted: Wanted::AtMost(2.0),
            of: Of::Instructions(&["catcher/warm/instructions"]),
        },
        Self {
            what: "Node.js / catcher, CPU to the first response",
            wanted: Wanted::AtLeast(30.0),
            of: Of::Ratio("Node.js", COLD),
        },
        Self {
            what: "Python / catcher, CPU to the first response",
            wanted: Wanted::AtLeast(50.0),
            of: Of::Ratio("Python", COLD),
        },
        Self {
            what: "Node.js / catcher, warm CPU",
            wanted: Wanted::AtLeast(6.0),
            of: Of::Ratio("Node.js", WARM),
        },
        Self {
            what: "Python / catcher, warm CPU",
            wanted: Wanted::AtLeast(4.0),
            of: Of::Ratio("Python", WARM),
        },
        Self {
            what: "catcher, peak RSS, MB",
            wanted: Wanted::AtMost(10.0),
            of: Of::Time("peak RSS, MB"),
        },
        Self {
            what: "catcher, executable, MB",
            wanted: Wanted::AtMost(6.5),
            of: Of::Size,
        },
        Self {
            what: "catcher, zip, MB",
            wanted: Wanted::AtMost(3.0),
            of: Of::Zip,
        },
        Self {
            what: "an event of 2 KB from webhook to done, write units",
            wanted: Wanted::AtMost(6.0),
            // A batch has ten events.
            of: Of::Count(
                &["catcher/warm/write units", "processor/warm/write units"],
                10.0,
            ),
        },
        Self {
            what: "a webhook, requests to the table",
            wanted: Wanted::AtMost(2.0),
            of: Of::Count(&["catcher/warm/table requests"], 1.0),
        },
    ];

    pub(crate) fn row(&self, measured: &Measured) -> anyhow::Result<[String; 4]> {
        let is = self.of.find(measured);
        let is = is.with_context(|| format!("no measurement for: {}", self.what))?;
        let (bound, holds) = match self.wanted {
            Wanted::AtMost(most) => (format!("≤ {}", figure(most)), is <= most),
            Wanted::AtLeast(least) => (format!("≥ {}", figure(least)), is >= least),
        };
        let verdict = if holds { "" } else { "**missed**" };
        Ok([self.what.to_owned(), figure(is), bound, verdict.to_owned()])
    }
}

impl Of {
    fn find(self, measured: &Measured) -> Option<f64> {
        let sum = |names: &[&str]| {
            let values = names
                .iter()
                .map(|name| measured.figures.get(*name).copied());
            values.sum::<Option<f64>>()
        };
        let size = || measured.sizes.iter().find(|(name, ..)| *name == "catcher");
        match self {
            Self::Instructions(names) => Some(sum(names)? / 1e6),
            Self::Count([catcher, rest @ ..], batch) => Some(sum(&[catcher])? + sum(rest)? / batch),
            Self::Count([], _) => None,
            Self::Time(name) => measured.time("catcher", name),
            Self::Ratio(program, name) => measured.ratio(program, name),
            Self::Size => size().map(|(_, bytes, _)| megabytes(*bytes)),
            Self::Zip => size().map(|(_, _, zipped)| megabytes(*zipped)),
        }
    }
}
