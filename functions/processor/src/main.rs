//! The Lambda function of the work queue and of the API of workers: creates the services and passes
//! each batch and each request to the library.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use processor::{Payload, Processor};
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
    run(service_fn(async |event: LambdaEvent<Payload>| {
        let deadline = processor::deadline(event.context.deadline, UnixMillis::now());
        Ok::<_, Error>(processor.handle(event.payload, deadline).await)
    }))
    .await
}
