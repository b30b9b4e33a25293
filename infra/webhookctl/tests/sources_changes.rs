//! `webhookctl sources add`, `test`, `rotate-secret`, `pause`, `resume` and `remove`, as a person
//! runs them beside a running `dev`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, ensure};
use aws_sdk_ssm::types::ParameterType;
use serde_json::Value;
use webhookctl::place::Local;

const SOURCES: &str = "\
schema = 1

# The shop, and its one secret.
[[source]]
name = \"shop\"
preset = \"shopify\"
[[source.action]]
kind = \"keep\"

[[source]]
name = \"code\"
preset = \"github\"
[[source.action]]
kind = \"keep\"
";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("mitt-changes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        let folder = Self(path);
        folder.write("sources.toml", SOURCES)?;
        Ok(folder)
    }

    fn webhookctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env_remove("MITT_TABLE")
            .env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = self.webhookctl(arguments).output();
        output.with_context(|| format!("run {arguments:?}"))
    }

    fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let arguments = [arguments, &["-o", "json"]].concat();
        let output = self.run(&arguments)?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {stderr}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {stderr}"))
    }

    /// What a refused command ends with: exit code, and the code of the error.
    fn refused(&self, arguments: &[&str]) -> anyhow::Result<(i32, String)> {
        let output = self.run(&[arguments, &["-o", "json"]].concat())?;
        let line = String::from_utf8_lossy(&output.stderr);
        let line = line.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let code = error["error"]["code"].as_str().context("a code")?;
        Ok((output.status.code().unwrap_or(-1), code.to_owned()))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.0.join(name), text)?)
    }

    fn read(&self, name: &str) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.0.join(name))?)
    }

    fn local(&self) -> anyhow::Result<Local> {
        Ok(serde_json::from_str(&self.read(".mitt/local.json")?)?)
    }

    /// The secret that `dev` made, in a file.
    async fn secret_of(&self, source: &str, slot: &str) -> anyhow::Result<String> {
        let local = self.local()?;
        let ssm = local.endpoints().clients().ssm;
        let name = format!("{}/{source}/{slot}", local.secrets_path);
        let got = ssm.get_parameter().name(name).with_decryption(true);
        let value = got.send().await?.parameter.and_then(|p| p.value);
        value.context("it is stored")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Dev(Child);

impl Dev {
    fn start(folder: &Folder, more: &[&str]) -> anyhow::Result<Self> {
        let arguments = [
            "dev",
            "--sources",
            "sources.toml",
            "--port",
            "0",
            "-o",
            "jsonl",
        ];
        let mut command = folder.webhookctl(&[&arguments[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("it has a stdout")?;
        let dev = Self(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.contains("\"ready\""), "{line}");
        Ok(dev)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_is_changed_by_one_source_without_an_inbox() -> anyhow::Result<()> {
    let folder = Folder::new("file")?;
    let add = [
        "sources",
        "add",
        "pay",
        "--preset",
        "stripe",
        "--file",
        "sources.toml",
    ];
    assert_eq!(folder.refused(&add)?, (2, "sources.no_inbox".into()));
    assert_eq!(folder.read("sources.toml")?, SOURCES, "nothing was written");

    let added = folder.json(&[&add[..], &["--no-secret"]].concat())?;
    assert_eq!(added["schema"], "webhookctl/sources.add/v1");
    assert_eq!(added["url"], "https://<api>/in/pay");
    assert!(folder.read("sources.toml")?.starts_with(SOURCES));
    folder.json(&["sources", "check", "sources.toml"])?;
    let again = [&add[..], &["--no-secret"]].concat();
    assert_eq!(folder.refused(&again)?, (5, "sources.invalid".into()));
    let typo = [
        "sources",
        "add",
        "x",
        "--preset",
        "strip",
        "--file",
        "sources.toml",
    ];
    assert_eq!(folder.refused(&typo)?, (2, "sources.no_preset".into()));

    let remove = ["sources", "remove", "pay", "--file", "sources.toml"];
    assert_eq!(folder.refused(&remove)?, (7, "sources.confirm".into()));
    let wrong = [&remove[..], &["--confirm", "shop"]].concat();
    assert_eq!(
        folder.refused(&wrong)?,
        (7, "sources.confirm_mismatch".into())
    );
    folder.json(&[&remove[..], &["--confirm", "pay"]].concat())?;
    assert_eq!(folder.read("sources.toml")?, SOURCES);
    let gone = [&remove[..], &["--confirm", "pay"]].concat();
    assert_eq!(folder.refused(&gone)?, (3, "sources.not_found".into()));
    Ok(())
}

#[tokio::test]
async fn a_source_is_added_tested_and_removed() -> anyhow::Result<()> {
    let folder = Folder::new("add")?;
    let dev = Dev::start(&folder, &["--state", "state"])?;
    folder.write("given", "a secret of stripe\n")?;
    let add = [
        "sources",
        "add",
        "pay",
        "--preset",
        "stripe",
        "--secret-from",
        "file:given",
    ];
    let added = folder.run(&add)?;
    let text = String::from_utf8_lossy(&added.stdout).into_owned();
    assert!(
        added.status.success(),
        "{}",
        String::from_utf8_lossy(&added.stderr)
    );
    assert!(text.contains("/pay/v1") && text.contains("fp:"), "{text}");
    assert!(!text.contains("a secret of"), "{text}");
    assert_eq!(folder.secret_of("pay", "v1").await?, "a secret of stripe");

    let made = [
        "sources",
        "add",
        "repo",
        "--preset",
        "github",
        "--new-secret",
        "made",
    ];
    let made = folder.json(&made)?;
    let value = folder.read("made")?;
    assert_eq!(folder.secret_of("repo", "v1").await?, value);
    assert!(!made.to_string().contains(&value));
    let theirs = [
        "sources",
        "add",
        "s2",
        "--preset",
        "stripe",
        "--new-secret",
        "other",
    ];
    assert_eq!(folder.refused(&theirs)?, (7, "sources.not_ours".into()));
    let unasked = ["sources", "add", "s2", "--preset", "stripe"];
    assert_eq!(folder.refused(&unasked)?, (2, "sources.no_secret".into()));
    folder.write("bad", "whsec_no/base64!at-all")?;
    let bad = [
        "sources",
        "add",
        "std",
        "--preset",
        "standard-webhooks",
        "--secret-from",
        "file:bad",
    ];
    assert_eq!(folder.refused(&bad)?, (2, "sources.bad_secret".into()));

    // Started again, `dev` has them.
    drop(dev);
    let _dev = Dev::start(&folder, &["--state", "state"])?;
    for name in ["pay", "repo", "shop"] {
        let tested = folder.json(&["sources", "test", name])?;
        assert_eq!(
            (&tested["passed"], &tested["failed"]),
            (&5.into(), &0.into()),
            "{tested}"
        );
        assert!(tested["id"].is_string());
    }
    let list = folder.json(&["sources", "list"])?;
    for item in list["items"].as_array().context("items")? {
        assert_eq!(item["live_secrets"], 1, "dev makes none beside it: {item}");
    }
    let remove = [
        "sources",
        "remove",
        "pay",
        "--confirm",
        "pay",
        "--with-secrets",
    ];
    assert_eq!(folder.json(&remove)?["secrets_deleted"], 1);
    assert!(folder.secret_of("pay", "v1").await.is_err());
    assert!(!folder.read("sources.toml")?.contains("\"pay\""));
    Ok(())
}

#[tokio::test]
async fn a_rotation_is_ended_when_the_old_secret_no_longer_arrives() -> anyhow::Result<()> {
    let folder = Folder::new("rotate")?;
    let _dev = Dev::start(&folder, &[])?;
    let rotate =
        |more: &'static [&'static str]| [&["sources", "rotate-secret", "shop"][..], more].concat();
    assert_eq!(
        folder.refused(&rotate(&["--finish"]))?,
        (7, "sources.no_rotation".into())
    );
    folder.write("old", &folder.secret_of("shop", "current").await?)?;
    folder.write("new", "the new one")?;
    let same = rotate(&["--secret-from", "file:old"]);
    assert_eq!(folder.refused(&same)?, (7, "sources.same_secret".into()));

    let begun = folder.json(&rotate(&["--secret-from", "file:new", "--overlap", "24h"]))?;
    assert_eq!(begun["accepted"][0]["slot"], "v2");
    assert!(!begun.to_string().contains("the new one"));
    let twice = rotate(&["--secret-from", "file:new"]);
    assert_eq!(folder.refused(&twice)?, (7, "sources.rotating".into()));
    let shown = folder.json(&["sources", "show", "shop"])?;
    assert_eq!(shown["rotation"]["new"], "v2", "{shown}");
    let list = folder.json(&["sources", "list"])?;
    let note = list["items"][1]["note"].as_str().context("a note")?;
    assert!(note.contains("rotation ends in 23h59m"), "{note}");

    // Nobody has seen the new one, then the old one still arrives.
    assert_eq!(
        folder.refused(&rotate(&["--finish"]))?,
        (7, "sources.rotate_unproved".into())
    );
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:old"])?;
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:new"])?;
    let early = folder.run(&rotate(&["--finish"]))?;
    assert_eq!(early.status.code(), Some(7));
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(
        said.contains(
            "error: current signed 1 request in the last 10 minutes, v2 1 [sources.rotate_early]"
        ),
        "{said}"
    );
    assert_eq!(
        folder.refused(&rotate(&["--abort"]))?,
        (7, "sources.rotate_early".into())
    );
    let other = rotate(&["--finish", "--confirm", "code"]);
    assert_eq!(
        folder.refused(&other)?,
        (7, "sources.confirm_mismatch".into())
    );
    assert!(
        folder.secret_of("shop", "current").await.is_ok(),
        "nothing was changed"
    );

    let ended = folder.json(&rotate(&["--finish", "--confirm", "shop"]))?;
    assert_eq!(
        (&ended["now"], &ended["gone"][0]["slot"]),
        (&"finished".into(), &"current".into())
    );
    assert!(folder.secret_of("shop", "current").await.is_err());
    assert_eq!(folder.secret_of("shop", "v2").await?, "the new one");

    // One that is given up leaves the old one.
    folder.write("third", "a third one")?;
    folder.json(&rotate(&["--secret-from", "file:third"]))?;
    let ended = folder.json(&rotate(&["--abort"]))?;
    assert_eq!(
        (&ended["now"], &ended["gone"][0]["slot"]),
        (&"aborted".into(), &"v3".into())
    );
    assert_eq!(folder.secret_of("shop", "v2").await?, "the new one");
    Ok(())
}

#[tokio::test]
async fn a_secret_that_was_deleted_by_hand_is_not_the_last_to_go() -> anyhow::Result<()> {
    let folder = Folder::new("last")?;
    let _dev = Dev::start(&folder, &[])?;
    folder.write("new", "the new one")?;
    folder.json(&[
        "sources",
        "rotate-secret",
        "shop",
        "--secret-from",
        "file:new",
    ])?;
    let local = folder.local()?;
    let ssm = local.endpoints().clients().ssm;
    let new = format!("{}/shop/v2", local.secrets_path);
    ssm.delete_parameter().name(&new).send().await?;
    let finish = [
        "sources",
        "rotate-secret",
        "shop",
        "--finish",
        "--confirm",
        "shop",
    ];
    assert_eq!(folder.refused(&finish)?, (7, "sources.last_secret".into()));
    assert!(folder.secret_of("shop", "current").await.is_ok());
    ssm.put_parameter()
        .name(&new)
        .value("the new one")
        .r#type(ParameterType::SecureString)
        .send()
        .await?;
    folder.json(&finish)?;
    Ok(())
}

#[tokio::test]
async fn a_paused_source_is_shown_as_one_until_it_is_resumed() -> anyhow::Result<()> {
    let folder = Folder::new("pause")?;
    let _dev = Dev::start(&folder, &[])?;
    assert_eq!(
        folder.refused(&["sources", "pause", "shop", "-m", " "])?,
        (2, "sources.reason".into())
    );
    assert_eq!(
        folder.refused(&["sources", "pause", "shp", "-m", "x"])?,
        (3, "sources.not_found".into())
    );
    folder.json(&["sources", "pause", "shop", "-m", "a bad release"])?;
    let again = ["sources", "pause", "shop", "-m", "me too"];
    assert_eq!(folder.refused(&again)?, (7, "sources.paused".into()));

    let sent = folder.json(&["send", "shop"])?;
    assert_eq!(sent["status"], 200);
    let id = sent["id"].as_str().context("it is stored")?;
    let event = folder.json(&["inbox", "inspect", id])?;
    assert_eq!(event["next_action"]["code"], "paused", "{event}");
    let list = folder.json(&["inbox", "list"])?;
    assert_eq!(list["items"][0]["next_action"]["code"], "paused", "{list}");
    let list = folder.json(&["sources", "list"])?;
    assert_eq!(list["items"][1]["health"], "paused", "{list}");
    assert_eq!(list["items"][0]["health"], "ok", "{list}");
    let shown = String::from_utf8(folder.run(&["sources", "show", "shop"])?.stdout)?;
    assert!(shown.contains("a bad release"), "{shown}");

    let resumed = folder.json(&["sources", "resume", "shop"])?;
    assert_eq!(
        (&resumed["paused"], &resumed["called_up"]),
        (&false.into(), &1.into())
    );
    let event = folder.json(&["inbox", "inspect", id])?;
    assert_ne!(event["next_action"]["code"], "paused");
    let again = folder.json(&["sources", "resume", "shop"])?;
    assert_eq!(again["paused"], false, "it may be done again");
    Ok(())
}
