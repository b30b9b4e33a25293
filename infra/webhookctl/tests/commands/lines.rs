//! Runs a line of the table: fills in the values of its placeholders, and selects the stack.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::deployed::Deployed;
use crate::ids::{hold_a_genuine_one, ids, let_a_message_die};
use crate::recorder::Call;
use crate::verbs::split;
use crate::world::World;

/// The test stops a command that would run forever after this number of requests. By then, the
/// command has polled several times.
const OFTEN: usize = 12;

/// The time limit of a command.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Lines<'w> {
    world: &'w World,
    ids: BTreeMap<&'static str, String>,
    deployed: Deployed,
}

/// The permissions of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    Write,
    /// The command may only read, and the test prepares nothing for it.
    OnlyRead,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// The output on stderr.
    pub(crate) said: String,
    pub(crate) calls: Vec<Call>,
}

impl<'w> Lines<'w> {
    pub(crate) async fn new(world: &'w World) -> Self {
        Self {
            world,
            ids: ids(world).await,
            deployed: Deployed::of(world).await,
        }
    }

    pub(crate) async fn run(&self, line: &str, may: May) -> Ran {
        let (before, line) = split(line);
        for word in &before {
            match *word {
                "{rotate}" if may == May::Write => hold_a_genuine_one(self.world).await,
                "{bell}" if may == May::Write => let_a_message_die(self.world).await,
                "{rotate}" | "{bell}" | "{deployed}" | "{follow}" => {}
                word => panic!("{word} before a line is unknown"),
            }
        }
        let mut command = self.command(line).await;
        if before.contains(&"{deployed}") {
            self.deployed.lead(&mut command);
        }
        if may == May::OnlyRead {
            command.env("WEBHOOKCTL_READ_ONLY", "1");
        }
        self.calls();
        if before.contains(&"{follow}") {
            return self.follow(command).await;
        }
        let output = command.output().await.unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            said: String::from_utf8(output.stderr).unwrap(),
            calls: self.calls(),
        }
    }

    async fn command(&self, line: &str) -> Command {
        let mut line = line.to_owned();
        for (name, id) in &self.ids {
            line = line.replace(name, id);
        }
        if line.contains("{held_count}") {
            let held = ["quarantine", "list", "--flat", "-o", "ids"];
            let held = self.world.text(&held).await.lines().count();
            line = line.replace("{held_count}", &held.to_string());
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command
            .args(line.split_whitespace())
            .current_dir(&self.world.folder)
            .env_remove("MITT_TABLE")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// Runs the command until it has polled several times, and then stops it. The stop is not a
    /// failure.
    async fn follow(&self, mut command: Command) -> Ran {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut calls = Vec::new();
        let asks = async {
            while calls.len() < OFTEN {
                tokio::time::sleep(Duration::from_millis(50)).await;
                calls.extend(self.calls());
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asks).await;
        asked.expect("the command polls");
        child.kill().await.unwrap();
        Ran {
            code: 0,
            said: String::new(),
            calls,
        }
    }

    /// Returns the calls since the last time.
    fn calls(&self) -> Vec<Call> {
        let calls = self.world.calls().into_iter().chain(self.deployed.calls());
        let template = self.world.stack.template();
        let calls = calls.flat_map(|call| call.with_what_follows(template));
        calls.collect()
    }
}
