//! `context`: manages the deployments that commands can use.

mod add;
mod list;
mod show;

use std::path::Path;

use anyhow::Context as _;

use crate::cli::{ContextCommand, ContextUseArgs, Global};
use crate::files;
use crate::output::{Exit, Printer};
use crate::target::{Contexts, with_default};

pub(super) async fn run(
    command: ContextCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        ContextCommand::List => list::list(global, out),
        ContextCommand::Show(args) => show::show(&args, global, out),
        ContextCommand::Use(args) => choose(&args, out),
        ContextCommand::Add(args) => Box::pin(add::add(args, global, out)).await,
    }
}

fn choose(args: &ContextUseArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let contexts = Contexts::read()?;
    if args.name != "local" {
        contexts.get(&args.name)?;
    }
    let file = contexts.user_file()?;
    files::replace(file, &with_default(&read(file)?, &args.name)?, None)?;
    let now = Contexts::read()?;
    out.say(&format!("{} is now the default context.", args.name));
    if let Some(other) = now.default.filter(|it| *it != args.name) {
        out.say(&format!(
            "In this folder the default is {other}: the file of this project sets it."
        ));
    }
    Ok(Exit::Done)
}

/// Reads the user's contexts file; a missing file reads as empty.
fn read(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text.with_context(|| format!("read {}", file.display())),
    }
}
