//! Reads the fixed monthly costs and the sizes of functions from a template.

mod access_log;
mod filter;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use local::template::{Naming, Resources, Template};
use serde_json::Value;

use crate::cost::prices::{Meter, Prices};
pub(crate) use access_log::AccessLog;
pub(crate) use filter::Filter;

pub(crate) struct Deployed {
    pub(crate) functions: BTreeMap<String, Machine>,
    /// Fixed monthly quantities, by meter.
    pub(crate) standing: BTreeMap<Meter, f64>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) pollers: Vec<Pollers>,
    pub(crate) schedules: Vec<Schedule>,
    /// Whether point-in-time recovery is on.
    pub(crate) recovery: bool,
}

/// The configuration of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) memory_mb: f64,
    pub(crate) meter: Meter,
    /// Whether Lambda writes its own log lines for each invocation.
    pub(crate) platform_lines: bool,
    pub(crate) log_group: String,
    pub(crate) log_days: f64,
}

/// Connections that Lambda keeps open to an idle queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pollers {
    pub(crate) queue: String,
    pub(crate) count: f64,
    /// The maximum number of messages in a batch.
    pub(crate) batch: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) input: Value,
    pub(crate) runs_a_month: f64,
}

impl Deployed {
    pub(crate) fn read(text: &str, naming: &Naming, prices: &Prices) -> anyhow::Result<Self> {
        let resources = Resources::parse(text, naming)?;
        let template = Template::parse(text, naming)?;
        let log_days = log_days(&resources)?;
        let mut functions = BTreeMap::new();
        for (id, function) in &template.functions {
            let machine = machine(&resources, id, f64::from(function.memory_mb), &log_days)?;
            functions.insert(id.clone(), machine);
        }
        let assumed = &prices.assumed;
        let pollers = template.mappings.iter().map(|mapping| Pollers {
            queue: mapping.queue.clone(),
            batch: mapping.batch_size,
            count: match mapping.max_concurrency {
                Some(_) => assumed.pollers_with_maximum.value,
                None => assumed.pollers.value,
            },
        });
        let schedules = template.schedules.iter().map(|schedule| Schedule {
            id: schedule.id.clone(),
            function: schedule.function.clone(),
            input: schedule.input.clone(),
            runs_a_month: prices.seconds() / schedule.rate.0.as_secs_f64(),
        });
        Ok(Self {
            functions,
            standing: standing(&resources, prices)?,
            filters: filter::read(&resources)?,
            access_log: access_log::read(&resources, &log_days)?,
            pollers: pollers.collect(),
            schedules: schedules.collect(),
            recovery: recovery(&resources)?,
        })
    }

    pub(crate) fn machine(&self, function: &str) -> anyhow::Result<&Machine> {
        let machine = self.functions.get(function);
        machine.with_context(|| format!("the template has no function {function}"))
    }
}

/// Returns the number of rules of the web ACL in a template such as `infra/edge.yaml`.
pub(crate) fn rules(text: &str) -> anyhow::Result<f64> {
    let naming = Naming::default();
    let resources = Resources::parse(text, &naming)?;
    let mut rules = 0;
    for id in resources.of("AWS::WAFv2::WebACL") {
        let its = resources.property(id, "Rules")?.unwrap_or_default();
        rules += its.as_array().map_or(0, Vec::len);
    }
    Ok(f64::from(u32::try_from(rules)?))
}

const ALARM: &str = "AWS::CloudWatch::Alarm";

fn standing(resources: &Resources<'_>, prices: &Prices) -> anyhow::Result<BTreeMap<Meter, f64>> {
    let mut standing: BTreeMap<Meter, f64> = BTreeMap::new();
    for (id, kind) in resources.kinds() {
        if kind == ALARM {
            let (meter, metrics) = alarm(resources, id)?;
            *standing.entry(meter).or_default() += metrics;
        } else if let Some(meter) = prices.standing(kind)? {
            *standing.entry(meter).or_default() += 1.0;
        }
    }
    Ok(standing)
}

/// Returns the meter and quantity of an alarm. AWS bills an alarm over an expression for each of
/// its metrics, and bills more if its period is shorter than a minute.
/// <https://aws.amazon.com/cloudwatch/pricing/>
fn alarm(resources: &Resources<'_>, id: &str) -> anyhow::Result<(Meter, f64)> {
    let of = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let period = resources.property(id, "Period")?;
    let mut periods: Vec<u64> = period.as_ref().and_then(of).into_iter().collect();
    let queries = resources.property(id, "Metrics")?.unwrap_or_default();
    let queries = queries.as_array().into_iter().flatten();
    let stats = queries.filter_map(|query| query.get("MetricStat"));
    let stats: Vec<&Value> = stats.collect();
    periods.extend(stats.iter().filter_map(|stat| of(&stat["Period"])));
    let fine = periods.into_iter().any(|period| period < 60);
    let metrics = u32::try_from(stats.len().max(1))?;
    let meter = if fine {
        Meter::AlarmMetricFine
    } else {
        Meter::AlarmMetric
    };
    Ok((meter, f64::from(metrics)))
}

/// Returns whether point-in-time recovery is on. Fails if the table has a second replica, which
/// would double most of the table's cost.
fn recovery(resources: &Resources<'_>) -> anyhow::Result<bool> {
    let mut recovery = false;
    for id in resources.of("AWS::DynamoDB::GlobalTable") {
        let replicas = resources.property(id, "Replicas")?.unwrap_or_default();
        let replicas = replicas.as_array().map_or(&[][..], Vec::as_slice);
        let [replica] = replicas else {
            bail!(
                "{id} has {} replicas; only one is supported",
                replicas.len()
            );
        };
        let set = &replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"];
        recovery |= *set == true;
    }
    Ok(recovery)
}

/// Returns the retention in days for each log group.
fn log_days(resources: &Resources<'_>) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut days = BTreeMap::new();
    for id in resources.of("AWS::Logs::LogGroup") {
        let kept = resources.property(id, "RetentionInDays")?;
        let kept = kept.with_context(|| format!("{id} has no RetentionInDays"))?;
        let text = kept
            .as_str()
            .map_or_else(|| kept.to_string(), str::to_owned);
        let kept = text.parse().with_context(|| format!("{id}: {text} days"))?;
        // On the local stack, the name of a log group is its logical id.
        days.insert(id.to_owned(), kept);
    }
    Ok(days)
}

fn machine(
    resources: &Resources<'_>,
    id: &str,
    memory_mb: f64,
    log_days: &BTreeMap<String, f64>,
) -> anyhow::Result<Machine> {
    let architectures = resources.property(id, "Architectures")?.unwrap_or_default();
    let meter = match architectures[0].as_str() {
        Some("arm64") => Meter::LambdaGbSecondArm64,
        Some("x86_64") | None => Meter::LambdaGbSecondX8664,
        Some(other) => bail!("{id}: no price is known for the architecture {other}"),
    };
    let logging = resources.property(id, "LoggingConfig")?.unwrap_or_default();
    let log_group = logging["LogGroup"].as_str().unwrap_or_default().to_owned();
    let days = log_days.get(&log_group);
    Ok(Machine {
        memory_mb,
        meter,
        platform_lines: logging["SystemLogLevel"].as_str() != Some("WARN"),
        log_days: *days.with_context(|| format!("{id} has no log group in the template"))?,
        log_group,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::prices::tests::prices;

    const TEMPLATE: &str = r#"
Resources:
  Catcher:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: catcher } }
    Properties:
      MemorySize: 512
      Architectures: [arm64]
      LoggingConfig: { LogGroup: !Ref CatcherLogs, SystemLogLevel: WARN }
  CatcherLogs: { Type: 'AWS::Logs::LogGroup', Properties: { RetentionInDays: 30 } }
  WorkQueue: { Type: 'AWS::SQS::Queue' }
  BacklogQueue: { Type: 'AWS::SQS::Queue' }
  One:
    Type: AWS::Lambda::EventSourceMapping
    Properties: { EventSourceArn: !GetAtt WorkQueue.Arn, FunctionName: !Ref Catcher, ScalingConfig: { MaximumConcurrency: 2 } }
  Two:
    Type: AWS::Lambda::EventSourceMapping
    Properties: { EventSourceArn: !GetAtt BacklogQueue.Arn, FunctionName: !Ref Catcher }
  Sweep:
    Type: AWS::Scheduler::Schedule
    Properties: { ScheduleExpression: rate(1 hour), Target: { Arn: !GetAtt Catcher.Arn, Input: '{"task":"sweep"}' } }
  Plain: { Type: 'AWS::CloudWatch::Alarm', Properties: { Period: 300 } }
  Fine: { Type: 'AWS::CloudWatch::Alarm', Properties: { Period: 10 } }
  Ratio:
    Type: AWS::CloudWatch::Alarm
    Properties:
      Metrics:
        - { Id: e, Expression: a / b }
        - { Id: a, MetricStat: { Period: 60 } }
        - { Id: b, MetricStat: { Period: 60 } }
  Key: { Type: 'AWS::KMS::Key' }
  Inbox:
    Type: AWS::DynamoDB::GlobalTable
    Properties:
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      Replicas: [{ Region: here, PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } }]
"#;

    fn read(text: &str) -> anyhow::Result<Deployed> {
        Deployed::read(text, &Naming::default(), &prices())
    }

    #[test]
    fn alarms_count_by_their_metrics_and_keys_by_being_there() {
        let deployed = read(TEMPLATE).unwrap();
        let standing: Vec<_> = deployed.standing.into_iter().collect();
        assert_eq!(
            standing,
            [
                (Meter::AlarmMetric, 3.0),
                (Meter::AlarmMetricFine, 1.0),
                (Meter::Key, 1.0)
            ]
        );
    }

    #[test]
    fn a_mapping_with_a_maximum_is_polled_by_more() {
        let counts = read(TEMPLATE).unwrap().pollers;
        let counts: Vec<_> = counts
            .iter()
            .map(|it| (it.queue.as_str(), it.count))
            .collect();
        assert_eq!(counts, [("WorkQueue", 5.0), ("BacklogQueue", 2.0)]);
    }

    #[test]
    fn a_schedule_runs_so_often_a_month() {
        let schedules = read(TEMPLATE).unwrap().schedules;
        assert!((schedules[0].runs_a_month - 730.0).abs() < 1e-9);
    }

    #[test]
    fn a_function_is_what_the_template_says() {
        let deployed = read(TEMPLATE).unwrap();
        let machine = deployed.machine("Catcher").unwrap();
        assert_eq!(machine.meter, Meter::LambdaGbSecondArm64);
        assert!((machine.memory_mb - 512.0).abs() < 1e-9 && (machine.log_days - 30.0).abs() < 1e-9);
        assert!(!machine.platform_lines);
        let loud = TEMPLATE.replace("SystemLogLevel: WARN", "SystemLogLevel: INFO");
        assert!(
            read(&loud)
                .unwrap()
                .machine("Catcher")
                .unwrap()
                .platform_lines
        );
    }

    #[test]
    fn the_rules_of_a_web_acl_are_counted() {
        let edge = "Resources: { Filter: { Type: 'AWS::WAFv2::WebACL', Properties: { Rules: [{ Name: a }, { Name: b }] } } }";
        assert!((rules(edge).unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn recovery_is_as_the_one_replica_says_and_two_are_refused() {
        assert!(read(TEMPLATE).unwrap().recovery);
        let off = TEMPLATE.replace("RecoveryEnabled: true", "RecoveryEnabled: false");
        assert!(!read(&off).unwrap().recovery);
        let two = TEMPLATE.replace("Replicas: [", "Replicas: [{ Region: there }, ");
        assert!(read(&two).is_err());
    }

    #[test]
    fn what_has_no_price_is_refused() {
        let more = format!("{TEMPLATE}  Gate: {{ Type: 'AWS::EC2::NatGateway' }}\n");
        assert!(read(&more).is_err());
        let forever = TEMPLATE.replace("RetentionInDays: 30", "Tags: []");
        assert!(read(&forever).is_err());
    }
}
