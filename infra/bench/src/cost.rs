//! The cost of a million events, and of a month without events.
//!
//! [`measure`] runs the real functions on the local stack with events of several sizes, and counts
//! everything that AWS bills. [`deployed`] reads fixed costs from the template. [`prices`] reads
//! the file of AWS prices, [`bill`] multiplies quantities by prices, and [`report`] prints the
//! result.

mod bill;
mod deployed;
mod destination;
mod events;
mod idle;
mod long;
mod measure;
mod prices;
mod proxy;
mod report;
mod rows;
mod stand;
mod tally;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use local::Naming;

use self::deployed::{Deployed, rules};
use self::events::Door;
use self::measure::Case;
use self::prices::Prices;
use self::report::{Priced, Report, Verdict};
use self::stand::Inputs;
use crate::webhook::Shape;
use crate::{Outcome, page, value};

/// The number of events in a case. The billed units are the same for every event, but the times are
/// averages over many events.
const EVENTS: u32 = 300;

/// The path of a template with a web ACL. The file does not have to exist.
const EDGE: &str = "infra/edge.yaml";

pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = Options::read(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(measured(&options)))
}

struct Options {
    events: u32,
    json: bool,
    /// A page whose generated part is rewritten.
    page: Option<PathBuf>,
    /// Values of template parameters.
    parameters: BTreeMap<String, String>,
}

impl Options {
    fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            events: EVENTS,
            json: false,
            page: None,
            parameters: BTreeMap::new(),
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || value(word, &mut words);
            match word {
                "--json" => options.json = true,
                "--page" => options.page = Some(value()?.into()),
                "--events" => {
                    let value = value()?;
                    let events = value.parse::<u32>().ok().filter(|events| *events > 0);
                    options.events = events
                        .with_context(|| format!("--events {value:?} is not a number above 0"))?;
                }
                "--parameter" => {
                    let value = value()?;
                    let (name, value) = value
                        .split_once('=')
                        .with_context(|| format!("--parameter {value:?} is not NAME=VALUE"))?;
                    options.parameters.insert(name.to_owned(), value.to_owned());
                }
                _ => bail!(
                    "unknown option {word:?}; use --events N, --json, --page FILE or --parameter \
                    NAME=VALUE"
                ),
            }
        }
        Ok(options)
    }
}

async fn measured(options: &Options) -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| {
        let path = root.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let mut prices = Prices::parse(&read("infra/prices.toml")?)?;
    if root.join(EDGE).exists() {
        prices.assumed.waf_rules.value = rules(&read(EDGE)?).context(EDGE)?;
    }
    let template = read("template.yaml")?;
    let naming = Naming {
        parameters: options.parameters.clone(),
        ..Naming::default()
    };
    let deployed = Deployed::read(&template, &naming, &prices)?;
    let long = [("LongActions".to_owned(), "true".to_owned())].into();
    let long = Deployed::read(&template, &changed(&naming, &long), &prices)?;

    let program = std::env::current_exe().context("find this program")?;
    let inputs = Inputs {
        template: &root.join("template.yaml"),
        binaries: program.parent().context("find the functions")?,
        parameters: &options.parameters,
        prices: &prices,
    };
    let mut cases = Vec::new();
    for case in cases_of(options.events, &deployed)? {
        let counted = measure::count(&inputs, &case).await;
        let counted = counted.with_context(|| format!("measure the case {:?}", case.name))?;
        let bill = |door| events::bill(&counted, door, &deployed, &prices);
        let [api, url, cloudfront] = Door::ALL.map(bill);
        let bills = [api?, url?, cloudfront?];
        cases.push(Priced { counted, bills });
    }
    let rest = measure::rest(&inputs, &deployed)
        .await
        .context("measure an idle inbox")?;
    let report = Report {
        deployed: &deployed,
        prices: &prices,
        cases,
        idle: idle::bill(&rest, &deployed, &prices)?,
        long_month: long::month(&deployed, &long, &prices)?,
        long_events: long::waiting(&long, &prices)?,
    };
    let text = report.text()?;
    if let Some(page) = &options.page {
        page::rewrite(page, "cost", &text)?;
    }
    let holds = report.verdicts().iter().all(Verdict::holds);
    if options.json {
        return Ok((serde_json::to_string_pretty(&report.json()?)?, holds));
    }
    Ok((text, holds))
}

/// Returns the naming with these template parameters.
fn changed(naming: &Naming, more: &BTreeMap<String, String>) -> Naming {
    let mut naming = naming.clone();
    naming.parameters.extend(more.clone());
    naming
}

fn cases_of(events: u32, deployed: &Deployed) -> anyhow::Result<Vec<Case>> {
    let work_message = deployed.pollers.iter().find(|it| it.queue == "WorkQueue");
    let batch = work_message
        .context("the template has no event source mapping of WorkQueue")?
        .batch;
    let case = |name: &str, size, batch, forwards| Case {
        name: name.to_owned(),
        size,
        shape: Shape::Documented,
        batch,
        forwards,
        events,
    };
    Ok(vec![
        case("2 KB", 2_048, 1, false),
        case("2 KB, forwarded", 2_048, 1, true),
        case("2 KB, in batches", 2_048, batch, false),
        Case {
            shape: Shape::Unknown,
            ..case("2 KB, unknown shape", 2_048, 1, false)
        },
        case("512 B", 512, 1, false),
        case("10 KB", 10_240, 1, false),
    ])
}
