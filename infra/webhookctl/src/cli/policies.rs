//! Arguments of `policies`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum PoliciesCommand {
    /// Print the IAM policy of a worker of one queue
    ///
    /// The policy allows the five operations of one queue, and nothing else. The role must also be
    /// in the `workers` of the queue. Names that are not given stay as `${Name}`, as in the other
    /// files of infra/policies.
    Worker(PolicyWorkerArgs),
}

#[derive(Debug, Args)]
pub struct PolicyWorkerArgs {
    /// Queue of the worker, from the `queue` of an action of kind pull
    #[arg(long, value_name = "QUEUE")]
    pub queue: String,
    /// Id of the HTTP API, the output `ApiId` of the stack
    #[arg(long, value_name = "ID")]
    pub api_id: Option<String>,
    /// AWS account of the stack
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,
}
