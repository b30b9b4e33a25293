//! Completion scripts and man pages, generated as a user generates them.

use std::path::Path;
use std::process::Command;

use crate::support::folder::Folder;
use anyhow::Context;
use serde_json::json;

#[test]
fn every_shell_has_a_script_that_asks_the_program() -> anyhow::Result<()> {
    let folder = Folder::new("completions")?;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.text(&["completions", shell])?;
        for word in ["webhookctl", "WEBHOOKCTL_COMPLETE"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    // If the shell is installed, the test also completes a line with the generated script.
    let script = folder.text(&["completions", "bash"])?;
    std::fs::write(folder.path().join("webhookctl.bash"), script)?;
    let program = Path::new(env!("CARGO_BIN_EXE_webhookctl"));
    let path = program.parent().context("a folder")?.display();
    let asked = "source ./webhookctl.bash; COMP_WORDS=(webhookctl quar); COMP_CWORD=1; COMP_TYPE=9; \
                 _clap_complete_webhookctl webhookctl quar webhookctl; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", asked])
        .current_dir(folder.path())
        .env("PATH", format!("{path}:/usr/bin:/bin"))
        .output()?;
    assert_eq!(String::from_utf8(output.stdout)?.trim(), "quarantine");
    Ok(())
}

#[test]
fn what_there_is_by_name_is_offered() -> anyhow::Result<()> {
    let folder = Folder::new("offered")?;
    let has = |words: &[&str], name: &str| -> anyhow::Result<bool> {
        Ok(folder.offered(words)?.iter().any(|offered| offered == name))
    };
    assert!(has(&["listen", "--"], "--backfill")?);
    // The options that every command accepts are on a help page of their own.
    assert!(has(&["inbox", "list", "--"], "--endpoint-url")?);
    assert!(has(&["inbox", "list", "--status", ""], "dead_letter")?);
    assert!(has(
        &["sources", "add", "mine", "--preset", "standard-"],
        "standard-webhooks"
    )?);
    // The values are from the local stack, from a context, and from the built-in lists.
    announce(folder.path())?;
    assert!(has(&["inbox", "list", "-s", ""], "orders-of-mine")?);
    assert!(!has(&["inbox", "list", "-s", ""], "stripe-main")?);
    std::fs::write(
        folder.path().join("none.toml"),
        "[context.prod]\ntable = \"t\"\n",
    )?;
    assert!(has(&["-c", ""], "prod")? && has(&["-c", ""], "local")?);
    let of_prod = ["-c", "prod", "inbox", "list", "-s", ""];
    assert!(has(&of_prod, "stripe-main")? && !has(&of_prod, "orders-of-mine")?);
    Ok(())
}

/// Writes the file of a running `dev` with one source. No service listens on its addresses.
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
    folder.text(&["man", "pages"])?;
    let page = |name: &str| -> anyhow::Result<String> {
        let path = folder.path().join("pages").join(format!("{name}.1"));
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    for name in ["webhookctl", "webhookctl-send", "webhookctl-inbox-list"] {
        page(name)?;
    }
    let listen = page("webhookctl-listen")?;
    assert!(listen.contains("backfill") && listen.contains("only reads the inbox"));
    let list = page("webhookctl-inbox-list")?;
    assert!(list.contains("endpoint") && list.contains("webhookctl inbox list \\-s stripe\\-main"));
    assert!(
        page("webhookctl-man").is_err(),
        "a hidden command has no page"
    );
    Ok(())
}
