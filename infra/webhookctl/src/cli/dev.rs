//! The arguments of `dev`.

use std::path::PathBuf;

use clap::Args;

use super::values::{Case, Chaos, FunctionName};

#[derive(Debug, Args)]
pub struct DevArgs {
    /// Send the demo webhooks, such as a duplicate, a forged and a failing one
    #[arg(long)]
    pub demo: bool,
    /// Add a case to the demo
    ///
    /// `agent` adds the source `refunds`, whose events wait for a worker outside of Lambda, and a
    /// rule that holds the large ones. The demo leaves these events to you.
    #[arg(long, value_name = "CASE", requires = "demo")]
    pub case: Option<Case>,
    /// Exit after the demo; exit 0 only if each webhook had the expected result
    #[arg(long, requires = "demo")]
    pub once: bool,
    /// Inject a fault, and show how events recover
    ///
    /// Prints the fault and what to watch, sends a webhook, and shows each change of each event. It
    /// uses its own sources, whose retries last longer than the fault. With --demo, the demo runs
    /// first, and its sources stay in use. On a terminal, c ends the
    /// fault and starts it again.
    #[arg(long, value_name = "WHAT", conflicts_with = "sources")]
    pub chaos: Option<Chaos>,
    /// Keep the state in this folder for the next run [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Start with an empty state: list the contents of --state DIR, and delete them
    #[arg(long, requires = "state")]
    pub reset: bool,
    /// Port for webhooks on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 8787)]
    pub port: u16,
    /// Sources file [default: sources.toml if it exists, or the sources of the demo]
    #[arg(long, value_name = "FILE")]
    pub sources: Option<PathBuf>,
    /// Send every HTTP action to this port of this machine; the path and the query stay the same
    ///
    /// Replaces the host of each URL, so that your program receives the same requests as in a
    /// deployment. Takes a port such as :3000, or the URL of a loopback address without a path.
    #[arg(long, value_name = "PORT|URL", conflicts_with_all = ["demo", "chaos"])]
    pub forward: Option<String>,
    /// Let another tool run this function, such as cargo lambda watch; can be repeated
    ///
    /// Sends the invocations of the function to the other tool, so that a webhook, a message or a
    /// schedule reaches a breakpoint in it.
    #[arg(long, value_name = "FUNCTION", conflicts_with = "once")]
    pub without: Vec<FunctionName>,
    /// Port of the other tool: 9000 for cargo lambda watch, 3001 for sam local start-lambda
    #[arg(long, value_name = "N", requires = "without", default_value_t = 9000)]
    pub invoke_port: u16,
    /// Template to build the stack from, instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// Folder of the functions: their zips of a release, or the built programs [default: the folder
    /// of this program]
    ///
    /// The zips are catcher-ARCH.zip, processor-ARCH.zip and backup-sync-ARCH.zip, where ARCH is the
    /// architecture of this machine. `dev` unpacks the programs into the state
    /// folder, or into `.mitt`. They run on Linux only.
    #[arg(long, value_name = "DIR", alias = "binaries")]
    pub functions: Option<PathBuf>,
}
