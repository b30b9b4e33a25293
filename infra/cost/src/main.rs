//! `make cost`: prints the costs, and fails if a cost exceeds its target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use cost::bench::{self, Around, Case, Shape};
use cost::deployed::{Deployed, rules};
use cost::events::{self, Door};
use cost::idle;
use cost::prices::Prices;
use cost::report::{Found, Priced, replaced};
use local::Naming;

/// Number of events of a case. The billed units are the same for every event; the times need many
/// events.
const EVENTS: u32 = 300;

/// The template of a web ACL, if the file exists.
const EDGE: &str = "infra/edge.yaml";

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its results"
)]
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let said = match Options::read(std::env::args().skip(1)) {
        Ok(options) => Box::pin(run(&options)).await,
        Err(error) => Err(error),
    };
    match said {
        Ok((text, holds)) => {
            println!("{text}");
            if holds {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("{error:#}");
            // An error in the measurement is not an exceeded target.
            ExitCode::from(2)
        }
    }
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
    fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut options = Self {
            events: EVENTS,
            json: false,
            page: None,
            parameters: BTreeMap::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word.as_str() {
                "--json" => options.json = true,
                "--page" => options.page = Some(value()?.into()),
                "--events" => {
                    let value = value()?;
                    let events = value.parse::<u32>().ok().filter(|events| *events > 0);
                    options.events = events
                        .with_context(|| format!("--events {value:?}: not a number above 0"))?;
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

/// Returns the text to print, and whether every target holds.
async fn run(options: &Options) -> anyhow::Result<(String, bool)> {
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
    let mut fewest = naming;
    fewest
        .parameters
        .extend(prices.target.idle_parameters.clone());
    let fewest = Deployed::read(&template, &fewest, &prices)?;

    let program = std::env::current_exe().context("find this program")?;
    let around = Around {
        template: &root.join("template.yaml"),
        binaries: program.parent().context("find the functions")?,
        parameters: &options.parameters,
        prices: &prices,
    };
    let mut cases = Vec::new();
    for case in cases_of(options.events, &deployed)? {
        let counted = bench::count(&around, &case).await;
        let counted = counted.with_context(|| format!("the case {:?}", case.name))?;
        let bill = |door| events::bill(&counted, door, &deployed, &prices);
        let [api, url, cloudfront] = Door::ALL.map(bill);
        let bills = [api?, url?, cloudfront?];
        cases.push(Priced { counted, bills });
    }
    let rest = bench::rest(&around, &deployed)
        .await
        .context("measure an idle inbox")?;
    let found = Found {
        cases,
        idle: idle::bill(&rest, &deployed, &prices)?,
        least: idle::bill(&rest, &fewest, &prices)?,
    };
    let text = found.text(&deployed, &prices)?;
    if let Some(page) = &options.page {
        let old = std::fs::read_to_string(page);
        let old = old.with_context(|| format!("read {}", page.display()))?;
        let new = replaced(&old, &text)?;
        std::fs::write(page, new).with_context(|| format!("write {}", page.display()))?;
    }
    let holds = found
        .verdicts(&prices)
        .iter()
        .all(cost::report::Verdict::holds);
    if options.json {
        let json = found.json(&deployed, &prices)?;
        return Ok((serde_json::to_string_pretty(&json)?, holds));
    }
    Ok((text, holds))
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
        case("2 KB", 2_048, batch, false),
        Case {
            shape: Shape::Unknown,
            ..case("2 KB, unknown shape", 2_048, batch, false)
        },
        case("512 B", 512, batch, false),
        case("10 KB", 10_240, batch, false),
        case("2 KB, one by one", 2_048, 1, false),
        case("2 KB, forwarded", 2_048, batch, true),
    ])
}
