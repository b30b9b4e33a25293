//! The arguments of `console`.

use clap::Args;

#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// Port on 127.0.0.1; 0 picks a free one [default: 8788, or a free one if it is in use]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Allow replays, decisions on quarantined events, and pauses
    ///
    /// Each needs a reason, and a replay also needs the number of its events. The audit log records
    /// them as made through the console.
    #[arg(long)]
    pub write: bool,
    /// Hide bodies, headers and the ids of providers while you do not hold the key m
    ///
    /// Use it to share your screen. The browser still receives these texts.
    #[arg(long)]
    pub private: bool,
    /// Print the address instead of opening a browser
    #[arg(long)]
    pub no_open: bool,
}
