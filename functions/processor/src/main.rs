//! The Lambda function of the work queue: creates the services and passes each batch to the
//! library.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use processor::Processor;
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::services::Services;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::aws::logs::init();
    let services = Services::from_env(CallPolicy::LONG)?;
    let processor = &Processor::new(services, UnixMillis::now);
    run(service_fn(async |event: LambdaEvent<SqsEvent>| {
        let deadline = processor::deadline(event.context.deadline, UnixMillis::now());
        Ok::<_, Error>(processor.process_batch(event.payload, deadline).await)
    }))
    .await
}
