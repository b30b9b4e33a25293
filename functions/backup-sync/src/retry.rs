//! Asking again: which answers are worth it, how often, and after how long.

use std::time::Duration;

use bytes::Bytes;
use shared::aws::outbound::{Answer, SendError};

/// How often something is asked for before the run gives up.
const TRIES: u32 = 6;

/// The first wait, where nobody says how long it should be; each one after it is twice as long.
const WAIT: Duration = Duration::from_millis(250);

/// Why something was not answered.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Asking again will not help.
    Final(anyhow::Error),
    /// It may later, after a wait if one was asked for.
    Later(anyhow::Error, Option<Duration>),
    /// The request itself is at fault, or what it names.
    Request(u16, anyhow::Error),
    /// The answer is larger than what is read of one.
    TooLarge(anyhow::Error),
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Asked<T> {
    Answer(T),
    /// The next try would take longer than there is time for; and why the last one failed.
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

/// Asks for `what` until it is answered. `ask` waits as long as it is told and then asks once; its
/// `None` says that there is no time for so long a wait.
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
                let error = error.context(format!("asked {TRIES} times for {what}"));
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

/// What an answer of `who` to a request with the key of this name is worth. `also` is a status that
/// is an answer though it is no 2xx.
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
            "an answer of {who} is larger than 16 MiB"
        ))),
        (408 | 425 | 429 | 500..=599, _) => Err(Refused::Later(error, answer.retry_after)),
        // GitHub says so when it is asked too often.
        // <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>
        (403, _) if answer.retry_after.is_some() => Err(Refused::Later(error, answer.retry_after)),
        (401 | 403, _) => Err(Refused::Final(
            error.context(format!("the key {secret:?} may not do that")),
        )),
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
        assert_eq!(error, "asked 6 times for a page: it is busy");
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
            panic!("it had time");
        };
        assert_eq!((trouble.to_string().as_str(), calls), ("it is busy", 2));
        let refused = async |_| Err(Refused::Request(410, anyhow::anyhow!("gone")));
        let asked = with_retries::<()>("a page", refused).await;
        assert!(matches!(asked, Err(Refused::Request(410, _))));
    }
}
