//! The command line: what can be asked for, and how an answer leaves the process.

mod args;
mod help;
mod quarantine;
mod run;
mod values;

pub use args::{
    Cli, Command, DevArgs, Global, InboxCommand, InspectArgs, ListArgs, SendArgs, SourcesCheckArgs,
    SourcesCommand,
};
pub use quarantine::{
    DoorAt, HeldInspectArgs, HeldListArgs, HeldSelection, PurgeArgs, QuarantineCommand,
    ReverifyArgs, SecretsAt,
};
pub use run::{Stop, parse, run_with};
pub use values::{Assignment, ColorChoice, SecretFrom, Tamper};
