//! The Lambda function of the schedules: creates the services and passes each task to the library.

use backup_sync::{BackupSync, RunTime, Task};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::services::Services;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::aws::logs::init();
    let services = Services::from_env(CallPolicy::LONG)?;
    let backup_sync = &BackupSync::new(services, UnixMillis::now);
    run(service_fn(async |event: LambdaEvent<Task>| {
        let time = RunTime::before(event.context.deadline, UnixMillis::now());
        // The function returns errors, so that the schedule retries and the alarm sees them.
        let run = backup_sync.run_within(event.payload, time);
        run.await.map_err(|error| {
            tracing::error!(error = format!("{error:#}"), "the task failed");
            Error::from(format!("{error:#}"))
        })
    }))
    .await
}
