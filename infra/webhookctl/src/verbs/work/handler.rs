//! The process that handles one event.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::client::Client;

/// A running program, which is the leader of its own process group. Ctrl-C at a terminal reaches
/// only `work run`, which then stops the group.
pub(super) struct Handler {
    child: Child,
    group: Option<Pid>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Retry,
    Permanent,
}

impl Handler {
    /// Starts the program, and passes the event to its stdin.
    pub(super) fn start(
        program: &[String],
        event: &Value,
        client: &Client,
        role: Option<&str>,
    ) -> anyhow::Result<Self> {
        let (name, arguments) = program.split_first().context("the program is missing")?;
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let mut command = Command::new(name);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .env("MITT_API", client.base())
            .env("MITT_QUEUE", client.queue())
            .env("MITT_LEASE", text("lease"))
            .env("MITT_EVENT_ID", text("id"))
            .env("MITT_RUN_ID", text("run_id"))
            .env("MITT_IDEMPOTENCY_KEY", text("idempotency_key"))
            .env("TRACEPARENT", text("trace"));
        if let Some(role) = role {
            command.env("MITT_LOCAL_ROLE", role);
        }
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let mut document = event.to_string();
        document.push('\n');
        if let Some(mut stdin) = child.stdin.take() {
            tokio::spawn(async move {
                // A program that does not read its stdin closes the pipe.
                let _ = stdin.write_all(document.as_bytes()).await;
            });
        }
        Ok(Self {
            child,
            group: group.and_then(Pid::from_raw),
        })
    }

    /// Waits for the end of the program.
    pub(super) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        let ended = self.child.wait().await.context("wait for the program")?;
        self.group = None;
        Ok(ended)
    }

    /// Asks the program to stop, and kills it if it does not stop within `grace`.
    pub(super) async fn stop(&mut self, grace: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(grace, self.ended()).await {
            return ended;
        }
        self.signal(Signal::KILL);
        self.ended().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group no longer exists if the program has just ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// A program that still runs when its worker ends is killed.
impl Drop for Handler {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl End {
    /// The exit codes are those of sysexits.h: 75 is `EX_TEMPFAIL`, 65 is `EX_DATAERR`.
    pub(super) fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Done,
            Some(65) => Self::Permanent,
            _ => Self::Retry,
        }
    }
}

/// Says how the program ended, without anything that it printed.
pub(super) fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("the program ended with exit code {code}"),
        None => "the program was ended by a signal".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn the_exit_code_is_the_outcome() {
        for (code, end) in [
            (0, End::Done),
            (65, End::Permanent),
            (75, End::Retry),
            (1, End::Retry),
            (127, End::Retry),
        ] {
            let status = ExitStatus::from_raw(code << 8);
            assert_eq!(End::of(status), end, "{code}");
        }
        let killed = ExitStatus::from_raw(9);
        assert_eq!(End::of(killed), End::Retry);
        assert_eq!(described(killed), "the program was ended by a signal");
    }
}
