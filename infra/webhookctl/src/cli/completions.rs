//! Arguments of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    #[arg(
        hide_possible_values = true,
        help = "Shell: bash, zsh, fish, powershell, elvish"
    )]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write the pages to
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
