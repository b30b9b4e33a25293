//! One page of a provider's list, and the token of the next.

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use serde_json::value::RawValue;
use shared::base::json_path::JsonPath;
use shared::webhook::preset::{Next, Page, Sync};

use super::item::Item;
use super::link_header;

/// The content of a page.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) items: Vec<Item>,
    /// The token, or the URL, of the next page.
    pub(super) next: Option<String>,
    /// The position at which the next run continues, if this is the last page and the list has
    /// positions.
    pub(super) mark: Option<String>,
}

impl Listing {
    /// Parses the page that `token` named. A page that cannot be parsed is an error, never an empty
    /// page.
    pub(super) fn read(
        sync: &Sync,
        token: Option<&str>,
        body: &Bytes,
        link: Option<&str>,
    ) -> anyhow::Result<Self> {
        let list = match &sync.items {
            None => std::str::from_utf8(body).context("a page of the list is not valid UTF-8")?,
            Some(path) => path
                .raw(body)
                .map_err(|_| anyhow::anyhow!("a page of the list is not valid JSON"))?
                .context("a page has no list of events")?
                .get(),
        };
        let raw: Vec<&RawValue> = serde_json::from_str(list)
            .map_err(|_| anyhow::anyhow!("the list of events is not a JSON array"))?;
        let items = raw.into_iter().map(|item| Item::read(sync, item));
        let items: Vec<Item> = items.collect::<anyhow::Result<_>>()?;
        let next = next(sync, token, body, link, &items)?;
        let mark = match (&sync.mark, &next) {
            (Some(mark), None) => {
                let at = text(&mark.at, body)?;
                Some(at.context(
                    "the last page does not contain the position at which the list continues",
                )?)
            }
            _ => None,
        };
        Ok(Self { items, next, mark })
    }
}

/// Returns the position at which a list begins, from the response to its very first request.
pub(super) fn first_mark(at: &JsonPath, body: &Bytes) -> anyhow::Result<String> {
    text(at, body)?.context("the response does not contain the position at which the list begins")
}

fn next(
    sync: &Sync,
    token: Option<&str>,
    body: &Bytes,
    link: Option<&str>,
    items: &[Item],
) -> anyhow::Result<Option<String>> {
    let counted = |token: Option<&str>, first: u64| match token {
        None => Ok(first),
        Some(token) => token
            .parse::<u64>()
            .map_err(|_| anyhow::anyhow!("the number of the next page is not a valid number")),
    };
    let count = u64::try_from(items.len())?;
    Ok(match &sync.page {
        Page::Once => None,
        Page::LinkHeader => link.and_then(link_header::next),
        Page::Cursor {
            next,
            more,
            until_empty,
            ..
        }
        | Page::NextUrl {
            next,
            more,
            until_empty,
        } => match says(more.as_ref(), body)? {
            Some(false) => None,
            _ if *until_empty && items.is_empty() => None,
            more => {
                let next = named(next, body, items)?;
                ensure!(
                    next.is_some() || (more.is_none() && !until_empty),
                    "a page says that a next page exists, but does not contain its location"
                );
                next
            }
        },
        Page::Offset { size, .. } => {
            let passed = counted(token, 0)?;
            (count >= *size).then(|| (passed + count).to_string())
        }
        Page::Number { size, first, .. } => {
            let page = counted(token, *first)?;
            (count >= *size).then(|| (page + 1).to_string())
        }
    })
}

/// Returns whether there are more pages, or `None` if the preset has no field for it.
fn says(more: Option<&JsonPath>, body: &Bytes) -> anyhow::Result<Option<bool>> {
    let Some(more) = more else {
        return Ok(None);
    };
    match text(more, body)?.as_deref() {
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        _ => bail!("a page does not say whether a next page exists"),
    }
}

fn named(next: &Next, body: &Bytes, items: &[Item]) -> anyhow::Result<Option<String>> {
    match next {
        Next::Answer(path) => text(path, body),
        Next::Last(path) => items.last().map_or(Ok(None), |item| text(path, &item.raw)),
        Next::Rel(path) => {
            let Some(links) = path
                .raw(body)
                .map_err(|_| anyhow::anyhow!("a page of the list is not valid JSON"))?
            else {
                return Ok(None);
            };
            let links: Vec<Related> = serde_json::from_str(links.get()).map_err(|_| {
                anyhow::anyhow!("the links of a page do not have the expected form")
            })?;
            let mut links = links.into_iter();
            Ok(links.find(|link| link.rel == "next").map(|link| link.href))
        }
    }
}

#[derive(serde::Deserialize)]
struct Related {
    rel: String,
    href: String,
}

fn text(path: &JsonPath, json: &[u8]) -> anyhow::Result<Option<String>> {
    let value = path
        .scalar(json)
        .map_err(|_| anyhow::anyhow!("the value {path} of a page of the list cannot be read"))?;
    Ok(value.filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests;
