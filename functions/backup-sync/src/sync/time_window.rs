//! The time window of a run, and the requests for it.

use anyhow::{Context as _, bail};
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::webhook::preset::{Page, Put, Request, Sync, fill_item, fill_text};

use super::request::ApiRequest;

/// The start of the window, and the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWindow {
    pub(super) from: UnixMillis,
    pub(super) started: UnixMillis,
}

impl TimeWindow {
    /// Builds the request for a page.
    pub(super) fn page(self, sync: &Sync, token: Option<&str>) -> anyhow::Result<ApiRequest> {
        let mut question = self.list(sync, &sync.request);
        let Some(token) = token else {
            if let Page::Number { to, first, .. } = &sync.page {
                put(&mut question, to, &first.to_string(), true)?;
            }
            return Ok(question);
        };
        match &sync.page {
            // A mark can be a URL in each pagination style whose next page is a URL.
            Page::LinkHeader | Page::NextUrl { .. } => {
                token.clone_into(&mut question.url);
                question.query.clear();
            }
            Page::Cursor { to, .. } => put(&mut question, to, token, false)?,
            Page::Offset { to, .. } | Page::Number { to, .. } => {
                put(&mut question, to, token, true)?;
            }
            Page::Once => bail!("a list of one page has no next page"),
        }
        Ok(question)
    }

    /// Builds a request for the list.
    pub(super) fn list(self, sync: &Sync, request: &Request) -> ApiRequest {
        let since = sync.since.from(self.from, self.started);
        let until = sync.since.until(self.started, self.started);
        let fill = |text: &String, body| fill_text(text, &since, &until, body);
        ApiRequest {
            method: request.method,
            url: fill(&request.url, false),
            query: request
                .query
                .iter()
                .map(|(name, value)| (name.clone(), fill(value, false)))
                .collect(),
            body: request.body.as_ref().map(|body| fill(body, true)),
            also: None,
        }
    }
}

/// Builds a request for one item.
pub(super) fn about(request: &Request, item: &[u8]) -> anyhow::Result<ApiRequest> {
    let query = request.query.iter();
    let query = query.map(|(name, value)| Ok((name.clone(), fill_item(value, item)?)));
    Ok(ApiRequest {
        method: request.method,
        url: fill_item(&request.url, item)?,
        query: query.collect::<anyhow::Result<_>>()?,
        body: request.body.clone(),
        also: None,
    })
}

fn put(question: &mut ApiRequest, to: &Put, token: &str, number: bool) -> anyhow::Result<()> {
    match to {
        Put::Query(name) => question.query.push((name.clone(), token.to_owned())),
        Put::Body(path) => {
            let body = question.body.as_deref().unwrap_or("{}");
            let mut json: Value = serde_json::from_str(body)
                .map_err(|_| anyhow::anyhow!("the body of the request is not valid JSON"))?;
            let value = match token.parse::<u64>() {
                Ok(count) if number => Value::from(count),
                _ => Value::from(token),
            };
            let place = path.places(&mut json).into_iter().next();
            *place.with_context(|| {
                format!("the request body has no field {path} for the page token")
            })? = value;
            question.body = Some(json.to_string());
        }
    }
    Ok(())
}
