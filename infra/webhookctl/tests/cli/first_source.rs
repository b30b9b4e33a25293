//! The first steps of a new user: `init`, `sources add --to`, `dev --forward`, `secrets put`, `send
//! --wait`, and a program on this machine that receives the event.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::json;

use crate::support::folder::{Folder, stderr, told, words};
use crate::support::receiver::{OK, Receiver};
use crate::support::world::Dev;

const SECRET: &str = "whsec_bWl0dC1vd24tYXBwLXNlY3JldC0yNA==";

#[test]
fn a_new_user_gets_an_event_into_a_program() -> anyhow::Result<()> {
    let folder = Folder::new("first-source")?;
    let app = Receiver::start(OK)?;
    let said = folder.text(&["init"])?;
    assert!(said.contains("webhookctl sources add"), "{said}");
    let to = "https://app.example.com/stripe/webhook?tenant=a%20b";
    let add = ["sources", "add", "pay", "--preset", "stripe", "--to", to];
    let said = folder.text(&add)?;
    for words in ["webhookctl dev --forward", "secrets put pay --egress"] {
        assert!(said.contains(words), "{said}");
    }
    folder.text(&["sources", "check"])?;

    let port = format!(":{}", app.port);
    let _dev = Dev::start_as(&folder, &["--forward", &port])?;
    let mut put = folder.webhookctl(&words("secrets put pay --egress --from env:APP -o json"));
    let put = put.env("APP", SECRET).output()?;
    assert!(put.status.success(), "{}", stderr(&put));
    assert!(!told(&put).contains("bWl0d"), "{}", told(&put));
    let sent = folder.json(&["send", "pay", "--wait"])?;
    assert_eq!(sent["outcome"], "done", "{sent}");
    let got = app.next()?;
    assert_eq!(got.path, "/stripe/webhook?tenant=a%20b");
    assert_eq!(got.header("mitt-source"), "pay");
    assert!(got.verifies("standard-webhooks", "", SECRET)?);

    // The functions have already read the secret, and use a new secret immediately.
    let other = "whsec_bWl0dC1vdGhlci1hcHAtc2VjcmV0LTI0";
    folder.write("other", other)?;
    let put = folder.json(&words("secrets put pay --egress --from file:other"))?;
    assert_eq!(put["removed"].as_array().map(Vec::len), Some(1), "{put}");
    let sent = folder.json(&["send", "pay", "--wait"])?;
    assert_eq!(sent["outcome"], "done", "{sent}");
    assert!(app.next()?.verifies("standard-webhooks", "", other)?);
    Ok(())
}

#[test]
fn init_changes_no_file_that_exists() -> anyhow::Result<()> {
    let folder = Folder::new("init")?;
    folder.write(".gitignore", "target")?;
    let made = folder.json(&["init"])?;
    assert_eq!(
        (&made["file"], &made["gitignore"]),
        (&json!("sources.toml"), &json!(true))
    );
    assert_eq!(folder.read(".gitignore")?, "target\n/.mitt/\n");
    let checked = folder.json(&["sources", "check", "sources.toml"])?;
    assert_eq!(checked["sources"], json!([]), "{checked}");

    folder.write("sources.toml", "# mine\n")?;
    assert_eq!(folder.error(&["init"])?, (7, "init.exists".into()));
    assert_eq!(folder.read("sources.toml")?, "# mine\n");
    assert_eq!(folder.read(".gitignore")?, "target\n/.mitt/\n");
    let other = folder.json(&["init", "other"])?;
    assert_eq!(other["file"], "other/sources.toml");
    assert_eq!(folder.read("other/.gitignore")?, "/.mitt/\n");
    Ok(())
}

/// Standard Webhooks and Svix verify the webhooks of several providers, which are aliases.
#[test]
fn a_provider_can_be_named_by_an_alias() -> anyhow::Result<()> {
    let folder = Folder::new("alias")?;
    folder.text(&["init"])?;
    for alias in ["clerk", "supabase", "instagram", "twitter"] {
        let add = format!("sources add {alias}-main --preset {alias} --no-secret");
        folder.json(&words(&add))?;
        let text = folder.read("sources.toml")?;
        assert!(text.contains(&format!("preset = \"{alias}\"\n")), "{text}");
    }
    folder.json(&["sources", "check", "sources.toml"])?;
    let unknown = words("sources add a --preset clark --no-secret");
    assert_eq!(folder.error(&unknown)?, (2, "sources.no_preset".into()));
    Ok(())
}

#[test]
fn a_source_with_a_destination_is_added_once() -> anyhow::Result<()> {
    let folder = Folder::new("add-to")?;
    folder.text(&["init"])?;
    let before = folder.read("sources.toml")?;
    let add = words("sources add pay --preset stripe --to https://app.example.com:8443/hooks");
    let added = folder.json(&add)?;
    assert_eq!(added["to"], "https://app.example.com:8443/hooks");
    assert_eq!(added["egress_secret"], "pay");
    let text = folder.read("sources.toml")?;
    let hosts = "allow_hosts = [\"app.example.com\"]";
    let allowed = before.replace("allow_hosts = []", hosts);
    let source = "\n[[source]]\nname = \"pay\"\npreset = \"stripe\"\n[[source.action]]\nkind = \"http\"\n\
                  url = \"https://app.example.com:8443/hooks\"\nsecret = \"pay\"\n";
    assert_eq!(text, format!("{allowed}{source}"), "comments stay");

    assert_eq!(folder.error(&add)?, (7, "sources.exists".into()));
    let plain = words("sources add pay --preset stripe");
    assert_eq!(folder.error(&plain)?, (7, "sources.exists".into()));
    let wrong = words("sources add b --preset stripe --to app.example.com");
    assert_eq!(folder.error(&wrong)?, (2, "sources.to".into()));
    let insecure = words("sources add b --preset stripe --to http://app.example.com/");
    assert_eq!(folder.error(&insecure)?, (5, "sources.invalid".into()));
    assert_eq!(folder.read("sources.toml")?, text, "nothing was changed");

    let same_host = words("sources add b --preset github --to https://app.example.com:8443/b");
    folder.json(&same_host)?;
    assert_eq!(folder.read("sources.toml")?.matches(hosts).count(), 1);

    let route = "sources add c --preset stripe --sign provider --to https://app.example.com/c";
    folder.json(&words(route))?;
    let text = folder.read("sources.toml")?;
    let action = "url = \"https://app.example.com/c\"\nsign = \"provider\"\nsecret = \"c\"\n";
    assert!(text.ends_with(action), "{text}");
    let without = words("sources add d --preset stripe --sign provider");
    assert_eq!(folder.error(&without)?.0, 2);
    Ok(())
}

#[test]
fn a_destination_on_this_machine_is_for_dev_only() -> anyhow::Result<()> {
    let folder = Folder::new("loopback")?;
    let app = Receiver::start(OK)?;
    folder.text(&["init"])?;
    let url = format!("http://localhost:{}/hooks", app.port);
    let add = ["sources", "add", "pay", "--preset", "stripe", "--to", &url];
    let said = folder.text(&add)?;
    assert!(said.contains("only `dev` accepts it"), "{said}");
    let text = folder.read("sources.toml")?;
    assert!(text.contains("allow_hosts = []\n"), "{text}");
    assert!(!text.contains("allow_loopback"), "{text}");

    let checked = folder.json(&["sources", "check"])?;
    let warning = checked["warnings"][0]["message"].as_str();
    let warning = warning.context("a warning")?;
    assert!(warning.contains("dev --forward"), "{warning}");
    let refused = shared::sources::Config::parse(&text).err();
    let refused = refused.context("a deployment rejects it")?.to_string();
    assert!(refused.contains("webhookctl dev --forward :"), "{refused}");

    let _dev = Dev::start_as(&folder, &[])?;
    let sent = folder.json(&["send", "pay", "--wait"])?;
    assert_eq!(sent["outcome"], "done", "{sent}");
    assert_eq!(app.next()?.path, "/hooks");
    Ok(())
}

#[test]
fn a_wrong_address_to_forward_to_is_refused() -> anyhow::Result<()> {
    let folder = Folder::new("forward-wrong")?;
    folder.text(&["init"])?;
    for (to, exit, code) in [
        (":3000/hooks", 2, "dev.forward"),
        ("https://example.com", 7, "forward.elsewhere"),
        ("::", 2, "forward.url"),
    ] {
        let refused = folder.error(&["dev", "--port", "0", "--forward", to])?;
        assert_eq!(refused, (exit, code.to_owned()), "{to}");
    }
    let demo = ["dev", "--demo", "--forward", ":3000"];
    assert_eq!(folder.error(&demo)?.0, 2);
    Ok(())
}

#[test]
fn a_state_folder_keeps_edited_sources_and_secrets() -> anyhow::Result<()> {
    let folder = Folder::new("kept-edits")?;
    let state = ["--state", "state"];
    let dev = Dev::start_as(&folder, &state)?;
    folder.write("given", "a secret of github\n")?;
    let add = words("sources add repo --preset github --secret-from file:given");
    folder.json(&add)?;
    folder.write("other", SECRET)?;
    for put in [
        "secrets put stripe-main --from file:given",
        "secrets put downstream --egress --from file:other",
        "secrets put app --provider-api --from file:given",
    ] {
        folder.json(&words(put))?;
    }
    let before = fingerprints(&folder)?;
    drop(dev);

    let dev = Dev::start_as(&folder, &state)?;
    assert_eq!(fingerprints(&folder)?, before);
    // The demo's destination has another port now, and verifies with the stored secret.
    for name in ["repo", "stripe-main", "github-main"] {
        let sent = folder.json(&["send", name, "--wait"])?;
        assert_eq!(sent["outcome"], "done", "{sent}");
    }
    drop(dev);

    let _dev = Dev::start_as(&folder, &["--state", "state", "--reset"])?;
    assert!(!folder.read("state/sources.toml")?.contains("repo"));
    assert_ne!(fingerprints(&folder)?, before);
    Ok(())
}

fn fingerprints(folder: &Folder) -> anyhow::Result<BTreeSet<String>> {
    let list = folder.json(&["secrets", "list"])?;
    let items = list["items"].as_array().context("items")?;
    let text = |item: &serde_json::Value| format!("{} {}", item["name"], item["fingerprint"]);
    Ok(items.iter().map(text).collect())
}
