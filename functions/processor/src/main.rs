//! The Lambda behind the queue: wires, and passes each batch to the library.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use processor::Processor;
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
    let processor = &Processor::new(settings.config()?, secrets, inbox, Millis::now)?;
    run(service_fn(async |event: LambdaEvent<SqsEvent>| {
        let deadline = processor::deadline(event.context.deadline, Millis::now());
        Ok::<_, Error>(processor.work_off(event.payload, deadline).await)
    }))
    .await
}
