//! `WEBHOOKCTL_READ_ONLY=1`: nothing of a deployment is changed, by nobody's mistake.

use super::{Cli, Command, EndpointCommand, InboxCommand, QuarantineCommand, ReconcileCommand};
use crate::output::{CliError, Exit};

/// Refuses what writes, where only reading is wanted.
pub(super) fn allows(cli: &Cli) -> Result<(), CliError> {
    let on = cli
        .global
        .read_only
        .as_deref()
        .is_some_and(|value| value != "0");
    if !on || reads(&cli.command) {
        return Ok(());
    }
    Err(CliError::new(
        "read_only",
        Exit::Refused,
        "this changes something, and WEBHOOKCTL_READ_ONLY is set; nothing was done",
    )
    .tip("unset WEBHOOKCTL_READ_ONLY"))
}

/// Whether nothing changes by it. What is not named here is taken for something that writes.
fn reads(command: &Command) -> bool {
    match command {
        // The local stack is no deployment.
        Command::Dev(_) | Command::Verify(_) | Command::Sources(_) | Command::Sync(_) => true,
        Command::Inbox(command) => {
            // An export is written down.
            !matches!(command, InboxCommand::Export(_))
        }
        Command::Quarantine(command) => match command {
            QuarantineCommand::List(_) | QuarantineCommand::Inspect(_) => true,
            QuarantineCommand::Reverify(args) => args.dry_run,
            QuarantineCommand::Purge(_) => false,
        },
        Command::Reconcile(ReconcileCommand::List(_) | ReconcileCommand::Report(_)) => true,
        Command::Endpoint(EndpointCommand::Show(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn allowed(line: &str, read_only: &str) -> bool {
        let mut cli = Cli::try_parse_from(line.split(' ')).unwrap();
        cli.global.read_only = Some(read_only.to_owned());
        allows(&cli).is_ok()
    }

    #[test]
    fn what_writes_is_refused_and_what_reads_is_not() {
        for line in [
            "webhookctl inbox list",
            "webhookctl inbox inspect evt_1",
            "webhookctl quarantine reverify --dry-run",
            "webhookctl sources list",
        ] {
            assert!(allowed(line, "1"), "{line}");
        }
        for line in [
            "webhookctl erase --id evt_1 -m why",
            "webhookctl quarantine purge --confirm 1",
            "webhookctl quarantine reverify",
            "webhookctl send stripe",
        ] {
            assert!(!allowed(line, "1"), "{line}");
            assert!(allowed(line, "0"), "{line}");
        }
    }
}
