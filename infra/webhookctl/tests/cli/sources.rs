//! `webhookctl sources` and `webhookctl send`, as a user runs them with and without a stack.

use crate::support::folder::{Folder, stderr, told, words};
use crate::support::world::Dev;
use anyhow::Context;
use aws_sdk_ssm::types::ParameterType;
use shared::webhook::sign::{Algorithm, KeyPair};

const RSA: &str = include_str!("../../../../shared/tests/data/rsa-test-key.pem");

#[test]
fn the_configuration_is_shown_where_no_inbox_can_be_asked() -> anyhow::Result<()> {
    let folder = Folder::new("sources-offline")?;
    let listed = folder.run(&["sources", "list"])?;
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert!(
        stderr(&listed).contains("no inbox is selected"),
        "{}",
        stderr(&listed)
    );

    let list = folder.json(&["sources", "list"])?;
    assert_eq!(list["schema"], "webhookctl/sources.list/v1");
    let items = list["items"].as_array().context("items")?;
    let stripe = items.iter().find(|item| item["source"] == "stripe-main");
    let stripe = stripe.context("the source is configured")?;
    assert_eq!(
        (&stripe["by"], &stripe["proves"], stripe.get("last_24h")),
        (&"webhook+sync".into(), &"body".into(), None),
        "fields that need a running stack are missing"
    );

    let shown = folder.json(&["sources", "show", "stripe-main"])?;
    assert_eq!(shown["schema"], "webhookctl/sources.show/v1");
    assert_eq!(shown["window"], "5m either way");
    let missing = folder.run(&["sources", "show", "stripe-mian"])?;
    assert_eq!(missing.status.code(), Some(3));
    assert!(stderr(&missing).contains("did you mean 'stripe-main'?"));

    folder.write("bad.toml", "schema = 1\n[[source]]\nnaem = \"x\"\n")?;
    let bad = folder.run(&["sources", "list", "--file", "bad.toml"])?;
    assert_eq!(bad.status.code(), Some(5), "{}", stderr(&bad));

    // The file has the secret itself instead of the name of the secret.
    let pasted =
        "schema = 1\n[[source]]\nname = \"x\"\npreset = \"stripe\"\nsecret = \"sk_live_51H8\"\n";
    folder.write("bad.toml", pasted)?;
    let bad = folder.run(&["sources", "list", "--file", "bad.toml"])?;
    let said = stderr(&bad);
    assert!(
        said.contains("line 5, column 1: source[0].secret: a secret's name must have"),
        "{said}"
    );
    assert!(!said.contains("51H8"), "{said}");
    Ok(())
}

#[test]
fn a_check_reports_every_fault_with_its_position() -> anyhow::Result<()> {
    let folder = Folder::new("sources-faults")?;
    let file = "[[source]]\nname = \"x\"\npreset = \"strpe\"\n[[source.action]]\n\
                kind = \"http\"\nurl = \"https://hooks.example.com/x\"\nsecret = \"x\"\n\
                timout = \"5m\"\n";
    folder.write("bad.toml", file)?;
    let line = ["sources", "check", "bad.toml"];
    let bad = folder.run(&line)?;
    assert_eq!(bad.status.code(), Some(5), "{}", stderr(&bad));
    let said = stderr(&bad);
    let faults: Vec<&str> = said.lines().skip(1).take(4).map(str::trim).collect();
    assert_eq!(
        faults,
        [
            "line 1, column 1: schema: `schema` is missing; add `schema = 1` as the first line",
            "line 3, column 1: source[0].preset: unknown preset \"strpe\"; did you mean `stripe`?",
            "line 6, column 1: source[0].action[0].url: the host \"hooks.example.com\" is not in \
             forward.allow_hosts; add the host if Mitt may send events to it",
            "line 8, column 1: source[0].action[0].timout: unknown setting `timout`; did you mean \
             `timeout`?",
        ],
        "{said}"
    );
    let bad = folder.run(&[&line[..], &["-o", "json"]].concat())?;
    let said: serde_json::Value = serde_json::from_slice(&bad.stderr)?;
    let faults = said["error"]["faults"].as_array().context("faults")?;
    assert_eq!(faults.len(), 4, "{said}");
    assert_eq!(
        (&faults[1]["line"], &faults[1]["column"]),
        (&3.into(), &1.into())
    );
    assert_eq!(faults[1]["path"], "source[0].preset");
    assert_eq!(faults[1]["fix"], "did you mean `stripe`?");
    Ok(())
}

#[test]
fn a_setting_is_shown_with_its_default_and_an_example() -> anyhow::Result<()> {
    let folder = Folder::new("sources-settings")?;
    let list = folder.json(&["sources", "settings"])?;
    assert_eq!(list["schema"], "webhookctl/sources.settings/v1");
    let items = list["items"].as_array().context("items")?;
    assert!(items.len() > 100, "{}", items.len());
    let one = folder.text(&["sources", "settings", "source[].action[].timeout"])?;
    assert!(
        one.contains("default  \"20s\"\n  example  timeout = \"5m\"\n"),
        "{one}"
    );
    let named = folder.json(&["sources", "settings", "secret"])?;
    let named = named["items"].as_array().context("items")?;
    assert!(named.iter().all(|item| {
        item["setting"]
            .as_str()
            .is_some_and(|it| it.ends_with(".secret"))
    }));
    let wrong = folder.run(&["sources", "settings", "timout"])?;
    assert_eq!(wrong.status.code(), Some(3));
    assert!(
        stderr(&wrong).contains("did you mean 'timeout'?"),
        "{}",
        stderr(&wrong)
    );
    Ok(())
}

#[test]
fn a_source_shows_what_it_stores_of_its_requests() -> anyhow::Result<()> {
    let folder = Folder::new("sources-requests")?;
    let keep = "action = [{ kind = \"keep\" }]\n";
    let sources = format!(
        "schema = 1\n[[source]]\nname = \"shop\"\npreset = \"shopify\"\n{keep}\
         [[source]]\nname = \"tenants\"\npreset = \"github\"\naccept_path = true\n\
         account = [\"header:x-tenant\", \"path:1\"]\n{keep}\
         [source.context]\nalso = [\"x-once-token\"]\nnever = [\"x-debug-*\"]\nquery = false\n\
         [[source]]\nname = \"none\"\npreset = \"github\"\n{keep}[source.context]\nkeep = \"none\"\n"
    );
    folder.write("sources.toml", &sources)?;
    let at = ["--file", "sources.toml"];
    let show = |name| -> anyhow::Result<(serde_json::Value, String)> {
        let line = [&["sources", "show", name], &at[..]].concat();
        Ok((folder.json(&line)?, folder.text(&line)?))
    };
    let (json, text) = show("shop")?;
    let account = "header:x-shopify-shop-domain|shopify-shop-domain";
    assert_eq!(json["account"][0], account);
    assert_eq!(json["accept_path"], false);
    assert_eq!(json["context"]["keep"], "provider");
    assert!(text.contains("stored without credentials\n"), "{text}");
    let (json, text) = show("tenants")?;
    assert_eq!(json["account"][1], "path:1");
    assert_eq!(json["context"]["query"], false);
    for line in [
        "header:x-tenant, path:1\n",
        "/in/tenants/… is also accepted\n",
        "stored without credentials; with x-once-token; without x-debug-*; without the query\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (json, text) = show("none")?;
    assert_eq!(json["context"]["keep"], "none");
    assert!(text.contains("not stored\n"), "{text}");
    Ok(())
}

#[test]
fn every_preset_is_listed_and_one_is_shown_whole() -> anyhow::Result<()> {
    let folder = Folder::new("sources-presets")?;
    let list = folder.json(&["sources", "presets"])?;
    assert_eq!(list["schema"], "webhookctl/sources.presets/v1");
    let known = shared::webhook::preset::Preset::ids().count();
    assert_eq!(list["items"].as_array().context("items")?.len(), known);

    let zoom = folder.json(&["sources", "presets", "zoom"])?;
    assert_eq!(zoom["schema"], "webhookctl/sources.preset/v1");
    assert_eq!(zoom["variants"][0]["message"], "v0:{ts}:{body}");
    let handshake = zoom["handshakes"][0]
        .as_str()
        .context("the source has a handshake")?;
    assert!(handshake.contains("endpoint.url_validation"), "{handshake}");
    assert!(zoom["retry"].as_str().context("text")?.contains("5m"));
    let text = String::from_utf8(folder.run(&["sources", "presets", "polar"])?.stdout)?;
    assert!(text.contains("variant standard"), "{text}");
    let wrong = folder.run(&["sources", "presets", "zom"])?;
    assert_eq!(wrong.status.code(), Some(3));
    assert!(stderr(&wrong).contains("did you mean 'zoom'?"));
    Ok(())
}

#[test]
fn whether_a_preset_can_be_sent_is_said_with_the_reason() -> anyhow::Result<()> {
    let folder = Folder::new("sources-list")?;
    let list = folder.json(&["send", "--list"])?;
    let items = list["items"].as_array().context("items")?;
    let of = |name: &str| items.iter().find(|item| item["preset"] == name);
    let paypal = of("paypal").context("the preset is listed")?;
    assert_eq!(paypal["sendable"], false);
    let why = paypal["signed_with"].as_str().context("text")?;
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(
        of("shopify").context("the preset is listed")?["sendable"],
        true
    );

    let to = ["--to", "http://127.0.0.1:1"];
    let paypal = folder.run(&[&["send", "paypal"][..], &to].concat())?;
    assert_eq!(paypal.status.code(), Some(2));
    assert!(
        stderr(&paypal).contains("[send.cannot_sign]"),
        "{}",
        stderr(&paypal)
    );
    let wise = folder.run(&[&["send", "wise"][..], &to].concat())?;
    assert!(
        stderr(&wise).contains("openssl genpkey"),
        "{}",
        stderr(&wise)
    );

    let made = folder.run(&["send", "telnyx", "--new-key", "key.pem"])?;
    assert!(made.status.success(), "{}", stderr(&made));
    let public = String::from_utf8(made.stdout)?;
    let shown = words("send telnyx --key-from file:key.pem --public-key");
    assert_eq!(String::from_utf8(folder.run(&shown)?.stdout)?, public);
    let again = folder.run(&["send", "telnyx", "--new-key", "key.pem"])?;
    assert!(!again.status.success(), "a key is never overwritten");
    let other = words("send sendgrid --key-from file:key.pem --public-key");
    let other = folder.run(&other)?;
    assert!(
        stderr(&other).contains("the key is for Ed25519"),
        "{}",
        stderr(&other)
    );
    Ok(())
}

/// The name, the preset and the other settings of each source.
const SENT: &[(&str, &str, &str)] = &[
    ("wise", "wise", ""),
    ("square", "square", ""),
    ("twilio", "twilio", ""),
    ("twilio-json", "twilio", "variant = \"json\""),
    ("gitlab", "gitlab", "variant = \"signed\""),
    ("adyen", "adyen", ""),
    ("sendgrid", "sendgrid", ""),
    ("discord", "discord", ""),
    ("shopify", "shopify", ""),
    ("mercado-pago", "mercado-pago", ""),
    ("messagebird", "messagebird", ""),
    ("dropbox", "dropbox", ""),
];

fn sources(jwks: &str) -> String {
    let source = |name: &str, preset: &str, more: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\n{more}\n\
             [[source.action]]\nkind = \"keep\"\n"
        )
    };
    let sent = SENT
        .iter()
        .map(|(name, preset, more)| source(name, preset, more));
    let plaid = source("plaid", "plaid", &format!("trust = {{ jwks = '{jwks}' }}"));
    format!("schema = 1\n{}{plaid}", sent.collect::<String>())
}

#[test]
fn what_is_sent_arrives_and_is_counted_and_what_is_falsified_does_not() -> anyhow::Result<()> {
    let folder = Folder::new("sources-stack")?;
    let plaid = KeyPair::generate(Algorithm::EcdsaP256)?;
    folder.write("plaid.pem", &plaid.expose_pem())?;
    folder.write("rsa.pem", RSA)?;
    folder.write("sources.toml", &sources(&plaid.jwks()?))?;
    let _dev = Dev::start(&folder, &[])?;

    for name in SENT.iter().map(|(name, ..)| *name).chain(["plaid"]) {
        let mut arguments = vec!["send", name, "--wait"];
        match name {
            "wise" => arguments.extend(["--key-from", "file:rsa.pem"]),
            "plaid" => arguments.extend(["--key-from", "file:plaid.pem"]),
            _ => {}
        }
        let told = folder.json(&arguments)?;
        let status = if name == "discord" { 204 } else { 200 };
        assert_eq!(
            (&told["status"], &told["outcome"]),
            (&status.into(), &"done".into()),
            "{name}: {told}"
        );
        assert!(told["id"].is_string(), "{name}: {told}");
    }
    for (name, tamper) in [
        ("square", "body"),
        ("twilio", "signature"),
        ("discord", "secret"),
        ("adyen", "body"),
        ("messagebird", "timestamp"),
    ] {
        let told = folder.json(&["send", name, "--tamper", tamper])?;
        assert_eq!(told["status"], 401, "{name} {tamper}");
    }
    let vain = folder.run(&["send", "mercado-pago", "--tamper", "body"])?;
    assert_eq!(vain.status.code(), Some(2));
    assert!(
        stderr(&vain).contains("does not cover the body"),
        "{}",
        stderr(&vain)
    );

    let list = folder.json(&["sources", "list"])?;
    let items = list["items"].as_array().context("items")?;
    assert_eq!(items.len(), SENT.len() + 1);
    for item in items {
        assert_eq!(item["last_24h"]["count"], 1, "{item}");
        assert_eq!(
            (&item["open"]["count"], &item["dead_letters"]["count"]),
            (&0.into(), &0.into())
        );
    }
    let shown = folder.json(&["sources", "show", "square"])?;
    assert_eq!(
        (&shown["refused_today"], &shown["last_24h"]["count"]),
        (&1.into(), &1.into()),
        "{shown}"
    );
    Ok(())
}

#[tokio::test]
async fn a_rotation_shows_which_secret_still_arrives() -> anyhow::Result<()> {
    let folder = Folder::new("sources-rotation")?;
    folder.write(
        "sources.toml",
        "schema = 1\n[[source]]\nname = \"shop\"\npreset = \"shopify\"\n\
         [[source.action]]\nkind = \"keep\"\n",
    )?;
    let _dev = Dev::start(&folder, &[])?;
    let local = folder.local()?;
    let ssm = local.endpoints().clients().ssm;
    for slot in ["new", "unused"] {
        ssm.put_parameter()
            .name(format!("{}/shop/{slot}", local.secrets_path))
            .value(format!("a secret that is {slot}"))
            .r#type(ParameterType::SecureString)
            .send()
            .await?;
    }
    let current = ssm
        .get_parameter()
        .name(format!("{}/shop/current", local.secrets_path));
    let old = current.with_decryption(true).send().await?.parameter;
    let old = old.and_then(|p| p.value).context("dev made one")?;
    folder.write("old", &old)?;
    folder.write("new", "a secret that is new")?;
    folder.json(&["send", "shop", "--wait", "--secret-from", "file:old"])?;
    folder.run(&words("send shop -n 2 --wait --secret-from file:new"))?;

    let shown = folder.json(&["sources", "show", "shop"])?;
    let secrets = shown["secrets"].as_array().context("secrets")?;
    let proved = |label: &str| {
        let of = secrets.iter().find(|secret| secret["label"] == label);
        of.map(|secret| (secret["live"] == true, secret["proved"].as_u64()))
    };
    assert_eq!(proved("current.1"), Some((true, Some(1))), "{shown}");
    assert_eq!(proved("new.1"), Some((true, Some(2))), "{shown}");
    assert_eq!(proved("unused.1"), Some((true, Some(0))), "{shown}");
    let advice = shown["advice"][0].as_str().unwrap_or_default();
    assert!(
        advice.starts_with("unused.1 verified none of the last 3"),
        "{advice}"
    );
    let text = shown.to_string();
    assert!(
        !text.contains("a secret that") && !text.contains(&old),
        "no secret is shown"
    );

    // The secret is removed, but it has verified some of the recent requests.
    ssm.delete_parameter()
        .name(format!("{}/shop/current", local.secrets_path))
        .send()
        .await?;
    let shown = folder.json(&["sources", "show", "shop"])?;
    let gone = shown["secrets"].as_array().context("secrets")?.last();
    let gone = gone.context("the secret is listed")?;
    assert_eq!(
        (&gone["label"], &gone["live"]),
        (&"current.1".into(), &false.into())
    );

    let list = folder.json(&["sources", "list"])?;
    assert_eq!(list["items"][0]["live_secrets"], 2);
    Ok(())
}

#[test]
fn a_type_without_a_sample_is_named_with_near_types() -> anyhow::Result<()> {
    let folder = Folder::new("types")?;
    let to = "http://127.0.0.1:9/";
    let send = |kind: &str| -> anyhow::Result<std::process::Output> {
        let line = ["send", "stripe", "--to", to, "--curl", "-t", kind];
        let mut sent = folder.webhookctl(&[&line[..], &["--secret-from", "env:S"]].concat());
        Ok(sent.env("S", "whsec_1").output()?)
    };
    let sent = send("charge.dispute.created")?;
    assert!(sent.status.success(), "{}", told(&sent));
    let said = stderr(&sent);
    for words in [
        "no sample of stripe charge.dispute.created",
        "similar types: charge.refunded",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let sent = send("invoice.paid")?;
    let said = stderr(&sent);
    assert!(said.contains("samples of stripe: payment_intent"), "{said}");
    let typo = send("charge.refundd")?;
    assert_eq!(typo.status.code(), Some(2));
    let said = stderr(&typo);
    assert!(said.contains("did you mean 'charge.refunded'?"), "{said}");
    assert!(!said.contains("near it"), "{said}");
    let known = send("charge.refunded")?;
    assert_eq!(stderr(&known), "");
    Ok(())
}
