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
    /// Print the IAM policy of an approver of one source
    ///
    /// The policy allows the two operations that decide about held events of the source, and
    /// nothing else. The role must also be in the `approvers` of a rule of the source. To look at
    /// held events, it needs the policies viewer and body-reader.
    Approver(PolicyApproverArgs),
}

#[derive(Debug, Args)]
pub struct PolicyWorkerArgs {
    /// Queue of the worker, from the `queue` of an action of kind pull
    #[arg(long, value_name = "QUEUE")]
    pub queue: String,
    #[command(flatten)]
    pub stack: PolicyStackArgs,
}

#[derive(Debug, Args)]
pub struct PolicyApproverArgs {
    /// Source whose held events the role decides about
    #[arg(short, long, value_name = "SOURCE")]
    pub source: String,
    #[command(flatten)]
    pub stack: PolicyStackArgs,
}

/// The names of a stack.
#[derive(Debug, Args)]
pub struct PolicyStackArgs {
    /// Id of the HTTP API, the output `ApiId` of the stack
    #[arg(long, value_name = "ID")]
    pub api_id: Option<String>,
    /// AWS account of the stack
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,
}
