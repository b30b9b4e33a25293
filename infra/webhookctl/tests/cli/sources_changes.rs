//! `webhookctl sources add`, `test`, `rotate-secret`, `pause`, `resume` and `remove`, as a user
//! runs them while `dev` runs.

use crate::support::folder::{Folder, words};
use crate::support::world::Dev;
use anyhow::{Context, ensure};
use aws_sdk_ssm::types::ParameterType;

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

fn folder(name: &str) -> anyhow::Result<Folder> {
    let folder = Folder::new(&format!("changes-{name}"))?;
    folder.write("sources.toml", SOURCES)?;
    Ok(folder)
}

/// Creates the same folder, but the secret of the shop is in Secrets Manager.
fn managed(name: &str) -> anyhow::Result<Folder> {
    let folder = Folder::new(&format!("changes-managed-{name}"))?;
    let shop = "preset = \"shopify\"\n";
    let managed = format!("{shop}secret_store = \"secrets-manager\"\n");
    folder.write("sources.toml", &SOURCES.replace(shop, &managed))?;
    Ok(folder)
}

impl Folder {
    /// Returns the version with this label in Secrets Manager, if there is one.
    async fn version(&self, source: &str, label: &str) -> anyhow::Result<Option<String>> {
        let ssm = self.local()?.endpoints().clients().ssm;
        let name = format!("/aws/reference/secretsmanager/mitt/ingress/{source}:{label}");
        let got = ssm.get_parameter().name(name).with_decryption(true);
        match got.send().await {
            Ok(got) => Ok(got.parameter.and_then(|p| p.value)),
            Err(error) => {
                let error = error.into_service_error();
                ensure!(error.is_parameter_not_found(), error);
                Ok(None)
            }
        }
    }

    /// Returns the current and the previous version, if they exist.
    async fn labels(&self, source: &str) -> anyhow::Result<Vec<String>> {
        let current = self.version(source, "AWSCURRENT").await?;
        let previous = self.version(source, "AWSPREVIOUS").await?;
        Ok(current.into_iter().chain(previous).collect())
    }

    /// Puts a version into Secrets Manager, as a rotation outside Mitt does.
    async fn put(&self, source: &str, value: &str, label: &str) -> anyhow::Result<()> {
        let request = serde_json::json!({
            "SecretId": format!("mitt/ingress/{source}"),
            "SecretString": value,
            "VersionStages": [label],
        });
        let http = shared::aws::outbound::unguarded(std::time::Duration::from_secs(10))?;
        let call = http.post(self.local()?.secrets_manager);
        let call = call.header("x-amz-target", "secretsmanager.PutSecretValue");
        let answer = call.body(request.to_string()).send().await?;
        ensure!(answer.status().is_success(), "{}", answer.status());
        Ok(())
    }

    /// Returns the value of this slot in Parameter Store.
    async fn secret_of(&self, source: &str, slot: &str) -> anyhow::Result<String> {
        let local = self.local()?;
        let ssm = local.endpoints().clients().ssm;
        let name = format!("{}/{source}/{slot}", local.secrets_path);
        let got = ssm.get_parameter().name(name).with_decryption(true);
        let value = got.send().await?.parameter.and_then(|p| p.value);
        value.context("the secret is stored")
    }
}

#[test]
fn a_file_is_changed_by_one_source_without_an_inbox() -> anyhow::Result<()> {
    let folder = folder("file")?;
    let add = words("sources add pay --preset stripe --file sources.toml");
    folder.write("given", "a secret of stripe")?;
    let with_secret = [&add[..], &["--secret-from", "file:given"]].concat();
    assert_eq!(folder.error(&with_secret)?, (2, "sources.no_inbox".into()));
    assert_eq!(folder.read("sources.toml")?, SOURCES, "nothing was written");

    let added = folder.json(&add)?;
    assert_eq!(added["schema"], "webhookctl/sources.add/v1");
    assert_eq!(added["url"], "https://<api>/in/pay");
    let next = added["next"].as_str().context("what to do next")?;
    assert!(next.contains("webhookctl secrets put pay"), "{next}");
    assert!(folder.read("sources.toml")?.starts_with(SOURCES));
    folder.json(&["sources", "check", "sources.toml"])?;
    let again = [&add[..], &["--no-secret"]].concat();
    assert_eq!(folder.error(&again)?, (7, "sources.exists".into()));
    let typo = words("sources add x --preset strip --file sources.toml");
    assert_eq!(folder.error(&typo)?, (2, "sources.no_preset".into()));

    let remove = ["sources", "remove", "pay", "--file", "sources.toml"];
    assert_eq!(folder.error(&remove)?, (7, "sources.confirm".into()));
    let wrong = [&remove[..], &["--confirm", "shop"]].concat();
    assert_eq!(
        folder.error(&wrong)?,
        (7, "sources.confirm_mismatch".into())
    );
    folder.json(&[&remove[..], &["--confirm", "pay"]].concat())?;
    assert_eq!(folder.read("sources.toml")?, SOURCES);
    let gone = [&remove[..], &["--confirm", "pay"]].concat();
    assert_eq!(folder.error(&gone)?, (3, "sources.not_found".into()));
    Ok(())
}

#[tokio::test]
async fn a_source_is_added_tested_and_removed() -> anyhow::Result<()> {
    let folder = folder("add")?;
    let dev = Dev::start(&folder, &["--state", "state"])?;
    folder.write("given", "a secret of stripe\n")?;
    let add = words("sources add pay --preset stripe --secret-from file:given");
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

    let made = words("sources add repo --preset github --new-secret made");
    let made = folder.json(&made)?;
    let value = folder.read("made")?;
    assert_eq!(folder.secret_of("repo", "v1").await?, value);
    assert!(!made.to_string().contains(&value));
    let theirs = words("sources add s2 --preset stripe --new-secret other");
    assert_eq!(folder.error(&theirs)?, (7, "sources.not_ours".into()));
    let unasked = ["sources", "add", "s2", "--preset", "stripe"];
    assert_eq!(folder.error(&unasked)?, (2, "sources.no_secret".into()));
    folder.write("bad", "whsec_no/base64!at-all")?;
    let bad = words("sources add std --preset standard-webhooks --secret-from file:bad");
    assert_eq!(folder.error(&bad)?, (2, "sources.bad_secret".into()));

    // After a restart, `dev` has the new sources.
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
        assert_eq!(
            item["live_secrets"], 1,
            "dev makes no second secret: {item}"
        );
    }
    let remove = words("sources remove pay --confirm pay --with-secrets");
    assert_eq!(folder.json(&remove)?["secrets_deleted"], 1);
    assert!(folder.secret_of("pay", "v1").await.is_err());
    assert!(!folder.read("sources.toml")?.contains("\"pay\""));
    Ok(())
}

#[tokio::test]
async fn a_secret_is_shown_to_nobody_who_is_not_written_down() -> anyhow::Result<()> {
    let folder = folder("reveal")?;
    let _dev = Dev::start(&folder, &[])?;
    let secret = folder.secret_of("shop", "current").await?;
    let shown = folder.json(&["sources", "show", "shop"])?;
    assert!(!shown.to_string().contains(&secret));

    let reveal = ["sources", "show", "shop", "--reveal"];
    assert_eq!(folder.run(&reveal)?.status.code(), Some(2), "say why");
    let nothing = [&reveal[..], &["-m", " "]].concat();
    assert_eq!(folder.error(&nothing)?, (2, "sources.reason".into()));
    let reveal = [&reveal[..], &["-m", "it moves to another vault"]].concat();
    let mut read_only = folder.webhookctl(&reveal);
    let read_only = read_only.env("WEBHOOKCTL_READ_ONLY", "1").output()?;
    assert_eq!(read_only.status.code(), Some(7));
    assert!(!String::from_utf8_lossy(&read_only.stdout).contains(&secret));
    let log = ["log", "--what", "secret.reveal"];
    assert_eq!(folder.json(&log)?["items"], serde_json::json!([]));

    let text = folder.run(&reveal)?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("\n{secret}\n")), "{text}");
    let shown = folder.json(&reveal)?;
    let revealed = shown["revealed"].as_object().context("secrets")?;
    assert_eq!(revealed.values().collect::<Vec<_>>(), [&secret]);
    let log = folder.json(&log)?;
    assert_eq!(log["items"].as_array().map(Vec::len), Some(2));
    let deed = &log["items"][0];
    assert_eq!(
        (&deed["selection"], &deed["reason"]),
        (&"shop".into(), &"it moves to another vault".into()),
        "{deed}"
    );
    Ok(())
}

#[tokio::test]
async fn a_rotation_is_ended_when_the_old_secret_no_longer_arrives() -> anyhow::Result<()> {
    let folder = folder("rotate")?;
    let _dev = Dev::start(&folder, &[])?;
    let rotate =
        |more: &'static [&'static str]| [&["sources", "rotate-secret", "shop"][..], more].concat();
    assert_eq!(
        folder.error(&rotate(&["--finish"]))?,
        (7, "sources.no_rotation".into())
    );
    folder.write("old", &folder.secret_of("shop", "current").await?)?;
    folder.write("new", "the new one")?;
    let same = rotate(&["--secret-from", "file:old"]);
    assert_eq!(folder.error(&same)?, (7, "sources.same_secret".into()));

    let begun = folder.json(&rotate(&["--secret-from", "file:new", "--overlap", "24h"]))?;
    assert_eq!(begun["accepted"][0]["slot"], "v2");
    assert!(!begun.to_string().contains("the new one"));
    let twice = rotate(&["--secret-from", "file:new"]);
    assert_eq!(folder.error(&twice)?, (7, "sources.rotating".into()));
    let shown = folder.json(&["sources", "show", "shop"])?;
    assert_eq!(shown["rotation"]["new"], "v2", "{shown}");
    let list = folder.json(&["sources", "list"])?;
    let note = list["items"][1]["note"].as_str().context("a note")?;
    assert!(note.contains("rotation ends in 23h59m"), "{note}");

    // No request with the new secret has arrived. Then a request with the old secret arrives.
    assert_eq!(
        folder.error(&rotate(&["--finish"]))?,
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
        folder.error(&rotate(&["--abort"]))?,
        (7, "sources.rotate_early".into())
    );
    let other = rotate(&["--finish", "--confirm", "code"]);
    assert_eq!(
        folder.error(&other)?,
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

    Ok(())
}

#[tokio::test]
async fn a_cancelled_rotation_leaves_the_old_secret() -> anyhow::Result<()> {
    let folder = folder("rotate-abort")?;
    let _dev = Dev::start(&folder, &[])?;
    let old = folder.secret_of("shop", "current").await?;
    folder.write("new", "the new one")?;
    folder.json(&words("sources rotate-secret shop --secret-from file:new"))?;
    let ended = folder.json(&words("sources rotate-secret shop --abort"))?;
    assert_eq!(
        (&ended["now"], &ended["gone"][0]["slot"]),
        (&"aborted".into(), &"v2".into())
    );
    assert_eq!(folder.secret_of("shop", "current").await?, old);
    Ok(())
}

#[tokio::test]
async fn a_rotation_in_secrets_manager_moves_the_labels() -> anyhow::Result<()> {
    let folder = managed("rotate")?;
    let _dev = Dev::start(&folder, &[])?;
    let rotate =
        |more: &'static [&'static str]| [&["sources", "rotate-secret", "shop"][..], more].concat();
    let old = folder.version("shop", "AWSCURRENT").await?;
    let old = old.context("dev has made one")?;
    folder.write("old", &old)?;
    folder.write("new", "the new one")?;
    let begun = folder.json(&rotate(&["--secret-from", "file:new"]))?;
    let version = begun["accepted"][0]["slot"].as_str().context("a version")?;
    assert_eq!(version.len(), 8, "{begun}");
    let labels = folder.labels("shop").await?;
    assert_eq!(labels, ["the new one", old.as_str()]);
    let twice = rotate(&["--secret-from", "file:new"]);
    assert_eq!(folder.error(&twice)?, (7, "sources.rotating".into()));

    assert_eq!(
        folder.error(&rotate(&["--finish"]))?,
        (7, "sources.rotate_unproved".into())
    );
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:old"])?;
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:new"])?;
    assert_eq!(
        folder.error(&rotate(&["--finish"]))?,
        (7, "sources.rotate_early".into())
    );
    let shown = folder.json(&["sources", "show", "shop"])?;
    let secrets = shown["secrets"].as_array().context("secrets")?;
    let proved: Vec<_> = secrets.iter().map(|it| &it["proved"]).collect();
    assert_eq!(proved, [1, 1], "{shown}");
    assert_eq!(shown["secret_store"], "secrets-manager");

    let ended = folder.json(&rotate(&["--finish", "--confirm", "shop"]))?;
    assert_eq!(ended["accepted"][0]["slot"], version, "{ended}");
    assert_eq!(folder.labels("shop").await?, ["the new one"]);

    // After a cancelled rotation, the previous secret is current again.
    folder.write("third", "a third one")?;
    folder.json(&rotate(&["--secret-from", "file:third"]))?;
    assert_eq!(folder.labels("shop").await?, ["a third one", "the new one"]);
    folder.json(&rotate(&["--abort"]))?;
    assert_eq!(folder.labels("shop").await?, ["the new one"]);
    Ok(())
}

#[tokio::test]
async fn a_rotation_takes_no_label_away_that_is_in_use() -> anyhow::Result<()> {
    let folder = managed("in-use")?;
    let _dev = Dev::start(&folder, &[])?;
    let old = folder.version("shop", "AWSCURRENT").await?;
    folder.write("old", &old.context("dev has made one")?)?;
    folder.write("new", "the new one")?;
    let rotate = words("sources rotate-secret shop --secret-from file:new");
    // Secrets Manager has rotated the secret itself, and the provider still uses the old secret.
    folder.put("shop", "by a rotation", "AWSCURRENT").await?;
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:old"])?;
    assert_eq!(folder.error(&rotate)?, (7, "sources.rotate_early".into()));
    folder.put("shop", "the next one", "AWSPENDING").await?;
    assert_eq!(folder.error(&rotate)?, (7, "sources.pending".into()));
    let labels = folder.labels("shop").await?;
    assert_eq!(labels[0], "by a rotation", "nothing was changed");
    Ok(())
}

#[tokio::test]
async fn a_source_is_added_with_its_secret_in_secrets_manager() -> anyhow::Result<()> {
    let folder = folder("add-managed")?;
    let _dev = Dev::start(&folder, &[])?;
    folder.write("given", "a secret of github")?;
    let added = folder.json(&[
        "sources",
        "add",
        "repo",
        "--preset",
        "github",
        "--secret-store",
        "secrets-manager",
        "--secret-from",
        "file:given",
    ])?;
    assert_eq!(added["secret"], "mitt/ingress/repo");
    let text = folder.read("sources.toml")?;
    assert!(
        text.contains("secret_store = \"secrets-manager\"\n"),
        "{text}"
    );
    assert_eq!(folder.labels("repo").await?, ["a secret of github"]);
    let remove = ["sources", "remove", "repo", "--confirm", "repo"];
    let removed = folder.json(&[&remove[..], &["--with-secrets"]].concat())?;
    assert_eq!(removed["secrets_deleted"], 1);
    assert!(folder.version("repo", "AWSCURRENT").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_secret_that_was_deleted_by_hand_is_not_the_last_to_go() -> anyhow::Result<()> {
    let folder = folder("last")?;
    let _dev = Dev::start(&folder, &[])?;
    folder.write("new", "the new one")?;
    folder.json(&words("sources rotate-secret shop --secret-from file:new"))?;
    let local = folder.local()?;
    let ssm = local.endpoints().clients().ssm;
    let new = format!("{}/shop/v2", local.secrets_path);
    ssm.delete_parameter().name(&new).send().await?;
    let finish = words("sources rotate-secret shop --finish --confirm shop");
    assert_eq!(folder.error(&finish)?, (7, "sources.last_secret".into()));
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
    let folder = folder("pause")?;
    let _dev = Dev::start(&folder, &[])?;
    assert_eq!(
        folder.error(&["sources", "pause", "shop", "-m", " "])?,
        (2, "sources.reason".into())
    );
    assert_eq!(
        folder.error(&["sources", "pause", "shp", "-m", "x"])?,
        (3, "sources.not_found".into())
    );
    folder.json(&["sources", "pause", "shop", "-m", "a bad release"])?;
    let again = ["sources", "pause", "shop", "-m", "me too"];
    assert_eq!(folder.error(&again)?, (7, "sources.paused".into()));

    let sent = folder.json(&["send", "shop"])?;
    assert_eq!(sent["status"], 200);
    let id = sent["id"].as_str().context("the event is stored")?;
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
    assert_eq!(again["paused"], false, "a second resume is allowed");
    Ok(())
}
