//! A provider's API, or one of ours: asked until it answers, or until there is no time left.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::{Call, Method, Outbound};
use shared::aws::secrets::Secret;
use shared::base::clock::{Clock, UnixMillis};
use tokio::time::timeout;

use crate::retry::{Asked, Refused, judge, with_retries};

/// Someone to ask, and until when.
pub(crate) struct Api<'a> {
    pub(crate) outbound: &'a Outbound,
    pub(crate) clock: Clock,
    pub(crate) ends: UnixMillis,
    /// Whom it is about, for errors: `the list of subscriptions`.
    pub(crate) what: &'a str,
    pub(crate) key: Secret,
    /// The name of the key.
    pub(crate) secret: &'a str,
    /// The header that shows the key; `Authorization: Bearer` without one.
    pub(crate) key_header: Option<&'a str>,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
}

/// A request that changes something. To make it twice does no more.
pub(crate) struct Change<'c> {
    pub(crate) method: Method,
    pub(crate) content_type: &'c str,
    pub(crate) body: String,
}

impl Api<'_> {
    /// What is there; `None` for 404.
    pub(crate) async fn get(
        &self,
        url: &str,
        query: &[(String, String)],
    ) -> anyhow::Result<Option<Bytes>> {
        found(self.ask(url, query, None, Ok).await)
    }

    /// What is there, read; what cannot be read is asked for again, and 404 is an error.
    pub(crate) async fn list<T>(
        &self,
        url: &str,
        query: &[(String, String)],
        read: impl Fn(Bytes) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.there(found(self.ask(url, query, None, read).await)?)
    }

    /// Makes a change.
    pub(crate) async fn change(&self, url: &str, change: &Change<'_>) -> anyhow::Result<Bytes> {
        self.there(found(self.ask(url, &[], Some(change), Ok).await)?)
    }

    async fn ask<T>(
        &self,
        url: &str,
        query: &[(String, String)],
        change: Option<&Change<'_>>,
        read: impl Fn(Bytes) -> anyhow::Result<T>,
    ) -> Result<T, Refused> {
        let bearer = format!("Bearer {}", self.key.expose());
        let key = match self.key_header {
            Some(name) => (name, self.key.expose()),
            None => ("authorization", bearer.as_str()),
        };
        let typed = change.map(|change| ("content-type", change.content_type));
        let headers: Vec<_> = [key]
            .into_iter()
            .chain(self.headers.iter().copied())
            .chain(typed)
            .collect();
        let once = async |wait: Duration| {
            if (self.clock)() + wait > self.ends {
                return Ok(None);
            }
            tokio::time::sleep(wait).await;
            let call = Call {
                method: change.map_or(Method::Get, |change| change.method),
                url,
                query,
                headers: &headers,
                body: change.map(|change| Bytes::from(change.body.clone())),
            };
            let now = (self.clock)();
            // An answer that comes slowly must not take the time of others.
            let call = timeout(self.ends.since(now), self.outbound.call(call, now));
            let Ok(answer) = call.await else {
                return Ok(None);
            };
            let (body, _) = judge(answer, (self.what, self.secret), None)?;
            let read = read(body).map_err(|error| Refused::Later(error, None))?;
            Ok(Some(read))
        };
        match with_retries(self.what, once).await? {
            Asked::Answer(answer) => Ok(answer),
            Asked::OutOfTime(trouble) => {
                let trouble = trouble.unwrap_or_else(|| anyhow::anyhow!("it was not asked"));
                let what = format!("there is no time to ask {} again", self.what);
                Err(Refused::Final(trouble.context(what)))
            }
        }
    }

    fn there<T>(&self, answer: Option<T>) -> anyhow::Result<T> {
        answer.with_context(|| {
            format!(
                "{} answered 404: it is not there, or the key {:?} may not see it",
                self.what, self.secret
            )
        })
    }
}

fn found<T>(answer: Result<T, Refused>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Refused::Request(404, _)) => Ok(None),
        Err(refused) => Err(refused.error()),
    }
}
