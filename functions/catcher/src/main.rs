//! The Lambda function of the HTTP API: creates the services and passes each request to the
//! library.

use catcher::{Catcher, Request};
use lambda_http::lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::services::Services;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::aws::logs::init();
    let services = Services::from_env(CallPolicy::SHORT)?;
    let catcher = &Catcher::new(services, UnixMillis::now);
    run(service_fn(async |event: LambdaEvent<Request>| {
        Ok::<_, Error>(Box::pin(catcher.answer(event.payload)).await)
    }))
    .await
}
