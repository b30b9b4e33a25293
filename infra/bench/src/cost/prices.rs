//! `infra/prices.toml`: the prices of AWS, and assumptions about values that cannot be measured.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

/// A billed quantity, with the name in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Meter {
    HttpApiRequest,
    CloudfrontRequest,
    CloudfrontGbToOrigin,
    CloudfrontGbOut,
    WafRequest,
    WafAcl,
    WafRule,
    LambdaRequest,
    #[serde(rename = "lambda-gb-second-arm64")]
    LambdaGbSecondArm64,
    #[serde(rename = "lambda-gb-second-x86-64")]
    LambdaGbSecondX8664,
    WriteUnit,
    ReadUnit,
    TableGbMonth,
    RecoveryGbMonth,
    ObjectPut,
    ObjectGet,
    QueueRequest,
    LogGb,
    LogGbMonth,
    TransferGb,
    AlarmMetric,
    AlarmMetricFine,
    AlarmComposite,
    CustomMetric,
    Dashboard,
    ScheduleRun,
    Key,
    Secret,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Prices {
    pub(crate) region: String,
    /// The date of the prices.
    pub(crate) as_of: String,
    pub(crate) price: BTreeMap<Meter, Price>,
    /// Resource types and their fixed monthly cost.
    resources: BTreeMap<String, Standing>,
    pub(crate) assumed: Assumed,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    pub(crate) usd: f64,
    /// The quantity to which the price applies.
    #[serde(default = "one")]
    pub(crate) per: f64,
    pub(crate) unit: String,
    /// The free quantity for each account and month.
    #[serde(default)]
    pub(crate) free: f64,
    pub(crate) source: String,
    /// Another source that confirms the price, because programs cannot read the price pages.
    pub(crate) seen: String,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Standing {
    Priced(Meter),
    Nothing(Nothing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Nothing {
    Nothing,
}

/// A value that cannot be measured, and the reason for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) why: String,
    pub(crate) source: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Assumed {
    pub(crate) month_hours: Figure,
    pub(crate) duplicate_share: Figure,
    pub(crate) cold_start_share: Figure,
    pub(crate) one_processor_mb: Figure,
    pub(crate) table_ms: Figure,
    pub(crate) queue_ms: Figure,
    pub(crate) bucket_ms: Figure,
    pub(crate) parameters_ms: Figure,
    pub(crate) outside_ms: Figure,
    pub(crate) pollers_with_maximum: Figure,
    pub(crate) pollers: Figure,
    pub(crate) poll_seconds: Figure,
    pub(crate) log_line_bytes: Figure,
    pub(crate) log_compression: Figure,
    pub(crate) platform_line_bytes: Figure,
    pub(crate) row_overhead_bytes: Figure,
    pub(crate) waf_rules: Figure,
}

impl Assumed {
    /// Returns each assumption with its name, in the order of the file.
    pub(crate) fn all(&self) -> [(&'static str, &Figure); 17] {
        [
            ("month-hours", &self.month_hours),
            ("duplicate-share", &self.duplicate_share),
            ("cold-start-share", &self.cold_start_share),
            ("one-processor-mb", &self.one_processor_mb),
            ("table-ms", &self.table_ms),
            ("queue-ms", &self.queue_ms),
            ("bucket-ms", &self.bucket_ms),
            ("parameters-ms", &self.parameters_ms),
            ("outside-ms", &self.outside_ms),
            ("pollers-with-maximum", &self.pollers_with_maximum),
            ("pollers", &self.pollers),
            ("poll-seconds", &self.poll_seconds),
            ("log-line-bytes", &self.log_line_bytes),
            ("log-compression", &self.log_compression),
            ("platform-line-bytes", &self.platform_line_bytes),
            ("row-overhead-bytes", &self.row_overhead_bytes),
            ("waf-rules", &self.waf_rules),
        ]
    }
}

/// The maximum costs in US$ (the targets).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Target {
    /// A million events of 2 KB that arrive one by one, through the HTTP API and through a function
    /// URL.
    pub(crate) million: f64,
    pub(crate) million_function_url: f64,
    /// The same events through the HTTP API, if they are forwarded to a destination.
    pub(crate) million_forwarded: f64,
    /// A month without events.
    pub(crate) idle: f64,
}

impl Prices {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let prices: Self = toml::from_str(text).context("infra/prices.toml")?;
        for (meter, price) in &prices.price {
            ensure!(
                price.usd >= 0.0 && price.per > 0.0 && price.free >= 0.0,
                "infra/prices.toml: the price of {meter:?} is invalid"
            );
            ensure!(
                price.source.starts_with("https://aws.amazon.com/")
                    && ["quoted in public repositories", "nowhere"].contains(&price.seen.as_str()),
                "infra/prices.toml: the source of the price of {meter:?} is invalid"
            );
        }
        Ok(prices)
    }

    pub(crate) fn of(&self, meter: Meter) -> anyhow::Result<&Price> {
        let price = self.price.get(&meter);
        price.with_context(|| format!("infra/prices.toml has no price for {meter:?}"))
    }

    /// Returns the meter of a resource's fixed cost, or `None` if the resource has no fixed cost.
    pub(crate) fn standing(&self, kind: &str) -> anyhow::Result<Option<Meter>> {
        match self.resources.get(kind) {
            Some(Standing::Priced(meter)) => Ok(Some(*meter)),
            Some(Standing::Nothing(_)) => Ok(None),
            None => bail!(
                "the template has a {kind}, whose cost is missing in [resources] of \
                infra/prices.toml: add a line, with the value \"nothing\" if AWS bills it by use"
            ),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.assumed.month_hours.value * 3600.0
    }

    /// Returns the number of days in a month.
    pub(crate) fn days(&self) -> f64 {
        self.assumed.month_hours.value / 24.0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const FILE: &str = include_str!("../../../prices.toml");

    pub(crate) fn prices() -> Prices {
        Prices::parse(FILE).unwrap()
    }

    pub(crate) fn near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-6, "{one} is not {other}");
    }

    #[test]
    fn each_assumption_has_a_reason() {
        let prices = prices();
        assert_eq!(prices.as_of.len(), "2026-11-22".len());
        for (name, figure) in prices.assumed.all() {
            assert!(FILE.contains(&format!("[assumed.{name}]")), "{name}");
            assert!(figure.why.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn each_meter_that_a_resource_stands_for_has_a_price() {
        let prices = prices();
        for kind in prices.resources.keys() {
            if let Some(meter) = prices.standing(kind).unwrap() {
                prices.of(meter).unwrap();
            }
        }
        assert_eq!(prices.standing("AWS::KMS::Key").unwrap(), Some(Meter::Key));
        assert_eq!(prices.standing("AWS::SQS::Queue").unwrap(), None);
    }

    #[test]
    fn what_nobody_priced_is_refused_by_name() {
        let error = prices().standing("AWS::EC2::NatGateway").unwrap_err();
        assert!(
            error.to_string().contains("AWS::EC2::NatGateway"),
            "{error}"
        );
    }

    #[test]
    fn a_word_that_is_no_meter_is_refused() {
        let wrong = FILE.replacen("[price.write-unit]", "[price.write-units]", 1);
        assert!(Prices::parse(&wrong).is_err());
        let wrong = FILE.replacen("usd = 0.625", "usd = -0.625", 1);
        assert!(Prices::parse(&wrong).is_err());
        let wrong = FILE.replacen(
            "source = \"https://aws.amazon.com/",
            "source = \"https://a.example/",
            1,
        );
        assert!(Prices::parse(&wrong).is_err());
    }
}
