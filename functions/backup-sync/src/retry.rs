//! Decides which responses are retried, how often, and after which wait.

use std::time::Duration;

use bytes::Bytes;
use shared::aws::outbound::{Answer, SendError};

/// The maximum number of tries of a request.
const TRIES: u32 = 6;

/// The first wait if the response does not set one. The wait doubles with each try.
const WAIT: Duration = Duration::from_millis(250);

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A retry will not help.
    Final(anyhow::Error),
    /// A retry may help, after the wait that the response sets, if any.
    Later(anyhow::Error, Option<Duration>),
    /// The request, or the object that it names, was rejected with this status.
    Request(u16, anyhow::Error),
    /// The response is larger than the limit.
    TooLarge(anyhow::Error),
}

/// The result of a request with its retries.
#[derive(Debug)]
pub(crate) enum Asked<T> {
    Answer(T),
    /// The next try does not fit into the remaining time. Contains the error of the last try, if
    /// any.
    OutOfTime(Option<anyhow::Error>),
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::Final(error)
    }
}

impl Refused {
    pub(crate) fn error(self) -> anyhow::Error {
        match self {
            Self::Final(error)
            | Self::Later(error, _)
            | Self::Request(_, error)
            | Self::TooLarge(error) => error,
        }
    }
}

/// Repeats the request for `what` until it succeeds. `ask` waits for the given time and then sends
/// one request. `ask` returns `None` if no time is left for the wait.
pub(crate) async fn with_retries<T>(
    what: &str,
    mut ask: impl AsyncFnMut(Duration) -> Result<Option<T>, Refused>,
) -> Result<Asked<T>, Refused> {
    let (mut tries, mut wait, mut trouble) = (0, Duration::ZERO, None);
    loop {
        tries += 1;
        match ask(wait).await {
            Ok(Some(answer)) => return Ok(Asked::Answer(answer)),
            Ok(None) => return Ok(Asked::OutOfTime(trouble)),
            Err(Refused::Later(error, _)) if tries == TRIES => {
                let error = error.context(format!("{what} failed {TRIES} times"));
                return Err(Refused::Final(error));
            }
            Err(Refused::Later(error, asked)) => {
                wait = asked.unwrap_or(WAIT * 2_u32.pow(tries));
                trouble = Some(error);
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Decides whether a response of `who` is a result or an error, and which error. `secret` is the
/// name of the API key. `also` is a status outside 2xx that also counts as a result.
pub(crate) fn judge(
    answer: Result<Answer, SendError>,
    (who, secret): (&str, &str),
    also: Option<u16>,
) -> Result<(Bytes, Option<String>), Refused> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(error) | SendError::OutcomeUnknown(error)) => {
            return Err(Refused::Later(anyhow::anyhow!(error), None));
        }
    };
    let error = anyhow::anyhow!("{who} answered {}", answer.status);
    match (answer.status, answer.body) {
        (200..=299, Some(body)) => Ok((body, answer.link)),
        (status, Some(body)) if also == Some(status) => Ok((body, answer.link)),
        (200..=299, None) => Err(Refused::TooLarge(anyhow::anyhow!(
            "a response of {who} is larger than 16 MiB"
        ))),
        (408 | 425 | 429 | 500..=599, _) => Err(Refused::Later(error, answer.retry_after)),
        // GitHub answers 403 with `Retry-After` when the rate limit is reached.
        // <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>
        (403, _) if answer.retry_after.is_some() => Err(Refused::Later(error, answer.retry_after)),
        (401 | 403, _) => Err(Refused::Final(error.context(format!(
            "API key {secret:?} is invalid or lacks a permission"
        )))),
        (status, _) => Err(Refused::Request(status, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: (&str, &str) = ("the list", "stripe-main");

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
            let judged = judge(Ok(answer(status, wait)), WHO, None);
            assert!(
                matches!(judged, Err(Refused::Later(_, asked)) if asked == wait),
                "{status}"
            );
        }
        assert!(matches!(
            judge(Ok(answer(403, None)), WHO, None),
            Err(Refused::Final(_))
        ));
        assert!(matches!(
            judge(Ok(answer(410, wait)), WHO, None),
            Err(Refused::Request(410, _))
        ));
        assert!(matches!(
            judge(Ok(answer(302, None)), WHO, Some(412)),
            Err(Refused::Request(302, _))
        ));
        assert!(judge(Ok(answer(202, None)), WHO, None).is_ok());
        assert!(judge(Ok(answer(412, None)), WHO, Some(412)).is_ok());
    }

    #[tokio::test]
    async fn it_is_asked_six_times_with_growing_waits_or_those_that_were_wished() {
        let mut waits = Vec::new();
        let asked = with_retries::<()>("a page", async |wait| {
            waits.push(wait.as_millis());
            let wish = (waits.len() == 2).then_some(Duration::from_secs(9));
            Err(Refused::Later(anyhow::anyhow!("it is busy"), wish))
        });
        let error = format!("{:#}", asked.await.unwrap_err().error());
        assert_eq!(error, "a page failed 6 times: it is busy");
        assert_eq!(waits, [0, 500, 9_000, 2_000, 4_000, 8_000]);
    }

    #[tokio::test]
    async fn no_time_and_no_hope_end_it_at_once() {
        let mut calls = 0;
        let asked = with_retries::<()>("a page", async |_| {
            calls += 1;
            match calls {
                1 => Err(Refused::Later(anyhow::anyhow!("it is busy"), None)),
                _ => Ok(None),
            }
        });
        let Ok(Asked::OutOfTime(Some(trouble))) = asked.await else {
            panic!("expected OutOfTime");
        };
        assert_eq!((trouble.to_string().as_str(), calls), ("it is busy", 2));
        let refused = async |_| Err(Refused::Request(410, anyhow::anyhow!("gone")));
        let asked = with_retries::<()>("a page", refused).await;
        assert!(matches!(asked, Err(Refused::Request(410, _))));
    }
}
