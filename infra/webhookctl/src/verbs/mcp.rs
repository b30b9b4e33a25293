//! `mcp`: lets an agent read the inbox, over the Model Context Protocol on stdin and stdout. With
//! `--work`, the agent works on the events of a queue instead.
//!
//! Types, ids, error texts and bodies come from the sender of a webhook, so they can contain
//! instructions for an agent. Every text from outside is inside an object with the key `untrusted`.
//! No tool of the reading server changes an event, sends a request or writes a file, and no server
//! has the tools of both.

mod answer;
mod body;
mod call;
mod fence;
mod reader;
mod server;
mod stdin;
mod tools;
mod work;

use std::sync::Arc;

use self::reader::Agent;
use self::stdin::stdin;
use crate::cli::{Global, McpArgs};
use crate::output::{Exit, Printer};
use crate::reads::Reader;
use crate::target::{Caller, Deployment};
use shared::inbox::ledger::Through;

pub(super) async fn mcp(args: McpArgs, global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    if let Some(queue) = &args.work {
        return Box::pin(work::serve(queue, &args, global, out)).await;
    }
    let inbox = Deployment::open(&global.target).await?;
    if args.propose {
        inbox.may_write("let an agent propose replays")?;
    }
    if out.terminal.asks {
        out.say("An agent starts this command; infra/docs/mcp.md shows its configuration.");
    }
    let reader = Reader::new(global, super::run_boxed).for_caller(Caller::new(Through::Mcp));
    let (input, _) = stdin();
    server::serve(Arc::new(Agent::new(reader, &args)), input).await?;
    Ok(Exit::Done)
}
