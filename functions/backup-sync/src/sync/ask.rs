//! One request to a provider's API: sent until it is answered, at the pace that it takes.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::clock::Millis;
use shared::outbound::{Answer, Call, Method, Trouble};
use shared::preset::Auth;

use super::Run;
use super::github_app;
use crate::BackupSync;

/// How often something is asked for before the run gives up.
const TRIES: u32 = 6;

/// A request, ready but for the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<String>,
    /// A status that is an answer as well, though it is no 2xx.
    pub(super) also: Option<u16>,
}

/// Why something was not answered.
#[derive(Debug)]
pub(super) enum Refused {
    /// Asking again will not help.
    Final(anyhow::Error),
    Later(anyhow::Error, Option<Duration>),
    /// The request itself is at fault, or what it names.
    Request(u16, anyhow::Error),
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::Final(error)
    }
}

impl Refused {
    pub(super) fn error(self) -> anyhow::Error {
        match self {
            Self::Final(error) | Self::Later(error, _) | Self::Request(_, error) => error,
        }
    }
}

impl BackupSync {
    /// Asks, and reads the answer; `None` when the provider wants us to wait for longer than the
    /// run may. An answer that cannot be read is asked for again.
    pub(super) async fn ask<T>(
        &self,
        run: &mut Run<'_>,
        question: &Question,
        read: impl Fn(&Bytes, Option<&str>) -> anyhow::Result<T>,
    ) -> Result<Option<T>, Refused> {
        let mut tries = 0;
        loop {
            if !self.pause(run, Duration::ZERO).await {
                return Ok(None);
            }
            tries += 1;
            let sent = match self.send(run, question).await {
                Ok(answer) => judge(answer, question.also),
                Err(refused) => Err(refused),
            };
            let (error, asked) = match sent {
                Ok((body, link)) => match read(&body, link.as_deref()) {
                    Ok(read) => return Ok(Some(read)),
                    Err(error) => (error, None),
                },
                Err(Refused::Later(error, asked)) => (error, asked),
                Err(refused) => return Err(refused),
            };
            if tries == TRIES {
                let error = error.context(format!("asked {TRIES} times for a page of the list"));
                return Err(Refused::Final(error));
            }
            let wait = asked.unwrap_or(Duration::from_millis(250) * 2_u32.pow(tries));
            if !self.pause(run, wait).await {
                return Ok(None);
            }
        }
    }

    /// Waits for this long, and until the provider takes the next request; `false` when the run
    /// has no time for it.
    async fn pause(&self, run: &Run<'_>, wait: Duration) -> bool {
        let now = (self.clock)();
        let until = run.pace.map_or(now + wait, |at| at.max(now + wait));
        if until > run.ends {
            return false;
        }
        let wait = until.since(now);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        true
    }

    async fn send(
        &self,
        run: &mut Run<'_>,
        question: &Question,
    ) -> Result<Result<Answer, Trouble>, Refused> {
        let now = (self.clock)();
        if let Some(rate) = run.sync.rate.filter(|rate| *rate > 0) {
            run.pace = Some(now + Duration::from_secs(60) / rate);
        }
        let mut query = question.query.clone();
        let mut headers: Vec<(&str, String)> = vec![("accept", "application/json".to_owned())];
        if question.body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        for (name, value) in &run.sync.headers {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            headers.push((name, value.clone()));
        }
        let key = run.key.expose();
        match &run.sync.auth {
            Auth::Bearer {} => headers.push(("authorization", format!("Bearer {key}"))),
            Auth::Basic { user, password } => {
                headers.push(("authorization", basic(user, password, key)));
            }
            Auth::Header { name, prefix } => headers.push((name, format!("{prefix}{key}"))),
            Auth::Query { name } => query.push((name.clone(), key.to_owned())),
            Auth::Exchange { url, user, form } => {
                if run.bearer.is_none() {
                    run.bearer = Some(self.exchange(url, user.as_deref(), form, key).await?);
                }
                let token = run.bearer.as_deref().unwrap_or_default();
                headers.push(("authorization", format!("Bearer {token}")));
            }
            Auth::GithubApp { issuer } => {
                let token = github_app::token(issuer, key, now).context("the key of the app")?;
                headers.push(("authorization", format!("Bearer {token}")));
            }
        }
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let call = Call {
            method: question.method,
            url: &question.url,
            query: &query,
            headers: &headers,
            body: question.body.clone().map(Bytes::from),
        };
        Ok(self.outbound.call(call, now).await)
    }
}

pub(super) fn basic(user: &str, password: &str, key: &str) -> String {
    use base64::Engine as _;
    let [user, password] = [user, password].map(|text| text.replace("{secret}", key));
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {pair}")
}

pub(super) fn judge(
    answer: Result<Answer, Trouble>,
    also: Option<u16>,
) -> Result<(Bytes, Option<String>), Refused> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Trouble::NotSent(error) | Trouble::Unclear(error)) => {
            return Err(Refused::Later(anyhow::anyhow!(error), None));
        }
    };
    let error = anyhow::anyhow!("the provider's list answered {}", answer.status);
    match (answer.status, answer.body) {
        (200..=299, Some(body)) => Ok((body, answer.link)),
        (status, Some(body)) if also == Some(status) => Ok((body, answer.link)),
        (200..=299, None) => Err(Refused::Final(anyhow::anyhow!(
            "a page of the provider's list is larger than 16 MiB"
        ))),
        (408 | 425 | 429 | 500..=599, _) => Err(Refused::Later(error, answer.retry_after)),
        // GitHub says so when it is asked too often.
        // <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>
        (403, _) if answer.retry_after.is_some() => Err(Refused::Later(error, answer.retry_after)),
        (401 | 403, _) => Err(Refused::Final(
            error.context("the API key may not list events"),
        )),
        (status, _) => Err(Refused::Request(status, error)),
    }
}

/// Until when nothing may be asked.
pub(super) type Pace = Option<Millis>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_too_often_is_asked_later() {
        let answer = |status, retry_after| Answer {
            status,
            retry_after,
            body: Some(Bytes::new()),
            ..Answer::default()
        };
        let wait = Some(Duration::from_secs(9));
        for status in [429, 403, 503] {
            let judged = judge(Ok(answer(status, wait)), None);
            assert!(
                matches!(judged, Err(Refused::Later(_, asked)) if asked == wait),
                "{status}"
            );
        }
        assert!(matches!(
            judge(Ok(answer(403, None)), None),
            Err(Refused::Final(_))
        ));
        assert!(matches!(
            judge(Ok(answer(410, wait)), None),
            Err(Refused::Request(410, _))
        ));
        assert!(matches!(
            judge(Ok(answer(302, None)), Some(412)),
            Err(Refused::Request(302, _))
        ));
        assert!(judge(Ok(answer(202, None)), None).is_ok());
        assert!(judge(Ok(answer(412, None)), Some(412)).is_ok());
    }

    #[test]
    fn basic_holds_the_secret_where_the_preset_wants_it() {
        assert_eq!(basic("api", "{secret}", "k"), "Basic YXBpOms=");
        assert_eq!(basic("{secret}", "", "k"), "Basic azo=");
    }
}
