//! Pagination of a list.

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::Request;
use crate::base::json_path::JsonPath;

/// How to request the next page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, tag = "style", rename_all = "kebab-case")]
pub enum Page {
    /// One response contains everything.
    #[default]
    Once,
    /// The next request contains a token of the response. The list ends when the value at `more` is
    /// `false`. Without `more`, the list ends when the response has no token.
    Cursor {
        to: Put,
        next: Next,
        more: Option<JsonPath>,
        /// Whether every response has a token, so that the list ends at a page without items.
        #[serde(default)]
        until_empty: bool,
    },
    /// The `Link` header names the next page. <https://www.rfc-editor.org/rfc/rfc8288>
    LinkHeader,
    /// The response contains the whole URL of the next page.
    NextUrl {
        next: Next,
        more: Option<JsonPath>,
        /// Whether every response has the URL of a next page, so that the list ends at a page
        /// without items.
        #[serde(default)]
        until_empty: bool,
    },
    /// The request contains the number of items to skip. A page with fewer than `size` items is the
    /// last page. Use this style only for a list that begins with the newest item, or that has a
    /// time span. In other lists, a new item could make the sync skip another item.
    Offset { to: Put, size: u64 },
    /// The request contains the number of the page. A page with fewer than `size` items is the last
    /// page.
    Number {
        to: Put,
        size: u64,
        #[serde(default = "one")]
        first: u64,
    },
}

/// The location of a token in a request: `query:NAME`, or `body:PATH` in the JSON body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Put {
    Query(String),
    Body(JsonPath),
}

/// The location of the next page in a response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Next {
    /// `last:PATH`: in the last item.
    Last(JsonPath),
    /// `json:PATH`: in the response.
    Answer(JsonPath),
    /// `rel:PATH`: in a list of links of the response, the `href` of the link whose `rel` is
    /// `next`.
    Rel(JsonPath),
}

/// The position at which the next run continues. It is a token or a URL.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The location of the mark in the last response of a run.
    pub at: JsonPath,
    /// The request that returns the first mark, for a list that returns only the changes after a
    /// mark. Without `begin`, the first run reads the list from its beginning.
    pub begin: Option<Request>,
    /// The status of the response to `begin`, if it is not a 2xx.
    pub begin_status: Option<u16>,
    /// The statuses with which the provider reports that a mark is no longer valid.
    pub refused: Vec<u16>,
}

impl Put {
    fn parse(text: &str) -> anyhow::Result<Self> {
        match text.split_once(':') {
            Some(("query", name)) if !name.is_empty() => Ok(Self::Query(name.to_owned())),
            Some(("body", path)) => {
                let path = JsonPath::parse(path).filter(|path| !path.is_many());
                let path = path.with_context(|| format!("invalid path in {text:?}"))?;
                Ok(Self::Body(path))
            }
            _ => bail!("invalid location {text:?}; use query:NAME or body:a.b"),
        }
    }
}

impl Next {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (place, path) = text.split_once(':').unwrap_or_default();
        let path = JsonPath::parse(path).filter(|path| !path.is_many());
        let path = path.with_context(|| format!("invalid path in {text:?}"));
        match place {
            "last" => Ok(Self::Last(path?)),
            "json" => Ok(Self::Answer(path?)),
            "rel" => Ok(Self::Rel(path?)),
            _ => bail!("invalid location {text:?}; use json:a.b, last:id or rel:links"),
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
