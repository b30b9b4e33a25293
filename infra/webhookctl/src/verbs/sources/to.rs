//! The destination that `sources add --to` writes: an action that posts to a URL, and its host
//! among the allowed hosts.

use reqwest::Url;
use shared::sources::is_on_this_machine;
use toml_edit::{Array, DocumentMut, Item, RawString, Table, Value, table, value};

use crate::cli::SignMode;
use crate::output::CliError;

/// A destination to write into the sources file.
#[derive(Debug)]
pub(super) struct To<'t> {
    pub(super) url: &'t str,
    /// The name of the secret that signs the requests.
    pub(super) secret: &'t str,
    sign: SignMode,
    host: &'t str,
}

impl<'t> To<'t> {
    /// Checks the URL. An error does not repeat it, because a URL can contain a key.
    pub(super) fn parse(
        url: &'t str,
        secret: &'t str,
        sign: Option<SignMode>,
    ) -> Result<Self, CliError> {
        let wrong = |why: &str| {
            CliError::usage("sources.to", format!("--to: {why}"))
                .tip("write the whole URL, for example --to https://app.example.com/webhooks")
        };
        let parsed = Url::parse(url).map_err(|_| wrong("invalid URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong("the URL must begin with https:// and have a host"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("the URL must not contain a user name or password"));
        }
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => authority,
        };
        Ok(Self {
            url,
            secret,
            sign: sign.unwrap_or(SignMode::Standard),
            host,
        })
    }

    pub(super) fn is_here(&self) -> bool {
        is_on_this_machine(self.url)
    }

    /// Returns the action as a TOML table.
    pub(super) fn action(&self) -> Table {
        let mut action = Table::new();
        action["kind"] = value("http");
        action["url"] = value(self.url);
        if self.sign == SignMode::Provider {
            action["sign"] = value("provider");
        }
        action["secret"] = value(self.secret);
        action
    }

    /// Returns the text with the host in `[forward] allow_hosts`. Returns `None` if
    /// `allow_hosts` is not a list.
    ///
    /// A program on this machine needs no entry: `dev` allows it, and a deployment rejects it.
    pub(super) fn allowed_in(&self, text: &str) -> Option<String> {
        if self.is_here() {
            return Some(text.to_owned());
        }
        let mut document: DocumentMut = text.parse().ok()?;
        let forward = document.entry("forward").or_insert(table());
        let hosts = forward
            .as_table_like_mut()?
            .entry("allow_hosts")
            .or_insert(Item::Value(Value::Array(Array::new())));
        let hosts = hosts.as_array_mut()?;
        if hosts.iter().any(|host| host.as_str() == Some(self.host)) {
            return Some(text.to_owned());
        }
        let last = hosts.iter().last().and_then(|host| host.decor().prefix());
        let indent = last.and_then(RawString::as_str).map(str::to_owned);
        match indent {
            // The list has a line for each host.
            Some(indent) if indent.contains('\n') => {
                let indent = indent.rsplit_once('\n').map_or("", |(_, indent)| indent);
                let host = Value::from(self.host).decorated(format!("\n{indent}"), "");
                hosts.push_formatted(host);
            }
            _ => hosts.push(self.host),
        }
        Some(document.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> Option<String> {
        let to = To::parse("https://app.example.com:8443/stripe?a=1", "shop", None).unwrap();
        to.allowed_in(text)
    }

    #[test]
    fn a_host_is_added_to_the_list_and_comments_stay() {
        for (before, after) in [
            (
                "schema = 1\n",
                "schema = 1\n\n[forward]\nallow_hosts = [\"app.example.com\"]\n",
            ),
            (
                "# Ours.\n[forward]\n# Where to.\nallow_hosts = [] # none\n",
                "# Ours.\n[forward]\n# Where to.\nallow_hosts = [\"app.example.com\"] # none\n",
            ),
            (
                "forward = { allow_hosts = [\"a\"] }\n",
                "forward = { allow_hosts = [\"a\", \"app.example.com\"] }\n",
            ),
            (
                "[forward]\nallow_hosts = [\n  \"a\", # a\n  \"b\",\n]\n",
                "[forward]\nallow_hosts = [\n  \"a\", # a\n  \"b\",\n  \"app.example.com\",\n]\n",
            ),
        ] {
            assert_eq!(allowed(before).as_deref(), Some(after));
            assert_eq!(allowed(after).as_deref(), Some(after), "only once");
        }
        for other in ["forward = 1\n", "[forward]\nallow_hosts = \"a\"\n", "= 1"] {
            assert_eq!(allowed(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_on_this_machine_needs_no_entry() {
        let to = To::parse("http://localhost:3000/hooks", "shop", None).unwrap();
        assert!(to.is_here());
        assert_eq!(
            to.allowed_in("schema = 1\n").as_deref(),
            Some("schema = 1\n")
        );
    }

    #[test]
    fn a_wrong_url_is_refused_and_not_repeated() {
        for url in [
            "app.example.com",
            "ftp://app.example.com/s3cret",
            "https://u:s3cret@app.example.com/",
            "https://",
            ":3000/s3cret",
        ] {
            let error = To::parse(url, "shop", None).unwrap_err();
            assert_eq!(error.code, "sources.to", "{url}");
            assert!(!format!("{error:?}").contains("s3cret"), "{url}");
        }
    }
}
