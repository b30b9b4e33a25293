//! The same stack as a deployment in AWS: a context names it, and the test emulates alarms and the
//! caller's identity.

use std::fmt::Write as _;
use std::path::PathBuf;

use aws_sdk_ssm::types::ParameterType;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY, STACK_NAME};
use tokio::process::Command;
use webhookctl::target::{Local, Names};

use crate::recorder::{Call, Recorder, Service};
use crate::world::{PREFIX, World};

pub(crate) struct Deployed {
    config: PathBuf,
    /// The address of each service, by the suffix of its variable, such as `SQS` in
    /// `AWS_ENDPOINT_URL_SQS`.
    endpoints: [(&'static str, String); 8],
    /// The recorder for the services that the stack does not have.
    recorder: Recorder,
}

impl Deployed {
    pub(crate) async fn of(world: &World) -> Self {
        let local = std::fs::read_to_string(world.folder.join(".mitt/local.json")).unwrap();
        let local: Local = serde_json::from_str(&local).unwrap();
        let recorder = Recorder::new();
        let endpoints = [
            ("DYNAMODB", local.dynamodb),
            ("SQS", local.sqs),
            ("S3", local.s3),
            ("SSM", local.ssm),
            ("SECRETS_MANAGER", local.secrets_manager),
            ("LAMBDA", local.lambda.unwrap()),
            (
                "CLOUDWATCH",
                recorder.stand_in_for(Service::CloudWatch).await,
            ),
            ("STS", recorder.stand_in_for(Service::Sts).await),
        ];
        let config = world.folder.join("contexts.toml");
        let names = names(world);
        publish(world, &names).await;
        std::fs::write(&config, context(names)).unwrap();
        Self {
            config,
            endpoints,
            recorder,
        }
    }

    /// Makes a command use this deployment, and no other settings of this machine.
    pub(crate) fn lead(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.config.parent().unwrap())
            .env("WEBHOOKCTL_CONFIG", &self.config)
            .env("WEBHOOKCTL_CONTEXT", CONTEXT)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // A request that the test does not expect must not reach AWS.
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
        for (service, url) in &self.endpoints {
            command.env(format!("AWS_ENDPOINT_URL_{service}"), url);
        }
    }

    /// Returns the calls to the services that the stack does not have.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.recorder.take()
    }
}

const CONTEXT: &str = "deployed";

/// Creates the parameter of a stack, which `context add` reads.
async fn publish(world: &World, names: &Names) {
    let put = world.stack.clients().ssm.put_parameter();
    put.name(Names::parameter(STACK_NAME))
        .value(serde_json::to_string(names).unwrap())
        .r#type(ParameterType::String)
        .send()
        .await
        .unwrap();
}

fn names(world: &World) -> Names {
    let stack = &world.stack;
    let queue = |id| Some(stack.queue_url(id).unwrap().to_owned());
    let function = |id| Some(stack.template().function(id).unwrap().name.clone());
    Names {
        url: Some(stack.front_url()),
        table: Some(world.table().to_owned()),
        bucket: Some(stack.bucket("Bodies").unwrap().to_owned()),
        queue_url: queue("WorkQueue"),
        backlog_queue_url: queue("BacklogQueue"),
        long_queue_url: queue("LongQueue"),
        work_dead_letters_url: queue("WorkDeadLetters"),
        spill_queue_url: queue("SpillQueue"),
        ops_dead_letters_url: queue("OpsDeadLetters"),
        secrets_path: Some(stack.secrets_path("Catcher").unwrap().to_owned()),
        secrets_manager_prefix: Some(PREFIX.to_owned()),
        catcher: function("Catcher"),
        processor: function("Processor"),
        long_processor: function("LongProcessor"),
        backup_sync: function("BackupSync"),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

/// Writes the context file, as `context add` writes it.
fn context(mut names: Names) -> String {
    let mut text = format!(
        "[context.{CONTEXT}]\nstack = \"{STACK_NAME}\"\nregion = \"{REGION}\"\nsources = \"sources.toml\"\n"
    );
    for (word, _, name) in names.fields() {
        writeln!(text, "{word} = {:?}", name.as_deref().unwrap()).unwrap();
    }
    text
}
