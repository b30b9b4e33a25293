//! The arguments of `init`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder to write the files to [default: this folder]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}
