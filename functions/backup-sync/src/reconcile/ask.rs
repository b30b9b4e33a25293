//! A page of somebody's API: asked for until it is answered, or until there is no time left.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use shared::clock::{Clock, Millis};
use shared::outbound::{Outbound, Trouble};
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
    pub(crate) headers: Vec<(&'a str, &'a str)>,
}

impl Api<'_> {
    /// What is there; `None` for 404.
    pub(crate) async fn get(
        &self,
        url: &str,
        query: &[(String, String)],
    ) -> anyhow::Result<Option<Bytes>> {
        let bearer = format!("Bearer {}", self.key.expose());
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(&self.headers);
        for tries in 1.. {
            let now = (self.clock)();
            let answer = self.outbound.get(url, query, &headers, now).await;
            let (trouble, asked) = match answer {
                Ok(answer) => match (answer.status, answer.body) {
                    (200, Some(body)) => return Ok(Some(body)),
                    (200, None) => bail!("{}: an answer is larger than 16 MiB", self.what),
                    (404, _) => return Ok(None),
                    (status @ (401 | 403), _) => bail!(
                        "{} answered {status}: the key {:?} may not read it",
                        self.what,
                        self.secret
                    ),
                    (status @ (408 | 425 | 429 | 500..=599), _) => {
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
        Ok(None)
    }

    /// The same where 404 is an error.
    pub(crate) async fn list(
        &self,
        url: &str,
        query: &[(String, String)],
    ) -> anyhow::Result<Bytes> {
        let found = self.get(url, query).await?;
        found.with_context(|| {
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
