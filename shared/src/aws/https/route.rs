//! The HTTP client for the route of a trial. It uses the same TLS code as the AWS clients, so the
//! catcher contains only one HTTP client.

use std::time::Duration;

use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::Url;

use super::{Connect, Tls};
use crate::aws::guard::Guard;

/// How long an idle connection is used again. Lambda freezes a process between two requests, and a
/// server can close the connection meanwhile, so this is less than the usual five seconds of a
/// server.
const IDLE: Duration = Duration::from_secs(3);

/// The time limit of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The time limit of the TCP connections to all addresses of the host. If the first address does
/// not answer, there is time left for the next one.
const CONNECT_TCP: Duration = Duration::from_secs(4);

/// The largest body of an answer, in bytes. A function of Lambda returns at most 6 MB, in which the
/// body can be in Base64.
const LARGEST_BODY: usize = 4 * 1024 * 1024;

/// The headers of a connection, which a proxy does not forward, and the length, which every hop
/// sets. <https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1>
const OF_CONNECTION: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The client. It follows no redirect, and calls only public addresses.
#[derive(Debug)]
pub struct RouteClient {
    guard: Guard,
    pool: Client<Connect<Guard>, SdkBody>,
}

/// A request to the route.
#[derive(Clone, Debug)]
pub struct RouteRequest {
    pub method: String,
    pub url: String,
    /// The headers, without those of the connection.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The answer of the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteReply {
    pub status: u16,
    /// The headers, without those of the connection. A value that is not UTF-8 is left out.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The reason why the route gave no answer. The texts contain no URL, because a URL can contain a
/// key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteFailure {
    /// The time limit was reached. The route may still process the request.
    Timeout,
    /// The request could not be sent, the connection ended before the answer, or the status is not
    /// one of HTTP.
    Unreachable(String),
    /// The body of the answer is larger than the catcher can return.
    TooLarge,
}

/// Returns whether a header belongs to the connection and is not forwarded. The name must be in
/// lower case.
pub fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.contains(&name)
}

impl RouteClient {
    /// Creates the client, without a network call. `allow_loopback` is for the local stack.
    pub fn new(allow_loopback: bool) -> Self {
        let guard = Guard { allow_loopback };
        let mut tcp = HttpConnector::new_with_resolver(guard.clone());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TCP));
        let connect = Connect {
            tcp,
            tls: Tls::default(),
            limit: Some(CONNECT),
        };
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connect);
        Self { guard, pool }
    }

    /// Sends the request once, and reads the whole answer within the time limit.
    pub async fn send(
        &self,
        request: RouteRequest,
        limit: Duration,
    ) -> Result<RouteReply, RouteFailure> {
        let sending = Box::pin(self.send_once(request));
        let sent = tokio::time::timeout(limit, sending).await;
        sent.unwrap_or(Err(RouteFailure::Timeout))
    }

    async fn send_once(&self, request: RouteRequest) -> Result<RouteReply, RouteFailure> {
        let url = Url::parse(&request.url).map_err(|error| unreachable(&error))?;
        self.guard.check(&url).map_err(RouteFailure::Unreachable)?;
        let method = Method::from_bytes(request.method.as_bytes());
        let mut sent = Request::new(SdkBody::from(request.body));
        *sent.method_mut() = method.map_err(|error| unreachable(&error))?;
        *sent.uri_mut() = url.as_str().parse().map_err(|error| unreachable(&error))?;
        *sent.headers_mut() = header_map(request.headers);
        let answer = self.pool.request(sent).await;
        let (parts, body) = answer.map_err(|error| cause(&error))?.into_parts();
        let status = parts.status.as_u16();
        // API Gateway replaces a response with another status.
        if !(200..=599).contains(&status) {
            return Err(RouteFailure::Unreachable(format!("status {status}")));
        }
        let headers = parts.headers.iter().filter_map(|(name, value)| {
            let value = std::str::from_utf8(value.as_bytes()).ok()?;
            let is_kept = !is_of_connection(name.as_str());
            is_kept.then(|| (name.as_str().to_owned(), value.to_owned()))
        });
        Ok(RouteReply {
            status,
            headers: headers.collect(),
            body: read(SdkBody::from_body_1_x(body)).await?,
        })
    }
}

async fn read(body: SdkBody) -> Result<Bytes, RouteFailure> {
    let mut stream = ByteStream::new(body);
    let mut read = BytesMut::new();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|error| cause(&error))?;
        if part.len() > LARGEST_BODY - read.len() {
            return Err(RouteFailure::TooLarge);
        }
        read.extend_from_slice(&part);
    }
    Ok(read.freeze())
}

/// Returns the headers in the same order. A header that is not valid in HTTP is left out, because
/// the route could not have received it.
fn header_map(headers: Vec<(String, String)>) -> HeaderMap {
    let headers = headers.into_iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        value.set_sensitive(true);
        (!is_of_connection(name.as_str())).then_some((name, value))
    });
    let mut all = HeaderMap::new();
    headers.for_each(|(name, value)| {
        all.append(name, value);
    });
    all
}

fn unreachable(error: &dyn std::error::Error) -> RouteFailure {
    RouteFailure::Unreachable(error.to_string())
}

/// Returns the innermost error, because the outer ones only say that a call failed.
fn cause(error: &(dyn std::error::Error + 'static)) -> RouteFailure {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    unreachable(inner)
}
