//! Reads the facts of a deployment in parallel. No message is received from a queue, and no secret
//! is decrypted.

mod resources;
mod secrets;
mod versions;

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{PointInTimeRecoveryStatus, TimeToLiveStatus};
use futures::future::{join, join_all};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Waiting;

pub(in crate::verbs) use resources::queues;

use super::probe::{asked, told};
use super::sources;
use crate::doctor::{Caller, Facts, Known, Table, Unknown};
use crate::output::Exit;
use crate::output::aws::rewrite;
use crate::output::count::Count;
use crate::target::Deployment;

/// The maximum number of dead letters that are counted in one shard of the index.
const MOST: i32 = 1000;

pub(super) async fn gather(inbox: &Deployment, now: UnixMillis) -> anyhow::Result<Facts> {
    let table = table(inbox).await?;
    let (queues, functions) = join(
        Box::pin(queues(inbox)),
        Box::pin(resources::functions(inbox)),
    )
    .await;
    let (ttl, recovery, mappings, alarms, secrets) = tokio::join!(
        ttl(inbox),
        recovery(inbox),
        resources::mappings(inbox),
        resources::alarms(inbox),
        secrets::secrets(inbox, now),
    );
    let (caller, account, heartbeats, dead_letters, sources, versions, may_write) = tokio::join!(
        caller(inbox),
        resources::account(inbox),
        inbox.ledger.operations().heartbeats(),
        dead_letters(inbox),
        sources::sources(inbox, now),
        versions::versions(inbox),
        may_write(inbox),
    );
    let deployed = inbox.deployed.as_ref();
    Ok(Facts {
        now,
        context: inbox.name.clone(),
        names: inbox.names().clone(),
        region: deployed.and_then(|it| it.region.clone()),
        expected_account: deployed.and_then(|it| it.account.clone()),
        caller,
        account,
        functions,
        mappings,
        queues,
        table,
        ttl,
        recovery,
        alarms,
        secrets,
        heartbeats: told("dynamodb:Query", heartbeats),
        dead_letters,
        sources,
        versions,
        may_write,
    })
}

/// Reads the table, before all other calls. Without credentials or without a table, no check can
/// run, so this returns an error and not a finding.
pub(in crate::verbs) async fn table(inbox: &Deployment) -> anyhow::Result<Known<Table>> {
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
            // The local stack deletes its table only on request, so it does not need deletion
            // protection.
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

async fn dead_letters(inbox: &Deployment) -> Known<Count> {
    let shards = (0..Waiting::SHARDS).map(|shard| inbox.ledger.waiting(Waiting::Dead, shard, MOST));
    let mut count = Count::default();
    for shard in join_all(shards).await {
        let (keys, more) = told("dynamodb:Query", shard)?;
        count.count += keys.len() as u64;
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

/// Checks the write permission. The request would update an item that does not exist, under a
/// condition that never holds.
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

/// Returns the counts for the bundle by their names.
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
