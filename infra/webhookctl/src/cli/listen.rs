//! Arguments of `listen`.

use clap::Args;

use super::bodies::BodiesAt;
use super::selection::SelectionArgs;
use super::values::{self, SecretFrom};
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct ListenArgs {
    /// URL on this machine: `:3000/path` or `http://localhost:3000/path`
    #[arg(short = 'f', long = "forward-to", value_name = "URL")]
    pub forward_to: String,
    /// Send past events first, oldest first, from this time on: 2h, 09:10, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "since")]
    pub backfill: Option<When>,
    /// Sign with a secret of this machine: the original signatures of past events are too old
    ///
    /// Each source has its own secret, created once and stored in `.mitt/listen` for your program
    /// to read. The original signature is in the header `X-Webhookctl-Original-Signature`.
    #[arg(long)]
    pub resign: bool,
    /// Where to read another secret to sign with: `-` (stdin), `file:PATH` or `env:NAME`
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from, requires = "resign")]
    pub secret_from: Option<SecretFrom>,
    /// Show the start of each response
    #[arg(long)]
    pub show_response: bool,
    /// Allow this other host as the destination; events contain customer data
    #[arg(long, value_name = "HOST")]
    pub allow_host: Option<String>,

    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
