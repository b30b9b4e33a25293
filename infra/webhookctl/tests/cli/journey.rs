//! The demo on the real function binaries. The test asserts on the result of every event.
//!
//! By default, the test runs on the embedded stack. With `MITT_STACK_OUTPUTS` (the outputs of a
//! deployed stack as JSON), it runs on that deployment. The deployment must have the secrets of
//! `MITT_DEMO_SECRETS`, and sources with the ports of `MITT_DEMO_PORTS`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use aws_sdk_ssm::types::ParameterType;
use futures::FutureExt;
use local::{Endpoints, Options, Stack};
use serde_json::{Value, json};
use shared::base::env::env_var;
use shared::inbox::ledger::Ledger;
use shared::inbox::queue::Queue;
use shared::inbox::rejected::RejectedRequests;
use webhookctl::demo::{self, DemoSecrets, Deployment, Fate, StandIns};

#[tokio::test]
async fn every_webhook_meets_its_fate() -> anyhow::Result<()> {
    let fates = match env_var("MITT_STACK_OUTPUTS") {
        Some(outputs) => on_a_deployment(&outputs).await?,
        None => on_the_embedded_stack().await?,
    };
    let mut cases: Vec<&str> = fates.iter().map(|fate| fate.case).collect();
    cases.sort_unstable();
    assert_eq!(
        cases,
        [
            "drift",
            "duplicate",
            "flaky",
            "forged",
            "good",
            "good",
            "good",
            "good",
            "missed",
            "poison"
        ]
    );
    for fate in fates {
        assert!(fate.wrong.is_empty(), "{fate:#?}");
    }
    Ok(())
}

async fn on_the_embedded_stack() -> anyhow::Result<Vec<Fate>> {
    let secrets = DemoSecrets::random()?;
    let stand_ins = StandIns::start(&secrets, 0, 0)?;
    let folder = std::env::temp_dir().join(format!("mitt-journey-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let sources = folder.join("sources.toml");
    std::fs::write(&sources, &stand_ins.sources)?;
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
    let stack = Stack::start(Options {
        sources_file: Some(sources),
        rights: Some(testkit::rights::enforced()),
        ..Options::new(template, binaries()?)
    })
    .await?;
    let clients = stack.clients();
    for (kind, name, value) in secrets.iter() {
        let function = match kind {
            "ingress" => "Catcher",
            "egress" => "Processor",
            _ => "BackupSync",
        };
        clients
            .ssm
            .put_parameter()
            .name(format!("{}/{name}/current", stack.secrets_path(function)?))
            .value(value)
            .r#type(ParameterType::SecureString)
            .send()
            .await?;
    }
    let backup_sync = &stack;
    let task = |name: &'static str| {
        async move {
            let invocation = backup_sync
                .invoke("BackupSync", &json!({"task": name}))
                .await?;
            ensure!(invocation.error().is_none(), "{:?}", invocation.error());
            Ok(())
        }
        .boxed()
    };
    let bodies = (clients.s3, stack.bucket("Bodies")?.to_owned());
    let deployment = Deployment {
        url: stack.front_url(),
        quarantine: RejectedRequests::new(clients.dynamodb.clone(), stack.table()?),
        ledger: Ledger::new(clients.dynamodb, stack.table()?, Some(bodies)),
        secrets,
        queue: Queue::new(clients.sqs, stack.queue_url("WorkQueue")?),
        task: &task,
    };
    let fates = demo::run(&deployment, &stand_ins, |_| Ok(())).await?;
    stack.stop().await;
    std::fs::remove_dir_all(&folder)?;
    Ok(fates)
}

async fn on_a_deployment(outputs: &str) -> anyhow::Result<Vec<Fate>> {
    let outputs: Value = serde_json::from_str(&std::fs::read_to_string(outputs)?)?;
    let output = |name: &str| {
        outputs[name]
            .as_str()
            .with_context(|| format!("the stack has no output {name}"))
    };
    let endpoint = env_var("AWS_ENDPOINT_URL").context("AWS_ENDPOINT_URL is not set")?;
    let secrets =
        DemoSecrets::parse(&env_var("MITT_DEMO_SECRETS").context("MITT_DEMO_SECRETS is not set")?)?;
    let ports = env_var("MITT_DEMO_PORTS").context("MITT_DEMO_PORTS is not set")?;
    let (downstream, provider) = ports
        .split_once(',')
        .context("MITT_DEMO_PORTS is two ports")?;
    let stand_ins = StandIns::start(&secrets, downstream.parse()?, provider.parse()?)?;
    let clients = Endpoints::all_at(&endpoint).clients();
    let function = output("BackupSyncFunction")?;
    let task = |name: &'static str| invoke(&endpoint, function, json!({"task": name})).boxed();
    let deployment = Deployment {
        url: output("ApiUrl")?.trim_end_matches('/').to_owned(),
        quarantine: RejectedRequests::new(clients.dynamodb.clone(), output("TableName")?),
        ledger: Ledger::new(
            clients.dynamodb,
            output("TableName")?,
            Some((clients.s3, output("BodyBucket")?.to_owned())),
        ),
        secrets,
        queue: Queue::new(clients.sqs, output("QueueUrl")?),
        task: &task,
    };
    demo::run(&deployment, &stand_ins, |fate| {
        eprintln!("{} {}: {}", fate.case, fate.kind, fate.detail);
        Ok(())
    })
    .await
}

/// Calls Lambda's Invoke. The emulator reads the caller's identity and does not check the
/// signature.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
async fn invoke(endpoint: &str, function: &str, payload: Value) -> anyhow::Result<()> {
    let http = shared::aws::outbound::unguarded(Duration::from_secs(120))?;
    let answer = http
        .post(format!("{endpoint}/2015-03-31/functions/{function}/invocations"))
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20261120/us-east-1/lambda/aws4_request, SignedHeaders=host, Signature=0")
        .header("x-amz-date", "20261120T000000Z")
        .body(payload.to_string())
        .send()
        .await?;
    let (status, failed) = (
        answer.status(),
        answer.headers().contains_key("x-amz-function-error"),
    );
    let text = answer.text().await?;
    if !status.is_success() || failed {
        bail!("{function} answered {status}: {text}");
    }
    Ok(())
}

/// Returns the folder of the function binaries, which is the folder of the CLI that cargo built for
/// this test.
fn binaries() -> anyhow::Result<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_webhookctl"));
    let folder = folder.parent().context("the binary is in a folder")?;
    ensure!(
        folder.join("catcher").exists(),
        "the functions are not built: cargo build --workspace"
    );
    Ok(folder.to_owned())
}
