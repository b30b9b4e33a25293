//! The Lambda behind the queue: wires, and passes each batch to the library.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use processor::Processor;
use shared::aws::Patience;
use shared::base::clock::Millis;
use shared::services::Parts;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::aws::logs::init();
    let parts = Parts::from_env(Patience::LONG)?;
    let processor = &Processor::new(parts, Millis::now);
    run(service_fn(async |event: LambdaEvent<SqsEvent>| {
        let deadline = processor::deadline(event.context.deadline, Millis::now());
        Ok::<_, Error>(processor.process_batch(event.payload, deadline).await)
    }))
    .await
}
