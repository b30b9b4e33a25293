//! One request to a provider's API, with retries, at the rate that the provider allows.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::{Answer, Call, Method, SendError};
use shared::base::clock::UnixMillis;
use shared::webhook::preset::Auth;
use tokio::time::timeout;

use super::Run;
use super::github_app;
use crate::BackupSync;
use crate::retry::{Asked, Refused, judge, with_retries};

/// A request without the API key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiRequest {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<String>,
    /// A status outside 2xx that also counts as a result.
    pub(super) also: Option<u16>,
}

impl BackupSync {
    /// Sends a request and parses the response. Returns `None` if the provider requires a longer
    /// wait than the run has left. Repeats the request if the response cannot be parsed.
    pub(super) async fn ask<T>(
        &self,
        run: &mut Run<'_>,
        question: &ApiRequest,
        read: impl Fn(&Bytes, Option<&str>) -> anyhow::Result<T>,
    ) -> Result<Option<T>, Refused> {
        let once = async |wait: Duration| {
            if !self.pause(run, wait).await {
                return Ok(None);
            }
            let left = run.ends.since((self.clock)());
            let Ok(answer) = timeout(left, self.send(run, question)).await else {
                // If the provider is this slow at the first page of every turn, the sync never gets
                // further. So this is an error, and not a run that the next turn continues.
                return if run.report.pages > 0 {
                    Ok(None)
                } else {
                    Err(Refused::Final(anyhow::anyhow!(
                        "the provider did not return the list within the time of this source"
                    )))
                };
            };
            let answer = answer?;
            let who = ("the provider's list", run.settings.secret.as_str());
            let (body, link) = judge(answer, who, question.also)?;
            let read = read(&body, link.as_deref()).map_err(|error| Refused::Later(error, None))?;
            Ok(Some(read))
        };
        Ok(match with_retries("a page of the list", once).await? {
            Asked::Answer(answer) => Some(answer),
            Asked::OutOfTime(_) => None,
        })
    }

    /// Waits for the given time, and until the rate allows the next request. Returns `false` if the
    /// run has no time for the wait.
    async fn pause(&self, run: &mut Run<'_>, wait: Duration) -> bool {
        let now = (self.clock)();
        let until = run.pace.map_or(now + wait, |at| at.max(now + wait));
        if until > run.ends {
            run.has_to_wait = true;
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
        question: &ApiRequest,
    ) -> Result<Result<Answer, SendError>, Refused> {
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
                    run.bearer = Some(
                        self.exchange_token(
                            url,
                            user.as_deref(),
                            form,
                            (&run.settings.secret, key),
                        )
                        .await?,
                    );
                }
                let token = run.bearer.as_deref().unwrap_or_default();
                headers.push(("authorization", format!("Bearer {token}")));
            }
            Auth::GithubApp { issuer } => {
                let token =
                    github_app::token(issuer, key, now).context("sign with the app's key")?;
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

pub(crate) fn basic(user: &str, password: &str, key: &str) -> String {
    use base64::Engine as _;
    let [user, password] = [user, password].map(|text| text.replace("{secret}", key));
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {pair}")
}

/// The earliest time of the next request.
pub(super) type Pace = Option<UnixMillis>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_holds_the_secret_where_the_preset_wants_it() {
        assert_eq!(basic("api", "{secret}", "k"), "Basic YXBpOms=");
        assert_eq!(basic("{secret}", "", "k"), "Basic azo=");
    }
}
