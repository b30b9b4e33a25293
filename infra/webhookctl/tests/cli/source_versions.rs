//! `sources apply`, `diff`, `history`, `rollback` and `export` against a stack.

use std::time::Duration;

use anyhow::ensure;
use aws_sdk_dynamodb::types::AttributeValue;
use local::{Options, Stack};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, Claim, Ledger, Settlement, Through};
use shared::inbox::source_versions::{Applied, NewVersion, SourceVersions};
use shared::sources::Config;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use webhookctl::target::Local;

use crate::support::folder::Folder;
use crate::support::stack::{announce, options};

const BUILT_IN: &str = "\
schema = 1

[[source]]
name = \"shop\"
preset = \"stripe\"
action = [{ kind = \"keep\" }]
";

/// A source without a secret.
const PUSH: &str = "\
[[source]]
name = \"push\"
preset = \"google-pubsub\"
params = { audience = \"https://in.example\", email = \"push@in.example\" }
action = [{ kind = \"keep\" }]
";

struct World {
    stack: Stack,
    ledger: Ledger,
    folder: Folder,
}

impl World {
    async fn start(sources: &str) -> anyhow::Result<Self> {
        Self::start_with(&[("Sources", sources)]).await
    }

    async fn start_with(parameters: &[(&str, &str)]) -> anyhow::Result<Self> {
        let folder = Folder::new("versions")?;
        folder.write("sources.toml", BUILT_IN)?;
        folder.write("own.toml", BUILT_IN)?;
        folder.write("with-push.toml", &format!("{BUILT_IN}{PUSH}"))?;
        let parameters = parameters.iter();
        let parameters = parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let stack = Stack::start(Options {
            mappings: false,
            parameters: parameters.collect(),
            ..options(&folder)
        })
        .await?;
        let local = Local::of(&stack, &folder.path().join("sources.toml"))?;
        announce(&folder, &local)?;
        let table = stack.table()?;
        Ok(Self {
            ledger: Ledger::new(stack.clients().dynamodb, table, None),
            stack,
            folder,
        })
    }

    fn apply(&self, file: &str, more: &[&str]) -> anyhow::Result<Value> {
        self.folder.json(&apply(file, more))
    }

    fn refused(&self, file: &str, more: &[&str]) -> anyhow::Result<(i32, String)> {
        self.folder.error(&apply(file, more))
    }

    fn versions(&self) -> anyhow::Result<Vec<u64>> {
        let list = self.folder.json(&["sources", "history"])?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items
            .iter()
            .filter_map(|it| it["version"].as_u64())
            .collect())
    }

    /// Stores an event that waits for a worker.
    async fn open_event(&self, source: &str) -> anyhow::Result<()> {
        self.event(source, "evt_1", "test").await
    }

    /// Stores an event that a function with this configuration received.
    async fn event(&self, source: &str, id: &str, config: &str) -> anyhow::Result<()> {
        let now = UnixMillis::now();
        let event = Event::fetched(Fetched {
            source,
            provider: "stripe",
            preset: "stripe",
            id,
            kind: "a.b",
            body: "{}".into(),
            now,
            via: Via::Webhook,
            config,
        });
        self.ledger.receive(&event, now).await?;
        Ok(())
    }
}

fn apply<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sources", "apply", file, "-m", "why"], more].concat()
}

#[tokio::test]
async fn a_file_is_applied_compared_rolled_back_and_exported() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let folder = &world.folder;
    let diff = |file| folder.run(&["sources", "diff", file, "-o", "json"]);
    assert_eq!(diff("own.toml")?.status.code(), Some(0));
    let output = diff("with-push.toml")?;
    assert_eq!(output.status.code(), Some(2));
    let changes: Value = serde_json::from_slice(&output.stdout)?;
    let added = json!([{ "source": "push", "change": "added", "settings": [] }]);
    assert_eq!(
        (&changes["changes"], &changes["version"]),
        (&added, &Value::Null)
    );

    let applied = world.apply("with-push.toml", &[])?;
    assert_eq!(
        (&applied["version"], &applied["applied"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(applied["by"], "local/anna");
    let list = folder.run(&["sources", "list"])?;
    let (list, note) = (
        String::from_utf8(list.stdout)?,
        String::from_utf8(list.stderr)?,
    );
    assert!(list.contains("push"), "{list}");
    assert!(note.contains("· version 1"), "{note}");
    let listed = folder.json(&["inbox", "list", "--source", "push"])?;
    assert_eq!(
        listed["items"],
        json!([]),
        "the source of the version is known"
    );
    assert_eq!(diff("with-push.toml")?.status.code(), Some(0));
    assert_eq!(diff("own.toml")?.status.code(), Some(2));
    let again = world.apply("with-push.toml", &[])?;
    assert_eq!(again["applied"], false, "an equal file is no new version");

    world.apply("own.toml", &["--confirm", "1"])?;
    let back = folder.json(&["sources", "rollback", "1", "-m", "too early"])?;
    assert_eq!(back["version"], 3);
    assert_eq!(world.versions()?, [3, 2, 1]);
    let exported = folder.run(&["sources", "export"])?;
    assert_eq!(exported.stdout, folder.read("with-push.toml")?.into_bytes());
    let first = folder.json(&["sources", "history", "2"])?;
    assert_eq!(first["text"], BUILT_IN);
    assert_eq!(first["reason"], "why");
    let log = folder.json(&["log", "--what", "sources"])?;
    let said: Vec<_> = log["items"].as_array().into_iter().flatten().collect();
    assert_eq!(said.len(), 3, "{log}");
    assert_eq!(
        (&said[0]["what"], &said[0]["reason"]),
        (&json!("sources.rollback"), &json!("too early"))
    );
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_file_changes_nothing() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let folder = &world.folder;
    folder.write("wrong.toml", &BUILT_IN.replace("preset", "prset"))?;
    let (code, said) = folder.refused(&apply("wrong.toml", &[]))?;
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("line 5") && said.contains("[sources.invalid]"),
        "{said}"
    );
    assert_eq!(
        world.refused("none.toml", &[])?,
        (1, "sources.no_file".into())
    );
    let reason = ["sources", "apply", "own.toml", "-m", " "];
    assert_eq!(folder.error(&reason)?, (2, "sources.reason".into()));
    let confirm = world.refused("with-push.toml", &["--confirm", "2"])?;
    assert_eq!(confirm, (7, "sources.confirm_count".into()));
    let rollback = ["sources", "rollback", "9", "-m", "why"];
    assert_eq!(folder.error(&rollback)?, (3, "sources.no_version".into()));
    ensure!(world.versions()?.is_empty(), "a version was written");
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_action_of_workers_stays_while_events_wait_for_them() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let pulled = BUILT_IN.replace("keep", "pull");
    world.folder.write("pulled.toml", &pulled)?;
    world.apply("pulled.toml", &[])?;
    world.apply("own.toml", &[])?;
    world.apply("pulled.toml", &[])?;
    world.event("shop", "evt_1", "test").await?;
    let (key, now) = (EventKey::new("shop", "evt_1"), UnixMillis::now());
    let lease = Duration::from_secs(35);
    let claim = world.ledger.claim(&key, "worker", now, lease, 10).await?;
    let Claim::Leased(lease) = claim else {
        anyhow::bail!("the event is free")
    };
    let queue = "shop".to_owned();
    let parked = Settlement::Parked { queue };
    world.ledger.settle(*lease, parked, &[], now).await?;
    let refused = world.refused("own.toml", &[])?;
    assert_eq!(refused, (7, "sources.open_events".into()));
    world.apply("own.toml", &["--remove", "shop"])?;
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_risky_change_needs_its_flag() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let folder = &world.folder;
    folder.write("only-push.toml", &format!("schema = 1\n{PUSH}"))?;
    world.open_event("shop").await?;
    let refused = world.refused("only-push.toml", &[])?;
    assert_eq!(refused, (7, "sources.open_events".into()));
    let other = world.refused("only-push.toml", &["--remove", "other"])?;
    assert_eq!(other, (7, "sources.open_events".into()));

    folder.write("keys.toml", &BUILT_IN.replace("stripe", "github"))?;
    let refused = world.refused("keys.toml", &[])?;
    assert_eq!(refused, (7, "sources.changes_keys".into()));

    let new = BUILT_IN.replace("shop", "cart").replace("schema = 1\n", "");
    folder.write("new.toml", &format!("{BUILT_IN}{new}"))?;
    let refused = world.refused("new.toml", &[])?;
    assert_eq!(refused, (7, "sources.no_live_secret".into()));
    assert!(world.versions()?.is_empty());

    world.apply("new.toml", &["--unchecked-secrets"])?;
    let new = folder.read("new.toml")?.replace("stripe", "github");
    folder.write("keys.toml", &new)?;
    world.apply("keys.toml", &["--changes-keys"])?;
    world.apply("only-push.toml", &["--remove", "shop"])?;
    assert_eq!(world.versions()?, [3, 2, 1]);
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn inspect_names_the_version_that_received_an_event() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let hash = Config::hash_of(&world.folder.read("with-push.toml")?);
    world.apply("with-push.toml", &[])?;
    world.event("shop", "evt_new", &hash).await?;
    world.event("shop", "evt_old", "01234567").await?;
    world.apply("own.toml", &["--confirm", "1"])?;
    world
        .folder
        .json(&["sources", "rollback", "1", "-m", "too early"])?;
    for (id, version) in [("shop:evt_new", json!(1)), ("shop:evt_old", Value::Null)] {
        let event = world.folder.json(&["inbox", "inspect", id])?;
        assert_eq!(event["sources_version"], version, "{id}");
    }
    let full = world
        .folder
        .run(&["inbox", "inspect", "shop:evt_new", "--full"])?;
    let full = String::from_utf8(full.stdout)?;
    assert!(full.contains("\n  sources version 1\n"), "{full}");
    world.stack.stop().await;
    Ok(())
}

/// A damaged version must not prevent its replacement.
#[tokio::test]
async fn a_damaged_version_can_be_replaced() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    world.apply("with-push.toml", &[])?;
    let update = world.stack.clients().dynamodb.update_item();
    let update = update.table_name(world.stack.table()?);
    let text = |text: &str| AttributeValue::S(text.to_owned());
    update
        .key("pk", text("CFG"))
        .key("sk", text("V#000001"))
        .update_expression("SET #hash = :hash")
        .expression_attribute_names("#hash", "hash")
        .expression_attribute_values(":hash", text("00000000"))
        .send()
        .await?;
    let diff = ["sources", "diff", "own.toml"];
    let (code, said) = world.folder.refused(&diff)?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("version 1 of the sources"), "{said}");
    let refused = world.refused("own.toml", &[])?;
    assert_eq!(refused, (7, "sources.changes_keys".into()));
    let flags = ["--changes-keys", "--unchecked-secrets"];
    assert_eq!(world.apply("own.toml", &flags)?["version"], 2);
    assert_eq!(world.folder.run(&diff)?.status.code(), Some(0));
    world.stack.stop().await;
    Ok(())
}

/// The pin of the stack and the limits of its functions are in the heartbeat.
#[tokio::test]
async fn a_stack_with_embedded_sources_refuses_versions() -> anyhow::Result<()> {
    let world = World::start("embedded").await?;
    world
        .stack
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await?;
    let refused = world.refused("with-push.toml", &[])?;
    assert_eq!(refused, (7, "sources.embedded".into()));
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_host_that_the_deployment_does_not_allow_is_refused() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    world
        .stack
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await?;
    let hosts = "[forward]\nallow_hosts = [\"evil.example\"]\n";
    world
        .folder
        .write("hosts.toml", &format!("{BUILT_IN}{hosts}"))?;
    let (code, said) = world.folder.refused(&apply("hosts.toml", &[]))?;
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("line 8") && said.contains("AllowedHosts"),
        "{said}"
    );
    world.stack.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_long_action_needs_a_stack_that_runs_it() -> anyhow::Result<()> {
    let long = PUSH.replace(
        "\"keep\"",
        "\"rust\", name = \"open-issue\", timeout = \"5m\"",
    );
    let check = ["sources", "check", "--deployed", "long.toml"];
    for runs in ["false", "true"] {
        let world = World::start_with(&[("Sources", "table"), ("LongActions", runs)]).await?;
        world
            .folder
            .write("long.toml", &format!("{BUILT_IN}{long}"))?;
        let silent = world.folder.run(&check)?;
        assert_eq!(silent.status.code(), Some(0), "no function has reported");
        let drain = json!({ "task": "drain" });
        world.stack.invoke("BackupSync", &drain).await?;
        if runs == "true" {
            assert_eq!(world.folder.run(&check)?.status.code(), Some(0));
            assert_eq!(world.apply("long.toml", &[])?["version"], 1);
        } else {
            for command in [&check[..], &apply("long.toml", &[])] {
                let (code, said) = world.folder.refused(command)?;
                assert_eq!(code, Some(7), "{said}");
                for part in [
                    "push, action open-issue",
                    "LongActions=true",
                    "[sources.long_actions]",
                ] {
                    assert!(said.contains(part), "{said}");
                }
            }
            assert!(world.versions()?.is_empty());
        }
        world.stack.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_who_is_overtaken_exits_with_7() -> anyhow::Result<()> {
    let world = World::start("table").await?;
    let held = world.folder.read("with-push.toml")?;
    // Both commands have read the same version; this program then applies its file first.
    let versions = SourceVersions::beside(&world.ledger);
    let new = |text, seen| NewVersion {
        text,
        seen,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "bob".to_owned(),
            why: "first".to_owned(),
            selection: String::new(),
            count: 0,
        },
    };
    let mut racing = Vec::new();
    for _ in 0..4 {
        let mut command = world
            .folder
            .webhookctl(&apply("with-push.toml", &["-o", "json"]));
        let piped = command.stdout(std::process::Stdio::piped());
        racing.push(piped.stderr(std::process::Stdio::piped()).spawn()?);
    }
    let ours = versions.apply(&new(&held, 0), UnixMillis::now()).await?;
    let mut applied = usize::from(ours == Applied::Version(1));
    for child in racing {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            // The file is in force already, or this command applied it.
            Some(0) => {
                let told: Value = serde_json::from_slice(&output.stdout)?;
                applied += usize::from(told["applied"] == true);
            }
            Some(7) => ensure!(text.contains("sources.overtaken"), "{text}"),
            other => anyhow::bail!("{other:?}: {text}"),
        }
    }
    assert_eq!(applied, 1);
    assert_eq!(world.versions()?, [1]);
    world.stack.stop().await;
    Ok(())
}
