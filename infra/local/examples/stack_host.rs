//! A host of the local stack that a test can kill: `stack_host <template> <binaries> [freeze]`.
//!
//! Prints the ids of its child processes, then waits forever.

use std::io::Write;

use anyhow::Context;
use local::{Options, Stack};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [template, binaries, rest @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: stack_host <template> <binaries> [freeze]");
    };
    let freeze = rest.iter().any(|argument| argument == "freeze");
    let stack = Stack::start(Options {
        freeze,
        ..Options::new(template, binaries)
    })
    .await?;
    let mut ids = Vec::new();
    for function in ["Catcher", "Processor"] {
        stack
            .invoke(function, &json!({}))
            .await?
            .json()
            .context("invoke the function for the first time")?;
        ids.extend(stack.function_processes(function)?);
    }
    let mut out = std::io::stdout();
    writeln!(out, "{}", json!(ids))?;
    out.flush()?;
    std::future::pending().await
}
