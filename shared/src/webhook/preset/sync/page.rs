//! How a list goes on.

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::Request;
use crate::base::json_path::JsonPath;

/// How the next page is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, tag = "style", rename_all = "kebab-case")]
pub enum Page {
    /// One answer holds everything.
    #[default]
    Once,
    /// A token of the answer goes into the next request. The list ends when `more` says so or,
    /// without it, when there is no token.
    Cursor {
        to: Put,
        next: Next,
        more: Option<JsonPath>,
        /// There is always a token; a page of no items is the last.
        #[serde(default)]
        until_empty: bool,
    },
    /// The `Link` header names the next page. <https://www.rfc-editor.org/rfc/rfc8288>
    LinkHeader,
    /// The answer names the whole URL of the next page.
    NextUrl {
        next: Next,
        more: Option<JsonPath>,
        /// There is always a next page; an empty one is the last.
        #[serde(default)]
        until_empty: bool,
    },
    /// How many items to pass over. A page of fewer than `size` is the last. Only for lists that
    /// new items do not push on: newest first, or with a span.
    Offset { to: Put, size: u64 },
    /// The number of the page. A page of fewer than `size` is the last.
    Number {
        to: Put,
        size: u64,
        #[serde(default = "one")]
        first: u64,
    },
}

/// Where a token is put: `query:NAME`, or `body:PATH` in the JSON of the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Put {
    Query(String),
    Body(JsonPath),
}

/// Where the next page is named.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Next {
    /// `last:PATH`: in the last item.
    Last(JsonPath),
    /// `json:PATH`: in the answer.
    Answer(JsonPath),
    /// `rel:PATH`: in a list of links of the answer, the `href` of the one whose `rel` is `next`.
    Rel(JsonPath),
}

/// What a run leaves for the next one: the token, or the URL, that the list goes on from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// In the answer that ends a run.
    pub at: JsonPath,
    /// Asked before the first run, for a mark that leads to what changes from now on. Without it,
    /// the first run reads the list from its beginning.
    pub begin: Option<Request>,
    /// The status of the answer to it, where that is not a 2xx.
    pub begin_status: Option<u16>,
    /// Answers by which the provider says that a mark leads nowhere any more.
    pub refused: Vec<u16>,
}

impl Put {
    fn parse(text: &str) -> anyhow::Result<Self> {
        match text.split_once(':') {
            Some(("query", name)) if !name.is_empty() => Ok(Self::Query(name.to_owned())),
            Some(("body", path)) => {
                let path = JsonPath::parse(path).filter(|path| !path.is_many());
                let path = path.with_context(|| format!("{text:?} has no good path"))?;
                Ok(Self::Body(path))
            }
            _ => bail!("{text:?} is no place of a request; it is like query:NAME or body:a.b"),
        }
    }
}

impl Next {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (place, path) = text.split_once(':').unwrap_or_default();
        let path = JsonPath::parse(path).filter(|path| !path.is_many());
        let path = path.with_context(|| format!("{text:?} has no good path"));
        match place {
            "last" => Ok(Self::Last(path?)),
            "json" => Ok(Self::Answer(path?)),
            "rel" => Ok(Self::Rel(path?)),
            _ => bail!("{text:?} names no next page; it is like json:a.b, last:id or rel:links"),
        }
    }
}

impl TryFrom<String> for Put {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

impl TryFrom<String> for Next {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| format!("{error:#}"))
    }
}

fn one() -> u64 {
    1
}
