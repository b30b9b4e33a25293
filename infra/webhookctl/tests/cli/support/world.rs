//! A `dev` that runs in a folder, and its ledger.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use webhookctl::target::Local;

use super::folder::Folder;

/// The process. It is killed when the test ends.
pub(crate) struct Dev(pub(crate) Child);

impl Dev {
    /// Starts a `dev` with the `sources.toml` of the folder, and waits until it is ready.
    pub(crate) fn start(folder: &Folder, more: &[&str]) -> anyhow::Result<Self> {
        let sources = ["--sources", "sources.toml"];
        Self::start_as(folder, &[&sources[..], more].concat())
    }

    /// Starts a `dev` with only these arguments, and waits until it is ready.
    pub(crate) fn start_as(folder: &Folder, arguments: &[&str]) -> anyhow::Result<Self> {
        let usual = ["dev", "--port", "0", "-o", "jsonl"];
        let mut command = folder.webhookctl(&[&usual[..], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let dev = Self(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.contains("\"ready\""), "{line}");
        Ok(dev)
    }

    /// Kills the `dev`, like a crash of the machine.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives access to the methods of the folder.
pub(crate) struct World {
    // This field is first, so that `dev` stops before its folder is deleted.
    dev: Dev,
    folder: Folder,
    pub(crate) local: Local,
    pub(crate) ledger: Ledger,
    /// The time when the test began.
    pub(crate) now: UnixMillis,
}

impl World {
    /// Returns a command for the same stack, as a deployment that the table name selects. `sts` is
    /// the URL of a service that returns the caller's identity.
    pub(crate) fn deployment(&self, sts: &str, arguments: &[&str]) -> Command {
        let local = &self.local;
        let mut command = self.webhookctl(&["--table", &local.table]);
        command
            .args(arguments)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_ENDPOINT_URL_DYNAMODB", &local.dynamodb)
            .env("AWS_ENDPOINT_URL_S3", &local.s3)
            .env("AWS_ENDPOINT_URL_SSM", &local.ssm)
            .env("AWS_ENDPOINT_URL_STS", sts);
        command
    }

    pub(crate) fn start(name: &str, sources: &str) -> anyhow::Result<Self> {
        Self::start_with(name, sources, |_| Ok(Vec::new()))
    }

    /// Starts a `dev` with more arguments. `prepare` writes the files that these arguments need,
    /// and returns the arguments.
    pub(crate) fn start_with(
        name: &str,
        sources: &str,
        prepare: impl FnOnce(&Folder) -> anyhow::Result<Vec<&'static str>>,
    ) -> anyhow::Result<Self> {
        let folder = Folder::new(name)?;
        folder.write("sources.toml", sources)?;
        let dev = Dev::start(&folder, &prepare(&folder)?)?;
        let local = folder.local()?;
        let dynamodb = local.endpoints().clients().dynamodb;
        Ok(Self {
            ledger: Ledger::new(dynamodb, &local.table, None),
            now: UnixMillis::now(),
            dev,
            folder,
            local,
        })
    }

    /// Returns a client that calls the table directly and not through the program.
    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.local.endpoints().clients().dynamodb
    }
}

impl Deref for World {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}
