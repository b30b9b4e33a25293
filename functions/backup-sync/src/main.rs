//! The Lambda behind the schedules: wires, and passes each task to the library.

use backup_sync::{BackupSync, Task};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::aws::{Aws, Patience};
use shared::clock::Millis;
use shared::inbox::Inbox;
use shared::ledger::Ledger;
use shared::queue::Queue;
use shared::secrets::Secrets;
use shared::settings::Settings;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::tracing::init_default_subscriber();
    let settings = Settings::from_env()?;
    let aws = Aws::from_env(Patience::LONG)?;
    let bodies = (aws.s3(), settings.body_bucket.clone());
    let inbox = Inbox {
        ledger: Ledger::new(aws.dynamodb(), &settings.table, Some(bodies)),
        queue: Queue::new(aws.sqs(), &settings.queue_url),
    };
    let secrets = Secrets::new(aws.ssm(), &settings.secrets_path);
    let backup_sync = &BackupSync::new(settings.config()?, secrets, inbox, Millis::now)?;
    run(service_fn(async |event: LambdaEvent<Task>| {
        // An error is the schedule's to retry and an alarm's to see.
        backup_sync.run(event.payload).await.map_err(|error| {
            tracing::error!(error = format!("{error:#}"), "the task failed");
            Error::from(format!("{error:#}"))
        })
    }))
    .await
}
