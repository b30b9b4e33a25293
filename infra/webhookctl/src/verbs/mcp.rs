//! `mcp`: lets an agent read the inbox, over the Model Context Protocol on stdin and stdout.
//!
//! Types, ids, error texts and bodies come from the sender of a webhook, so they can contain
//! instructions for an agent. No tool here changes an event, sends a request or writes a file, and
//! every text from outside is inside an object with the key `untrusted`.

mod answer;
mod body;
mod call;
mod fence;
mod handler;
mod tools;

use rmcp::ServiceExt as _;

use self::handler::Agent;
use crate::cli::{Global, McpArgs};
use crate::output::{CliError, Exit, Printer};
use crate::reads::Reader;
use crate::target::{Caller, Deployment};
use shared::inbox::ledger::Through;

pub(super) async fn mcp(args: McpArgs, global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    if args.propose {
        inbox.may_write("let an agent propose replays")?;
    }
    if out.terminal.asks {
        out.say("An agent starts this command; infra/docs/mcp.md shows its configuration.");
    }
    let reader = Reader::new(global, super::run_boxed).for_caller(Caller::new(Through::Mcp));
    let agent = Agent::new(reader, &args);
    let (stdin, stdout) = rmcp::transport::stdio();
    let service = agent.serve((stdin, stdout)).await;
    let service = service.map_err(|error| stopped(&error))?;
    service.waiting().await.map_err(|error| stopped(&error))?;
    Ok(Exit::Done)
}

fn stopped(error: &dyn std::fmt::Display) -> CliError {
    CliError::failed(
        "mcp.protocol",
        format!("the connection to the agent failed: {error}"),
    )
}
