//! The requests of a sync, as templates.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::base::json_path::JsonPath;

/// The HTTP method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Post,
    Put,
    /// No preset uses it.
    #[serde(skip)]
    Patch,
}

/// One request. In its URL, its query and its body stand `{field:NAME}`, what the source says;
/// `{since}` and `{until}`, the span that is asked for; and in requests for one item
/// `{item:PATH}`, a value of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    #[serde(default)]
    pub method: Method,
    pub url: String,
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// JSON. What is put in is put into strings of it.
    pub body: Option<String>,
}

/// How the provider knows us by the secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer <secret>`
    Bearer {},
    /// Templates in which `{secret}` stands for the secret.
    Basic { user: String, password: String },
    /// A header of this name: the prefix, then the secret.
    Header {
        name: String,
        #[serde(default)]
        prefix: String,
    },
    /// A parameter of the query.
    Query { name: String },
    /// A token that is signed with the secret, the private key of a GitHub App.
    GithubApp { issuer: String },
    /// A bearer token that lives for an hour or so and is had for the secret. `form` is posted to
    /// `url`; `{secret}` stands for the secret in it, and in the password of `user`.
    /// <https://www.rfc-editor.org/rfc/rfc6749#section-4.4>
    Exchange {
        url: String,
        user: Option<String>,
        form: BTreeMap<String, String>,
    },
}

impl Request {
    pub fn mentions(&self, text: &str) -> bool {
        self.texts().any(|part| part.contains(text))
    }

    /// Everything that placeholders may stand in.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.query.values().chain(&self.body).map(String::as_str);
        std::iter::once(self.url.as_str()).chain(texts)
    }
}

/// Puts the span into a template. `body` says that it stands in a JSON text.
pub fn fill_text(text: &str, since: &str, until: &str, body: bool) -> String {
    let write = |value: &str| {
        if body {
            escaped(value)
        } else {
            value.to_owned()
        }
    };
    text.replace("{since}", &write(since))
        .replace("{until}", &write(until))
}

/// Puts values of an item into a URL: each is one segment of a path, whatever is in it.
pub fn fill_item(text: &str, item: &[u8]) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{item:") {
        let (path, after) = after
            .split_once('}')
            .context("a placeholder is not closed")?;
        let at = JsonPath::parse(path).with_context(|| format!("{path:?} is no path"))?;
        let value = at
            .scalar(item)
            .map_err(|_| anyhow!("{path} of an item cannot be read"))?
            .filter(|value| !matches!(value.as_str(), "" | "." | ".."))
            .with_context(|| format!("an item has no {path}"))?;
        filled += before;
        filled += &utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string();
        rest = after;
    }
    Ok(filled + rest)
}

/// As it stands between the quotes of a JSON string.
pub(super) fn escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
