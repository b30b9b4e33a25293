//! Arguments of `listen`.

use clap::Args;

use super::bodies::BodiesAt;
use super::selection::SelectionArgs;
use super::values::{self, SecretFrom};
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Where to, on this machine: `:3000/path` or `http://localhost:3000/path`
    #[arg(short = 'f', long = "forward-to", value_name = "URL")]
    pub forward_to: String,
    /// Past events first, oldest first: those since 2h, 09:10, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "since")]
    pub backfill: Option<When>,
    /// Sign again with a secret of this machine: signatures of past events are too old to verify
    ///
    /// The secret of each source is made once and stays in `.mitt/listen`, for the program to read.
    /// What the provider signed is in the header `X-Webhookctl-Original-Signature`.
    #[arg(long)]
    pub resign: bool,
    /// Where to read another secret to sign with: `-` (stdin), `file:PATH` or `env:NAME`
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from, requires = "resign")]
    pub secret_from: Option<SecretFrom>,
    /// Show the beginning of each answer
    #[arg(long)]
    pub show_response: bool,
    /// Forward to this host too, which is not this machine: events hold what customers sent
    #[arg(long, value_name = "HOST")]
    pub allow_host: Option<String>,

    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
