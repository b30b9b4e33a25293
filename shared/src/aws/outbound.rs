//! Calls external hosts, which are destinations of events and APIs of providers.
//!
//! The hosts come from the configuration, and never from an event. This module resolves each name,
//! and checks the addresses before it connects. It rejects addresses of private networks, of this
//! machine and of the metadata service of AWS. It does not follow redirects.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER};

use super::guard::Guard;
use crate::base::clock::UnixMillis;
use crate::base::timing::ACTION_TIMEOUT;
pub use crate::webhook::preset::Method;

/// A complete request.
#[derive(Clone, Debug)]
pub struct Call<'c> {
    pub method: Method,
    pub url: &'c str,
    /// Names and values that the client encodes and adds to the query of the URL.
    pub query: &'c [(String, String)],
    pub headers: &'c [(&'c str, &'c str)],
    pub body: Option<Bytes>,
}

/// The largest response body that is read, in bytes. It equals the limit for the body of an event,
/// because a provider's response can become the body of an event.
const LARGEST_ANSWER: usize = crate::webhook::event::LARGEST_BODY;

/// The limits for a response of a destination. Mitt keeps only the beginning of an error.
const LARGEST_OF_DESTINATION: Limits = Limits {
    success: 64 * 1024,
    error: 8 * 1024,
};

/// The largest response body that is read, in bytes.
#[derive(Clone, Copy)]
struct Limits {
    success: usize,
    error: usize,
}

/// The headers that can contain the destination's id of a request. The most common header is first.
const REQUEST_IDS: [&str; 6] = [
    "x-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "cf-ray",
    "x-vercel-id",
    "fly-request-id",
];

/// An HTTP client that calls only the addresses that its guard allows.
#[derive(Clone)]
pub struct Outbound {
    guard: Guard,
    clients: Arc<Clients>,
    inside: Option<Inside>,
}

/// The HTTP clients. Each client is created at the first call that needs it, because reading the
/// root certificates of the operating system takes longer than a call. Many processes make no
/// external call, or call only this machine.
#[derive(Default)]
struct Clients {
    /// The client for plain HTTP, which needs no root certificates.
    plain: OnceLock<reqwest::Client>,
    secure: OnceLock<reqwest::Client>,
}

/// A function that responds to calls inside this process, for the simulation.
pub type Inside =
    Arc<dyn Fn(reqwest::Request) -> BoxFuture<'static, Result<Answer, SendError>> + Send + Sync>;

/// Returns the URL as a receiver sees it. The client encodes some characters.
pub fn as_sent(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), String::from)
}

/// Creates a client without the guard. Use it only for URLs that an operator enters, and never for
/// a URL from a request, a row or a provider. Its responses contain the certificate of the server.
pub fn unguarded(timeout: Duration) -> anyhow::Result<reqwest::Client> {
    choose_tls();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
        .tls_info(true)
        .build();
    client.context("create an HTTP client")
}

/// Creates a client for a program on this machine. The client uses no proxy, and resolves
/// `localhost` to the loopback addresses without DNS. For plain HTTP, it does not read the root
/// certificates of the operating system, because reading them takes longer than a request.
pub fn to_this_machine(url: &str, timeout: Duration) -> anyhow::Result<reqwest::Client> {
    choose_tls();
    // With port 0, the client uses the port of the URL.
    let here = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
    ];
    let mut client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .resolve_to_addrs("localhost", &here)
        .timeout(timeout);
    if url.starts_with("http://") {
        client = client.tls_certs_only([]);
    }
    client.build().context("create an HTTP client")
}

/// Installs *ring* as the TLS provider, because the AWS SDK also uses it.
fn choose_tls() {
    // The call fails only if a provider is already installed. Then Mitt needs no other provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A response.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<Duration>,
    /// The `Link` headers, joined by commas.
    pub link: Option<String>,
    /// Whether this is the stored response to an earlier request with the same idempotency key.
    pub replayed: bool,
    /// The body, or `None` if it is larger than 16 MiB, or 64 KiB from a destination. If a
    /// destination answered with an error, this is the first 8 KiB of its body.
    pub body: Option<Bytes>,
    pub content_type: Option<String>,
    /// The host's own id of the request.
    pub request_id: Option<String>,
}

/// The reason why there is no response. The texts contain the host and the cause, but no path and
/// no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The request was not sent.
    NotSent(String),
    /// The host may have received the request.
    OutcomeUnknown(String),
}

impl Outbound {
    /// Creates a client. `allow_loopback` is for the local stack and for tests.
    pub fn new(allow_loopback: bool) -> Self {
        Self {
            guard: Guard { allow_loopback },
            clients: Arc::default(),
            inside: None,
        }
    }

    /// Creates a client that makes no external calls. `inside` responds to every call that the
    /// guard allows.
    pub fn to_inside(inside: Inside) -> Self {
        Self {
            inside: Some(inside),
            ..Self::new(false)
        }
    }

    /// Sends a POST request with a body to a destination. Reads only the beginning of the response,
    /// and then drops the connection. The timeout covers the whole call.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
        timeout: Duration,
        now: UnixMillis,
    ) -> Result<Answer, SendError> {
        let url = self.target(url, &[])?;
        let request = self.client(&url)?.post(url).timeout(timeout);
        let request = request.headers(header_map(headers)?).body(body);
        self.send(request, now, LARGEST_OF_DESTINATION).await
    }

    /// Sends a GET request. Encodes the query values.
    pub async fn get(
        &self,
        url: &str,
        query: &[(String, String)],
        headers: &[(&str, &str)],
        now: UnixMillis,
    ) -> Result<Answer, SendError> {
        let url = self.target(url, query)?;
        let request = self.client(&url)?.get(url);
        let request = request.headers(header_map(headers)?);
        self.send(request, now, Limits::ANY).await
    }

    /// Sends a request with any of the supported methods.
    pub async fn call(&self, call: Call<'_>, now: UnixMillis) -> Result<Answer, SendError> {
        let url = self.target(call.url, call.query)?;
        let method = match call.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
        };
        let mut request = self.client(&url)?.request(method, url);
        request = request.headers(header_map(call.headers)?);
        if let Some(body) = call.body {
            request = request.body(body);
        }
        self.send(request, now, Limits::ANY).await
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, SendError> {
        let is_plain = url.scheme() == "http";
        let client = if is_plain {
            &self.clients.plain
        } else {
            &self.clients.secure
        };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let made = self.guarded(is_plain).map_err(trouble)?;
        Ok(client.get_or_init(|| made))
    }

    fn guarded(&self, is_plain: bool) -> reqwest::Result<reqwest::Client> {
        choose_tls();
        let mut client = reqwest::Client::builder()
            .dns_resolver(Arc::new(self.guard.clone()))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(Duration::from_secs(5))
            .timeout(ACTION_TIMEOUT)
            .user_agent(concat!("Mitt/", env!("CARGO_PKG_VERSION")));
        if is_plain {
            client = client.tls_certs_only([]);
        }
        client.build()
    }

    fn target(&self, url: &str, query: &[(String, String)]) -> Result<Url, SendError> {
        let mut url =
            Url::parse(url).map_err(|error| SendError::NotSent(format!("invalid URL: {error}")))?;
        self.guard.check(&url).map_err(SendError::NotSent)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        now: UnixMillis,
        limits: Limits,
    ) -> Result<Answer, SendError> {
        if let Some(inside) = &self.inside {
            return inside(request.build().map_err(trouble)?).await;
        }
        let mut response = request.send().await.map_err(trouble)?;
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| retry_after(value, now));
        // Stripe and other providers send this header.
        // <https://docs.stripe.com/error-low-level#idempotency>
        let replayed = response
            .headers()
            .get("idempotent-replayed")
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
        let links = response.headers().get_all(LINK).iter();
        let links: Vec<&str> = links.filter_map(|value| value.to_str().ok()).collect();
        let link = (!links.is_empty()).then(|| links.join(", "));
        let text = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let content_type = text("content-type");
        let request_id = REQUEST_IDS.iter().find_map(|name| text(name));
        Ok(Answer {
            body: limits.read(&mut response).await?,
            status,
            retry_after,
            link,
            replayed,
            content_type,
            request_id,
        })
    }
}

impl Limits {
    const ANY: Self = Self {
        success: LARGEST_ANSWER,
        error: LARGEST_ANSWER,
    };

    /// Reads the body. Returns `None` if the body of a successful response is too large. A smaller
    /// limit for errors truncates their body.
    async fn read(self, response: &mut reqwest::Response) -> Result<Option<Bytes>, SendError> {
        let is_success = response.status().is_success();
        let most = if is_success { self.success } else { self.error };
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(trouble)? {
            let room = most - body.len();
            if chunk.len() <= room {
                body.extend_from_slice(&chunk);
                continue;
            }
            if is_success || self.error == self.success {
                return Ok(None);
            }
            body.extend_from_slice(&chunk[..room]);
            break;
        }
        Ok(Some(body.freeze()))
    }
}

/// Returns the cause of an error without the URL, because the query of a URL may contain
/// confidential values.
fn trouble(error: reqwest::Error) -> SendError {
    let sent = !(error.is_connect() || error.is_builder());
    let host = error
        .url()
        .and_then(Url::host_str)
        .unwrap_or("the host")
        .to_owned();
    let error = anyhow::Error::new(error.without_url());
    let cause = error
        .chain()
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    if sent {
        SendError::OutcomeUnknown(format!("no response from {host}: {cause}"))
    } else {
        SendError::NotSent(format!("cannot connect to {host}: {cause}"))
    }
}

fn header_map(headers: &[(&str, &str)]) -> Result<HeaderMap, SendError> {
    headers
        .iter()
        .map(|(name_text, value)| {
            let name = HeaderName::try_from(*name_text).map_err(|_| *name_text)?;
            let mut value = HeaderValue::try_from(*value).map_err(|_| *name_text)?;
            value.set_sensitive(true);
            Ok((name, value))
        })
        .collect::<Result<_, &str>>()
        .map_err(|name| SendError::NotSent(format!("invalid name or value of header {name}")))
}

/// Parses a number of seconds or a date. <https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>
fn retry_after(value: &HeaderValue, now: UnixMillis) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(secs) = text.parse() {
        return Some(Duration::from_secs(secs));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(UnixMillis(at.as_millisecond()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let read = |text: &str| {
            retry_after(
                &HeaderValue::from_str(text).unwrap(),
                UnixMillis(1_795_169_681_000),
            )
        };
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        assert_eq!(
            read("Fri, 20 Nov 2026 10:15:41 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(read("Fri, 20 Nov 2026 10:00:00 GMT"), Some(Duration::ZERO));
        for bad in ["", "soon", "-1", "99999999999999999999999"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
