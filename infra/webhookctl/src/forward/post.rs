//! Posts to the program on this machine, and returns the answer of the program.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::Address;
use crate::samples::Signed;

/// The timeout of a request. It is long, because a developer can stop the program at a breakpoint.
const PATIENCE: Duration = Duration::from_secs(600);

/// The maximum number of bytes that are read from an answer.
const LARGEST_ANSWER: usize = 64 * 1024;

/// The answer of the program.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The start of the body.
    pub(crate) body: Bytes,
    pub(crate) took: Duration,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The request was not sent, so a retry is safe.
    NotSent(String),
    /// The program may have received the request.
    Unclear(String),
}

/// Posts to one address.
#[derive(Clone)]
pub(crate) struct Forwarder(reqwest::Client);

impl Forwarder {
    pub(crate) fn to(address: &Address) -> anyhow::Result<Self> {
        Ok(Self(if address.is_here() {
            shared::aws::outbound::to_this_machine(address.url(), PATIENCE)?
        } else {
            shared::aws::outbound::unguarded(PATIENCE)?
        }))
    }

    pub(crate) async fn post(&self, signed: &Signed) -> Result<Answer, NoAnswer> {
        let began = Instant::now();
        let request = self
            .0
            .post(&signed.url)
            .headers(headers(signed))
            .body(signed.body.clone());
        let mut response = request.send().await.map_err(no_answer)?;
        let status = response.status();
        let mut body = Vec::new();
        while body.len() < LARGEST_ANSWER
            && let Some(chunk) = response.chunk().await.map_err(no_answer)?
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(LARGEST_ANSWER);
        Ok(Answer {
            status: status.as_u16(),
            body: body.into(),
            took: began.elapsed(),
        })
    }
}

/// Returns the headers of the request. Skips invalid headers, which a sender can choose.
fn headers(signed: &Signed) -> HeaderMap {
    let pairs = signed.headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        Some((name, HeaderValue::try_from(value.as_str()).ok()?))
    });
    pairs.collect()
}

fn no_answer(error: reqwest::Error) -> NoAnswer {
    let sent = !(error.is_connect() || error.is_builder());
    if error.is_timeout() {
        return NoAnswer::Unclear(format!("timed out after {}s", PATIENCE.as_secs()));
    }
    let error = anyhow::Error::new(error.without_url());
    let refused = error
        .downcast_ref::<reqwest::Error>()
        .is_some_and(is_refused);
    let cause = if refused {
        "connection refused".to_owned()
    } else {
        error.root_cause().to_string()
    };
    if sent {
        NoAnswer::Unclear(cause)
    } else {
        NoAnswer::NotSent(cause)
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        cause = error.source();
    }
    false
}
