//! Calls a provider's API or your own endpoint, and retries until the call succeeds or the deadline
//! passes.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::{Call, Method, Outbound};
use shared::aws::secrets::Secret;
use shared::base::clock::{Clock, UnixMillis};
use shared::webhook::preset::Auth;
use tokio::time::timeout;

use crate::retry::{Asked, Refused, judge, with_retries};
use crate::sync::basic;

/// An API, and the deadline for calls to it.
pub(crate) struct Api<'a> {
    pub(crate) outbound: &'a Outbound,
    pub(crate) clock: Clock,
    pub(crate) ends: UnixMillis,
    /// The name of the resource in error texts, such as `the list of subscriptions`.
    pub(crate) what: &'a str,
    pub(crate) key: Secret,
    /// The name of the API key.
    pub(crate) secret: &'a str,
    /// The header that carries the key. `None` means `Authorization: Bearer`.
    pub(crate) key_header: Option<&'a str>,
    /// How the requests authenticate, if a list of objects says so.
    pub(crate) auth: Option<&'a Auth>,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
}

/// A request that changes something. It is idempotent, so it can be retried.
pub(crate) struct Change<'c> {
    pub(crate) method: Method,
    pub(crate) content_type: &'c str,
    pub(crate) body: String,
}

impl Api<'_> {
    /// Returns the body, or `None` for a 404 or 410 response.
    pub(crate) async fn get(
        &self,
        url: &str,
        query: &[(String, String)],
    ) -> anyhow::Result<Option<Bytes>> {
        found(self.ask(url, query, None, Ok).await)
    }

    /// Returns the parsed body. Repeats the request if the body cannot be parsed. A 404 or 410
    /// response is an error.
    pub(crate) async fn list<T>(
        &self,
        url: &str,
        query: &[(String, String)],
        read: impl Fn(Bytes) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.there(found(self.ask(url, query, None, read).await)?)
    }

    /// Sends a request that changes something.
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
        let (name, value) = self.credentials();
        let key = name.map(|name| (name, value.as_str()));
        let mut query = query.to_vec();
        if let Some(Auth::Query { name }) = self.auth {
            query.push((name.clone(), self.key.expose().to_owned()));
        }
        let query = query.as_slice();
        let typed = change.map(|change| ("content-type", change.content_type));
        let headers: Vec<_> = key
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
            // A slow response must not use up the time of other calls.
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
                let what = self.what;
                Err(Refused::Final(match trouble {
                    Some(trouble) => {
                        trouble.context(format!("no time was left to request {what} again"))
                    }
                    None => anyhow::anyhow!("no time was left to request {what}"),
                }))
            }
        }
    }

    /// Returns the header with the key and its value. The key can also be in the query.
    fn credentials(&self) -> (Option<&str>, String) {
        let key = self.key.expose();
        match self.auth {
            Some(Auth::Query { .. }) => (None, String::new()),
            Some(Auth::Header { name, prefix }) => (Some(name), format!("{prefix}{key}")),
            Some(Auth::Basic { user, password }) => {
                (Some("authorization"), basic(user, password, key))
            }
            _ => match self.key_header {
                Some(name) => (Some(name), key.to_owned()),
                None => (Some("authorization"), format!("Bearer {key}")),
            },
        }
    }

    fn there<T>(&self, answer: Option<T>) -> anyhow::Result<T> {
        answer.with_context(|| {
            format!(
                "{} answered 404 or 410. The object does not exist, or the API key {:?} cannot read it",
                self.what, self.secret
            )
        })
    }
}

fn found<T>(answer: Result<T, Refused>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Refused::Request(404 | 410, _)) => Ok(None),
        Err(refused) => Err(refused.error()),
    }
}
