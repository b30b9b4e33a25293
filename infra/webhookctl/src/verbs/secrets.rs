//! `secrets`: lists and stores the secrets of all functions, on the local stack and in AWS.

mod keypair;
mod list;
mod put;
mod signers;
mod store;
mod used_by;

use crate::cli::{Global, SecretsCommand};
use crate::output::{Exit, Printer};
pub(super) use store::secrets;

pub(super) async fn run(
    command: SecretsCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        SecretsCommand::List(args) => Box::pin(list::list(args, global, out)).await,
        SecretsCommand::Put(args) => Box::pin(put::put(args, global, out)).await,
        SecretsCommand::Keypair(args) => Box::pin(keypair::keypair(args, global, out)).await,
    }
}
