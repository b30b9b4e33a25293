//! Reads the facts of a deployment in parallel. No message is received from a queue, and no secret
//! is decrypted.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{PointInTimeRecoveryStatus, TimeToLiveStatus};
use aws_sdk_lambda::types::FunctionResponseType;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use futures::FutureExt as _;
use futures::future::{join, join_all};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Waiting;

use super::probe::{asked, told};
use super::sources;
use crate::doctor::{
    Alarm, Caller, Count, Facts, Function, Functions, Known, Mapping, Queue, Queues, Redrive,
    Stored, Table, Unknown,
};
use crate::output::Exit;
use crate::output::aws::rewrite;
use crate::target::Deployment;

/// At most this many dead letters are counted in one shard of the index.
const MOST: i32 = 1000;

/// The kinds of secrets that functions read.
const KINDS: [&str; 3] = ["ingress", "egress", "provider-api"];

pub(super) async fn gather(inbox: &Deployment, now: UnixMillis) -> anyhow::Result<Facts> {
    let names = inbox.names();
    let table = table(inbox).await?;
    let queue = |url: &Option<String>, what| queue(inbox, url.clone(), what).boxed();
    let function = |name: &Option<String>, what| function(inbox, name.clone(), what).boxed();
    let (queues, functions) = join(
        join_all([
            queue(&names.queue_url, "queue_url"),
            queue(&names.backlog_queue_url, "backlog_queue_url"),
            queue(&names.work_dead_letters_url, "work_dead_letters_url"),
            queue(&names.spill_queue_url, "spill_queue_url"),
            queue(&names.ops_dead_letters_url, "ops_dead_letters_url"),
        ]),
        join_all([
            function(&names.catcher, "catcher"),
            function(&names.processor, "processor"),
            function(&names.backup_sync, "backup_sync"),
        ]),
    )
    .await;
    let (ttl, recovery, mappings, alarms, secrets) = tokio::join!(
        ttl(inbox),
        recovery(inbox),
        mappings(inbox),
        alarms(inbox),
        secrets(inbox, now),
    );
    let (caller, heartbeats, dead_letters, sources, may_write) = tokio::join!(
        caller(inbox),
        inbox.ledger.operations().heartbeats(),
        dead_letters(inbox),
        sources::sources(inbox, now),
        may_write(inbox),
    );
    let mut queues = queues.into_iter();
    let mut queue = || queues.next().unwrap_or(Err(Unknown::NotHere));
    let mut functions = functions.into_iter();
    let mut function = || functions.next().unwrap_or(Err(Unknown::NotHere));
    let deployed = inbox.deployed.as_ref();
    Ok(Facts {
        now,
        context: inbox.name.clone(),
        names: names.clone(),
        region: deployed.and_then(|it| it.region.clone()),
        expected_account: deployed.and_then(|it| it.account.clone()),
        caller,
        functions: Functions {
            catcher: function(),
            processor: function(),
            backup_sync: function(),
        },
        mappings,
        queues: Queues {
            work_queue: queue(),
            backlog: queue(),
            work_dead_letters: queue(),
            spill: queue(),
            ops_dead_letters: queue(),
        },
        table,
        ttl,
        recovery,
        alarms,
        secrets,
        heartbeats: told("dynamodb:Query", heartbeats),
        dead_letters,
        sources,
        may_write,
    })
}

/// The first call. Without credentials or without a table, no check can run, so this is an error
/// and not a finding.
async fn table(inbox: &Deployment) -> anyhow::Result<Known<Table>> {
    let name = inbox.names().table.clone().unwrap_or_default();
    let answer = inbox
        .dynamodb()?
        .describe_table()
        .table_name(name)
        .send()
        .await;
    let answer = answer.map_err(anyhow::Error::new);
    if let Err(error) = &answer {
        let place = inbox.deployed.as_ref().map(crate::target::Deployed::place);
        let ours = rewrite(error, &place.unwrap_or_default());
        if ours.exit == Exit::Denied && ours.code != "auth.denied"
            || ours.code.starts_with("context.")
            || ours.code == "aws.unreachable"
        {
            return Err(ours.into());
        }
    }
    Ok(told("dynamodb:DescribeTable", answer).map(|answer| {
        let Some(table) = answer.table else {
            return Table::default();
        };
        let status = table.table_status.map(|status| status.to_string());
        let indexes = table.global_secondary_indexes.unwrap_or_default();
        let indexes = indexes.into_iter().filter_map(|index| {
            let status = index.index_status.map(|status| status.to_string());
            Some((index.index_name?, status.unwrap_or_default()))
        });
        let created = table.creation_date_time;
        Table {
            status: status.unwrap_or_default(),
            created: created.and_then(|at| at.to_millis().ok()).map(UnixMillis),
            indexes: indexes.collect(),
            // Not checked on the local stack, which deletes its table only on request.
            deletion_protection: table
                .deletion_protection_enabled
                .filter(|_| inbox.local.is_none()),
        }
    }))
}

async fn ttl(inbox: &Deployment) -> Known<Option<String>> {
    let dynamodb = told("dynamodb:DescribeTimeToLive", inbox.dynamodb())?;
    let table = inbox.names().table.clone().unwrap_or_default();
    let answer = dynamodb
        .describe_time_to_live()
        .table_name(table)
        .send()
        .await;
    let answer = asked("dynamodb:DescribeTimeToLive", answer)?;
    let ttl = answer.time_to_live_description;
    Ok(ttl.and_then(|ttl| {
        let is_on = matches!(
            ttl.time_to_live_status,
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        ttl.attribute_name.filter(|_| is_on)
    }))
}

async fn recovery(inbox: &Deployment) -> Known<bool> {
    const ACTION: &str = "dynamodb:DescribeContinuousBackups";
    on_aws(inbox)?;
    let table = inbox.names().table.clone().unwrap_or_default();
    let dynamodb = told(ACTION, inbox.dynamodb())?;
    let answer = dynamodb.describe_continuous_backups().table_name(table);
    let answer = asked(ACTION, answer.send().await)?;
    let recovery = answer
        .continuous_backups_description
        .and_then(|it| it.point_in_time_recovery_description)
        .and_then(|it| it.point_in_time_recovery_status);
    Ok(recovery == Some(PointInTimeRecoveryStatus::Enabled))
}

async fn queue(inbox: &Deployment, url: Option<String>, what: &'static str) -> Known<Queue> {
    let url = url.ok_or(Unknown::Unnamed(what))?;
    let sqs = told("sqs:GetQueueAttributes", inbox.sqs())?;
    let answer = sqs
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(Attribute::All)
        .send()
        .await;
    let answer = asked("sqs:GetQueueAttributes", answer)?;
    Ok(read_queue(url, &answer.attributes.unwrap_or_default()))
}

fn read_queue(url: String, attributes: &HashMap<Attribute, String>) -> Queue {
    let number = |name: Attribute| {
        let text = attributes.get(&name);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let redrive = attributes.get(&Attribute::RedrivePolicy);
    Queue {
        url,
        arn: attributes
            .get(&Attribute::QueueArn)
            .cloned()
            .unwrap_or_default(),
        visibility_s: number(Attribute::VisibilityTimeout),
        retention_s: number(Attribute::MessageRetentionPeriod),
        redrive: redrive.and_then(|text| read_redrive(text)),
        visible: number(Attribute::ApproximateNumberOfMessages),
        in_flight: number(Attribute::ApproximateNumberOfMessagesNotVisible),
    }
}

/// A redrive policy is JSON, in which the count can be a number or a string.
fn read_redrive(policy: &str) -> Option<Redrive> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    let as_text = || count.as_str()?.parse().ok();
    Some(Redrive {
        target_arn: policy["deadLetterTargetArn"].as_str()?.to_owned(),
        max_receives: count.as_u64().or_else(as_text)?,
    })
}

async fn function(inbox: &Deployment, name: Option<String>, what: &'static str) -> Known<Function> {
    const ACTION: &str = "lambda:GetFunctionConfiguration";
    let name = name.ok_or(Unknown::Unnamed(what))?;
    let lambda = told(ACTION, inbox.lambda(CallPolicy::LONG))?;
    let answer = lambda.get_function_configuration().function_name(&name);
    let answer = asked(ACTION, answer.send().await)?;
    let variables = answer.environment.and_then(|it| it.variables);
    Ok(Function {
        name,
        timeout_s: u64::try_from(answer.timeout.unwrap_or_default()).unwrap_or_default(),
        state: answer.state.map(|state| state.to_string()),
        last_update: answer.last_update_status.map(|status| status.to_string()),
        environment: variables.unwrap_or_default().into_iter().collect(),
    })
}

async fn mappings(inbox: &Deployment) -> Known<Vec<Mapping>> {
    const ACTION: &str = "lambda:ListEventSourceMappings";
    let name = inbox.names().processor.clone();
    let name = name.ok_or(Unknown::Unnamed("processor"))?;
    let lambda = told(ACTION, inbox.lambda(CallPolicy::LONG))?;
    let answer = lambda.list_event_source_mappings().function_name(name);
    let answer = asked(ACTION, answer.send().await)?;
    let mappings = answer.event_source_mappings.unwrap_or_default();
    let mappings = mappings.into_iter().map(|it| {
        let types = it.function_response_types.unwrap_or_default();
        let window = it.maximum_batching_window_in_seconds.unwrap_or_default();
        Mapping {
            queue_arn: it.event_source_arn.unwrap_or_default(),
            state: it.state.unwrap_or_default(),
            window_s: u64::try_from(window).unwrap_or_default(),
            reports_item_failures: types.contains(&FunctionResponseType::ReportBatchItemFailures),
        }
    });
    Ok(mappings.collect())
}

/// The alarms of the stack, which CloudFormation calls `<stack>-<id>-<random>`.
async fn alarms(inbox: &Deployment) -> Known<Vec<Alarm>> {
    const ACTION: &str = "cloudwatch:DescribeAlarms";
    on_aws(inbox)?;
    let stack = inbox.deployed.as_ref().and_then(|it| it.stack.clone());
    let by_path = || Some(root(inbox)?.trim_start_matches('/').to_owned());
    let stack = stack
        .or_else(by_path)
        .ok_or(Unknown::Unnamed("the stack"))?;
    let aws = told(ACTION, inbox.aws(CallPolicy::LONG))?;
    let cloudwatch = aws_sdk_cloudwatch::Client::new(&aws.sdk_config("CLOUDWATCH"));
    let answer = cloudwatch
        .describe_alarms()
        .alarm_name_prefix(format!("{stack}-"))
        .max_records(100)
        .send()
        .await;
    let alarms = asked(ACTION, answer)?.metric_alarms.unwrap_or_default();
    let alarms = alarms.into_iter().map(|alarm| {
        let dimensions = alarm.dimensions.unwrap_or_default();
        let actions = alarm.alarm_actions.unwrap_or_default();
        let on = alarm.actions_enabled.unwrap_or(true);
        Alarm {
            name: alarm.alarm_name.unwrap_or_default(),
            metric: alarm.metric_name.unwrap_or_default(),
            about: dimensions.into_iter().filter_map(|it| it.value).collect(),
            actions: if on { actions.len() } else { 0 },
            ringing: alarm
                .state_value
                .is_some_and(|state| state.as_str() == "ALARM"),
        }
    });
    Ok(alarms.collect())
}

/// Names and ages of the secrets. The values arrive encrypted and are dropped.
async fn secrets(inbox: &Deployment, now: UnixMillis) -> Known<Vec<Stored>> {
    const ACTION: &str = "ssm:GetParametersByPath";
    let root = root(inbox).ok_or(Unknown::Unnamed("secrets_path"))?;
    let ssm = told(ACTION, inbox.ssm())?;
    let mut stored = Vec::new();
    let mut next = None;
    loop {
        let answer = ssm
            .get_parameters_by_path()
            .path(&root)
            .recursive(true)
            .with_decryption(false)
            .set_next_token(next)
            .send()
            .await;
        let answer = asked(ACTION, answer)?;
        for parameter in answer.parameters.unwrap_or_default() {
            let name = parameter.name.unwrap_or_default();
            let changed = parameter.last_modified_date;
            let changed = changed.and_then(|at| at.to_millis().ok()).map(UnixMillis);
            let age = changed.map_or(Duration::ZERO, |at| now.since(at));
            stored.extend(stored_as(&root, &name, age));
        }
        next = answer.next_token;
        if next.is_none() {
            break;
        }
    }
    stored.extend(managed(inbox, now).await?);
    Ok(stored)
}

/// The secrets in Secrets Manager, one for each label of a version.
async fn managed(inbox: &Deployment, now: UnixMillis) -> Known<Vec<Stored>> {
    const ACTION: &str = "secretsmanager:ListSecretVersionIds";
    let names = inbox.config.managed_secrets();
    let mut stored = Vec::new();
    if names.is_empty() {
        return Ok(stored);
    }
    let prefix = inbox.names().secrets_manager_prefix.as_deref();
    let prefix = prefix.ok_or(Unknown::Unnamed("secrets_manager_prefix"))?;
    for name in names {
        let secret = told(ACTION, inbox.managed_secret(format!("{prefix}/{name}")))?;
        for version in told(ACTION, secret.versions().await)? {
            let age = version
                .created_at
                .map_or(Duration::ZERO, |at| now.since(at));
            stored.extend(version.stages.into_iter().map(|slot| Stored {
                kind: "ingress".to_owned(),
                name: name.clone(),
                slot,
                age,
            }));
        }
    }
    Ok(stored)
}

/// Parses `<root>/<kind>/<name>/<slot>`. Other parameters are not secrets of a function.
fn stored_as(root: &str, parameter: &str, age: Duration) -> Option<Stored> {
    let below = parameter.strip_prefix(root)?.strip_prefix('/')?;
    let (kind, rest) = below.split_once('/')?;
    let (name, slot) = rest.rsplit_once('/')?;
    KINDS.contains(&kind).then(|| Stored {
        kind: kind.to_owned(),
        name: name.to_owned(),
        slot: slot.to_owned(),
        age,
    })
}

fn root(inbox: &Deployment) -> Option<String> {
    let ingress = inbox.names().secrets("ingress")?;
    Some(ingress.strip_suffix("/ingress")?.to_owned())
}

async fn dead_letters(inbox: &Deployment) -> Known<Count> {
    let shards = (0..Waiting::SHARDS).map(|shard| inbox.ledger.waiting(Waiting::Dead, shard, MOST));
    let mut count = Count::default();
    for shard in join_all(shards).await {
        let (keys, more) = told("dynamodb:Query", shard)?;
        count.count += keys.len();
        count.or_more |= more;
    }
    Ok(count)
}

async fn caller(inbox: &Deployment) -> Known<Caller> {
    const ACTION: &str = "sts:GetCallerIdentity";
    on_aws(inbox)?;
    let aws = told(ACTION, inbox.aws(CallPolicy::LONG))?;
    let sts = aws_sdk_sts::Client::new(&aws.sdk_config("STS"));
    let identity = asked(ACTION, sts.get_caller_identity().send().await)?;
    Ok(Caller {
        account: identity.account.unwrap_or_default(),
        arn: identity.arn.unwrap_or_default(),
    })
}

/// Checks the write permission with an update whose condition never holds, on an item that does
/// not exist.
async fn may_write(inbox: &Deployment) -> Known<()> {
    const ACTION: &str = "dynamodb:UpdateItem";
    if inbox.may_write("try to").is_err() {
        return Err(Unknown::Skipped("the context is read-only"));
    }
    let dynamodb = told(ACTION, inbox.dynamodb())?;
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
    let answer = dynamodb
        .update_item()
        .table_name(inbox.names().table.clone().unwrap_or_default())
        .key("pk", text("SYS"))
        .key("sk", text("DOCTOR"))
        .condition_expression("attribute_exists(pk) AND attribute_not_exists(pk)")
        .update_expression("REMOVE never")
        .send()
        .await;
    let refused = |error: &aws_sdk_dynamodb::operation::update_item::UpdateItemError| {
        error.is_conditional_check_failed_exception()
    };
    match answer {
        Err(error) if error.as_service_error().is_some_and(refused) => Ok(()),
        answer => asked(ACTION, answer).map(|_| ()),
    }
}

fn on_aws(inbox: &Deployment) -> Known<()> {
    match inbox.local {
        Some(_) => Err(Unknown::NotHere),
        None => Ok(()),
    }
}

/// The counts for the bundle, by name.
pub(super) fn counts(facts: &Facts) -> BTreeMap<&'static str, serde_json::Value> {
    let queues = facts.queues.each().into_iter().filter_map(|(name, queue)| {
        let queue = queue.as_ref().ok()?;
        let counts = serde_json::json!({"visible": queue.visible, "in_flight": queue.in_flight});
        Some((name, counts))
    });
    let dead = facts.dead_letters.as_ref().ok();
    let dead = dead.map(|dead| ("dead_letters", serde_json::json!(dead)));
    queues.chain(dead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_of_a_queue_are_read() {
        let policy = "{\"deadLetterTargetArn\":\"arn:dead\",\"maxReceiveCount\":\"5\"}";
        let attributes = HashMap::from([
            (Attribute::VisibilityTimeout, "360".to_owned()),
            (Attribute::RedrivePolicy, policy.to_owned()),
        ]);
        let queue = read_queue("https://q".to_owned(), &attributes);
        assert_eq!(queue.visibility_s, 360);
        let redrive = queue.redrive.unwrap();
        assert_eq!(
            (redrive.target_arn.as_str(), redrive.max_receives),
            ("arn:dead", 5)
        );
        let number = read_redrive("{\"deadLetterTargetArn\":\"a\",\"maxReceiveCount\":10}");
        assert_eq!(number.unwrap().max_receives, 10);
        assert_eq!(read_redrive("{}"), None);
    }

    #[test]
    fn a_parameter_is_a_secret_by_its_path() {
        let stored = |name: &str| stored_as("/mitt", name, Duration::ZERO);
        let secret = stored("/mitt/ingress/stripe-main/current").unwrap();
        assert_eq!(
            (
                secret.kind.as_str(),
                secret.name.as_str(),
                secret.slot.as_str()
            ),
            ("ingress", "stripe-main", "current")
        );
        for other in [
            "/mitt/names",
            "/mitt/test-keys/a/current",
            "/mitt-2/ingress/a/b",
        ] {
            assert!(stored(other).is_none(), "{other}");
        }
    }
}
