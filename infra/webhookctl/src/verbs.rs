//! The implementations of the commands.

mod completions;
mod console;
mod context;
mod decision;
mod dev;
mod dlq;
mod doctor;
mod endpoint;
mod erase;
mod hold;
mod inbox;
mod init;
mod keys;
mod listen;
mod log;
mod mcp;
mod missing_paths;
mod policies;
mod presets;
mod quarantine;
mod receiver_files;
mod reconcile;
pub(crate) mod replay;
mod secrets;
mod send;
mod sources;
mod stats;
mod status;
mod sync;
mod trial;
mod verify;
mod work;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use crate::cli::{Cli, Command, InboxCommand};
use crate::meter::metered;
use crate::output::{Exit, Printer};

pub use completions::answer_shell;

/// Runs a command. The future stays on its thread.
fn run_boxed(cli: Cli, out: &mut Printer) -> LocalBoxFuture<'_, anyhow::Result<Exit>> {
    run(cli, out).boxed_local()
}

/// Runs a command, and counts the cost of its requests.
pub async fn run(cli: Cli, out: &mut Printer) -> anyhow::Result<Exit> {
    // Without the box, the type of the future is too deep for the compiler.
    let command: LocalBoxFuture<'_, anyhow::Result<Exit>> = Box::pin(command(cli, out));
    metered(command).await
}

async fn command(cli: Cli, out: &mut Printer) -> anyhow::Result<Exit> {
    let global = cli.global;
    match cli.command {
        Command::Dev(args) => Box::pin(dev::dev(args, &global, out)).await,
        Command::Send(args) => Box::pin(send::send(args, &global, out)).await,
        Command::Listen(args) => Box::pin(listen::listen(args, &global, out)).await,
        Command::Console(args) => Box::pin(console::console(args, &global, out)).await,
        Command::Verify(args) => Box::pin(verify::verify(args, &global, out)).await,
        Command::Inbox(InboxCommand::List(args)) => inbox::list(args, &global, out).await,
        Command::Inbox(InboxCommand::Inspect(args)) => {
            Box::pin(inbox::inspect(args, &global, out)).await
        }
        Command::Inbox(InboxCommand::Trace(args)) => inbox::trace(args, &global, out).await,
        Command::Inbox(InboxCommand::Body(args)) => inbox::body(args, &global, out).await,
        Command::Inbox(InboxCommand::Diff(args)) => inbox::diff(args, &global, out).await,
        Command::Inbox(InboxCommand::Tail(args)) => inbox::tail(args, &global, out).await,
        Command::Inbox(InboxCommand::Export(args)) => inbox::export(args, &global, out).await,
        Command::Inbox(InboxCommand::Stats(args)) => {
            Box::pin(stats::stats(args, &global, out)).await
        }
        Command::Erase(args) => Box::pin(erase::erase(args, &global, out)).await,
        Command::Dlq(command) => Box::pin(dlq::run(command, &global, out)).await,
        Command::Status(args) => Box::pin(status::status(args, &global, out)).await,
        Command::Log(args) => log::log(args, &global, out).await,
        Command::Mcp(args) => Box::pin(mcp::mcp(args, &global, out)).await,
        Command::Policies(command) => policies::run(&command, &global, out),
        Command::Presets(command) => presets::run(&command, out),
        Command::Quarantine(command) => quarantine::run(command, &global, out).await,
        Command::Hold(command) => Box::pin(hold::run(command, &global, out)).await,
        Command::Endpoint(command) => endpoint::run(command, &global, out).await,
        Command::Reconcile(command) => reconcile::run(command, &global, out).await,
        Command::Replay(command) => replay::run(command, &global, out).await,
        Command::Init(args) => init::init(&args, out),
        Command::Secrets(command) => secrets::run(command, &global, out).await,
        Command::Sources(command) => sources::run(command, &global, out).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(args, &global, out)).await,
        Command::Context(command) => context::run(command, &global, out).await,
        Command::Completions(args) => completions::completions(&args, out),
        Command::Man(args) => completions::man(&args, out),
        Command::Trial(command) => Box::pin(trial::run(command, &global, out)).await,
        Command::Sync(command) => sync::run(command, &global, out).await,
        Command::Work(command) => Box::pin(work::run(command, &global, out)).await,
    }
}
