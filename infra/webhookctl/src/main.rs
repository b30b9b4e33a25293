//! `webhookctl`: runs, inspects and operates a Mitt inbox.

use std::process::ExitCode;

use webhookctl::{cli, verbs};

fn main() -> ExitCode {
    verbs::answer_shell();
    cli::run_with(|cli, out| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(verbs::run(cli, out))
    })
}
