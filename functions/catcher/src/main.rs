//! The Lambda behind the HTTP API: wires, and passes each request to the library.

use catcher::{Catcher, Request};
use lambda_http::lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::aws::{Aws, Patience};
use shared::clock::Millis;
use shared::inbox::Inbox;
use shared::ledger::Ledger;
use shared::queue::Queue;
use shared::secrets::Secrets;
use shared::settings::Settings;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_http::tracing::init_default_subscriber();
    let settings = Settings::from_env()?;
    let aws = Aws::from_env(Patience::SHORT)?;
    let bodies = (aws.s3(), settings.body_bucket.clone());
    let inbox = Inbox {
        ledger: Ledger::new(aws.dynamodb(), &settings.table, Some(bodies)),
        queue: Queue::new(aws.sqs(), &settings.queue_url),
    };
    let secrets = Secrets::new(aws.ssm(), &settings.secrets_path);
    let catcher = &Catcher::new(settings.config()?, secrets, inbox, Millis::now);
    run(service_fn(async |event: LambdaEvent<Request>| {
        Ok::<_, Error>(catcher.answer(event.payload).await)
    }))
    .await
}
