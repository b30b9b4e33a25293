//! `webhookctl secrets` in `dev` and in a deployment.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use shared::webhook::preset::KeyForm;
use shared::webhook::sign::KeyPair;

use crate::support::folder::{stderr, told, words};
use crate::support::log::deeds;
use crate::support::world::World;

const SOURCES: &str = r#"
schema = 1
[forward]
allow_hosts = ["app.example.com"]

[[source]]
name = "shop"
preset = "stripe"
[[source.action]]
kind = "http"
url = "https://app.example.com/"
secret = "app"
[source.sync]

[[source]]
name = "chat"
preset = "discord"
[[source.action]]
kind = "http"
url = "https://app.example.com/chat"
sign = "provider"
secret = "bot"

[[source]]
name = "std"
preset = "standard-webhooks"
[[source.action]]
kind = "keep"
"#;

impl World {
    /// Returns the value of a parameter.
    async fn parameter(&self, name: &str) -> anyhow::Result<String> {
        let ssm = self.local.endpoints().clients().ssm;
        let got = ssm.get_parameter().name(name).with_decryption(true);
        let value = got.send().await?.parameter.and_then(|it| it.value);
        value.context("the secret is stored")
    }
}

/// Runs a command with this text on stdin.
fn with_stdin(mut command: Command, text: &str) -> anyhow::Result<Output> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}

fn document(output: &Output) -> anyhow::Result<Value> {
    ensure!(output.status.success(), "{}", told(output));
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[tokio::test]
async fn each_kind_of_secret_is_stored_and_never_printed() -> anyhow::Result<()> {
    let world = World::start("secrets-put", SOURCES)?;
    for (line, kind, value) in [
        ("secrets put shop", "ingress", "whsec_s3cret_of_stripe"),
        (
            "secrets put app --egress",
            "egress",
            "whsec_czNjcmV0LW9mLXRoZS1yb3V0ZQ==",
        ),
        (
            "secrets put shop --provider-api",
            "provider-api",
            "rk_s3cret",
        ),
    ] {
        let line = [&words(line)[..], &["-m", "the first one"]].concat();
        let put = with_stdin(world.webhookctl(&line), &format!("{value}\n"))?;
        let said = told(&put);
        assert!(put.status.success() && said.contains("fp:"), "{said}");
        assert!(!said.contains(value) && !said.contains("s3cret"), "{said}");
        let name = line[2];
        let list = world.json(&["secrets", "list"])?;
        assert!(!list.to_string().contains(value), "{list}");
        let mut items = list["items"].as_array().context("items")?.iter();
        let item = items.find(|it| it["name"] == name && it["kind"] == kind);
        let item = item.context("it is listed")?;
        assert_eq!(
            (&item["state"], &item["used_by"][0]),
            (&"stored".into(), &"shop".into())
        );
        let slot = item["slot"].as_str().context("a slot")?;
        let stored = world
            .parameter(&format!("/mitt/{kind}/{name}/{slot}"))
            .await?;
        assert_eq!(stored, value);
    }
    let log = deeds(&world.dynamodb(), &world.local.table).await?;
    let log = format!("{log:?}");
    for words in [
        "secret.put",
        "ingress shop: ",
        "provider-api shop: ",
        "the first one",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("s3cret"), "{log}");

    // A webhook with the new secret is accepted, although the catcher knows the old one.
    let sent = world.json(&["send", "shop"])?;
    assert_eq!(sent["status"], 200, "{sent}");
    Ok(())
}

#[tokio::test]
async fn a_value_that_cannot_be_right_is_not_stored() -> anyhow::Result<()> {
    let world = World::start("secrets-wrong", SOURCES)?;
    let before = world.json(&["secrets", "list"])?;
    for (line, text, exit, code) in [
        ("secrets put shop", "", 2, "secrets.no_value"),
        (
            "secrets put std",
            "whsec_no/base64!",
            2,
            "secrets.bad_value",
        ),
        ("secrets put Shop", "a", 2, "secrets.bad_name"),
        ("secrets put ../x --egress", "a", 2, "secrets.bad_name"),
        (
            "secrets put shop --from whsec_1",
            "",
            2,
            "usage.secret_from",
        ),
        (
            "secrets keypair app --preset stripe",
            "",
            2,
            "secrets.no_key_pair",
        ),
        (
            "secrets keypair app --preset strpe",
            "",
            2,
            "secrets.no_preset",
        ),
        ("secrets keypair app --preset wise", "", 2, "secrets.rsa"),
    ] {
        let line = [&words(line)[..], &["-o", "json"]].concat();
        let put = with_stdin(world.webhookctl(&line), text)?;
        let said = stderr(&put);
        assert_eq!(put.status.code(), Some(exit), "{line:?}: {said}");
        assert!(said.contains(&format!("\"code\":\"{code}\"")), "{said}");
    }
    let large = with_stdin(
        world.webhookctl(&words("secrets put app --egress")),
        &"a".repeat(4097),
    )?;
    assert!(
        stderr(&large).contains("[secrets.too_large]"),
        "{}",
        told(&large)
    );
    let after = world.json(&["secrets", "list"])?;
    assert_eq!(before["items"], after["items"]);
    Ok(())
}

#[test]
fn a_value_that_is_probably_wrong_has_a_warning() -> anyhow::Result<()> {
    let world = World::start("secrets-warned", SOURCES)?;
    let unused = with_stdin(
        world.webhookctl(&words("secrets put shp --provider-api")),
        "a",
    )?;
    assert!(
        stderr(&unused).contains("did you mean 'shop'?"),
        "{}",
        told(&unused)
    );
    let plain = with_stdin(
        world.webhookctl(&words("secrets put app --egress")),
        "no key!",
    )?;
    assert!(stderr(&plain).contains("cannot sign"), "{}", told(&plain));
    Ok(())
}

#[tokio::test]
async fn a_key_pair_keeps_its_private_half() -> anyhow::Result<()> {
    let world = World::start("secrets-keypair", SOURCES)?;
    let made = world.run(&["secrets", "keypair", "app"])?;
    let (public, said) = (String::from_utf8(made.stdout.clone())?, stderr(&made));
    assert!(made.status.success(), "{said}");
    assert!(
        public.starts_with("-----BEGIN PUBLIC KEY-----\n"),
        "{public}"
    );
    assert!(
        !said.contains("PRIVATE") && said.contains("/mitt/egress/app/"),
        "{said}"
    );
    let list = world.json(&["secrets", "list", "--egress"])?;
    let mut items = list["items"].as_array().context("items")?.iter();
    let item = items
        .find(|it| it["name"] == "app")
        .context("it is listed")?;
    let slot = item["slot"].as_str().context("a slot")?;
    let stored = world.parameter(&format!("/mitt/egress/app/{slot}")).await?;
    let pair = KeyPair::from_pem(&stored)?;
    assert_eq!(pair.public(KeyForm::Pem)?.trim_end(), public.trim_end());

    let made = world.json(&words(
        "secrets keypair app --preset standard-webhooks --variant v1a",
    ))?;
    let public = made["public_key"].as_str().context("a public key")?;
    assert!(public.starts_with("whpk_"), "{made}");
    assert!(!made.to_string().contains("PRIVATE"), "{made}");
    Ok(())
}

#[test]
fn a_key_pair_has_the_form_that_its_action_needs() -> anyhow::Result<()> {
    let world = World::start("secrets-keypair-of", SOURCES)?;
    let made = world.json(&words("secrets keypair bot"))?;
    let public = made["public_key"].as_str().context("a public key")?;
    // Discord's SDK expects 32 bytes in hex.
    assert!(
        public.len() == 64 && made["algorithm"] == "Ed25519",
        "{made}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_replaces_a_secret_only_on_request() -> anyhow::Result<()> {
    let world = World::start("secrets-deployed", SOURCES)?;
    let sts = testkit::sts::sts().await?;
    let deployed = |line: &str| {
        let mut command = world.deployment(&sts, &[&words(line)[..], &["-o", "json"]].concat());
        command.env("MITT_SECRETS_PATH", "/mitt");
        command
    };
    let run = |line: &str, text: &str| with_stdin(deployed(line), text);
    let put = document(&run("secrets put fresh --egress", "one")?)?;
    assert_eq!(
        (&put["slot"], &put["result"]),
        (&"v1".into(), &"stored".into())
    );
    assert_eq!(put["secret"], "/mitt/egress/fresh/v1");
    let same = document(&run("secrets put fresh --egress", "one\n")?)?;
    assert_eq!(same["result"], "unchanged", "{same}");
    assert_eq!(same["fingerprint"], put["fingerprint"]);

    let other = run("secrets put fresh --egress", "two")?;
    assert_eq!(other.status.code(), Some(7), "{}", told(&other));
    assert!(
        stderr(&other).contains("secrets.exists"),
        "{}",
        stderr(&other)
    );
    assert_eq!(world.parameter("/mitt/egress/fresh/v1").await?, "one");
    let other = document(&run("secrets put fresh --egress --replace", "two")?)?;
    assert_eq!(
        (&other["slot"], &other["removed"][0]),
        (&"v2".into(), &"v1".into())
    );
    assert_eq!(world.parameter("/mitt/egress/fresh/v2").await?, "two");
    assert!(world.parameter("/mitt/egress/fresh/v1").await.is_err());

    let log = format!("{:?}", deeds(&world.dynamodb(), &world.local.table).await?);
    assert!(
        log.contains("arn:aws:") && log.contains("egress fresh: v2"),
        "{log}"
    );
    let mut read_only = deployed("secrets put fresh --egress --replace");
    read_only.env("WEBHOOKCTL_READ_ONLY", "1");
    assert_eq!(with_stdin(read_only, "three")?.status.code(), Some(7));
    assert_eq!(world.parameter("/mitt/egress/fresh/v2").await?, "two");
    Ok(())
}

#[tokio::test]
async fn a_rotation_in_progress_keeps_both_secrets() -> anyhow::Result<()> {
    let world = World::start("secrets-rotating", SOURCES)?;
    world.write("new", "whsec_the_new_one")?;
    world.json(&words("sources rotate-secret shop --secret-from file:new"))?;
    world.write("third", "whsec_a_third_one")?;
    let put = words("secrets put shop --from file:third");
    assert_eq!(world.error(&put)?, (7, "secrets.rotating".into()));
    let list = world.json(&["secrets", "list"])?;
    let items = list["items"].as_array().context("items")?;
    let of_shop = |it: &&Value| it["name"] == "shop" && it["kind"] == "ingress";
    assert_eq!(items.iter().filter(of_shop).count(), 2, "{list}");
    Ok(())
}

#[tokio::test]
async fn a_rotation_names_the_egress_secrets_that_keep_its_value() -> anyhow::Result<()> {
    let signed = "sign = \"provider\"\nsecret = \"app\"\n";
    let sources = SOURCES.replace("secret = \"app\"\n", signed);
    let world = World::start("secrets-copied", &sources)?;
    world.write("old", "whsec_the_old_one")?;
    world.json(&words("secrets put shop --from file:old"))?;
    world.json(&words("secrets put app --egress --from file:old"))?;
    world.write("new", "whsec_the_new_one")?;
    let rotate = words("sources rotate-secret shop --secret-from file:new -o json");
    let begun = world.run(&rotate)?;
    let copies = &document(&begun)?["egress_copies"];
    assert_eq!(
        (&copies[0]["secret"], &copies[0]["actions"][0]),
        (&"app".into(), &"shop/http".into()),
        "{copies}"
    );
    let said = stderr(&begun);
    assert!(
        said.contains("secrets put app --egress --replace"),
        "{said}"
    );
    // The receiver has the new secret too, so nothing keeps the old one.
    world.json(&words("secrets put app --egress --from file:new"))?;
    let finish = words("sources rotate-secret shop --finish --confirm shop");
    let ended = world.json(&finish)?;
    assert_eq!(ended["egress_copies"], serde_json::json!([]), "{ended}");
    Ok(())
}

#[test]
fn a_secret_in_secrets_manager_is_replaced_too() -> anyhow::Result<()> {
    let preset = "preset = \"stripe\"\n";
    let managed = format!("{preset}secret_store = \"secrets-manager\"\n");
    let world = World::start("secrets-managed", &SOURCES.replace(preset, &managed))?;
    world.write("given", "whsec_the_real_one")?;
    let put = world.json(&words("secrets put shop --from file:given"))?;
    assert_eq!(put["secret"], "mitt/ingress/shop", "{put}");
    assert_eq!(put["removed"].as_array().map(Vec::len), Some(1), "{put}");
    let list = world.json(&["secrets", "list"])?;
    let items = list["items"].as_array().context("items")?.iter();
    let of_shop = items.filter(|it| it["name"] == "shop" && it["kind"] == "ingress");
    let prints: Vec<&Value> = of_shop.map(|it| &it["fingerprint"]).collect();
    assert_eq!(prints, [&put["fingerprint"]], "{list}");
    let again = world.json(&words("secrets put shop --from file:given"))?;
    assert_eq!(again["result"], "unchanged", "{again}");
    Ok(())
}
