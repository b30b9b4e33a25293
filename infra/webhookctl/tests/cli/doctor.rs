//! `webhookctl doctor`, as a user runs it on the local stack. On a healthy stack all checks pass.
//! If one part is broken, the check for this part fails.

use std::collections::BTreeMap;
use std::process::Output;

use crate::support::world::World;
use anyhow::{Context, ensure};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use local::Clients;
use serde_json::{Value, json};
use shared::aws::{Aws, CallPolicy};
use shared::base::clock::UnixMillis;
use shared::monitoring::endpoint::{Finding, Health, Status};

const TEMPLATE: &str = include_str!("../../../../template.yaml");

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "acme"
preset = "standard-webhooks"
action = [{ kind = "keep" }]

[[source]]
name = "code"
preset = "github"
action = [{ kind = "keep" }]
[source.endpoint]
url = "https://inbox.example/in/code"
with = { repo = "acme/shop" }
"#;

impl World {
    async fn of(name: &str, template: &str) -> anyhow::Result<Self> {
        let world = Self::start_with(name, SOURCES, |folder| {
            folder.write("own.yaml", template)?;
            Ok(vec!["--template", "own.yaml"])
        })?;
        // `dev` cannot generate an API key, because only the provider issues it. So the test sets
        // one.
        let ssm = world.clients().ssm;
        let key = ssm.put_parameter().name("/mitt/provider-api/code/current");
        let kind = aws_sdk_ssm::types::ParameterType::SecureString;
        key.value("ghp_made_up").r#type(kind).send().await?;
        for task in ["sweep", "drain"] {
            world.task(task).await?;
        }
        world
            .ledger
            .operations()
            .beat("sync", UnixMillis::now())
            .await?;
        world
            .ledger
            .operations()
            .beat("endpoints", UnixMillis::now())
            .await?;
        Ok(world)
    }

    fn clients(&self) -> Clients {
        self.local.endpoints().clients()
    }

    /// Runs a task of backup-sync, as its schedule does.
    async fn task(&self, task: &str) -> anyhow::Result<()> {
        let keys = aws_credential_types::Credentials::from_keys("test", "test", None);
        let url = self.local.lambda.clone();
        let aws = Aws::new("us-east-1".to_owned(), keys, url, CallPolicy::ONCE);
        let lambda = aws_sdk_lambda::Client::new(&aws.sdk_config("LAMBDA"));
        let name = self
            .local
            .backup_sync
            .clone()
            .context("the function has a name")?;
        let payload = Blob::new(json!({ "task": task }).to_string());
        let answer = lambda
            .invoke()
            .function_name(name)
            .payload(payload)
            .send()
            .await?;
        ensure!(answer.function_error().is_none(), "{answer:?}");
        Ok(())
    }

    async fn set(
        &self,
        queue: Option<&String>,
        name: Attribute,
        value: &str,
    ) -> anyhow::Result<()> {
        let url = queue.context("the queue has a name")?;
        let sqs = self.clients().sqs;
        let set = sqs.set_queue_attributes().queue_url(url);
        set.attributes(name, value).send().await?;
        Ok(())
    }

    fn doctor(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        self.run(&[&["doctor"], arguments].concat())
    }

    /// Returns the result of each check, and the exit code.
    fn results(&self) -> anyhow::Result<(BTreeMap<String, String>, Option<i32>)> {
        let output = self.doctor(&["-o", "jsonl"])?;
        let text = String::from_utf8(output.stdout)?;
        let mut results = BTreeMap::new();
        for line in text.lines() {
            let checked: Value = serde_json::from_str(line)?;
            let word = |name: &str| checked[name].as_str().map(str::to_owned);
            let check = word("check").with_context(|| line.to_owned())?;
            results.insert(check, word("result").with_context(|| line.to_owned())?);
        }
        ensure!(
            !results.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok((results, output.status.code()))
    }

    /// Checks that this check has this result, and that no other check fails.
    fn finds(&self, check: &str, result: &str) -> anyhow::Result<()> {
        let (results, code) = self.results()?;
        ensure!(
            results.get(check).is_some_and(|it| it == result),
            "{check}: {results:?}"
        );
        let failed: Vec<&String> = results
            .iter()
            .filter_map(|(name, result)| (result == "fail").then_some(name))
            .collect();
        let expected: &[&str] = if result == "fail" { &[check] } else { &[] };
        ensure!(failed == expected, "{check}: {failed:?} failed");
        ensure!(
            code == Some(if result == "fail" { 5 } else { 0 }),
            "{code:?}"
        );
        Ok(())
    }
}

#[tokio::test]
async fn a_healthy_stack_is_well() -> anyhow::Result<()> {
    let world = World::of("doctor-well", TEMPLATE).await?;
    let (results, code) = world.results()?;
    assert_eq!(code, Some(0), "{results:?}");
    let of = |result: &str| {
        let found = results.iter().filter(|(_, it)| *it == result);
        found.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("fail"), [""; 0]);
    // GitHub never retries, so its check is a warning. A check that cannot run on this machine does
    // not count as passed.
    assert_eq!(of("warn"), ["source.outage"]);
    let not_here = [
        "alarm.actions",
        "alarm.present",
        "alarm.ringing",
        "context.account",
        "function.architecture",
        "function.concurrency",
        "function.version",
        "table.protected",
        "table.recovery",
    ];
    assert_eq!(of("not_checked"), not_here);

    let text = world.doctor(&[])?;
    let text = String::from_utf8(text.stdout)?;
    assert!(
        text.contains("✓ Effect < lease ≤ function timeout < visibility"),
        "{text}"
    );
    assert!(text.contains("not checked: the local stack"), "{text}");
    let strict = world.doctor(&["--strict"])?;
    assert_eq!(strict.status.code(), Some(5), "a warning is enough");
    let only = world.doctor(&["--only", "queue", "--strict"])?;
    assert_eq!(only.status.code(), Some(0));
    assert!(!String::from_utf8(only.stdout)?.contains("source."));
    assert_eq!(world.doctor(&["--only", "queues"])?.status.code(), Some(2));
    Ok(())
}

#[tokio::test]
async fn a_fault_of_the_running_stack_is_found() -> anyhow::Result<()> {
    let world = World::of("doctor-faults", TEMPLATE).await?;
    let names = &world.local.names;
    let (dead, backlog) = (
        names.work_dead_letters_url.as_ref(),
        names.backlog_queue_url.as_ref(),
    );
    let retention = Attribute::MessageRetentionPeriod;
    world.set(dead, retention.clone(), "345600").await?;
    world.finds("queue.dlq_retention", "fail")?;
    world.set(dead, retention, "1209600").await?;

    let visibility = Attribute::VisibilityTimeout;
    world.set(backlog, visibility.clone(), "60").await?;
    world.finds("timing.chain", "fail")?;
    world.set(backlog, visibility, "360").await?;

    let redrive = Attribute::RedrivePolicy;
    let arn = "arn:aws:sqs:us-east-1:000000000000:elsewhere";
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 10}).to_string();
    let before = world.clients().sqs.get_queue_attributes();
    let before = before.queue_url(backlog.context("named")?);
    let before = before.attribute_names(Attribute::All).send().await?;
    let before = before.attributes.context("the queue has attributes")?;
    world.set(backlog, redrive.clone(), &policy).await?;
    world.finds("queue.redrive", "fail")?;
    world
        .set(backlog, redrive.clone(), &before[&redrive])
        .await?;

    let sqs = world.clients().sqs;
    let message = sqs.send_message().queue_url(dead.context("named")?);
    message.message_body("who knows").send().await?;
    world.finds("queue.work_dead_letters", "warn")?;
    Ok(())
}

#[tokio::test]
async fn a_missing_secret_and_a_disabled_endpoint_are_found() -> anyhow::Result<()> {
    let world = World::of("doctor-sources", TEMPLATE).await?;
    let ssm = world.clients().ssm;
    ssm.delete_parameter()
        .name("/mitt/ingress/acme/current")
        .send()
        .await?;
    world.finds("secret.present", "fail")?;
    let kind = aws_sdk_ssm::types::ParameterType::SecureString;
    let put = ssm
        .put_parameter()
        .name("/mitt/ingress/acme/current")
        .value("whsec_bWFkZSB1cA==");
    put.r#type(kind).send().await?;

    let finding = Finding {
        health: Health::Disabled,
        subscription: None,
        missing_events: Vec::new(),
        note: None,
    };
    let status = Status::after("code", None, finding, UnixMillis::now());
    let reports = world.ledger.provider_reports();
    reports.note_endpoint(&status).await?;
    world.finds("source.subscription", "fail")?;
    Ok(())
}

#[tokio::test]
async fn a_fault_of_the_template_is_found() -> anyhow::Result<()> {
    let item_failures = "      FunctionResponseTypes: [ReportBatchItemFailures]\n";
    // The first mapping is that of the work queue.
    ensure!(TEMPLATE.matches(item_failures).count() == 2);
    let broken = TEMPLATE.replacen(item_failures, "", 1);
    let world = World::of("doctor-template", &broken).await?;
    world.finds("queue.partial_batch", "fail")?;
    Ok(())
}

#[tokio::test]
async fn a_task_that_does_not_run_is_found() -> anyhow::Result<()> {
    let world = World::of("doctor-rounds", TEMPLATE).await?;
    let long_ago = UnixMillis::now() - std::time::Duration::from_secs(3600);
    world.ledger.operations().beat("drain", long_ago).await?;
    world.finds("schedule.drain", "fail")?;
    // A process records a heartbeat every ten minutes.
    world
        .ledger
        .operations()
        .beat("drain", UnixMillis::now())
        .await?;
    world.finds("schedule.drain", "pass")?;
    Ok(())
}

#[tokio::test]
async fn a_canary_comes_to_its_end() -> anyhow::Result<()> {
    let world = World::of("doctor-canary", TEMPLATE).await?;
    let output = world.doctor(&["--end-to-end", "--only", "end_to_end", "-o", "jsonl"])?;
    let checked: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(checked["check"], "end_to_end.canary");
    assert_eq!(checked["result"], "pass", "{checked}");
    assert_eq!(output.status.code(), Some(0));
    let list = world.json(&["inbox", "list"])?;
    assert_eq!(list["items"][0]["source"], "acme", "{list}");
    Ok(())
}

#[tokio::test]
async fn a_bundle_holds_no_secret_and_takes_no_files_place() -> anyhow::Result<()> {
    let world = World::of("doctor-bundle", TEMPLATE).await?;
    let output = world.doctor(&["--bundle", "report.json"])?;
    assert_eq!(output.status.code(), Some(0));
    let text = world.read("report.json")?;
    let shown = String::from_utf8(output.stderr)?;
    assert!(shown.contains(&text), "the plan was shown first");
    let bundle: Value = serde_json::from_str(&text)?;
    assert_eq!(bundle["schema"], "webhookctl/doctor.bundle/v1");
    assert_eq!(bundle["config"]["sources"][0]["name"], "acme");
    assert!(bundle["checks"].as_array().context("checks")?.len() > 30);
    let ssm = world.clients().ssm;
    let all = ssm.get_parameters_by_path().path("/mitt").recursive(true);
    let all = all
        .with_decryption(true)
        .send()
        .await?
        .parameters
        .context("some")?;
    assert!(all.len() >= 3);
    for parameter in all {
        let value = parameter.value.context("a value")?;
        assert!(!text.contains(&value) && !shown.contains(&value));
    }
    let again = world.doctor(&["--bundle", "report.json"])?;
    assert_eq!(again.status.code(), Some(2));
    Ok(())
}
