//! Adapts the sources file for the functions of `dev`. Destinations may be on this machine. With
//! `--forward`, all HTTP actions call one program.

use reqwest::Url;
use shared::sources::Config;
use toml_edit::{DocumentMut, Item, TableLike, table, value};

use crate::forward::Address;
use crate::output::{CliError, Exit};

/// The longest name of a destination.
const LONGEST: usize = 40;

/// Parses the address. The path of a request comes from its action, so the address has no
/// path.
pub(super) fn address(text: &str) -> Result<Address, CliError> {
    let address = Address::parse(text, None)?;
    let url = Url::parse(address.url()).ok();
    let is_plain =
        |url: &Url| url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if url.as_ref().is_some_and(is_plain) {
        return Ok(address);
    }
    Err(CliError::usage(
        "dev.forward",
        format!("--forward '{text}' has a path or a query"),
    )
    .note("each request keeps the path and the query of its action")
    .tip("pass only the port, for example --forward :3000"))
}

/// Returns the text for the functions, or `None` if they can read the file as it is.
pub(super) fn for_functions(
    text: &str,
    forward: Option<&Address>,
) -> anyhow::Result<Option<String>> {
    if forward.is_none() && Config::parse(text).is_ok() {
        return Ok(None);
    }
    let text = changed(text, forward).ok_or_else(|| {
        let message = "the CLI cannot adapt the sources file to this machine";
        CliError::new("dev.forward", Exit::No, message)
            .note("`forward` or an action in the file is not a table")
            .tip("webhookctl sources check")
    })?;
    Config::parse(&text).map_err(|error| {
        let message = format!("the sources are invalid with --forward: {error:#}");
        CliError::new("dev.forward", Exit::No, message)
    })?;
    Ok(Some(text))
}

fn changed(text: &str, forward: Option<&Address>) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let settings = document.entry("forward").or_insert(table());
    let settings = settings.as_table_like_mut()?;
    settings.insert("allow_loopback", value(true));
    if let Some(address) = forward {
        let to = Url::parse(address.url()).ok()?;
        if let Some(sources) = document.get_mut("source") {
            for_each(sources, &mut |source| {
                if let Some(actions) = source.get_mut("action") {
                    for_each(actions, &mut |action| redirect(action, &to));
                }
            });
        }
    }
    Some(document.to_string())
}

/// Visits the tables of a list, in both forms that TOML has for it.
fn for_each(list: &mut Item, visit: &mut dyn FnMut(&mut dyn TableLike)) {
    match list {
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| visit(table)),
        Item::Value(toml_edit::Value::Array(values)) => {
            let tables = values.iter_mut();
            let tables = tables.filter_map(toml_edit::Value::as_inline_table_mut);
            tables.for_each(|table| visit(table));
        }
        _ => {}
    }
}

/// Changes the scheme, host and port of an HTTP action. The old host becomes the name of the
/// destination, so that each destination keeps its own circuit breaker and rate.
fn redirect(action: &mut dyn TableLike, to: &Url) {
    let text = |action: &dyn TableLike, key: &str| {
        let item = action.get(key)?;
        Some(item.as_str()?.to_owned())
    };
    if text(action, "kind").as_deref() != Some("http") {
        return;
    }
    let Some(url) = text(action, "url").and_then(|url| Url::parse(&url).ok()) else {
        return;
    };
    if text(action, "destination").is_none() {
        action.insert("destination", value(name(&url)));
    }
    let mut target = to.clone();
    target.set_path(url.path());
    target.set_query(url.query());
    action.insert("url", value(target.as_str()));
}

/// Returns the host and the port as the name of a destination, such as `app-example-com`.
fn name(url: &Url) -> String {
    let port = url.port().map(|port| format!("-{port}"));
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let name = host + &port.unwrap_or_default();
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(legal).take(LONGEST).collect();
    if name.is_empty() {
        "forward".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const FILE: &str = "\
# Ours.
schema = 1
[forward]
allow_hosts = [\"app.example.com\", \"other.example.com\"]

[[source]]
name = \"shop\"
preset = \"stripe\"
[[source.action]]
kind = \"http\"
url = \"https://app.example.com/stripe/webhook?tenant=a%20b\"
secret = \"shop\"
rate = \"20/s\"
[[source.action]]
kind = \"keep\"

[[source]]
name = \"code\"
preset = \"github\"
action = [{ kind = \"http\", url = \"https://other.example.com\", secret = \"s\", rate = \"5/s\" }]
";

    fn urls(config: &Config) -> Vec<&str> {
        let actions = config.sources().flat_map(|source| &source.actions);
        let urls = actions.filter_map(|action| action.kind.http().map(|(url, _)| url));
        urls.collect()
    }

    #[test]
    fn every_http_action_keeps_its_path_query_and_rate() {
        let port = address(":3000").unwrap();
        let text = for_functions(FILE, Some(&port)).unwrap().unwrap();
        assert!(text.starts_with("# Ours.\n"), "{text}");
        let config = Config::parse(&text).unwrap();
        assert_eq!(
            urls(&config),
            [
                "http://localhost:3000/",
                "http://localhost:3000/stripe/webhook?tenant=a%20b"
            ]
        );
        let shop = config.source("shop").unwrap();
        let destination = shop.actions[0].destination.as_ref().unwrap();
        assert_eq!(destination.name, "app-example-com");
        assert_eq!(destination.rate.unwrap().to_string(), "20/s");
    }

    #[test]
    fn a_file_changes_only_for_a_destination_on_this_machine() {
        assert_eq!(for_functions(FILE, None).unwrap(), None);
        let here = FILE.replace("https://app.example.com", "http://127.0.0.1:4000");
        let text = for_functions(&here, None).unwrap().unwrap();
        let config = Config::parse(&text).unwrap();
        assert!(config.forward.allow_loopback);
        assert_eq!(
            urls(&config)[1],
            "http://127.0.0.1:4000/stripe/webhook?tenant=a%20b"
        );
    }

    #[test]
    fn an_address_is_a_port_of_this_machine_without_a_path() {
        for text in [":3000", "3000", "http://127.0.0.1:3000", "localhost:3000/"] {
            assert!(address(text).is_ok(), "{text}");
        }
        for (text, code) in [
            (":3000/hooks", "dev.forward"),
            (":3000?a=1", "dev.forward"),
            ("https://example.com", "forward.elsewhere"),
            ("", "forward.url"),
            (":", "forward.url"),
            ("http://localhost:/", "forward.url"),
        ] {
            assert_eq!(address(text).unwrap_err().code, code, "{text}");
        }
    }
}
