//! Arguments of `status`.

use clap::Args;

#[derive(Debug, Default, Args)]
pub struct StatusArgs {
    /// Only these sources; a name, or a pattern such as `stripe-*`; repeatable
    #[arg(short, long, value_name = "NAME")]
    pub source: Vec<String>,
}
