//! The arguments of `init`.

use std::path::PathBuf;

use clap::Args;

use crate::recipes;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder to write the files to [default: this folder]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Also write a receiver for this framework or service to the folder `receiver`
    ///
    /// The receiver verifies the signature and handles each event once. The command changes no file
    /// that exists.
    #[arg(long = "for", value_name = "FRAMEWORK", value_parser = recipes::names())]
    pub framework: Option<String>,
}
