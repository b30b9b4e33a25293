//! Completion scripts and man pages, as a person makes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use serde_json::json;

/// A folder of the test's own, to run the program in.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("mitt-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = Command::new(env!("CARGO_BIN_EXE_webhookctl"))
            .args(arguments)
            .current_dir(&self.0)
            .env_remove("MITT_TABLE")
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {stderr}");
        Ok(output)
    }

    fn script(&self, shell: &str) -> anyhow::Result<String> {
        Ok(String::from_utf8(
            self.run(&["completions", shell])?.stdout,
        )?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_shell_has_a_script_that_knows_commands_presets_and_sources() -> anyhow::Result<()> {
    let folder = Folder::new("completions")?;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.script(shell)?;
        for word in ["listen", "backfill", "quarantine", "dead_letter"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    // A shell that is here reads what is written for it.
    let script = folder.0.join("webhookctl.bash");
    std::fs::write(&script, folder.script("bash")?)?;
    ensure!(
        Command::new("bash")
            .arg("-n")
            .arg(&script)
            .status()?
            .success()
    );

    let bash = folder.script("bash")?;
    assert!(bash.contains("stripe-main") && bash.contains("standard-webhooks"));
    announce(&folder.0)?;
    let bash = folder.script("bash")?;
    assert!(bash.contains("orders-of-mine") && !bash.contains("stripe-main"));
    Ok(())
}

/// A local stack, as far as the names of its sources go. Nobody listens there.
fn announce(folder: &Path) -> anyhow::Result<()> {
    let sources = folder.join("sources.toml");
    let text = "schema = 1\n[[source]]\nname = \"orders-of-mine\"\npreset = \"stripe\"\n\
                action = [{ kind = \"keep\" }]\n";
    std::fs::write(&sources, text)?;
    let nowhere = "http://127.0.0.1:9";
    let local = json!({
        "pid": std::process::id(), "url": nowhere, "dynamodb": nowhere, "sqs": nowhere,
        "s3": nowhere, "ssm": nowhere, "table": "t", "bucket": "b", "queue_url": nowhere,
        "secrets_path": "/mitt/ingress", "sources": sources,
    });
    std::fs::create_dir_all(folder.join(".mitt"))?;
    std::fs::write(folder.join(".mitt/local.json"), local.to_string())?;
    Ok(())
}

#[test]
fn every_command_has_a_man_page() -> anyhow::Result<()> {
    let folder = Folder::new("man")?;
    folder.run(&["man", "pages"])?;
    let page = |name: &str| -> anyhow::Result<String> {
        let path = folder.0.join("pages").join(format!("{name}.1"));
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    for name in ["webhookctl", "webhookctl-send", "webhookctl-inbox-list"] {
        page(name)?;
    }
    let listen = page("webhookctl-listen")?;
    assert!(listen.contains("backfill") && listen.contains("The inbox is only read"));
    assert!(
        page("webhookctl-man").is_err(),
        "what is hidden has no page"
    );
    Ok(())
}
