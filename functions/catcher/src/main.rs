//! The Lambda behind the HTTP API: wires, and passes each request to the library.

use catcher::{Catcher, Request};
use lambda_http::lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::aws::Patience;
use shared::base::clock::Millis;
use shared::services::Parts;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::aws::logs::init();
    let parts = Parts::from_env(Patience::SHORT)?;
    let catcher = &Catcher::new(parts, Millis::now);
    run(service_fn(async |event: LambdaEvent<Request>| {
        Ok::<_, Error>(Box::pin(catcher.answer(event.payload)).await)
    }))
    .await
}
