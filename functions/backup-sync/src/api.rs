//! A provider's API, or one of ours: asked until it answers, or until there is no time left.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use shared::clock::{Clock, Millis};
use shared::outbound::{Answer, Call, Method, Outbound, Trouble};
use shared::secrets::Secret;

/// How often a page is asked for before the run gives up.
const TRIES: u32 = 6;

/// Someone to ask, and until when.
pub(crate) struct Api<'a> {
    pub(crate) outbound: &'a Outbound,
    pub(crate) clock: Clock,
    pub(crate) ends: Millis,
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
        self.ask(async |headers: &[(&str, &str)], now| {
            self.outbound.get(url, query, headers, now).await
        })
        .await
    }

    /// The same where 404 is an error.
    pub(crate) async fn list(
        &self,
        url: &str,
        query: &[(String, String)],
    ) -> anyhow::Result<Bytes> {
        self.found(self.get(url, query).await?)
    }

    /// Makes a change.
    pub(crate) async fn change(&self, url: &str, change: &Change<'_>) -> anyhow::Result<Bytes> {
        let answer = self.ask(async |headers: &[(&str, &str)], now| {
            let typed = [headers, &[("content-type", change.content_type)]].concat();
            let body = Bytes::from(change.body.clone());
            let call = Call {
                method: change.method,
                url,
                query: &[],
                headers: &typed,
                body: Some(body),
            };
            let sent = self.outbound.call(call, now);
            sent.await
        });
        self.found(answer.await?)
    }

    async fn ask(
        &self,
        send: impl AsyncFn(&[(&str, &str)], Millis) -> Result<Answer, Trouble>,
    ) -> anyhow::Result<Option<Bytes>> {
        let bearer = format!("Bearer {}", self.key.expose());
        let key = match self.key_header {
            Some(name) => (name, self.key.expose()),
            None => ("authorization", bearer.as_str()),
        };
        let headers = [&[key], self.headers.as_slice()].concat();
        let mut tries = 0;
        loop {
            tries += 1;
            let (trouble, asked) = match send(&headers, (self.clock)()).await {
                Ok(answer) => match (answer.status, answer.body) {
                    (200..=299, Some(body)) => return Ok(Some(body)),
                    (200..=299, None) => bail!("{}: an answer is larger than 16 MiB", self.what),
                    (404, _) => return Ok(None),
                    // GitHub says 403 as well when it is asked too often.
                    // <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>
                    (status @ (401 | 403), _) if answer.retry_after.is_none() => bail!(
                        "{} answered {status}: the key {:?} may not do that",
                        self.what,
                        self.secret
                    ),
                    (status @ (403 | 408 | 425 | 429 | 500..=599), _) => {
                        (format!("it answered {status}"), answer.retry_after)
                    }
                    (status, _) => bail!("{} answered {status}", self.what),
                },
                Err(Trouble::NotSent(error) | Trouble::Unclear(error)) => (error, None),
            };
            if tries == TRIES {
                bail!("{}: asked {TRIES} times; {trouble}", self.what);
            }
            let wait = asked.unwrap_or(Duration::from_millis(250) * 2_u32.pow(tries));
            if (self.clock)() + wait > self.ends {
                bail!(
                    "{}: {trouble}, and there is no time to ask again",
                    self.what
                );
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn found(&self, answer: Option<Bytes>) -> anyhow::Result<Bytes> {
        answer.with_context(|| {
            format!(
                "{} answered 404: it is not there, or the key {:?} may not see it",
                self.what, self.secret
            )
        })
    }

    /// Whether there is time for another page.
    pub(crate) fn in_time(&self) -> anyhow::Result<()> {
        if (self.clock)() > self.ends {
            bail!(
                "{} is too long to be read in one run; nothing was compared",
                self.what
            );
        }
        Ok(())
    }
}
