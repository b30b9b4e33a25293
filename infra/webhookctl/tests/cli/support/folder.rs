//! A folder in which a test runs the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use serde_json::Value;
use webhookctl::target::Local;

/// The folder is deleted when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mitt-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a command that runs the program without this machine's settings for contexts and
    /// formats.
    pub(crate) fn webhookctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env("WEBHOOKCTL_CONFIG", self.0.join("none.toml"))
            .env("WEBHOOKCTL_CACHE", self.0.join("cache"))
            .env("USER", "anna")
            .env("NO_COLOR", "1");
        for name in ["MITT_TABLE", "WEBHOOKCTL_CONTEXT", "WEBHOOKCTL_OUTPUT"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = self.webhookctl(arguments).output();
        output.with_context(|| format!("run {arguments:?}"))
    }

    /// Returns the text output of both streams.
    pub(crate) fn text(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let text = printed(&output)?;
        ensure!(output.status.success(), "{arguments:?}: {text}");
        Ok(text)
    }

    /// Returns the JSON output of a command.
    pub(crate) fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let output = self.run(&[arguments, &["-o", "json"]].concat())?;
        let said = stderr(&output);
        ensure!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {said}"))
    }

    /// Returns the completions for the last of these words.
    pub(crate) fn offered(&self, words: &[&str]) -> anyhow::Result<Vec<String>> {
        let line = [&["--", "webhookctl"], words].concat();
        let mut asked = self.webhookctl(&line);
        asked
            .env("WEBHOOKCTL_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_IFS", "\n");
        let output = asked.output()?;
        ensure!(output.status.success(), "{words:?}: {}", stderr(&output));
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().map(|word| word.trim().to_owned()).collect())
    }

    /// Runs a command that must fail. Returns its exit code and its output.
    pub(crate) fn refused(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let output = self.run(arguments)?;
        Ok((output.status.code(), printed(&output)?))
    }

    /// Runs a command that must fail, with JSON output. Returns its exit code and the error code.
    pub(crate) fn error(&self, arguments: &[&str]) -> anyhow::Result<(i32, String)> {
        let output = self.run(&[arguments, &["-o", "json"]].concat())?;
        let said = stderr(&output);
        let line = said.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let code = error["error"]["code"].as_str().context("a code")?;
        Ok((output.status.code().unwrap_or(-1), code.to_owned()))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.0.join(name), text)?)
    }

    pub(crate) fn read(&self, name: &str) -> anyhow::Result<String> {
        std::fs::read_to_string(self.0.join(name)).with_context(|| name.to_owned())
    }

    /// Returns the description of the `dev` that runs in this folder.
    pub(crate) fn local(&self) -> anyhow::Result<Local> {
        Ok(serde_json::from_str(&self.read(".mitt/local.json")?)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn printed(output: &Output) -> anyhow::Result<String> {
    let out = std::str::from_utf8(&output.stdout)?;
    Ok(format!("{out}{}", std::str::from_utf8(&output.stderr)?))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns all output of the command.
pub(crate) fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        stderr(output)
    )
}

/// Splits a command line into words.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
