//! Reads the queues, functions, event source mappings and alarms of a deployment.

use std::collections::HashMap;

use aws_sdk_lambda::types::FunctionResponseType;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use shared::aws::CallPolicy;

use super::on_aws;
use super::secrets::root;
use crate::doctor::{
    AccountLimit, Alarm, Function, Functions, Known, Mapping, Queue, Queues, Redrive, Unknown,
};
use crate::target::Deployment;
use crate::verbs::doctor::probe::{asked, told};

pub(in crate::verbs) async fn queues(inbox: &Deployment) -> Queues {
    let names = inbox.names();
    let queue = |url: &Option<String>, what| queue(inbox, url.clone(), what);
    let (work_queue, backlog, long, work_dead_letters, spill, ops_dead_letters) = tokio::join!(
        queue(&names.queue_url, "queue_url"),
        queue(&names.backlog_queue_url, "backlog_queue_url"),
        queue(&names.long_queue_url, "long_queue_url"),
        queue(&names.work_dead_letters_url, "work_dead_letters_url"),
        queue(&names.spill_queue_url, "spill_queue_url"),
        queue(&names.ops_dead_letters_url, "ops_dead_letters_url"),
    );
    Queues {
        work_queue,
        backlog,
        long: names.long_queue_url.is_some().then_some(long),
        work_dead_letters,
        spill,
        ops_dead_letters,
    }
}

pub(super) async fn functions(inbox: &Deployment) -> Functions {
    let names = inbox.names();
    let function = |name: &Option<String>, what| function(inbox, name.clone(), what);
    let (catcher, processor, long_processor, backup_sync) = tokio::join!(
        function(&names.catcher, "catcher"),
        function(&names.processor, "processor"),
        function(&names.long_processor, "long_processor"),
        function(&names.backup_sync, "backup_sync"),
    );
    Functions {
        catcher,
        processor,
        long_processor: names.long_processor.is_some().then_some(long_processor),
        backup_sync,
    }
}

/// Returns the concurrent executions that the functions of the account share.
pub(super) async fn account(inbox: &Deployment) -> Known<AccountLimit> {
    const ACTION: &str = "lambda:GetAccountSettings";
    on_aws(inbox)?;
    let lambda = told(ACTION, inbox.lambda(CallPolicy::LONG))?;
    let answer = asked(ACTION, lambda.get_account_settings().send().await)?;
    let limit = answer.account_limit;
    let limit = limit.ok_or(Unknown::Skipped("Lambda did not state the limit"))?;
    let concurrent = u64::try_from(limit.concurrent_executions).unwrap_or_default();
    let unreserved = limit.unreserved_concurrent_executions;
    let unreserved = unreserved.and_then(|number| u64::try_from(number).ok());
    Ok(AccountLimit {
        concurrent,
        unreserved: unreserved.unwrap_or(concurrent),
    })
}

/// Returns the mappings of the processor, and of the function for long actions.
pub(super) async fn mappings(inbox: &Deployment) -> Known<Vec<Mapping>> {
    let name = inbox.names().processor.clone();
    let mut mappings = mappings_of(inbox, name.ok_or(Unknown::Unnamed("processor"))?).await?;
    if let Some(name) = inbox.names().long_processor.clone() {
        mappings.extend(mappings_of(inbox, name).await?);
    }
    Ok(mappings)
}

async fn mappings_of(inbox: &Deployment, name: String) -> Known<Vec<Mapping>> {
    const ACTION: &str = "lambda:ListEventSourceMappings";
    let lambda = told(ACTION, inbox.lambda(CallPolicy::LONG))?;
    let answer = lambda.list_event_source_mappings().function_name(name);
    let answer = asked(ACTION, answer.send().await)?;
    let mappings = answer.event_source_mappings.unwrap_or_default();
    let mappings = mappings.into_iter().map(|it| {
        let types = it.function_response_types.unwrap_or_default();
        let window = it.maximum_batching_window_in_seconds.unwrap_or_default();
        let maximum = it.scaling_config.and_then(|it| it.maximum_concurrency);
        Mapping {
            queue_arn: it.event_source_arn.unwrap_or_default(),
            state: it.state.unwrap_or_default(),
            window_s: u64::try_from(window).unwrap_or_default(),
            max_concurrency: maximum.and_then(|number| u64::try_from(number).ok()),
            reports_item_failures: types.contains(&FunctionResponseType::ReportBatchItemFailures),
        }
    });
    Ok(mappings.collect())
}

/// Returns the alarms of the stack. CloudFormation names an alarm `<stack>-<id>-<random>`.
pub(super) async fn alarms(inbox: &Deployment) -> Known<Vec<Alarm>> {
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
        let notifies_without_data = !alarm
            .insufficient_data_actions
            .unwrap_or_default()
            .is_empty();
        Alarm {
            name: alarm.alarm_name.unwrap_or_default(),
            metric: alarm.metric_name.unwrap_or_default(),
            about: dimensions.into_iter().filter_map(|it| it.value).collect(),
            actions: if on { actions.len() } else { 0 },
            ringing: alarm.state_value.is_some_and(|state| match state.as_str() {
                "INSUFFICIENT_DATA" => notifies_without_data,
                state => state == "ALARM",
            }),
        }
    });
    Ok(alarms.collect())
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

/// Returns the count in a redrive policy. The policy is JSON, and the count can be a number or a
/// string.
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
    let architectures = answer.architectures.unwrap_or_default();
    Ok(Function {
        timeout_s: u64::try_from(answer.timeout.unwrap_or_default()).unwrap_or_default(),
        state: answer.state.map(|state| state.to_string()),
        last_update: answer.last_update_status.map(|status| status.to_string()),
        version: answer.description.as_deref().and_then(stated_version),
        architecture: architectures.first().map(ToString::to_string),
        environment: variables.unwrap_or_default().into_iter().collect(),
    })
}

/// Returns the version of Mitt at the end of a function's description, which the template sets.
fn stated_version(description: &str) -> Option<String> {
    let (_, version) = description.trim_end_matches('.').rsplit_once(" Mitt ")?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_a_function_states_the_version() {
        let stated = stated_version("Verifies webhooks. Mitt 0.1.0.");
        assert_eq!(stated.as_deref(), Some("0.1.0"));
        assert_eq!(stated_version("Verifies webhooks."), None);
    }

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
}
