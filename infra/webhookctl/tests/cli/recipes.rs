//! `init --for` and `sources recipe`: a receiver for the events of a source.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::support::folder::{Folder, words};

const NAMES: [&str; 11] = [
    "express",
    "fastify",
    "nextjs",
    "fastapi",
    "flask",
    "django",
    "go",
    "lambda-node",
    "lambda-python",
    "sqs-node",
    "sqs-python",
];

const SOURCES: &str = r#"schema = 1
[forward]
allow_hosts = ["app.example.com"]

[[source]]
name = "shop"
preset = "shopify"
[[source.action]]
kind = "http"
name = "as-shopify"
url = "https://app.example.com/shopify"
sign = "provider"
secret = "shop-route"
destination = "route"
[[source.action]]
kind = "http"
name = "orders"
url = "https://app.example.com/hooks/orders?key=k3y"
secret = "orders-app"
destination = "orders"
[[source.action]]
kind = "lambda"
function = "orders:live"
[[source.action]]
kind = "sqs"
queue = "https://sqs.eu-central-1.amazonaws.com/111122223333/orders.fifo"

[[source]]
name = "signed"
preset = "stripe"
[[source.action]]
kind = "http"
url = "https://app.example.com/stripe"
sign = "provider"
secret = "signed"

[[source]]
name = "by-account"
preset = "stripe"
[[source.action]]
kind = "http"
url = "https://app.example.com/{account}"
secret = "by-account"

[[source]]
name = "stored"
preset = "stripe"
[[source.action]]
kind = "keep"
"#;

fn with_sources(name: &str) -> anyhow::Result<Folder> {
    let folder = Folder::new(name)?;
    folder.write("sources.toml", SOURCES)?;
    Ok(folder)
}

/// Returns the text of each file below a folder.
fn files_below(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder)?.display().to_string();
            files.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

fn printed_files(recipe: &Value) -> anyhow::Result<BTreeMap<String, String>> {
    let files = recipe["files"].as_array().context("files")?;
    let text = |file: &Value, field: &str| file[field].as_str().map(str::to_owned);
    let files = files.iter().map(|file| {
        let path = text(file, "path").context("a path")?;
        Ok((path, text(file, "text").context("a text")?))
    });
    files.collect()
}

#[test]
fn a_recipe_has_the_values_of_the_source() -> anyhow::Result<()> {
    let folder = with_sources("recipe")?;
    for name in NAMES {
        let line = ["sources", "recipe", "shop", "--for", name];
        let recipe = folder.json(&line)?;
        let own = match name.split_once('-') {
            Some(("lambda", _)) => ["lambda", "function = \"orders:live\""],
            Some(_) => ["sqs", "111122223333/orders.fifo\""],
            None => ["orders", "secrets put orders-app --egress"],
        };
        assert_eq!(recipe["action"], own[0], "{name}");
        let files = printed_files(&recipe)?;
        let all: String = files.values().map(String::as_str).collect();
        for text in [own[1], "the source shop", "send shop --wait"] {
            assert!(all.contains(text), "{name}: {text}");
        }
        if own[0] == "orders" {
            assert!(all.contains("hooks/orders"), "{name}");
            assert!(all.contains("the secret orders-app"), "{name}");
        }
        for text in [
            "stripe-main",
            "/webhooks",
            "\"webhooks\"",
            "k3y",
            "shop-route",
        ] {
            assert!(!all.contains(text), "{name}: {text}");
        }
        let shown = folder.text(&line)?;
        assert!(shown.contains("==> README.md <=="), "{name}: {shown}");
        for line in all.lines() {
            assert!(shown.contains(line), "{name}: {line}");
        }
    }
    Ok(())
}

#[test]
fn a_recipe_is_written_once_and_replaces_no_file() -> anyhow::Result<()> {
    let folder = with_sources("recipe-to")?;
    let line = words("sources recipe shop --for nextjs --to app/hooks");
    let recipe = folder.json(&line)?;
    let written = recipe["written"].as_array().context("written")?;
    assert_eq!(written.len(), 4, "{recipe}");
    let place = folder.path().join("app/hooks");
    let before = files_below(&place)?;
    assert_eq!(before, printed_files(&recipe)?);
    assert!(before.contains_key("app/hooks/orders/route.js"));

    assert_eq!(folder.json(&line)?["written"], json!([]));
    assert!(folder.text(&line)?.contains("nothing was changed"));
    assert_eq!(files_below(&place)?, before);

    // A missing file comes back, unless another file differs.
    std::fs::remove_file(place.join("package.json"))?;
    let again = folder.json(&line)?;
    assert_eq!(again["written"], json!(["app/hooks/package.json"]));
    folder.write("app/hooks/README.md", "mine")?;
    std::fs::remove_file(place.join("package.json"))?;
    let (code, said) = folder.refused(&line)?;
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("app/hooks/README.md"), "{said}");
    assert_eq!(folder.error(&line)?, (7, "recipe.differs".into()));
    assert_eq!(folder.read("app/hooks/README.md")?, "mine");
    assert!(!place.join("package.json").exists(), "nothing was written");
    Ok(())
}

#[test]
fn a_recipe_that_does_not_fit_is_refused() -> anyhow::Result<()> {
    let folder = with_sources("recipe-refused")?;
    for (source, name, exit, code) in [
        ("signed", "flask", 7, "recipe.signature"),
        ("stored", "flask", 7, "recipe.kind"),
        ("signed", "sqs-node", 7, "recipe.kind"),
        ("signed", "lambda-python", 7, "recipe.kind"),
        ("unknown", "flask", 3, "sources.not_found"),
        ("shop", "fastpi", 2, "usage.value"),
    ] {
        let line = ["sources", "recipe", source, "--for", name];
        assert_eq!(folder.error(&line)?, (exit, code.to_owned()), "{source}");
    }
    for line in ["sources recipe shop --for fastpi", "init --for fastpi"] {
        let (_, said) = folder.refused(&words(line))?;
        assert!(said.contains("a similar value exists: 'fastapi'"), "{said}");
        for name in NAMES {
            assert!(said.contains(name), "{said}");
        }
    }
    // No framework reads a placeholder as Mitt does, so the recipe keeps its path and says so.
    let said = folder.text(&words("sources recipe by-account --for express"))?;
    assert!(said.contains("app.post(\"/webhooks\""), "{said}");
    assert!(said.contains("change it to the path"), "{said}");
    Ok(())
}

#[test]
fn init_writes_a_receiver_once() -> anyhow::Result<()> {
    for name in NAMES {
        let folder = Folder::new("init-for")?;
        let line = ["init", "--for", name];
        let said = folder.text(&line)?;
        let next = said.split_once("Next:\n").context("the next commands")?.1;
        let commands: Vec<&str> = next
            .lines()
            .filter(|line| line.starts_with("  webhookctl "))
            .collect();
        assert_eq!(commands.len(), 3, "{said}");
        assert!(said.contains("receiver/README.md"), "{said}");
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let files = files_below(&folder.path().join("receiver"))?;
        for (file, text) in &files {
            let example = std::fs::read_to_string(examples.join(name).join(file))?;
            assert_eq!(*text, example, "{name}/{file}");
        }
        // The first command is valid as it is printed.
        folder.text(&words(commands[0].trim().trim_start_matches("webhookctl ")))?;
        let before = files_below(folder.path())?;
        assert!(
            before.len() > files.len() + 1,
            "{name}: sources.toml and .gitignore"
        );
        assert!(folder.text(&line)?.contains("nothing was changed"));
        assert_eq!(files_below(folder.path())?, before, "{name}");

        folder.write("receiver/README.md", "mine")?;
        assert_eq!(folder.error(&line)?, (7, "recipe.differs".into()));
        assert_eq!(folder.read("receiver/README.md")?, "mine");
    }
    Ok(())
}

#[test]
fn init_with_a_receiver_keeps_a_sources_file() -> anyhow::Result<()> {
    let folder = with_sources("init-for-kept")?;
    let made = folder.json(&words("init --for flask"))?;
    assert_eq!(made["file"], "sources.toml");
    assert_eq!(folder.read("sources.toml")?, SOURCES);
    assert_eq!(made["receiver"].as_array().map(Vec::len), Some(3), "{made}");

    let other = folder.json(&words("init other --for flask"))?;
    assert_eq!(other["receiver"][0], "other/receiver/app.py");
    assert!(folder.path().join("other/sources.toml").exists());

    // A receiver that differs stops the command before it writes the first file.
    std::fs::create_dir_all(folder.path().join("third/receiver"))?;
    folder.write("third/receiver/app.py", "mine")?;
    assert_eq!(
        folder.error(&words("init third --for flask"))?,
        (7, "recipe.differs".into())
    );
    assert_eq!(files_below(&folder.path().join("third"))?.len(), 1);
    Ok(())
}
