//! Templates for the requests of a sync.

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
    /// A preset cannot use this method.
    #[serde(skip)]
    Patch,
}

/// One request. Its URL, query and body can contain placeholders. `{field:NAME}` is a value of the
/// source. `{since}` and `{until}` are the start and the end of the requested time span. In a
/// request for one item, `{item:PATH}` is a value of the item.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    #[serde(default)]
    pub method: Method,
    pub url: String,
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// The JSON body. Placeholders must be inside its strings.
    pub body: Option<String>,
}

/// How a request authenticates with the secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer <secret>`
    Bearer {},
    /// Basic authentication. Mitt replaces `{secret}` in the user and the password with the secret.
    Basic { user: String, password: String },
    /// A header with this name. Its value is the prefix, followed by the secret.
    Header {
        name: String,
        #[serde(default)]
        prefix: String,
    },
    /// A query parameter with this name. Its value is the secret.
    Query { name: String },
    /// A token signed with the secret, which is the private key of a GitHub App.
    GithubApp { issuer: String },
    /// A bearer token that the provider returns in exchange for the secret, and that is valid for
    /// about an hour. Mitt posts `form` to `url`. Mitt replaces `{secret}` in the form with the
    /// secret. If `user` is set, the request also has basic authentication with `user` and the
    /// secret. <https://www.rfc-editor.org/rfc/rfc6749#section-4.4>
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

    /// Returns all texts that can contain placeholders.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.query.values().chain(&self.body).map(String::as_str);
        std::iter::once(self.url.as_str()).chain(texts)
    }
}

/// Fills the time span into a template. `body` means that the template is JSON.
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

/// Fills values of an item into a URL. Each value becomes one segment of the path.
pub fn fill_item(text: &str, item: &[u8]) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{item:") {
        let (path, after) = after
            .split_once('}')
            .context("a placeholder is not closed")?;
        let at = JsonPath::parse(path).with_context(|| format!("invalid path {path:?}"))?;
        let value = at
            .scalar(item)
            .map_err(|_| anyhow!("cannot read {path} of an item"))?
            .filter(|value| !matches!(value.as_str(), "" | "." | ".."))
            .with_context(|| format!("an item has no {path}"))?;
        filled += before;
        filled += &utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string();
        rest = after;
    }
    Ok(filled + rest)
}

/// Escapes a value for use between the quotes of a JSON string.
pub(super) fn escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
