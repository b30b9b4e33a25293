//! `mcp --work`: lets an agent work on the events of a queue.
//!
//! The leases stay in this process, and the agent names events by their ids. So an agent can end only
//! the work that this process has claimed. No tool approves a held effect, and none reads the inbox.

mod advice;
mod call;
mod claim;
mod document;
mod held;
mod keep;
mod server;
mod tools;

use std::sync::Arc;

use tokio::io::DuplexStream;
use tokio::sync::{Mutex, watch};

use self::held::Held;
use super::stdin::stdin;
use crate::cli::{Global, McpArgs, WorkAt};
use crate::output::{Exit, Printer};
use crate::verbs::dev::stopped;
use crate::verbs::work::client::Client;

/// The worker of an agent.
struct Worker {
    client: Client,
    held: Held,
    /// The name of the worker, for people.
    name: Option<String>,
    reads_bodies: bool,
    /// Becomes true at the end of the input.
    ended: watch::Receiver<bool>,
    /// Held during a claim, so that the end of the process waits for it.
    claims: Mutex<()>,
}

pub(super) async fn serve(
    queue: &str,
    args: &McpArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let at = WorkAt {
        queue: queue.to_owned(),
        api: args.api.clone(),
        role: args.role.clone(),
    };
    let client = Client::find(&at, global)?;
    if out.terminal.asks {
        out.say("An agent starts this command; infra/docs/mcp.md shows its configuration.");
    }
    let (input, ended) = stdin();
    let worker = Arc::new(Worker {
        client,
        held: Held::default(),
        name: args.worker.clone(),
        reads_bodies: args.bodies,
        ended,
        claims: Mutex::new(()),
    });
    let served = until_ended(&worker, input).await;
    for line in worker.release().await {
        out.say(&line);
    }
    served.map(|()| Exit::Done)
}

/// Serves until the end of the input, or until a signal.
async fn until_ended(worker: &Arc<Worker>, input: DuplexStream) -> anyhow::Result<()> {
    let worker = Arc::clone(worker);
    tokio::select! {
        served = super::server::serve(worker, input) => served,
        heard = stopped() => heard,
    }
}
